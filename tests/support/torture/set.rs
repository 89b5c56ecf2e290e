//! A stage set: a state directory in which every kind of thing stands, made once and put back as often as wanted.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::{Value, json};

use super::client::{Fate, Job, send};
use super::judge;
use super::world::{Session, World, context};

/// A held lane. What this program starts meanwhile may have its file for a moment, so that closing it frees nothing.
pub struct Lane(fs::File);

impl Drop for Lane {
    fn drop(&mut self) {
        let _ = fs2::FileExt::unlock(&self.0);
    }
}

/// The ids of what stands there.
pub struct Set {
    pub world: Arc<World>,
    pub session: Session,
    pub token: String,
    /// A thread that a fork works on, its reference, the fork and its turn.
    pub forked: String,
    pub fork_ref: String,
    pub agent: String,
    pub turn: String,
    /// A turn whose run has not begun.
    pub young_turn: String,
    pub young_description: String,
    /// A thread that is kept back for the line fork, and its message.
    pub kept: String,
    /// A reference that main has.
    pub main_ref: String,
    /// A thread with an answer.
    pub answered: String,
    /// A thread that is settled.
    pub settled: String,
    /// A message that nobody picked up and that is main's.
    pub fresh: String,
    /// A to-do of the session.
    pub todo: String,
    /// A delivery by pointer.
    pub pointer: String,
    pub page: String,
    /// A page that another session holds, and that session.
    pub other_page: String,
    pub other: Session,
}

fn id(value: &Value) -> String {
    value["id"].as_str().unwrap_or_default().to_owned()
}

impl Set {
    /// Makes it; with `bulk` the log and the journal are long enough to have caches.
    pub fn make(world: &Arc<World>, bulk: bool) -> Option<Set> {
        let session = world.session("s0-55d0-4c8a-9d0b-4b0f3c1d2e5f");
        session.hook(&session.payload("SessionStart.main.startup"), Fate::Lives);
        session.new_prompt();
        session.hook(&session.payload("UserPromptSubmit.main"), Fate::Lives);
        let say = |text: &str, more: &[&str]| {
            let args: Vec<&str> = ["thread", "new", text, "--json"].into_iter().chain(more.iter().copied()).collect();
            id(&world.person(&args, Fate::Lives).json())
        };
        let boundary = || context(&session.hook(&session.payload("PostToolBatch.main"), Fate::Lives));
        let reference = |heard: &str, thread: &str| {
            let found =
                heard.match_indices(&format!(":{thread}")).next().map(|(at, _)| heard[at - 8..at + 9].to_owned());
            found.unwrap_or_default()
        };
        if bulk {
            for n in 0..12 {
                let thread = say(&format!("[bulk {n}] {}", "some text of a page that is long ".repeat(90)), &[]);
                let heard = boundary();
                session.run(&["thread", "reply", &reference(&heard, &thread), &format!("[answer {n}]")], Fate::Lives);
                for step in 0..4 {
                    world.set_clock(|now| now + 61_000);
                    session.run(&["thread", "line", &thread, &format!("step {step}")], Fate::Lives);
                    boundary();
                    session.hook(&session.payload("Stop.main.tui"), Fate::Lives);
                    session.new_prompt();
                    session.hook(&session.payload("UserPromptSubmit.main"), Fate::Lives);
                }
            }
        }
        let settled = say("[settled]", &[]);
        world.person(&["thread", "resolve", &settled], Fate::Lives);
        say(&format!("[long] {}", "too long to stand there ".repeat(600)), &[]);
        let pointer = boundary();
        let at = pointer.find("leaf delivery ack ").map(|at| at + "leaf delivery ack ".len())?;
        let pointer = pointer.get(at..at + 8)?.to_owned();
        let answered = say("[answered]", &[]);
        let heard = boundary();
        session.run(&["thread", "reply", &reference(&heard, &answered), "[the answer]"], Fate::Lives);
        let mains = say("[main's]", &[]);
        let main_ref = reference(&boundary(), &mains);
        let todo = id(&world.person(&["task", "open", &answered, "tidy up", "--json"], Fate::Lives).json());
        let fresh = say("[fresh]", &[]);

        let out = world.dir.join("out/follow");
        let mut job = session.job(&["follow"], None, Fate::Lives);
        job.out = Some(out.clone());
        let follower = session.client.start_job(&job)?;
        let pid = follower.pid()?;
        let line = |wanted: &dyn Fn(&Value) -> Option<Value>| -> Option<Value> {
            for _ in 0..2_000 {
                let text = fs::read_to_string(&out).unwrap_or_default();
                let whole = &text[..text.rfind('\n').map_or(0, |at| at + 1)];
                if let Some(found) = whole.lines().filter_map(|l| serde_json::from_str(l).ok()).find_map(|v| wanted(&v))
                {
                    return Some(found);
                }
                std::thread::sleep(Duration::from_millis(5));
            }
            None
        };
        let token = line(&|v| v["token"].as_str().map(|t| json!(t)))?.as_str()?.to_owned();
        let take = |text: &str| -> Option<(String, Value)> {
            let thread = say(text, &[]);
            let ask = line(&|v| (v["ask"]["thread"] == json!(thread)).then(|| v["ask"].clone()))?;
            let args = ["fork", "line", &thread, "--through", ask["through"].as_str()?, "--json"];
            let said = json!({"line": "On it.", "sort": "small"}).to_string();
            let ran = session.run_job(&Job { input: said, ..session.job(&args, Some(&token), Fate::Lives) });
            Some((thread, ran.json()))
        };
        let (forked, action) = take("[forked]")?;
        let agent = "a2d3fa93000000001".to_owned();
        let turn = action["turn"].as_str()?.to_owned();
        let mut payload = session.payload("SubagentStart.fork");
        payload["agent_id"] = json!(agent);
        session.hook(&payload, Fate::Lives);
        session.run_job(&session.job(&["fork", "started", &turn, &agent, "--json"], Some(&token), Fate::Lives));
        let fork_ref = reference(action["prompt"].as_str()?, &forked);
        let (_, young) = take("[young]")?;
        let kept = say("[kept back]", &[]);
        send(pid, Signal::KILL);
        follower.wait();

        let other = world.session("t0-55d0-4c8a-9d0b-4b0f3c1d2e5f");
        other.hook(&other.payload("SessionStart.main.startup"), Fate::Lives);
        let slug = ["page", "new", "Other", "--slug", "other", "--session", &other.id, "--json"];
        world.person(&slug, Fate::Lives);
        world.person(&["thread", "new", "[elsewhere]", "--page", "other"], Fate::Lives);

        let page = world.pages().into_iter().find(|page| page != "other")?;
        let set = Set {
            world: Arc::clone(world),
            token,
            forked,
            fork_ref,
            agent,
            turn,
            young_turn: young["turn"].as_str()?.to_owned(),
            young_description: young["description"].as_str()?.to_owned(),
            kept,
            main_ref,
            answered,
            settled,
            fresh,
            todo,
            pointer,
            page,
            other_page: "other".into(),
            other,
            session,
        };
        for (from, to) in [("state", "saved"), ("tmp", "saved-tmp")] {
            copy(&set.world.dir.join(from), &set.world.dir.join(to));
        }
        Some(set)
    }

    /// Puts it back, and holds the follower's lane as the follower did.
    pub fn put_back(&self) -> Lane {
        for (from, to) in [("saved", "state"), ("saved-tmp", "tmp")] {
            let to = self.world.dir.join(to);
            let _ = fs::remove_dir_all(&to);
            copy(&self.world.dir.join(from), &to);
        }
        let lane = self
            .world
            .state()
            .join("sessions")
            .join(super::world::session_key(&self.session.id))
            .join("lanes/follower");
        let lane = fs::OpenOptions::new().read(true).write(true).open(lane).expect("the follower's lane");
        fs2::FileExt::lock_exclusive(&lane).expect("the lane is free");
        Lane(lane)
    }

    /// The events of the page as they were made.
    pub fn events(&self) -> Vec<Value> {
        judge::read_log(&self.world.dir.join("saved/pages").join(&self.page).join("log.jsonl")).0
    }

    /// A payload of the fork.
    pub fn of_the_fork(&self, name: &str) -> Value {
        let mut payload = self.session.payload(name);
        payload["agent_id"] = json!(self.agent);
        payload["agent_type"] = json!("fork");
        payload
    }

    /// PostToolUse of the Agent call that launches the young turn's fork.
    pub fn launch(&self) -> Value {
        let mut payload = self.session.payload("PostToolUse.main.Agent.spawn");
        payload["tool_input"]["description"] = json!(self.young_description);
        payload["tool_response"]["agentId"] = json!("a2d3fa93000000002");
        payload
    }
}

fn copy(from: &Path, to: &Path) {
    use std::os::unix::fs::DirBuilderExt;
    fs::DirBuilder::new().recursive(true).mode(0o700).create(to).expect("a directory");
    for entry in fs::read_dir(from).into_iter().flatten().flatten() {
        let at = to.join(entry.file_name());
        if entry.file_type().is_ok_and(|t| t.is_dir()) {
            copy(&entry.path(), &at);
        } else {
            fs::copy(entry.path(), at).expect("a copy");
        }
    }
}
