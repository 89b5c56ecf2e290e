//! Random days at a desk with forks, through the built binary, against the reference: after each step
//! `leaf page state` says what the reference says, each write of a fork is accepted or refused as the
//! reference would, each boundary hands exactly what it says, and each end is judged the same.
//!
//! The dice play the user, the line fork, two threads' working forks, runs that nobody started, main, a
//! follower that is killed and a clock that jumps. Facts that time alone brings are the binary's to find.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::model::{Dice, Situation, situations};
use super::reference::{
    By, Entry, FLURRY, Fact, Holder, KEEP, LAPSE, Message, Outcome, Owner, Reference, Seconds, State, Thread, Turn,
    Write,
};
use crate::support::desk::{Desk, Session};
use crate::support::forks::{Follower, Fork, Verdict, forking, shell_task, task_stop, text};

/// A renewal younger than this writes nothing (R41).
const RENEWAL: Seconds = 60;

/// Days that the suite plays, and how many steps each has.
const DAYS: u64 = 12;
const STEPS: usize = 40;

struct Day<'s, 'd> {
    desk: &'d Desk,
    main: &'s Session<'d>,
    follower: Option<Follower<'s, 'd>>,
    dice: Dice,
    now: Seconds,
    world: Reference,
    history: Vec<Entry>,
    threads: Vec<String>,
    messages: Vec<String>,
    todos: Vec<String>,
    /// The binary's turn of each of the reference's.
    turns: Vec<String>,
    mains_turn: Turn,
    /// The agents by their number, as they were last launched or resumed.
    agents: Vec<Fork<'s, 'd>>,
    log: usize,
    told: Vec<String>,
}

#[test]
fn the_binary_and_the_reference_tell_one_story() {
    let mut steps: BTreeMap<&'static str, u32> = BTreeMap::new();
    let mut reached: BTreeSet<Situation> = BTreeSet::new();
    let mut failed = Vec::new();
    // More days by hand: `MODEL_DAYS=200 cargo test forks_model`.
    let days = std::env::var("MODEL_DAYS").ok().and_then(|d| d.parse().ok()).unwrap_or(DAYS);
    for seed in 0..days {
        let played = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let desk = Desk::new();
            let main = forking(&desk, "s");
            let mut day = Day::new(&desk, &main, seed);
            for _ in 0..STEPS {
                *steps.entry(day.step()).or_default() += 1;
                day.resumes();
                day.compare();
                reached.extend(situations(&day.world, day.now));
            }
        }));
        if played.is_err() {
            failed.push(seed);
        }
    }
    assert!(failed.is_empty(), "days that differ, each told above: {failed:?}");
    println!("{days} days, {} situations; steps: {steps:?}", reached.len());
    assert!(reached.len() >= 80, "a shallow run: {} situations", reached.len());
    for kind in ["line", "fork writes", "fork boundary", "main answers", "main boundary", "user writes", "fork ends"] {
        assert!(steps.get(kind).is_some_and(|n| *n >= 5), "{kind} came up: {steps:?}");
    }
}

impl<'s, 'd> Day<'s, 'd> {
    fn new(desk: &'d Desk, main: &'s Session<'d>, seed: u64) -> Self {
        let mut day = Day {
            desk,
            main,
            follower: None,
            dice: Dice::new(seed + 1_000),
            now: 0,
            world: Reference::new(),
            history: Vec::new(),
            threads: Vec::new(),
            messages: Vec::new(),
            todos: Vec::new(),
            turns: Vec::new(),
            mains_turn: 0,
            agents: Vec::new(),
            log: 0,
            told: vec![format!("seed {seed}")],
        };
        day.opens(By::Main, true, String::new());
        if !day.dice.one_in(5) {
            day.follow();
        }
        day.user_writes();
        day
    }

    fn write(&mut self, fact: Fact) {
        let entry = Entry { at: self.now, fact };
        self.world.apply(&entry);
        self.history.push(entry);
    }

    fn opens(&mut self, by: By, ours: bool, id: String) -> Turn {
        self.turns.push(id);
        self.write(Fact::Open { by, ours });
        self.turns.len() - 1
    }

    fn say(&mut self, what: impl Into<String>) {
        let line = format!("{:>5} {}", self.now, what.into());
        self.told.push(line);
    }

    #[track_caller]
    fn fail(&self, what: &str) -> ! {
        let mut stories = String::new();
        for thread in &self.threads {
            for entry in crate::support::forks::why(self.desk, thread) {
                stories.push_str(&format!("{entry}\n"));
            }
        }
        panic!("{what}\n{}\n{:#}\n{stories}", self.told.join("\n"), self.desk.state());
    }

    #[track_caller]
    fn same<T: PartialEq + std::fmt::Debug>(&self, what: &str, found: &T, expected: &T) {
        if found != expected {
            self.fail(&format!("{what}: the binary says {found:?}, the reference {expected:?}"));
        }
    }

    /// The pickups that the log has got since the last look: thread, messages, turn.
    fn fresh_pickups(&mut self) -> Vec<(String, Vec<String>, String)> {
        let log = self.desk.log();
        let fresh = log[self.log..].iter().filter(|e| e["kind"] == "pickup");
        let found = fresh
            .map(|e| {
                let messages = e["messages"].as_array().expect("messages").iter().map(text).collect();
                (text(&e["thread"]), messages, text(&e["turn"]))
            })
            .collect();
        self.log = log.len();
        found
    }

    /// What a boundary handed is what the reference says, and becomes its pickup.
    #[track_caller]
    fn handed(&mut self, turn: Turn, expected: &[(Thread, Vec<Message>)]) {
        let mut found = self.fresh_pickups();
        found.sort();
        let mut wanted: Vec<(String, Vec<String>)> = expected
            .iter()
            .map(|(t, ms)| (self.threads[*t].clone(), ms.iter().map(|m| self.messages[*m].clone()).collect()))
            .collect();
        wanted.sort();
        let plain: Vec<(String, Vec<String>)> = found.iter().map(|(t, ms, _)| (t.clone(), ms.clone())).collect();
        self.same("what the boundary hands over", &plain, &wanted);
        for (_, _, id) in found {
            if self.turns[turn].is_empty() {
                self.turns[turn] = id.clone();
            }
            self.same("the turn that picks up", &id, &self.turns[turn].clone());
        }
        for (thread, messages) in expected {
            self.write(Fact::Pickup { turn, thread: *thread, messages: messages.clone() });
        }
    }

    #[track_caller]
    fn compare(&mut self) {
        let state = self.desk.state();
        for thread in 0..self.threads.len() {
            let found = self.desk_thread(&state, thread);
            let waiting: Vec<String> = found["waiting"].as_array().expect("waiting").iter().map(text).collect();
            let waits = |m: &Message| self.world.thread_of(*m) == thread && self.world.waits(*m);
            let expected: Vec<String> =
                (0..self.messages.len()).filter(waits).map(|m| self.messages[m].clone()).collect();
            self.same(&format!("what waits in thread {thread}"), &waiting, &expected);
            let holder = self.world.holder(thread, self.now);
            let expected = self.named(holder);
            let found_holder = holder_of(&found["holder"]);
            // Main's turns have no id until they picked something up.
            let same = found_holder == expected || (expected.starts_with("main") && found_holder.starts_with("main"));
            if !same {
                self.fail(&format!(
                    "the holder of thread {thread}: the binary says {found_holder}, the reference {expected}"
                ));
            }
            let owed =
                state["owed"].as_array().expect("owed").iter().find(|o| o["thread"] == json!(self.threads[thread]));
            let found = owed.map(|o| holder_of(&o["owed_by"]));
            // R96: a message with an open to-do is main's; beside others that wait, either may be named.
            let with_todo =
                (0..self.messages.len()).any(|m| waits(&m) && self.world.has_open_todo(m) && self.world.owes(m));
            let expected = match self.world.owed_by(thread, self.now) {
                Some(_) if with_todo => continue,
                Some(Owner::LineFork) => Some("line_fork".to_owned()),
                Some(Owner::Main) => Some("main".to_owned()),
                Some(Owner::Fork(turn)) => Some(format!("fork {}", self.turns[turn])),
                None => with_todo.then(|| "main".to_owned()),
            };
            let found = found.map(|f| if f.starts_with("main") { "main".to_owned() } else { f });
            self.same(&format!("who owes thread {thread}"), &found, &expected);
        }
        let listed = state["turns"].as_array().expect("turns");
        for turn in 0..self.turns.len() {
            if self.world.by(turn) == By::Main {
                continue;
            }
            let found = listed.iter().find(|t| t["turn"] == json!(self.turns[turn])).map(|t| text(&t["state"]));
            let expected = state_name(self.world.state(turn, self.now));
            match found {
                Some(found) => self.same(&format!("the state of turn {turn}"), &found.as_str(), &expected),
                None if expected == "ended" => {}
                None => self.fail(&format!("turn {turn} is not listed")),
            }
        }
    }

    fn desk_thread(&self, state: &Value, thread: Thread) -> Value {
        let threads = state["threads"].as_array().expect("threads");
        threads.iter().find(|t| t["id"] == json!(self.threads[thread])).expect("the thread").clone()
    }

    fn named(&self, holder: Holder) -> String {
        match holder {
            Holder::Nobody => "nobody".into(),
            Holder::LineFork => "line_fork".into(),
            Holder::Turn(turn) if self.world.by(turn) == By::Main => "main".into(),
            Holder::Turn(turn) => format!("fork {}", self.turns[turn]),
        }
    }

    fn forks(&self) -> Vec<Turn> {
        (0..self.turns.len())
            .filter(|t| matches!(self.world.by(*t), By::Fork(_)) && self.world.state(*t, self.now) != State::Ended)
            .collect()
    }

    fn agent(&self, turn: Turn) -> usize {
        match self.world.by(turn) {
            By::Fork(agent) => agent,
            By::Main => self.fail("a fork's turn"),
        }
    }

    fn step(&mut self) -> &'static str {
        self.log = self.desk.log().len();
        let jumps = [0, 0, 1, 5, KEEP - 1, KEEP, RENEWAL, FLURRY, 300, LAPSE];
        let bound = if self.dice.one_in(4) { jumps.len() } else { 4 };
        let jump = jumps[self.dice.roll(bound)];
        if jump > 0 {
            self.now += jump;
            self.desk.advance(jump);
        }
        // What can't be done now is no step.
        for _ in 0..6 {
            let done = self.something();
            if done != "nothing" {
                return done;
            }
        }
        "nothing"
    }

    fn something(&mut self) -> &'static str {
        // Where the line fork is asked it mostly answers, and a fork at work mostly works.
        let asked =
            self.follower.is_some() && (0..self.threads.len()).any(|t| self.world.kept_back(t, self.now).is_ok());
        if asked && self.dice.one_in(2) {
            return self.line();
        }
        if !self.forks().is_empty() && self.dice.one_in(3) {
            return if self.dice.one_in(4) { self.fork_boundary_step() } else { self.fork_writes() };
        }
        if self.follower.is_none() && self.dice.one_in(4) {
            return self.follow();
        }
        match self.dice.roll(30) {
            0..=5 => self.user_writes(),
            6 => self.user_withdraws(),
            7 => self.user_resolves(),
            8 => self.follow(),
            9..=14 => self.line(),
            15..=17 => self.fork_boundary_step(),
            18..=21 => self.fork_writes(),
            22 => self.fork_ends(),
            23 => self.fork_rests(),
            24..=25 => self.main_boundary(),
            26 => self.main_answers(),
            27 => self.nobody_started_it(),
            28 => self.todo_ends(),
            _ => self.main_prompts(),
        }
    }

    fn user_writes(&mut self) -> &'static str {
        let fresh = self.threads.is_empty() || (self.threads.len() < 2 && self.dice.one_in(2));
        let owes = !self.dice.one_in(7);
        let thread = if fresh { self.threads.len() } else { self.dice.roll(self.threads.len()) };
        let said = format!("message {}", self.messages.len());
        let mut args = if fresh { vec!["thread", "new"] } else { vec!["thread", "say"] };
        let id = self.threads.get(thread).cloned().unwrap_or_default();
        if !fresh {
            args.push(&id);
        }
        args.push(&said);
        if !owes {
            args.push("--no-reply");
        }
        let event = self.desk.ask(&args);
        let id = text(&event["id"]);
        if fresh {
            self.threads.push(id.clone());
        }
        self.messages.push(id);
        self.say(format!("the user writes {said} in thread {thread}, owes {owes}"));
        self.write(Fact::Message { thread, owes });
        "user writes"
    }

    /// R80: a further message to a resting run makes the follower resume it in its turn, with a pickup.
    #[track_caller]
    fn resumes(&mut self) {
        let resting: Vec<Turn> =
            self.forks().into_iter().filter(|t| self.world.state(*t, self.now) == State::Resting).collect();
        for turn in resting {
            let expected = self.fork_gets(turn);
            let Some(follower) = self.follower.as_ref().filter(|_| !expected.is_empty()) else { continue };
            let start = follower.expect("start");
            self.say(format!("the follower resumes turn {turn}"));
            self.same("the resumed turn", &text(&start["turn"]), &self.turns[turn].clone());
            self.same("the action", &text(&start["action"]), &"resume".to_owned());
            self.handed(turn, &expected);
            self.fork_boundary(turn);
        }
    }

    fn waiting(&mut self) -> Option<Message> {
        let waiting: Vec<Message> =
            (0..self.messages.len()).filter(|m| self.world.waits(*m) && !self.world.has_open_todo(*m)).collect();
        self.dice.pick(&waiting)
    }

    fn user_withdraws(&mut self) -> &'static str {
        let Some(message) = self.waiting() else { return "nothing" };
        self.desk.person(&["thread", "withdraw", &self.messages[message]]).ok();
        self.say(format!("the user withdraws message {message}"));
        self.write(Fact::Withdraw { message });
        "user withdraws"
    }

    fn user_resolves(&mut self) -> &'static str {
        let thread = self.dice.roll(self.threads.len());
        if self.world.is_resolved(thread) {
            self.desk.person(&["thread", "reopen", &self.threads[thread]]).ok();
            self.say(format!("the user reopens thread {thread}"));
            self.write(Fact::Reopen { thread });
        } else {
            self.desk.person(&["thread", "resolve", &self.threads[thread]]).ok();
            self.say(format!("the user resolves thread {thread}"));
            self.write(Fact::Resolve { thread });
        }
        "user resolves"
    }

    fn follow(&mut self) -> &'static str {
        match self.follower.take() {
            Some(follower) => {
                follower.kill();
                self.say("the follower is killed");
                self.write(Fact::FollowerDies);
            }
            None => {
                self.follower = Some(Follower::start(self.main));
                self.say("a follower starts");
                self.write(Fact::FollowerStarts);
            }
        }
        "follower"
    }

    fn line(&mut self) -> &'static str {
        let Some(follower) = &self.follower else { return "nothing" };
        let kept: Vec<Thread> =
            (0..self.threads.len()).filter(|t| self.world.kept_back(*t, self.now).is_ok()).collect();
        let Some(thread) = self.dice.pick(&kept) else { return "nothing" };
        let waiting = self.world.waiting(thread);
        let Some(newest) = waiting.last().copied() else { return "nothing" };
        let (said, sort) = match self.dice.roll(8) {
            0 => ("no object".to_owned(), "failed"),
            1 => (json!({"line": "Yes.", "sort": "now"}).to_string(), "now"),
            2 => (json!({"line": "Later.", "sort": "significant"}).to_string(), "significant"),
            _ => (json!({"line": "On it.", "sort": "small"}).to_string(), "small"),
        };
        let args = ["fork", "line", &self.threads[thread], "--through", &self.messages[newest], "--json"];
        let action = follower.module(&args, &said).ok().json();
        self.say(format!("the line fork says {sort} of thread {thread}: {}", action["action"]));
        match sort {
            "failed" | "now" => {
                self.same("the action", &text(&action["action"]), &"main".to_owned());
                if sort == "now" {
                    self.write(Fact::Line { thread });
                }
                self.write(Fact::Handed { thread, messages: waiting });
            }
            "significant" => {
                self.same("the action", &text(&action["action"]), &"todo".to_owned());
                self.todos.push(text(&action["todo"]));
                self.write(Fact::Line { thread });
                self.write(Fact::Todo { thread, source: newest });
            }
            _ => self.take(thread, waiting, &action),
        }
        self.log = self.desk.log().len();
        "line"
    }

    fn take(&mut self, thread: Thread, messages: Vec<Message>, action: &Value) {
        self.write(Fact::Line { thread });
        let mut superseded = false;
        for turn in self.forks() {
            if self.world.takers(thread).contains(&turn) {
                superseded = true;
                self.write(Fact::End { turn });
            }
        }
        let last = self.last_answer(thread).filter(|_| !superseded);
        let resumed = last.and_then(|turn| match self.world.by(turn) {
            By::Fork(agent) => Some(agent),
            By::Main => None,
        });
        if !action["turn"].is_string() {
            self.fail(&format!("a take: {action}"));
        }
        let id = text(&action["turn"]);
        match resumed {
            Some(agent) => {
                self.same("a follow-up (R89)", &text(&action["action"]), &"resume".to_owned());
                self.same("the resumed agent", &text(&action["agent_id"]), &self.agents[agent].agent.clone());
                let open = self.forks().into_iter().find(|t| self.world.by(*t) == By::Fork(agent));
                let turn = match open {
                    Some(turn) => {
                        self.same("the run that goes on anyway (R45)", &id, &self.turns[turn].clone());
                        turn
                    }
                    None => {
                        let fork = Fork::resumed(self.main, action);
                        fork.begins().silent_or_context();
                        self.agents[agent] = fork;
                        self.opens(By::Fork(agent), true, id)
                    }
                };
                self.write(Fact::Pickup { turn, thread, messages });
            }
            None => {
                self.same("a first run", &text(&action["action"]), &"spawn".to_owned());
                let Some(follower) = &self.follower else { return };
                let fork = follower.launch(action);
                self.agents.push(fork);
                let turn = self.opens(By::Fork(self.agents.len() - 1), true, id);
                self.write(Fact::Pickup { turn, thread, messages });
            }
        }
    }

    fn last_answer(&self, thread: Thread) -> Option<Turn> {
        self.history.iter().rev().find_map(|e| match e.fact {
            Fact::Reply { turn, thread: t, responds: Some(_), .. } if t == thread => Some(turn),
            _ => None,
        })
    }

    fn a_fork(&mut self) -> Option<Turn> {
        let forks = self.forks();
        self.dice.pick(&forks)
    }

    /// A boundary's facts, before it and by it.
    #[track_caller]
    fn fork_boundary(&mut self, turn: Turn) {
        let agent = self.agent(turn);
        if self.world.rests(turn) {
            self.agents[agent].begins().silent_or_context();
            self.write(Fact::GoOn { turn });
        }
        self.log = self.desk.log().len();
        self.agents[agent].boundary().silent_or_context();
        self.renews(turn);
        let expected = self.fork_gets(turn);
        self.handed(turn, &expected);
    }

    fn renews(&mut self, turn: Turn) {
        if self.world.may_renew(turn, self.now) && self.now - self.world.renewed(turn) >= RENEWAL {
            self.write(Fact::Renew { turn });
        }
    }

    fn fork_gets(&self, turn: Turn) -> Vec<(Thread, Vec<Message>)> {
        (0..self.threads.len())
            .map(|t| (t, self.world.fork_gets(turn, t, self.now)))
            .filter(|(_, messages)| !messages.is_empty())
            .collect()
    }

    fn fork_boundary_step(&mut self) -> &'static str {
        let Some(turn) = self.a_fork() else { return "nothing" };
        self.say(format!("boundary of turn {turn}"));
        self.fork_boundary(turn);
        "fork boundary"
    }

    fn fork_writes(&mut self) -> &'static str {
        let (Some(turn), thread) = (self.a_fork(), self.dice.roll(self.threads.len())) else { return "nothing" };
        let agent = self.agent(turn);
        let inside: Vec<Message> = (0..self.messages.len()).filter(|m| self.world.thread_of(*m) == thread).collect();
        let Some(message) = self.dice.pick(&inside) else { return "nothing" };
        let delivery = self.delivery_of(message);
        let write = match (self.dice.roll(6), &delivery) {
            (0, _) => Write::Unasked(thread),
            (1, _) => Write::Line(thread),
            (2, _) | (_, None) => Write::Start(message),
            _ => Write::Reply(message),
        };
        if self.world.is_open_question(write) {
            return "nothing";
        }
        let said = format!("by turn {turn}, {}", self.history.len());
        let id = &self.messages[message];
        let reference = format!("{}:{id}", delivery.unwrap_or_default());
        let todo = matches!(write, Write::Reply(_)) && self.dice.one_in(4);
        let mut args = match write {
            Write::Unasked(t) => vec!["thread", "reply", &self.threads[t], &said, "--unasked"],
            Write::Line(t) => vec!["thread", "line", &self.threads[t], &said],
            Write::Start(_) => vec!["task", "start", id, &said],
            Write::Reply(_) | Write::Pickup(_) => vec!["thread", "reply", &reference, &said],
        };
        if todo {
            args.extend(["--todo", "more of it"]);
        }
        let words: Vec<String> = args.iter().map(|a| crate::support::desk::quoted(a)).collect();
        let command = format!("leaf {} --json", words.join(" "));
        if self.world.rests(turn) {
            self.agents[agent].begins().silent_or_context();
            self.write(Fact::GoOn { turn });
        }
        let fork = &self.agents[agent];
        let ran = match fork.bash(&command) {
            Verdict::Rewritten(marked) => fork.shell(&marked),
            other => self.fail(&format!("turn {turn}'s call is marked: {other:?}")),
        };
        self.renews(turn);
        let expected = self.world.may(turn, write, self.now);
        self.say(format!("turn {turn} writes {write:?} in thread {thread}: exit {} {}", ran.code, ran.err().trim()));
        self.same("whether it may", &(ran.code == 0), &expected);
        if ran.code == 0 {
            match write {
                Write::Reply(message) => {
                    if todo {
                        let opened = self.desk.events("todo").pop().expect("the to-do");
                        self.todos.push(text(&opened["id"]));
                    }
                    self.write(Fact::Reply { turn, thread, responds: Some(message), todo });
                }
                Write::Unasked(_) => self.write(Fact::Reply { turn, thread, responds: None, todo: false }),
                Write::Line(_) => self.write(Fact::Line { thread }),
                Write::Start(_) | Write::Pickup(_) => {}
            }
        }
        self.fork_boundary(turn);
        "fork writes"
    }

    /// The newest delivery that carries a message, whosever.
    fn delivery_of(&self, message: Message) -> Option<String> {
        let pickups = self.desk.events("pickup");
        let carries = |e: &&Value| e["messages"].as_array().is_some_and(|m| m.contains(&json!(self.messages[message])));
        pickups.iter().rev().find(carries).map(|e| text(&e["delivery"]))
    }

    fn fork_ends(&mut self) -> &'static str {
        let Some(turn) = self.a_fork() else { return "nothing" };
        let resting = self.world.rests(turn);
        let took: Vec<Thread> = (0..self.threads.len()).filter(|t| self.world.takers(*t).contains(&turn)).collect();
        let expected = match took.as_slice() {
            [] => Some(Outcome::Void),
            [one] => Some(self.world.judged(turn, *one, self.now)),
            _ => None,
        };
        let agent = self.agent(turn);
        match &self.follower {
            Some(follower) if !resting => {
                let ended = follower.ended(&self.turns[turn], "done");
                self.say(format!("turn {turn} ends: {ended}"));
                if let Some(expected) = expected {
                    self.same("how the end is judged", &text(&ended["outcome"]), &outcome_name(expected).to_owned());
                }
            }
            _ => {
                task_stop(self.main, &self.agents[agent].agent).silent_or_context();
                self.say(format!("turn {turn} is stopped"));
            }
        }
        self.write(Fact::End { turn });
        self.log = self.desk.log().len();
        "fork ends"
    }

    fn fork_rests(&mut self) -> &'static str {
        let Some(turn) = self.a_fork() else { return "nothing" };
        if self.world.state(turn, self.now) != State::Running {
            return "nothing";
        }
        let agent = self.agent(turn);
        self.log = self.desk.log().len();
        self.agents[agent].boundary_backgrounding("bnma97emx").silent_or_context();
        self.renews(turn);
        let expected = self.fork_gets(turn);
        self.handed(turn, &expected);
        self.agents[agent].stops_with("waiting", &[shell_task("bnma97emx")]).silent_or_context();
        self.say(format!("turn {turn} rests"));
        self.write(Fact::Rest { turn });
        "fork rests"
    }

    fn main_gets(&self) -> Vec<(Thread, Vec<Message>)> {
        (0..self.threads.len())
            .map(|t| (t, self.world.main_gets(t, self.now)))
            .filter(|(_, messages)| !messages.is_empty())
            .collect()
    }

    fn main_boundary(&mut self) -> &'static str {
        self.say("main's boundary");
        self.log = self.desk.log().len();
        let expected = self.main_gets();
        self.main.boundary().silent_or_context();
        self.handed(self.mains_turn, &expected);
        "main boundary"
    }

    fn main_prompts(&mut self) -> &'static str {
        self.say("a prompt");
        self.log = self.desk.log().len();
        self.write(Fact::End { turn: self.mains_turn });
        self.mains_turn = self.opens(By::Main, true, String::new());
        let expected = self.main_gets();
        self.main.prompt("and now this").silent_or_context();
        self.handed(self.mains_turn, &expected);
        "main prompts"
    }

    fn main_answers(&mut self) -> &'static str {
        let Some(mut message) = self.waiting() else { return "nothing" };
        let thread = self.world.thread_of(message);
        if self.messages[message] == self.threads[thread] {
            // R63: a thread's id is its first message's, and stands for the newest that main has, else the
            // newest that waits.
            let waiting = self.world.waiting(thread);
            let seen = waiting.iter().rev().find(|m| self.world.main_has(**m));
            if let Some(meant) = seen.or(waiting.last()) {
                message = *meant;
            }
        }
        let id = if self.world.waiting(thread).contains(&message) && self.dice.one_in(2) {
            self.threads[thread].clone()
        } else {
            self.messages[message].clone()
        };
        let said = format!("main's, {}", self.history.len());
        let event = self.main.reply(&id, &said);
        let responds = self.messages.iter().position(|m| json!(m) == event["responds"]).expect("what it answers");
        if id != self.threads[thread] {
            self.same("what main answers", &responds, &message);
        }
        self.say(format!("main answers message {responds} by {id}"));
        let turn = text(&event["turn"]);
        if self.turns[self.mains_turn].is_empty() {
            self.turns[self.mains_turn] = turn;
        }
        self.write(Fact::Reply { turn: self.mains_turn, thread, responds: Some(responds), todo: false });
        "main answers"
    }

    fn nobody_started_it(&mut self) -> &'static str {
        if self.agents.is_empty() || self.forks().len() > 1 {
            return "nothing";
        }
        let agent = self.dice.roll(self.agents.len());
        if self.forks().iter().any(|t| self.world.by(*t) == By::Fork(agent)) {
            return "nothing";
        }
        self.agents[agent].begins().silent_or_context();
        let newest = text(&self.desk.state()["turns"][0]["turn"]);
        if self.turns.contains(&newest) {
            self.fail("a run that leaf did not start opens a turn (R45)");
        }
        self.say(format!("agent {agent} runs on, turn {}", self.turns.len()));
        self.opens(By::Fork(agent), false, newest);
        "nobody started it"
    }

    fn todo_ends(&mut self) -> &'static str {
        let open: Vec<usize> = (0..self.todos.len()).filter(|t| self.world.todo_is_open(*t)).collect();
        let Some(todo) = self.dice.pick(&open) else { return "nothing" };
        self.main.run(&["task", "end", &self.todos[todo], "dropped"]).ok();
        self.say(format!("to-do {todo} is dropped"));
        self.write(Fact::TodoEnd { todo });
        "to-do ends"
    }
}

fn holder_of(holder: &Value) -> String {
    match holder["kind"].as_str() {
        Some("fork") => format!("fork {}", text(&holder["turn"])),
        Some(kind) => kind.to_owned(),
        None => "nobody".into(),
    }
}

fn state_name(state: State) -> &'static str {
    match state {
        State::Running => "running",
        State::Resting => "resting",
        State::Lapsed => "lapsed",
        State::Ended => "ended",
    }
}

fn outcome_name(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::HandBack => "hand_back",
        Outcome::TakenOver => "taken_over",
        Outcome::Todo => "todo",
        Outcome::Answer => "answer",
        Outcome::Void => "void",
    }
}
