//! Claude Code as a program: where it is, what it has installed, and its own commands that change that.

use std::ffi::OsStr;
use std::fmt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde::Deserialize;

use crate::place::Env;

/// The version that leaf's facts about the client were measured with.
pub const MEASURED: &str = "2.1.332";

/// The client's program and its configuration directory.
#[derive(Clone, Debug)]
pub struct Client {
    program: PathBuf,
    config: PathBuf,
}

/// Why the client can't be asked, as a sentence with the way out.
#[derive(Debug)]
pub enum ClientError {
    /// No `claude` on PATH.
    Missing,
    /// Neither `$CLAUDE_CONFIG_DIR` nor `$HOME` is set.
    NoHome,
    /// The command could not be started.
    Start(PathBuf, std::io::Error),
    /// The command ended with another code than 0: its words and what it said.
    Failed(String, String),
    /// The answer is in another form than this leaf knows.
    Answer(String),
}

impl fmt::Display for ClientError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ClientError::Missing => f.write_str(
                "there is no `claude` on PATH: install Claude Code (npm install -g @anthropic-ai/claude-code), or add its directory to PATH, and run this again",
            ),
            ClientError::NoHome => {
                f.write_str("the client's settings have no place: set HOME or CLAUDE_CONFIG_DIR")
            }
            ClientError::Start(path, error) => write!(
                f,
                "{} can't be started ({}): see that it runs by hand",
                path.display(),
                crate::place::plain(error)
            ),
            ClientError::Failed(command, said) => {
                write!(f, "`{command}` failed: {said}")
            }
            ClientError::Answer(command) => write!(
                f,
                "`{command}` answers in a form that this leaf doesn't know: update leaf, or report the client's version"
            ),
        }
    }
}

impl std::error::Error for ClientError {}

/// A plugin that the client has, by `claude plugin list --json`.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct Plugin {
    /// `<plugin>@<marketplace>`.
    pub id: String,
    /// The version in the client's books.
    #[serde(default)]
    pub version: String,
    /// `user`, `project`, `local` or `managed`.
    #[serde(default)]
    pub scope: String,
    /// Whether its hooks run.
    #[serde(default)]
    pub enabled: bool,
    /// The client's copy.
    pub install_path: Option<PathBuf>,
    /// The folder that it is read from instead, for a marketplace that is a directory.
    pub read_from_folder: Option<PathBuf>,
}

impl Plugin {
    /// The folder that the client reads the plugin from; `None` for a built-in one.
    pub fn folder(&self) -> Option<&Path> {
        self.read_from_folder.as_deref().or(self.install_path.as_deref())
    }
}

/// A marketplace that the client knows, by `claude plugin marketplace list --json`.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
pub struct Marketplace {
    /// The name after the `@`.
    pub name: String,
    /// `directory`, `github`, …
    #[serde(default)]
    pub source: String,
    /// Where a directory lies.
    pub path: Option<PathBuf>,
}

/// Returns the client's configuration directory: `$CLAUDE_CONFIG_DIR`, else `~/.claude`.
///
/// # Errors
/// [`ClientError::NoHome`].
pub fn config_dir(env: &Env) -> Result<PathBuf, ClientError> {
    match (env.var("CLAUDE_CONFIG_DIR"), env.var("HOME")) {
        (Some(dir), _) => Ok(PathBuf::from(dir)),
        (None, Some(home)) => Ok(Path::new(&home).join(".claude")),
        (None, None) => Err(ClientError::NoHome),
    }
}

/// Returns the first program of that name on PATH.
pub fn on_path(env: &Env, name: &str) -> Option<PathBuf> {
    let path = env.var("PATH")?;
    std::env::split_paths(&path)
        .filter(|dir| dir.is_absolute())
        .map(|dir| dir.join(name))
        .find(|file| file.metadata().is_ok_and(|m| m.is_file() && m.permissions().mode() & 0o111 != 0))
}

impl Client {
    /// Finds the client.
    ///
    /// # Errors
    /// Where it isn't on PATH, or where nothing says where its settings lie.
    pub fn find(env: &Env) -> Result<Client, ClientError> {
        let config = config_dir(env)?;
        let program = on_path(env, "claude").ok_or(ClientError::Missing)?;
        Ok(Client { program, config })
    }

    /// The program's path.
    pub fn program(&self) -> &Path {
        &self.program
    }

    /// The user's settings file; need not exist.
    pub fn settings(&self) -> PathBuf {
        self.config.join("settings.json")
    }

    /// Where it keeps its copies of plugins, by marketplace.
    pub fn cache(&self) -> PathBuf {
        self.config.join("plugins/cache")
    }

    /// Runs one of the client's commands and returns its stdout.
    ///
    /// # Errors
    /// Where it can't be started or ends with another code than 0: with the last thing it said.
    pub fn run(&self, args: &[impl AsRef<OsStr>]) -> Result<String, ClientError> {
        let words: Vec<_> = args.iter().map(|a| a.as_ref().to_string_lossy()).collect();
        let command = format!("claude {}", words.join(" "));
        let out = Command::new(&self.program)
            .args(args)
            .stdin(Stdio::null())
            .output()
            .map_err(|error| ClientError::Start(self.program.clone(), error))?;
        let stdout = String::from_utf8_lossy(&out.stdout).into_owned();
        if out.status.success() {
            return Ok(stdout);
        }
        let stderr = String::from_utf8_lossy(&out.stderr);
        let said = stderr.lines().chain(stdout.lines()).rfind(|line| !line.trim().is_empty());
        let said = match said {
            Some(line) => line.trim_start_matches(['✘', ' ']).trim_end().to_owned(),
            None => format!("it said nothing ({})", out.status),
        };
        Err(ClientError::Failed(command, said))
    }

    /// The client's version, such as `2.1.332`.
    ///
    /// # Errors
    /// As [`Client::run`].
    pub fn version(&self) -> Result<String, ClientError> {
        let said = self.run(&["--version"])?;
        match said.split_whitespace().next() {
            Some(version) => Ok(version.to_owned()),
            None => Err(ClientError::Answer("claude --version".into())),
        }
    }

    /// The plugins that it has installed, in every scope that reaches the working directory.
    ///
    /// # Errors
    /// As [`Client::run`], or where the answer is of another form.
    pub fn plugins(&self) -> Result<Vec<Plugin>, ClientError> {
        self.list(&["plugin", "list", "--json"])
    }

    /// The marketplaces that it knows.
    ///
    /// # Errors
    /// As [`Client::plugins`].
    pub fn marketplaces(&self) -> Result<Vec<Marketplace>, ClientError> {
        self.list(&["plugin", "marketplace", "list", "--json"])
    }

    fn list<T: for<'de> Deserialize<'de>>(&self, args: &[&str]) -> Result<Vec<T>, ClientError> {
        // Even a listing makes the client set up its home: a look must not do that to a home where it never ran.
        if !self.config.join("plugins").exists() {
            return Ok(Vec::new());
        }
        let said = self.run(args)?;
        serde_json::from_str(&said).map_err(|_| ClientError::Answer(format!("claude {}", args.join(" "))))
    }
}
