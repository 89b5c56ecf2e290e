//! `leaf demo`: a first session, played through this very binary with events recorded from the real client, in a temporary
//! state directory, with no account and no network.

use std::fs::DirBuilder;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Output, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::output::{self, Style, styled};

/// What the name of the demo's directory begins with.
const NAME: &str = "leaf-demo-";

/// The session of the recorded events.
const SESSION: &str = "66232bfa-36ae-4cb8-99c6-ea92effa9e76";

const START: &str = include_str!("../../tests/support/payloads/SessionStart.main.startup.json");
const PROMPT: &str = include_str!("../../tests/support/payloads/UserPromptSubmit.main.json");
const SHELL: &str = include_str!("../../tests/support/payloads/PreToolUse.main.Bash.json");
const FORKS_SHELL: &str = include_str!("../../tests/support/payloads/PreToolUse.fork.Bash.json");
const FORKS_BOUNDARY: &str = include_str!("../../tests/support/payloads/PostToolBatch.fork.json");
const BOUNDARY: &str = include_str!("../../tests/support/payloads/PostToolBatch.main.json");
const STOP: &str = include_str!("../../tests/support/payloads/Stop.main.tui.json");
const WAKE: &str = include_str!("../../tests/support/payloads/UserPromptSubmit.main.task-notification.rewake.json");
const END: &str = include_str!("../../tests/support/payloads/SessionEnd.main.other.json");

/// `leaf demo`
#[derive(Debug, Args)]
pub struct DemoArgs {
    /// Stand in for the client: run what stdin says, below this process.
    #[arg(long, hide = true)]
    client: bool,
}

/// What the stand-in for the client runs.
#[derive(Debug, Serialize, Deserialize)]
struct Call {
    args: Vec<String>,
    stdin: String,
}

/// What came of it.
#[derive(Debug, Serialize, Deserialize)]
struct Came {
    code: Option<i32>,
    stdout: String,
    stderr: String,
}

impl Came {
    fn of(output: Output) -> Came {
        Came {
            code: output.status.code(),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }
}

/// One step as a person would see it.
#[derive(Debug, Serialize)]
struct Step {
    who: &'static str,
    what: String,
    shows: String,
}

/// Runs the demo.
///
/// # Errors
/// Where a step doesn't come out as it should.
pub fn run(args: &DemoArgs, json: bool) -> Result<()> {
    if args.client {
        return stand_in();
    }
    let mut stage = Stage::set(json)?;
    let played = stage.play();
    let struck = stage.strike();
    played?;
    struck
}

/// The client's part: whatever it runs is below it, as an agent's command is.
fn stand_in() -> Result<()> {
    let played = play_along();
    // The end of what it is told is the end of the demo, by whatever that ended: nothing of it stays.
    let project = std::env::current_dir()?;
    if let Some(root) =
        project.parent().filter(|root| root.file_name().is_some_and(|name| name.to_string_lossy().starts_with(NAME)))
    {
        let _ = std::fs::remove_dir_all(root);
    }
    played
}

fn play_along() -> Result<()> {
    let own = std::env::current_exe()?;
    for line in std::io::stdin().lock().lines() {
        let call: Call = serde_json::from_str(&line?)?;
        // Its children know it by this, as the real client's do.
        let pid = std::process::id().to_string();
        let came = feed(Command::new(&own).args(&call.args).env("CLAUDE_PID", pid), &call.stdin)?;
        output::print_json(&came)?;
    }
    Ok(())
}

fn feed(command: &mut Command, stdin: &str) -> Result<Came> {
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    if let Some(mut pipe) = child.stdin.take() {
        // A command that doesn't read its input is none the worse for it.
        let _ = pipe.write_all(stdin.as_bytes());
    }
    Ok(Came::of(child.wait_with_output()?))
}

struct Stage {
    binary: PathBuf,
    root: PathBuf,
    project: PathBuf,
    client: Child,
    calls: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
    json: bool,
    steps: Vec<Step>,
    prompts: u32,
    state: Value,
}

impl Stage {
    fn set(json: bool) -> Result<Stage> {
        let binary = std::env::current_exe().context("can't find this binary")?;
        let root = std::env::temp_dir().join(format!("{NAME}{:016x}", crate::ids::random_u64()?));
        let project = root.join("project");
        let made = DirBuilder::new().mode(0o700).create(&root).and_then(|()| std::fs::create_dir(&project));
        made.with_context(|| format!("can't make {}", project.display()))?;
        let mut command = Command::new(&binary);
        // In a group of its own: an interrupt from the keyboard ends the demo, and this one takes its things away.
        command.args(["demo", "--client"]).stdin(Stdio::piped()).stdout(Stdio::piped()).process_group(0);
        let mut client = scene(&mut command, &root, &project).spawn().context("can't start the demo's client")?;
        let pipes = (client.stdin.take(), client.stdout.take());
        let (Some(calls), Some(answers)) = pipes else { bail!("the demo's client has no pipes") };
        let answers = BufReader::new(answers);
        let (steps, state) = (Vec::new(), Value::Null);
        Ok(Stage { binary, root, project, client, calls: Some(calls), answers, json, steps, prompts: 0, state })
    }

    /// Ends the client and removes all that the demo wrote.
    fn strike(&mut self) -> Result<()> {
        drop(self.calls.take());
        let _ = self.client.wait();
        if self.root.exists() {
            std::fs::remove_dir_all(&self.root).with_context(|| format!("can't remove {}", self.root.display()))?;
        }
        if self.json {
            return output::print_json(&serde_json::json!({"steps": self.steps, "state": self.state}));
        }
        Ok(())
    }

    fn play(&mut self) -> Result<()> {
        self.title("A coding agent is at work; you write beside it.")?;
        self.hook("The session starts and gets its first prompt", START, "SessionStart")?;
        self.prompt()?;
        let written = self.you(&["thread", "new", "Which port does the dev server use? I need it for a colleague."])?;
        let thread = id_in(&written, "thread ")?;

        self.title("At its next tool boundary the agent reads this:")?;
        let context = self.hook("A tool call of the agent ended", BOUNDARY, "PostToolBatch")?;
        let reference = reference_in(&context)?;
        self.agent(&["thread", "line", &thread, "looking into vite.config.ts"])?;
        self.agent(&["thread", "reply", &reference, "5173, set in vite.config.ts."])?;
        self.you(&["thread", "show", &thread])?;

        self.title("A message that comes as the agent is about to stop continues its turn:")?;
        self.you(&["thread", "say", &thread, "Please make it configurable, when you have time."])?;
        let context = self.hook("The agent would stop now", STOP, "Stop")?;
        let reference = reference_in(&context)?;
        let answer = self.agent(&[
            "thread",
            "reply",
            &reference,
            "Noted as a to-do; it comes after the present work.",
            "--todo",
            "make the dev server's port configurable",
        ])?;
        let todo = id_in(&answer, "opened to-do ")?;
        self.agent(&["task", "start", &todo, "reading PORT from the environment"])?;
        self.agent(&["task", "end", &todo, "done", "PORT is read from the environment"])?;

        self.title("An agent can't speak as you:")?;
        self.denied("leaf thread new 'as if I were the user'")?;

        self.title("An idle session wakes for you:")?;
        let stopped = self.hook("The agent stops", STOP, "Stop")?;
        ensure!(stopped.is_empty(), "the Stop went on: {stopped}");
        let woken = self.wake(&["thread", "new", "Is the branch ready for review?"])?;
        let reference = reference_in(&woken)?;
        self.agent(&["thread", "reply", &reference, "Yes: all tests pass."])?;
        self.hook("The agent stops", STOP, "Stop")?;

        self.forks()?;

        self.title("What stands on the page in the end:")?;
        self.you(&["page", "state"])?;
        self.you(&["why", &thread])?;
        self.hook("The session ends", END, "SessionEnd")?;
        let state = self.person(&["page", "state", "--json"], "")?;
        self.state = serde_json::from_str(&state.stdout).context("the page's state is no JSON")?;
        let answered = |thread: &Value| thread["status"] == "answered";
        let all = self.state["threads"].as_array().is_some_and(|threads| threads.iter().all(answered));
        ensure!(all, "not every thread is answered: {}", self.state);
        self.title("That was all: nothing of it is left on this machine. `leaf install` puts leaf into Claude Code.")
    }

    /// Forks: a copy of the session answers beside it. The demo plays the client's module, which keeps `leaf follow` running.
    fn forks(&mut self) -> Result<()> {
        self.title("With forks, a copy of the session answers beside it:")?;
        self.prompt()?;
        let mut follower = Follower::start(self)?;
        let (thread, turn, reference) = self.taken(&mut follower, "What does the parser make of tabs?", "fork-1")?;
        let answer = format!("leaf thread reply {reference} \"Four blanks each, see lexer.rs.\"");
        let marked = self.marked("fork-1", &answer)?;
        self.step("fork:", answer, &format!("runs as: {marked}"))?;
        let came = self.below(&words(&marked), "")?;
        ensure!(came.code == Some(0), "the fork's answer failed: {}", came.stderr);
        self.forks_boundary("fork-1")?;
        self.ended(&turn, "done", "answer")?;
        self.hook("A tool call of the agent ended", BOUNDARY, "PostToolBatch")?;
        self.you(&["thread", "show", &thread])?;

        self.title("The session may answer over a fork; the fork's late answer is refused:")?;
        let (thread, turn, reference) = self.taken(&mut follower, "Is the cache still used?", "fork-2")?;
        self.agent(&["thread", "reply", &thread, "No, it goes with this change."])?;
        let late = format!("leaf thread reply {reference} \"Yes.\"");
        let marked = self.marked("fork-2", &late)?;
        let came = self.below(&words(&marked), "")?;
        ensure!(came.code == Some(1), "the fork's late answer went through");
        self.step("fork:", late, &came.stderr)?;
        self.forks_boundary("fork-2")?;
        self.ended(&turn, "", "taken_over")?;

        self.title("What a fork can't do it hands back:")?;
        let (thread, turn, _) = self.taken(&mut follower, "Rename the flag everywhere, please.", "fork-3")?;
        self.ended(&turn, "HAND BACK: the session is changing those files", "hand_back")?;
        let context = self.hook("A tool call of the agent ended", BOUNDARY, "PostToolBatch")?;
        let reference = reference_in(&context)?;
        self.agent(&["thread", "reply", &reference, "Done with the rest of this change."])?;
        self.you(&["why", &thread])?;
        self.you(&["fork", "list"])?;
        let stopped = self.hook("The agent stops", STOP, "Stop")?;
        ensure!(stopped.is_empty(), "the Stop went on: {stopped}");
        Ok(())
    }

    /// Writes a message, answers for the line fork, and starts the working fork: its thread, turn and reference.
    fn taken(&mut self, follower: &mut Follower, text: &str, agent: &str) -> Result<(String, String, String)> {
        let written = self.you(&["thread", "new", text])?;
        let thread = id_in(&written, "thread ")?;
        let ask = follower.ask(&thread)?;
        let through = ask["through"].as_str().unwrap_or_default().to_owned();
        let line = r#"{"line": "Looking into it.", "sort": "small"}"#;
        self.step("client:", "leaf follow asks the line fork".to_owned(), line)?;
        let action = self.module(&["fork", "line", &thread, "--through", &through], line)?;
        let turn = action["turn"].as_str().context("no fork was to be started")?.to_owned();
        self.step("client:", format!("starts {}", action["name"].as_str().unwrap_or_default()), "")?;
        let told = self.module(&["fork", "started", &turn, agent], "")?;
        ensure!(told["action"] == "go", "the fork was not to go: {told}");
        self.you(&["thread", "list"])?;
        Ok((thread, turn, reference_in(action["prompt"].as_str().unwrap_or_default())?))
    }

    /// Runs what the client's module runs.
    fn module(&self, args: &[&str], stdin: &str) -> Result<Value> {
        let came = self.person(args, stdin)?;
        ensure!(came.code == Some(0), "`leaf {}` failed: {}", args.join(" "), came.stderr);
        serde_json::from_str(&came.stdout).context("the module was told nothing")
    }

    fn ended(&mut self, turn: &str, text: &str, outcome: &str) -> Result<()> {
        let told = self.module(&["fork", "ended", "--turn", turn], text)?;
        ensure!(told["outcome"] == outcome, "the fork's end was judged {told}");
        self.step("client:", format!("the fork's run ended: {outcome}"), text)
    }

    /// Gives a fork's command to the hook, and returns it as it is rewritten, with the fork's mark.
    fn marked(&mut self, agent: &str, command: &str) -> Result<String> {
        let payload = self.payload(FORKS_SHELL, |payload| {
            payload["agent_id"] = agent.into();
            payload["tool_input"]["command"] = command.into();
        })?;
        let came = self.below(&["hook"], &payload)?;
        let answer: Value = serde_json::from_str(&came.stdout).context("the fork's command was not marked")?;
        let command = answer["hookSpecificOutput"]["updatedInput"]["command"].as_str();
        command.map(ToOwned::to_owned).context("the fork's command was not marked")
    }

    fn forks_boundary(&mut self, agent: &str) -> Result<()> {
        let payload = self.payload(FORKS_BOUNDARY, |payload| payload["agent_id"] = agent.into())?;
        self.below(&["hook"], &payload).map(drop)
    }

    fn title(&mut self, text: &str) -> Result<()> {
        self.tell(&format!("\n{}\n", styled(Style::Bold, text)))
    }

    fn tell(&self, text: &str) -> Result<()> {
        if self.json { Ok(()) } else { output::print(text) }
    }

    fn step(&mut self, who: &'static str, what: String, shows: &str) -> Result<()> {
        let mut text = format!("\n{} {what}\n", styled(Style::Dim, who));
        for line in shows.lines() {
            text.push_str(&format!("    {line}\n"));
        }
        self.tell(&text)?;
        self.steps.push(Step { who, what, shows: shows.to_owned() });
        Ok(())
    }

    /// Runs a command as the person: not below the client.
    fn person(&self, args: &[&str], stdin: &str) -> Result<Came> {
        let mut command = Command::new(&self.binary);
        scene(&mut command, &self.root, &self.project);
        feed(command.args(args), stdin)
    }

    fn you(&mut self, args: &[&str]) -> Result<String> {
        let came = self.person(args, "")?;
        ensure!(came.code == Some(0), "`leaf {}` failed: {}", args.join(" "), came.stderr);
        self.step("you:", command_line(args), &came.stdout)?;
        Ok(came.stdout)
    }

    /// Runs something below the client.
    fn below(&mut self, args: &[&str], stdin: &str) -> Result<Came> {
        let call = Call { args: args.iter().map(ToString::to_string).collect(), stdin: stdin.to_owned() };
        let calls = self.calls.as_mut().context("the demo's client is gone")?;
        writeln!(calls, "{}", serde_json::to_string(&call)?)?;
        let mut line = String::new();
        self.answers.read_line(&mut line)?;
        serde_json::from_str(&line).context("the demo's client said nothing")
    }

    fn agent(&mut self, args: &[&str]) -> Result<String> {
        let payload = self.payload(SHELL, |payload| {
            payload["tool_input"]["command"] = command_line(args).into();
        })?;
        let judged = self.below(&["hook"], &payload)?;
        ensure!(judged.stdout.is_empty(), "the agent's command was stopped: {}", judged.stdout);
        let came = self.below(args, "")?;
        ensure!(came.code == Some(0), "the agent's `leaf {}` failed: {}", args.join(" "), came.stderr);
        self.step("agent:", command_line(args), &came.stdout)?;
        Ok(came.stdout)
    }

    fn denied(&mut self, command: &str) -> Result<()> {
        let payload = self.payload(SHELL, |payload| payload["tool_input"]["command"] = command.into())?;
        let came = self.below(&["hook"], &payload)?;
        let answer: Value = serde_json::from_str(&came.stdout).context("the hook let it pass")?;
        let reason =
            answer["hookSpecificOutput"]["permissionDecisionReason"].as_str().context("no reason was given")?;
        self.step("agent:", command.to_owned(), &format!("denied: {reason}"))
    }

    fn prompt(&mut self) -> Result<()> {
        self.prompts += 1;
        let came = self.event(PROMPT)?;
        ensure!(came.is_empty(), "the prompt carried {came}");
        Ok(())
    }

    fn hook(&mut self, what: &str, recorded: &str, event: &str) -> Result<String> {
        let context = self.event(recorded)?;
        self.step("client:", format!("{what} ({event})"), &context)?;
        Ok(context)
    }

    /// Feeds a recorded event to the hook, and returns the context that it adds.
    fn event(&mut self, recorded: &str) -> Result<String> {
        let payload = self.payload(recorded, |_| ())?;
        let came = self.below(&["hook"], &payload)?;
        if came.stdout.is_empty() {
            return Ok(String::new());
        }
        let answer: Value = serde_json::from_str(&came.stdout).context("the hook's answer is no JSON")?;
        Ok(answer["hookSpecificOutput"]["additionalContext"].as_str().unwrap_or_default().to_owned())
    }

    fn payload(&self, recorded: &str, change: impl FnOnce(&mut Value)) -> Result<String> {
        let mut payload: Value = serde_json::from_str(recorded).context("a recorded event is no JSON")?;
        payload["session_id"] = SESSION.into();
        payload["cwd"] = self.project.to_string_lossy().into();
        payload["prompt_id"] = format!("prompt-{}", self.prompts).into();
        change(&mut payload);
        Ok(payload.to_string())
    }

    /// Parks the watch, writes as the person, and feeds the prompt that the wake causes.
    fn wake(&mut self, args: &[&str]) -> Result<String> {
        let mut command = Command::new(&self.binary);
        scene(&mut command, &self.root, &self.project).arg("watch").env("CLAUDE_PID", self.client.id().to_string());
        let mut watch = command.stdin(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
        let payload = self.payload(STOP, |_| ())?;
        if let Some(mut pipe) = watch.stdin.take() {
            pipe.write_all(payload.as_bytes())?;
        }
        self.step("client:", "leaf watch is parked in the background".to_owned(), "")?;
        self.you(args)?;
        let until = Instant::now() + Duration::from_secs(20);
        while watch.try_wait()?.is_none() {
            if Instant::now() > until {
                let _ = watch.kill();
                bail!("the watch didn't wake");
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        let came = Came::of(watch.wait_with_output()?);
        ensure!(came.code == Some(2), "the watch ended with {:?}: {}", came.code, came.stderr);
        self.step("client:", "the watch ended with exit code 2: the session wakes".to_owned(), &came.stderr)?;
        self.prompts += 1;
        self.hook("A turn begins", WAKE, "UserPromptSubmit")
    }
}

/// The client's module keeps `leaf follow` running and reads what it prints.
struct Follower {
    process: Child,
    lines: BufReader<ChildStdout>,
}

impl Follower {
    fn start(stage: &Stage) -> Result<Follower> {
        let mut command = Command::new(&stage.binary);
        scene(&mut command, &stage.root, &stage.project).arg("follow").stdout(Stdio::piped());
        let mut process = command.spawn().context("can't start leaf follow")?;
        let lines = BufReader::new(process.stdout.take().context("leaf follow has no stdout")?);
        let mut follower = Follower { process, lines };
        let first = follower.line()?;
        ensure!(first["token"].is_string(), "leaf follow began with {first}");
        Ok(follower)
    }

    fn line(&mut self) -> Result<Value> {
        let mut line = String::new();
        self.lines.read_line(&mut line)?;
        serde_json::from_str(&line).context("leaf follow ended")
    }

    /// Reads on to the question about a thread.
    fn ask(&mut self, thread: &str) -> Result<Value> {
        loop {
            let line = self.line()?;
            if line["ask"]["thread"] == thread {
                return Ok(line["ask"].clone());
            }
        }
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Gives a process the demo's own places, and nothing of the environment that it was started in.
fn scene<'c>(command: &'c mut Command, root: &Path, project: &Path) -> &'c mut Command {
    let path = std::env::var_os("PATH").unwrap_or_default();
    command
        .env_clear()
        .env("PATH", path)
        .env("LEAF_HOME", root.join("state"))
        .env("TMPDIR", root)
        .env("CLAUDE_CODE_SESSION_ATTENDED", "1")
        .env("LEAF_FORK_WORK", "on")
        .current_dir(project)
}

fn command_line(args: &[&str]) -> String {
    let quoted = |arg: &&str| if arg.contains([' ', '\'']) { format!("\"{arg}\"") } else { (*arg).to_owned() };
    format!("leaf {}", args.iter().map(quoted).collect::<Vec<_>>().join(" "))
}

/// Returns the words of a command line of the demo's own, behind `leaf`.
fn words(command: &str) -> Vec<&str> {
    let mut words = Vec::new();
    for (n, part) in command.split('"').enumerate() {
        if n % 2 == 1 {
            words.push(part);
        } else {
            words.extend(part.split_whitespace());
        }
    }
    words.split_off(1)
}

/// Returns the id behind `before` in what a command printed.
fn id_in(printed: &str, before: &str) -> Result<String> {
    let at = printed.find(before).with_context(|| format!("no \"{before}\" in {printed}"))? + before.len();
    Ok(printed[at..].chars().take_while(char::is_ascii_hexdigit).collect())
}

/// Returns the reference in a delivery, as an agent reads it.
fn reference_in(context: &str) -> Result<String> {
    let before = "leaf thread reply ";
    let at = context.rfind(before).with_context(|| format!("no answer's command in: {context}"))? + before.len();
    Ok(context[at..].split_whitespace().next().unwrap_or_default().to_owned())
}
