//! Asks the client's model, several questions at once.

use std::fs::{File, OpenOptions};
use std::io::{IsTerminal, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use super::Question;
use crate::client::claude_code::print;
use crate::eval::set::{Answer, Answers, Header};
use crate::headless;
use crate::place::Env;
use crate::refused::Refused;
use crate::text;

/// After this many failed calls in a row no more are made: what is wrong is wrong for all.
const ROW: usize = 3;
/// How often a running call is looked at.
const LOOK: Duration = Duration::from_millis(20);
/// How long the output of a call that ended may still take.
const SETTLE: Duration = Duration::from_secs(1);
/// How much of what a failed call said is kept, characters.
const SAID: usize = 500;

/// How to ask.
pub struct Options<'a> {
    /// The model; the client's own choice where it is `None`.
    pub model: Option<&'a str>,
    /// How many calls run at once.
    pub jobs: usize,
    /// How long a call may take.
    pub timeout: Duration,
    /// Where the answers go as they come.
    pub save: Option<&'a Path>,
}

/// What came of asking.
pub struct Asked {
    /// The answers and the failed calls.
    pub answers: Answers,
    /// Why it stopped early, where it did.
    pub stopped: Option<String>,
}

/// What the calls share.
struct Shared {
    next: usize,
    row: usize,
    answers: Answers,
    file: Option<File>,
    stopped: Option<String>,
    first_failure: Option<String>,
}

/// Asks each question once.
///
/// # Errors
/// Where there is no client, or where `--save`'s file can't be made.
pub fn ask(env: &Env, options: &Options<'_>, header: Header, questions: &[Question]) -> Result<Asked> {
    let Some(program) = headless::program(env) else {
        let sentence =
            "there is no `claude` on PATH: install Claude Code, or replay recorded answers with --answers FILE";
        return Err(Refused::input(sentence).into());
    };
    let file = options.save.map(new_file).transpose()?;
    let header = Header { client: version(&program), ..header };
    let answers = Answers { header, ..Answers::default() };
    let shared = Mutex::new(Shared { next: 0, row: 0, answers, file, stopped: None, first_failure: None });
    std::thread::scope(|scope| {
        for _ in 0..options.jobs.min(questions.len()) {
            scope.spawn(|| work(&program, options, questions, &shared));
        }
    });
    if !questions.is_empty() && std::io::stderr().is_terminal() {
        eprintln!();
    }
    let mut shared = shared.into_inner().unwrap_or_else(PoisonError::into_inner);
    if !questions.is_empty() && shared.answers.by_id.values().all(|answer| answer.answer.is_none()) {
        let first = text::one_line(shared.first_failure.as_deref().unwrap_or_default());
        shared.stopped.get_or_insert(format!("no call gave an answer; the first said: {first}"));
    }
    Ok(Asked { answers: shared.answers, stopped: shared.stopped })
}

fn new_file(path: &Path) -> Result<File> {
    match OpenOptions::new().write(true).create_new(true).open(path) {
        Ok(file) => Ok(file),
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
            Err(Refused::input(format!("{} is there already: name a new file", path.display())).into())
        }
        Err(error) => Err(error).with_context(|| format!("can't write {}", path.display())),
    }
}

fn version(program: &Path) -> Option<String> {
    let output = Command::new(program).arg("--version").stdin(Stdio::null()).output().ok()?;
    let said = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    (output.status.success() && !said.is_empty()).then(|| text::first_words(&said, 80))
}

fn locked(shared: &Mutex<Shared>) -> MutexGuard<'_, Shared> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

fn work(program: &Path, options: &Options<'_>, questions: &[Question], shared: &Mutex<Shared>) {
    loop {
        let question = {
            let mut shared = locked(shared);
            let at = shared.next;
            shared.next += 1;
            match questions.get(at) {
                Some(question) if shared.stopped.is_none() => question,
                Some(_) | None => return,
            }
        };
        let said = call(program, options, &question.text);
        locked(shared).take(question, said, questions.len());
    }
}

/// What a call said.
struct Said {
    answer: Result<String, String>,
    model: Option<String>,
    tokens: Option<u64>,
    ms: Option<u64>,
}

impl Shared {
    fn take(&mut self, question: &Question, said: Said, whole: usize) {
        if self.answers.header.model.is_none() {
            self.answers.header.model = said.model;
        }
        let (answer, failed) = match said.answer {
            Ok(answer) => (Some(answer), None),
            Err(why) => (None, Some(text::clip(&why, SAID))),
        };
        let failed_now = failed.is_some();
        if let Some(why) = &failed {
            eprintln!("{}: the call failed: {}", text::one_line(&question.id), text::one_line(why));
            self.first_failure.get_or_insert_with(|| why.clone());
        }
        self.row = if failed_now { self.row + 1 } else { 0 };
        let answer = Answer { id: question.id.clone(), answer, failed, tokens: said.tokens, ms: said.ms };
        if let Err(error) = self.save(&answer) {
            self.stopped.get_or_insert(format!("the answers can't be saved: {error:#}: nothing more was asked"));
        }
        self.answers.by_id.insert(answer.id.clone(), answer);
        if self.row >= ROW && self.answers.by_id.len() < whole {
            let first = text::one_line(self.first_failure.as_deref().unwrap_or_default());
            self.stopped.get_or_insert(format!(
                "{ROW} calls failed in a row, so nothing more was asked; the first said: {first}. Run `claude -p hello` to see \
                 whether the client works and is logged in"
            ));
        }
        let done = self.answers.by_id.len();
        if std::io::stderr().is_terminal() {
            eprint!("\r{done} of {whole} asked");
        } else if done.is_multiple_of(10) || done == whole {
            eprintln!("{done} of {whole} asked");
        }
    }

    /// Appends an answer, behind the header where it is the first: what was paid for outlives an interruption.
    fn save(&mut self, answer: &Answer) -> Result<()> {
        let Some(file) = &mut self.file else { return Ok(()) };
        let mut lines = Vec::new();
        if self.answers.by_id.is_empty() {
            serde_json::to_writer(&mut lines, &self.answers.header)?;
            lines.push(b'\n');
        }
        serde_json::to_writer(&mut lines, answer)?;
        lines.push(b'\n');
        Ok(file.write_all(&lines)?)
    }
}

/// Makes one call.
fn call(program: &Path, options: &Options<'_>, question: &str) -> Said {
    match spoken(program, options, question) {
        Ok((status, stdout, stderr)) => {
            let read = print::output(&stdout);
            let stderr = String::from_utf8_lossy(&stderr).trim().to_owned();
            // A result without words is no answer of the model's.
            let failed = read.failed || !status.success() || read.text.is_empty();
            let why = if read.text.is_empty() { stderr } else { read.text.clone() };
            let raw = String::from_utf8_lossy(&stdout).trim().to_owned();
            let why = if why.is_empty() && !raw.is_empty() { format!("it gave no result: {raw}") } else { why };
            let why = if why.is_empty() { format!("it said nothing ({status})") } else { why };
            Said {
                answer: if failed { Err(why) } else { Ok(read.text) },
                model: print::model(&stdout),
                tokens: read.cost.tokens,
                ms: read.cost.ms,
            }
        }
        Err(error) => Said { answer: Err(format!("{error:#}")), model: None, tokens: None, ms: None },
    }
}

fn spoken(program: &Path, options: &Options<'_>, question: &str) -> Result<(ExitStatus, Vec<u8>, Vec<u8>)> {
    let mut command = Command::new(program);
    command.args(print::alone(options.model)).current_dir(elsewhere());
    for name in print::inherited().chain(["LEAF_TOKEN", "LEAF_TURN", "LEAF_SESSION"]) {
        command.env_remove(name);
    }
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().context("it can't be started")?;
    let (stdout, stderr) = (reader(child.stdout.take()), reader(child.stderr.take()));
    if let Some(mut stdin) = child.stdin.take() {
        let question = question.to_owned();
        // One that ends without reading, or never reads, is found so by how it ends.
        std::thread::spawn(move || drop(stdin.write_all(question.as_bytes())));
    }
    let status = end(&mut child, options.timeout)?;
    let said = |reader: &Receiver<Vec<u8>>| reader.recv_timeout(SETTLE).unwrap_or_default();
    Ok((status, said(&stdout), said(&stderr)))
}

/// Returns a directory with no project around it, and not one where others write: what they put there, instructions and settings, is
/// none of the question's.
fn elsewhere() -> PathBuf {
    let home = Env::default().var("HOME").map(PathBuf::from);
    home.filter(|home| home.is_dir()).unwrap_or_else(|| PathBuf::from("/"))
}

fn reader(pipe: Option<impl Read + Send + 'static>) -> Receiver<Vec<u8>> {
    let (sender, receiver) = channel();
    if let Some(mut pipe) = pipe {
        std::thread::spawn(move || {
            let mut bytes = Vec::new();
            let _ = pipe.read_to_end(&mut bytes);
            // Nobody waits for it any more where this fails.
            let _ = sender.send(bytes);
        });
    }
    receiver
}

/// Waits for the end of a call, and makes one where its time is up.
fn end(child: &mut Child, timeout: Duration) -> Result<ExitStatus> {
    let began = Instant::now();
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        if began.elapsed() >= timeout {
            let _ = child.kill();
            let _ = child.wait();
            anyhow::bail!("it took longer than {} s and was stopped", timeout.as_secs());
        }
        std::thread::sleep(LOOK);
    }
}
