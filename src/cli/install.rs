//! `leaf install` and `leaf uninstall`: a small plugin folder of leaf's own, written from what the binary embeds, put into
//! Claude Code with the client's own commands. A look at what is there gives a plan of steps as values; the plan is shown,
//! and then each step done.

pub mod client;
pub mod settings;

use std::fmt;
use std::fs;
use std::io::{self, BufRead, IsTerminal, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail};
use serde::{Deserialize, Serialize};

use self::client::{Client, Marketplace, Plugin};
use self::settings::{Made, RULE};
use crate::place::{Env, plain};

/// This binary's version; the plugin's is the same.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");
/// The plugin's id in the client: `<plugin>@<marketplace>`.
pub const PLUGIN: &str = "leaf@leaf";
/// The marketplace's name in the client.
pub const MARKETPLACE: &str = "leaf";
/// The binary within the plugin folder.
pub const BINARY: &str = "bin/leaf";

/// The plugin's files but for the binary: path within the folder, and text.
pub const EMBEDDED: [(&str, &str); 7] = [
    (".claude-plugin/plugin.json", include_str!("../../.claude-plugin/plugin.json")),
    (".claude-plugin/marketplace.json", include_str!("../../.claude-plugin/marketplace.json")),
    ("hooks.json", include_str!("../../hooks.json")),
    ("src/client/claude_code/module.ts", include_str!("../client/claude_code/module.ts")),
    ("skills/threads/SKILL.md", include_str!("../../skills/threads/SKILL.md")),
    ("LICENSE", include_str!("../../LICENSE")),
    ("README.md", README),
];

const README: &str = "\
# leaf

Threads beside a busy Claude Code session: what you write with `leaf thread new` reaches the session at its next tool
boundary, prompt or stop, is answered there by reference, and wakes the session where it is idle.

`leaf install` wrote this folder from what the `leaf` binary carries, added it to Claude Code as a marketplace of its own
and keeps it up to date when it is run again. `leaf uninstall` takes it out. Changes made here by hand are overwritten.
";

/// Arguments of `leaf install`.
#[derive(Clone, Copy, Debug, Default, clap::Args)]
pub struct InstallArgs {
    /// Show what would be done, and do nothing
    #[arg(long)]
    pub dry_run: bool,
    /// Let Claude Code run `leaf` commands without asking (the permission rule `Bash(leaf:*)`)
    #[arg(long, conflicts_with = "no_allow")]
    pub allow: bool,
    /// Leave the permission rule out, and don't ask about it
    #[arg(long)]
    pub no_allow: bool,
}

/// Arguments of `leaf uninstall`.
#[derive(Clone, Copy, Debug, Default, clap::Args)]
pub struct UninstallArgs {
    /// Show what would be done, and do nothing
    #[arg(long)]
    pub dry_run: bool,
}

/// Where the plugin lies: leaf's own folder below `$XDG_DATA_HOME`, else `~/.local/share`.
#[derive(Clone, Debug)]
pub struct Folder {
    base: PathBuf,
}

impl Folder {
    /// Finds the folder's place; it need not exist.
    ///
    /// # Errors
    /// Where neither variable says where data may lie.
    pub fn find(env: &Env) -> Result<Folder> {
        // The base directory specification has relative values ignored.
        let data = env.var("XDG_DATA_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
        let data = match (data, env.var("HOME")) {
            (Some(data), _) => data,
            (None, Some(home)) => Path::new(&home).join(".local/share"),
            (None, None) => bail!("there is no place for the plugin's folder: set HOME or XDG_DATA_HOME"),
        };
        let base = data.join("leaf");
        Ok(Folder { base: std::path::absolute(&base).unwrap_or(base) })
    }

    /// The plugin's root, which is the marketplace's too.
    pub fn plugin(&self) -> PathBuf {
        self.base.join("claude-code")
    }

    /// What `leaf install` notes of what it did, for the next run and `leaf uninstall`.
    fn record(&self) -> PathBuf {
        self.base.join("claude-code.json")
    }
}

/// The record beside the plugin's folder.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Record {
    /// The folder's files, as they were written last.
    files: Vec<String>,
    /// The permission rule, if `leaf install` put it in.
    rule: Option<RuleAdded>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct RuleAdded {
    file: PathBuf,
    made: Made,
}

/// What there is before anything is done.
#[derive(Debug)]
struct Seen {
    folder: PathBuf,
    /// Files that are missing or differ from this binary's.
    stale: Vec<String>,
    /// Files of an earlier version that this one doesn't have.
    obsolete: Vec<String>,
    marketplace: Known,
    /// leaf@leaf in the user's scope.
    plugin: Option<Plugin>,
    settings: PathBuf,
    allowed: bool,
    rule: Option<RuleAdded>,
    /// Whether the plugin's folder or its record is there.
    written: bool,
}

/// The client's marketplace of our name.
#[derive(Debug, PartialEq, Eq)]
enum Known {
    No,
    Ours,
    Other(String),
}

/// One thing to do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "step", rename_all = "snake_case")]
enum Step {
    /// Write the plugin's files that differ, and remove those of an earlier version.
    Write { folder: PathBuf, files: Vec<String>, obsolete: Vec<String> },
    /// Run a command of the client.
    Run { argv: Vec<String> },
    /// Add the permission rule.
    Allow { rule: &'static str, file: PathBuf },
    /// Take the permission rule out again.
    Disallow { rule: &'static str, file: PathBuf, made: Made },
    /// Remove the plugin's folder and its record.
    Remove { folder: PathBuf },
}

impl Step {
    fn client(words: &[&str]) -> Step {
        Step::Run { argv: std::iter::once("claude").chain(words.iter().copied()).map(str::to_owned).collect() }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Step::Write { folder, files, obsolete } => {
                write!(f, "write the plugin of leaf {VERSION} to {}", folder.display())?;
                if !files.is_empty() {
                    write!(f, " ({})", files.join(", "))?;
                }
                if !obsolete.is_empty() {
                    write!(f, ", and remove what an earlier version left there ({})", obsolete.join(", "))?;
                }
                Ok(())
            }
            Step::Run { argv } => {
                let words: Vec<_> = argv
                    .iter()
                    .map(
                        |w| if w.contains([' ', '\'']) { format!("'{}'", w.replace('\'', r"'\''")) } else { w.clone() },
                    )
                    .collect();
                write!(f, "run `{}`", words.join(" "))
            }
            Step::Allow { rule, file } => {
                write!(f, "add the permission rule {rule} to {}", file.display())
            }
            Step::Disallow { rule, file, .. } => {
                write!(f, "take the permission rule {rule} out of {}", file.display())
            }
            Step::Remove { folder } => write!(f, "remove {} and its record", folder.display()),
        }
    }
}

/// What the steps of `leaf install` are, given what is there. Pure.
///
/// # Errors
/// Where another marketplace has our name.
fn plan_install(seen: &Seen, add_rule: bool) -> Result<Vec<Step>> {
    let mut steps = Vec::new();
    if let Known::Other(place) = &seen.marketplace {
        bail!(
            "Claude Code already knows another marketplace named {MARKETPLACE} ({place}): nothing was changed; run `claude plugin marketplace remove {MARKETPLACE}`, then `leaf install` again"
        );
    }
    if !seen.stale.is_empty() || !seen.obsolete.is_empty() {
        steps.push(Step::Write {
            folder: seen.folder.clone(),
            files: seen.stale.clone(),
            obsolete: seen.obsolete.clone(),
        });
    }
    if seen.marketplace == Known::No {
        steps.push(Step::client(&["plugin", "marketplace", "add", &seen.folder.to_string_lossy()]));
    }
    match &seen.plugin {
        // Installing is what enables a disabled one, too.
        None | Some(Plugin { enabled: false, .. }) => steps.push(Step::client(&["plugin", "install", PLUGIN])),
        Some(plugin) if plugin.version != VERSION => steps.push(Step::client(&["plugin", "update", PLUGIN])),
        Some(_) => {}
    }
    if add_rule && !seen.allowed {
        steps.push(Step::Allow { rule: RULE, file: seen.settings.clone() });
    }
    Ok(steps)
}

/// What the steps of `leaf uninstall` are, given what is there. Pure.
fn plan_uninstall(seen: &Seen) -> Vec<Step> {
    let mut steps = Vec::new();
    let ours = !matches!(seen.marketplace, Known::Other(_));
    if ours && seen.plugin.is_some() {
        steps.push(Step::client(&["plugin", "uninstall", PLUGIN]));
    }
    if seen.marketplace == Known::Ours {
        steps.push(Step::client(&["plugin", "marketplace", "remove", MARKETPLACE]));
    }
    if let Some(RuleAdded { file, made }) = &seen.rule {
        steps.push(Step::Disallow { rule: RULE, file: file.clone(), made: *made });
    }
    if seen.written {
        steps.push(Step::Remove { folder: seen.folder.clone() });
    }
    steps
}

/// What a run tells a program.
#[derive(Serialize)]
struct Report<'a> {
    version: &'static str,
    dry_run: bool,
    folder: PathBuf,
    client: &'a Path,
    steps: &'a [Step],
    /// Whether the client may run `leaf` commands without asking, once the steps are done.
    allowed: bool,
    notes: Vec<String>,
}

/// What goes to stdout. Where nobody reads it any more the work is done all the same: it must not end halfway.
struct Out(io::StdoutLock<'static>);

impl Write for Out {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        unread(self.0.write(bytes), bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        unread(self.0.flush(), ())
    }
}

fn unread<T>(written: io::Result<T>, all: T) -> io::Result<T> {
    match written {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(all),
        other => other,
    }
}

/// Runs `leaf install`: says what it will do, then does it. With `json`, prints one value at the end.
///
/// # Errors
/// One sentence with the way out; what earlier steps did stands, and the next run goes on from there.
pub fn install(args: InstallArgs, json: bool) -> Result<()> {
    let out = &mut Out(io::stdout().lock());
    let env = &Env::default();
    let folder = Folder::find(env)?;
    let client = Client::find(env)?;
    let binary = running_binary()?;
    let seen = look(&folder, &client, &binary)?;
    let asks = !args.allow && !args.no_allow && !seen.allowed;
    let mut steps = plan_install(&seen, args.allow)?;
    if !json && !steps.is_empty() {
        show(out, "install", &steps)?;
    }
    if asks && !args.dry_run && !json && ask(out, &seen.settings)? {
        steps.push(Step::Allow { rule: RULE, file: seen.settings.clone() });
    }
    if !args.dry_run {
        perform(&steps, &folder, &client, &binary)?;
    }
    let allowed = seen.allowed || steps.iter().any(|s| matches!(s, Step::Allow { .. }));
    let mut notes = Vec::new();
    if !allowed {
        notes.push(format!(
            "Claude Code asks before it runs a `leaf` command; `leaf install --allow` lets it ({RULE} in {}).",
            seen.settings.display()
        ));
    }
    if json {
        return report(out, &folder, &client, &steps, args.dry_run, allowed, notes);
    }
    match (args.dry_run, steps.is_empty()) {
        (_, true) => {
            writeln!(out, "Nothing to do: leaf {VERSION} is installed for Claude Code from {}.", seen.folder.display())?
        }
        (true, false) => writeln!(out, "Nothing was done (--dry-run).")?,
        (false, false) => writeln!(
            out,
            "Done. Start a new session, or run /reload-plugins in an open one; `leaf doctor` checks the rest."
        )?,
    }
    for note in notes {
        writeln!(out, "{note}")?;
    }
    Ok(())
}

/// Runs `leaf uninstall`, as [`install`]. The state directory stays.
///
/// # Errors
/// As [`install`].
pub fn uninstall(args: UninstallArgs, json: bool) -> Result<()> {
    let out = &mut Out(io::stdout().lock());
    let env = &Env::default();
    let folder = Folder::find(env)?;
    let client = Client::find(env)?;
    let seen = look(&folder, &client, &[])?;
    let steps = plan_uninstall(&seen);
    if !json && !steps.is_empty() {
        show(out, "uninstall", &steps)?;
    }
    if !args.dry_run {
        perform(&steps, &folder, &client, &[])?;
    }
    let mut notes = Vec::new();
    if let Known::Other(place) = &seen.marketplace {
        notes.push(format!("The marketplace {MARKETPLACE} ({place}) is not leaf's own and was left alone."));
    }
    if let Ok(state) = crate::place::state_path(env)
        && state.exists()
    {
        notes.push(format!("The threads themselves stay in {}; remove it by hand to be rid of them.", state.display()));
    }
    let copy = client.cache().join(MARKETPLACE);
    if !steps.is_empty() && copy.exists() {
        notes.push(format!("Claude Code keeps a copy of its own in {}, and no longer reads it.", copy.display()));
    }
    let allowed = seen.allowed && !steps.iter().any(|s| matches!(s, Step::Disallow { .. }));
    if json {
        return report(out, &folder, &client, &steps, args.dry_run, allowed, notes);
    }
    match (args.dry_run, steps.is_empty()) {
        (_, true) => writeln!(out, "Nothing to do: leaf is not installed for Claude Code.")?,
        (true, false) => writeln!(out, "Nothing was done (--dry-run).")?,
        (false, false) => writeln!(
            out,
            "Done. Run /reload-plugins in the sessions that are open, or end them: until then their hooks look for what is gone."
        )?,
    }
    for note in notes {
        writeln!(out, "{note}")?;
    }
    Ok(())
}

fn report(
    out: &mut dyn Write,
    folder: &Folder,
    client: &Client,
    steps: &[Step],
    dry_run: bool,
    allowed: bool,
    notes: Vec<String>,
) -> Result<()> {
    let report =
        Report { version: VERSION, dry_run, folder: folder.plugin(), client: client.program(), steps, allowed, notes };
    serde_json::to_writer(&mut *out, &report)?;
    Ok(writeln!(out)?)
}

fn show(out: &mut dyn Write, verb: &str, steps: &[Step]) -> Result<()> {
    writeln!(out, "leaf {verb} will")?;
    for (n, step) in steps.iter().enumerate() {
        writeln!(out, "  {}. {step}", n + 1)?;
    }
    Ok(out.flush()?)
}

fn ask(out: &mut dyn Write, settings: &Path) -> Result<bool> {
    if !io::stdin().is_terminal() || !io::stdout().is_terminal() {
        return Ok(false);
    }
    write!(
        out,
        "May Claude Code run `leaf` commands without asking each time? Adds {RULE} to {}. [y/N] ",
        settings.display()
    )?;
    out.flush()?;
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer)?;
    Ok(matches!(answer.trim().to_lowercase().as_str(), "y" | "yes"))
}

/// Looks at everything that a plan depends on. `binary`: what `bin/leaf` should be.
fn look(folder: &Folder, client: &Client, binary: &[u8]) -> Result<Seen> {
    let plugin_folder = folder.plugin();
    let record = read_record(folder)?;
    let settings = client.settings();
    let allowed = settings::allows(&read_settings(&settings)?).map_err(|why| unfit(&settings, &why))?;
    let wanted = EMBEDDED.iter().map(|(name, text)| (*name, text.as_bytes())).chain([(BINARY, binary)]);
    let stale = wanted.filter(|(name, bytes)| !is(&plugin_folder.join(name), bytes)).map(|(name, _)| name.to_owned());
    let obsolete = record
        .files
        .into_iter()
        .filter(|name| name != BINARY && EMBEDDED.iter().all(|(known, _)| known != name))
        .filter(|name| inside(name) && plugin_folder.join(name).exists());
    Ok(Seen {
        stale: stale.collect(),
        obsolete: obsolete.collect(),
        marketplace: known(&client.marketplaces()?, &plugin_folder),
        plugin: client.plugins()?.into_iter().find(|p| p.id == PLUGIN && p.scope == "user"),
        allowed,
        rule: record.rule,
        written: plugin_folder.exists() || folder.record().exists(),
        folder: plugin_folder,
        settings,
    })
}

fn known(marketplaces: &[Marketplace], folder: &Path) -> Known {
    let Some(found) = marketplaces.iter().find(|m| m.name == MARKETPLACE) else {
        return Known::No;
    };
    match &found.path {
        Some(path) if crate::place::canonical(path) == crate::place::canonical(folder) => Known::Ours,
        Some(path) => Known::Other(path.display().to_string()),
        None => Known::Other(found.source.clone()),
    }
}

/// Whether a recorded name stays within the folder: the record is a file that anything may have written.
fn inside(name: &str) -> bool {
    Path::new(name).components().all(|c| matches!(c, std::path::Component::Normal(_)))
}

fn is(file: &Path, bytes: &[u8]) -> bool {
    fs::symlink_metadata(file).is_ok_and(|m| m.is_file() && m.len() == bytes.len() as u64)
        && fs::read(file).is_ok_and(|there| there == bytes)
}

fn perform(steps: &[Step], folder: &Folder, client: &Client, binary: &[u8]) -> Result<()> {
    for step in steps {
        let done = match step {
            Step::Write { files, obsolete, .. } => write_plugin(folder, files, obsolete, binary),
            Step::Run { argv } => client.run(&argv[1..]).map(drop).map_err(Into::into),
            Step::Allow { file, .. } => allow(folder, file),
            Step::Disallow { file, made, .. } => disallow(file, *made),
            Step::Remove { .. } => remove(folder),
        };
        done.with_context(|| format!("could not {step}: see to that and run this again, it goes on from there"))?;
    }
    Ok(())
}

fn running_binary() -> Result<Vec<u8>> {
    let path = std::env::current_exe().context("the running leaf can't tell where its file is: run it by its path")?;
    fs::read(&path).map_err(|error| {
        anyhow!("the running leaf can't read its own file {} ({}): run the new one", path.display(), plain(&error))
    })
}

fn write_plugin(folder: &Folder, files: &[String], obsolete: &[String], binary: &[u8]) -> Result<()> {
    let root = folder.plugin();
    for name in files {
        let text = EMBEDDED.iter().find(|(known, _)| known == name).map(|(_, text)| text.as_bytes());
        let (bytes, mode) = match text {
            Some(bytes) => (bytes, 0o644),
            None => (binary, 0o755),
        };
        replace(&root.join(name), bytes, mode)?;
    }
    for name in obsolete {
        let file = root.join(name);
        fs::remove_file(&file).map_err(|error| refused(&file, &error))?;
    }
    let mut record = read_record(folder)?;
    record.files = EMBEDDED.iter().map(|(name, _)| (*name).to_owned()).chain([BINARY.to_owned()]).collect();
    write_record(folder, &record)
}

fn allow(folder: &Folder, file: &Path) -> Result<()> {
    let text = read_settings(file)?;
    let Some((new, made)) = settings::add(&text).map_err(|why| unfit(file, &why))? else {
        return Ok(());
    };
    // First what a loss makes harmless: a record of a rule that isn't there takes nothing out.
    let mut record = read_record(folder)?;
    record.rule = Some(RuleAdded { file: file.to_path_buf(), made });
    write_record(folder, &record)?;
    write_settings(file, &text, &new)
}

fn disallow(file: &Path, made: Made) -> Result<()> {
    let text = read_settings(file)?;
    match settings::remove(&text, made).map_err(|why| unfit(file, &why))? {
        Some(new) => write_settings(file, &text, &new),
        None => Ok(()),
    }
}

fn remove(folder: &Folder) -> Result<()> {
    let plugin = folder.plugin();
    let gone = |result: io::Result<()>, path: &Path| match result {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(refused(path, &error)),
        _ => Ok(()),
    };
    gone(fs::remove_dir_all(&plugin), &plugin)?;
    gone(fs::remove_file(folder.record()), &folder.record())?;
    // Others may keep something beside it.
    let _ = fs::remove_dir(&folder.base);
    Ok(())
}

fn read_record(folder: &Folder) -> Result<Record> {
    let file = folder.record();
    match fs::read(&file) {
        Ok(bytes) => serde_json::from_slice(&bytes)
            .map_err(|_| anyhow!("{} is damaged: remove it and run this again", file.display())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Record::default()),
        Err(error) => Err(refused(&file, &error)),
    }
}

fn write_record(folder: &Folder, record: &Record) -> Result<()> {
    let mut bytes = serde_json::to_vec_pretty(record)?;
    bytes.push(b'\n');
    replace(&folder.record(), &bytes, 0o644)
}

fn read_settings(file: &Path) -> Result<String> {
    match fs::read(file) {
        Ok(bytes) => String::from_utf8(bytes)
            .map_err(|_| anyhow!("{} is not UTF-8, and was left as it is: mend it and run this again", file.display())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(String::new()),
        Err(error) => Err(refused(file, &error)),
    }
}

fn write_settings(file: &Path, read: &str, new: &str) -> Result<()> {
    // Kept in a dotfiles repository it is a symlink: what it points to is replaced, not the link.
    let target = crate::place::canonical(file);
    let mode = target.metadata().map_or(0o600, |m| m.permissions().mode() & 0o7777);
    if read_settings(&target)? != read {
        bail!("{} changed at the same moment, and was left as it is: run this again", file.display());
    }
    replace(&target, new.as_bytes(), mode)
}

/// Replaces a file atomically, making its directory where it is missing.
fn replace(file: &Path, bytes: &[u8], mode: u32) -> Result<()> {
    let (Some(dir), Some(name)) = (file.parent(), file.file_name()) else {
        bail!("{} can't be a file: set another XDG_DATA_HOME", file.display());
    };
    fs::create_dir_all(dir).map_err(|error| refused(dir, &error))?;
    let temporary = dir.join(format!(".{}.{}.tmp", name.to_string_lossy(), std::process::id()));
    let written = (|| {
        let _ = fs::remove_file(&temporary);
        let mut to = fs::OpenOptions::new().write(true).create_new(true).mode(mode).open(&temporary)?;
        to.write_all(bytes)?;
        to.set_permissions(fs::Permissions::from_mode(mode))?;
        to.sync_all()?;
        fs::rename(&temporary, file)
    })();
    written.map_err(|error| {
        let _ = fs::remove_file(&temporary);
        refused(file, &error)
    })
}

fn refused(path: &Path, error: &io::Error) -> anyhow::Error {
    anyhow!("can't use {} ({})", path.display(), plain(error))
}

fn unfit(file: &Path, why: &settings::Unfit) -> anyhow::Error {
    anyhow!("{} {why}, and was left as it is: mend it and run this again", file.display())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen() -> Seen {
        Seen {
            folder: "/data/leaf/claude-code".into(),
            stale: Vec::new(),
            obsolete: Vec::new(),
            marketplace: Known::Ours,
            plugin: Some(Plugin {
                id: PLUGIN.into(),
                version: VERSION.into(),
                scope: "user".into(),
                enabled: true,
                install_path: None,
                read_from_folder: None,
            }),
            settings: "/home/.claude/settings.json".into(),
            allowed: true,
            rule: None,
            written: true,
        }
    }

    fn shown(steps: &[Step]) -> String {
        steps.iter().map(|s| format!("{s}\n")).collect()
    }

    #[test]
    fn all_in_place_leaves_nothing_to_do() {
        assert_eq!(plan_install(&seen(), true).expect("plan"), []);
    }

    #[test]
    fn a_disabled_plugin_is_installed_again_and_an_older_one_updated() {
        let mut there = seen();
        there.plugin.as_mut().expect("plugin").enabled = false;
        assert_eq!(shown(&plan_install(&there, false).expect("plan")), "run `claude plugin install leaf@leaf`\n");
        let mut there = seen();
        there.plugin.as_mut().expect("plugin").version = "0.0.1".into();
        there.stale = vec![BINARY.into()];
        assert_eq!(
            shown(&plan_install(&there, false).expect("plan")),
            format!(
                "write the plugin of leaf {VERSION} to /data/leaf/claude-code (bin/leaf)\nrun `claude plugin update leaf@leaf`\n"
            )
        );
    }

    #[test]
    fn another_marketplace_of_the_name_is_left_alone() {
        let there = Seen { marketplace: Known::Other("github".into()), ..seen() };
        assert!(
            plan_install(&there, true)
                .expect_err("refused")
                .to_string()
                .contains("claude plugin marketplace remove leaf")
        );
        assert_eq!(plan_uninstall(&Seen { written: false, ..there }), []);
    }

    #[test]
    fn a_record_never_leads_out_of_the_folder() {
        for name in ["../x", "/etc/passwd", "a/../../x", "./../x"] {
            assert!(!inside(name), "{name}");
        }
        assert!(inside("skills/old/SKILL.md"));
    }

    #[test]
    fn the_plugins_version_is_the_binarys() {
        let text = EMBEDDED[0].1;
        let manifest: serde_json::Value = serde_json::from_str(text).expect("JSON");
        assert_eq!(manifest["version"], VERSION);
    }
}
