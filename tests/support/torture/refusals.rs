//! Every system call of every verb is refused once with every error, and every verb is killed at every call.

use std::collections::BTreeMap;
use std::fs;
use std::process::Command;
use std::sync::{Arc, OnceLock};

use serde_json::{Value, json};

use super::client::{Fate, Job, Ran};
use super::judge::{self, read_log};
use super::set::Set;
use super::world::{World, add, unpromised};
use crate::leftovers::strays;

/// What is done to a call.
pub const MEDDLINGS: [&str; 7] =
    ["signal=KILL", "error=EIO", "error=ENOSPC", "error=EINTR", "error=EAGAIN", "error=ENOMEM", "error=EMFILE"];

/// How many verbs there are.
pub const VERBS: usize = 46;

/// The calls of the C library's and Rust's own start and memory, before and below anything that `leaf` could decide: where
/// one of these is refused the process may abort in any of their words, and has then changed nothing by halves. They are
/// refused only for want of memory or of anything else for the moment: the system knows no other reason.
const RUNTIME: [&str; 22] = [
    "poll",
    "ppoll",
    "rt_sigaction",
    "rt_sigprocmask",
    "sigaltstack",
    "mmap",
    "munmap",
    "mprotect",
    "mremap",
    "madvise",
    "brk",
    "arch_prctl",
    "set_tid_address",
    "set_robust_list",
    "rseq",
    "prlimit64",
    "prctl",
    "sched_getaffinity",
    "clone",
    "clone3",
    "futex",
    "wait4",
];

/// What can't be refused in any useful way, or never is.
const NEVER: [&str; 12] = [
    "execve",
    "execveat",
    "exit",
    "exit_group",
    "rt_sigreturn",
    "restart_syscall",
    "getpid",
    "getppid",
    "gettid",
    "getuid",
    "geteuid",
    "umask",
];

/// A command or a hook of the contract.
pub struct Verb {
    pub name: &'static str,
    pub person: bool,
    pub job: Job,
    /// What it writes, and how often that may stand there in the end.
    text: Option<&'static str>,
    /// A repeat is the same event (R10).
    repeats: bool,
}

/// Whether strace works on this machine.
pub fn can_trace() -> bool {
    static CAN: OnceLock<bool> = OnceLock::new();
    *CAN.get_or_init(|| {
        let tried = Command::new("strace").args(["-f", "-qq", "-o", "/dev/null", "true"]).output();
        tried.is_ok_and(|o| o.status.success())
    })
}

/// Every verb, to be played on a set.
pub fn verbs(set: &Set) -> Vec<Verb> {
    let mut verbs = Vec::new();
    let session = &set.session;
    let mut add = |name, person, args: &[&str], input: String, text| {
        let token = args.first().is_some_and(|a| matches!(*a, "fork" | "turn")).then_some(set.token.as_str());
        let base = if person { set.world.job(args, Fate::Lives) } else { session.job(args, token, Fate::Lives) };
        let repeats = args.contains(&"reply") && !args.contains(&"--unasked");
        verbs.push(Verb { name, person, job: Job { input, ..base }, text, repeats });
    };
    let none = String::new;
    let at = ["--session", &session.id];
    add("thread new", true, &["thread", "new", "[new]", "--json", at[0], at[1]], none(), Some("[new]"));
    add("thread say", true, &["thread", "say", &set.answered, "[said]", "--json"], none(), Some("[said]"));
    add("thread withdraw", true, &["thread", "withdraw", &set.fresh, "--json"], none(), None);
    add("thread resolve", true, &["thread", "resolve", &set.answered, "--json"], none(), None);
    add("thread reopen", true, &["thread", "reopen", &set.settled, "--json"], none(), None);
    add("task open", true, &["task", "open", &set.fresh, "[open]", "--json"], none(), None);
    add("task end", true, &["task", "end", &set.todo, "dropped", "--json"], none(), None);
    add("page new", true, &["page", "new", "Further", "--json", at[0], at[1]], none(), None);
    add("page claim", false, &["page", "claim", &set.other_page, "--json"], none(), None);
    add("fork stop", true, &["fork", "stop", &set.agent, "--json", at[0], at[1]], none(), None);
    add("prune", true, &["prune", "--json"], none(), None);
    add("page state", true, &["page", "state", "--page", &set.page, "--json"], none(), None);
    add("page log", true, &["page", "log", "--page", &set.page, "--json"], none(), None);
    add("thread show", true, &["thread", "show", &set.answered], none(), None);
    add("why", true, &["why", &set.forked, "--json"], none(), None);
    add("status", true, &["status", "--json"], none(), None);
    add("doctor", true, &["doctor", "--json"], none(), None);
    add(
        "main's reply",
        false,
        &["thread", "reply", &set.main_ref, "[mine]", "--todo", "[t]", "--json"],
        none(),
        Some("[mine]"),
    );
    add(
        "main's unasked",
        false,
        &["thread", "reply", &set.answered, "[unasked]", "--unasked", "--json"],
        none(),
        Some("[unasked]"),
    );
    add("main's line", false, &["thread", "line", &set.fresh, "half way", "--json"], none(), None);
    add("main's start", false, &["task", "start", &set.todo, "at it", "--json"], none(), None);
    add("delivery ack", false, &["delivery", "ack", &set.pointer, "--json"], none(), None);
    add("delivery read", false, &["delivery", "read", &set.pointer, "--json"], none(), None);
    let marked = ["--agent-id", &set.agent];
    let reply = [marked[0], marked[1], "thread", "reply", &set.fork_ref, "[the fork's]", "--json"];
    add("a fork's reply", false, &reply, none(), Some("[the fork's]"));
    add("a fork's line", false, &[marked[0], marked[1], "thread", "line", &set.forked, "on", "--json"], none(), None);
    let line = json!({"line": "On it.", "sort": "small"}).to_string();
    add("fork line", false, &["fork", "line", &set.kept, "--json"], line, None);
    let line = json!({"line": "Later.", "sort": "significant", "title": "later"}).to_string();
    add("fork line, a to-do", false, &["fork", "line", &set.kept, "--json"], line, None);
    add("fork started", false, &["fork", "started", &set.young_turn, "a2d3fa93000000002", "--json"], none(), None);
    add("fork ended", false, &["fork", "ended", "--agent", &set.agent, "--json"], "HAND BACK: no".into(), None);
    add("turn ended", false, &["turn", "ended", "--json"], none(), None);
    let mut hook = |name, payload: Value| add(name, false, &["hook"], payload.to_string(), None);
    for (name, payload) in [
        ("hook SessionStart", "SessionStart.main.startup"),
        ("hook SessionStart compact", "SessionStart.main.compact"),
        ("hook UserPromptSubmit", "UserPromptSubmit.main"),
        ("hook PreToolUse", "PreToolUse.main.Bash"),
        ("hook PostToolBatch", "PostToolBatch.main"),
        ("hook Stop", "Stop.main.tui"),
        ("hook StopFailure", "StopFailure.main.tui"),
        ("hook SessionEnd", "SessionEnd.main.other"),
    ] {
        let mut payload = session.payload(payload);
        if name == "hook UserPromptSubmit" {
            payload["prompt_id"] = json!("c930326e-fe75-4057-a1fd-aaaaaaaaaaaa");
        }
        hook(name, payload);
    }
    let mut call = set.of_the_fork("PreToolUse.fork.Bash");
    call["tool_input"]["command"] = json!("leaf thread list");
    hook(MARKS, call);
    for (name, payload) in [
        ("hook a fork's PreToolUse Edit", "PreToolUse.main.Edit"),
        ("hook a fork's PostToolBatch", "PostToolBatch.fork"),
        ("hook SubagentStart", "SubagentStart.fork"),
        ("hook SubagentStop", "SubagentStop.fork"),
        ("hook a fork's StopFailure", "StopFailure.fork.forkerr"),
    ] {
        hook(name, set.of_the_fork(payload));
    }
    hook("hook PostToolUse Agent", set.launch());
    let mut stopped = session.payload("PostToolUse.main.TaskStop");
    stopped["tool_input"]["task_id"] = json!(set.agent);
    stopped["tool_response"]["task_id"] = json!(set.agent);
    hook("hook PostToolUse TaskStop", stopped);
    verbs
}

/// The hook that must never let a known agent's call go unmarked (R73).
const MARKS: &str = "hook a fork's PreToolUse";

/// Plays one verb with one kind of meddling at every one of its calls. Tells at how many.
pub fn at_every_call(world: &Arc<World>, which: usize, every: usize) -> Option<String> {
    let Some(set) = Set::make(world, false) else {
        world.broken("the set could not be made".into());
        return None;
    };
    let mut verbs = verbs(&set);
    let (at, how) = (which % VERBS, MEDDLINGS[which / VERBS % MEDDLINGS.len()]);
    assert_eq!(verbs.len(), VERBS, "as many verbs as are counted");
    let verb = verbs.swap_remove(at);
    let (mut seen, mut made) = (0, 0);
    for (call, times) in calls(&set, &verb) {
        for n in 1..=times {
            let unheard_of =
                RUNTIME.contains(&call.as_str()) && !["signal=KILL", "error=ENOMEM", "error=EAGAIN"].contains(&how);
            seen += 1;
            if unheard_of || seen % every != 0 {
                continue;
            }
            let here = format!("{} {how} at {call} {n}", verb.name);
            meddled(&set, &verb, how, &call, n, &here);
            made += 1;
            if world.is_hopeless() {
                return None;
            }
        }
    }
    set.session.client.kill();
    set.other.client.kill();
    Some(format!("{} {how}: {made} calls", verb.name))
}

fn traced(set: &Set, verb: &Verb, more: &[&str]) -> (Ran, String) {
    let trace = set.world.dir.join("out/trace");
    let _ = fs::remove_file(&trace);
    let strace = ["strace", "-f", "-qq", "-o", &trace.to_string_lossy()];
    let prefix = strace.iter().chain(more).map(|w| (*w).to_owned()).collect();
    let job = Job { prefix, ..verb.job.clone() };
    let ran = set.world.unheard((!verb.person).then_some(&set.session), &job);
    (ran, String::from_utf8_lossy(&fs::read(trace).unwrap_or_default()).into_owned())
}

/// How often a verb makes each call.
fn calls(set: &Set, verb: &Verb) -> BTreeMap<String, usize> {
    let lane = set.put_back();
    let (ran, trace) = traced(set, verb, &[]);
    drop(lane);
    if let Some(why) = unpromised(&verb.job, &ran)
        .or((ran.code != 0 && verb.name != "doctor").then(|| "it succeeds when left alone".into()))
    {
        set.world.broken(format!("{}: {why}: {ran:?}", verb.name));
    }
    let mut calls = BTreeMap::new();
    for line in trace.lines() {
        let Some((head, _)) = line.split_once('(') else { continue };
        let Some(name) = head.split_whitespace().last() else { continue };
        if name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_') && !NEVER.contains(&name) {
            *calls.entry(name.to_owned()).or_default() += 1;
        }
    }
    calls
}

fn meddled(set: &Set, verb: &Verb, how: &str, call: &str, n: usize, here: &str) {
    let world = &set.world;
    let lane = set.put_back();
    let inject = format!("inject={call}:{how}:when={n}");
    let (ran, trace) = traced(set, verb, &["--seccomp-bpf", "-e", &format!("trace={call}"), "-e", &inject]);
    add(&world.counts.injections);
    world.tell(format!("{here}: {ran:?}"));
    let broken = |what: &str| world.broken(format!("{here}: {what}: {ran:?}"));
    let kills = how == "signal=KILL";
    if ran.killed() {
        add(&world.counts.kills);
    }
    let may_abort = RUNTIME.contains(&call) && matches!(ran.code, 127 | 134 | 139);
    // Rust's own listing of a directory takes it for impossible that closing one fails.
    let may_abort = may_abort || call == "close" && ran.err.contains("unexpected error during closedir");
    let refused_call = trace.lines().find(|l| l.contains("(INJECTED)")).unwrap_or_default().to_owned();
    // What could not be printed can't be told on the same way; the event stands all the same.
    let unprinted = ["write(1,", "write(2,", "writev(1,", "writev(2,"].iter().any(|w| refused_call.contains(w));
    let excused = ran.killed() && kills || may_abort || unprinted;
    if !excused && let Some(why) = unpromised(&verb.job, &ran) {
        broken(&why);
    }
    if verb.name == MARKS
        && ran.out.is_empty()
        && !kills
        && !may_abort
        && !unprinted
        && !refused_call.contains("read(0,")
    {
        broken("identity fails closed (R73)");
    }
    let events = read_log(&world.state().join("pages").join(&set.page).join("log.jsonl")).0;
    if !events.starts_with(&set.events()) {
        broken("what stood there stands");
    }
    // A page that couldn't be read for a moment may have sent a new thread to another of the session's (R110).
    let there = || {
        let all = judge::logs(world);
        all.values().flatten().filter(|e| verb.text.is_some_and(|t| e["text"] == *t)).count()
    };
    if verb.text.is_some() && ran.code == 0 && there() != 1 {
        broken("acknowledged, and there once");
    }
    if verb.text.is_some() && ran.code == 1 && there() != 0 && !unprinted {
        broken("refused, and not there");
    }
    // The same again, with nobody meddling.
    let again = world.unheard((!verb.person).then_some(&set.session), &verb.job);
    if let Some(why) = unpromised(&verb.job, &again) {
        world.broken(format!("{here}: again: {why}: {again:?}"));
    }
    if verb.repeats && (again.code != 0 || there() != 1) {
        world.broken(format!("{here}: the same answer again is one answer (R10): {again:?}"));
    }
    let most = 1 + usize::from(!verb.repeats);
    if there() > most || verb.text.is_some() && again.code == 0 && there() == 0 {
        world.broken(format!("{here}: it is there as often as it was acknowledged: {again:?}"));
    }
    drop(lane);
    let locked = crate::leftovers::still_locked(&world.state());
    if !locked.is_empty() {
        world.broken(format!("{here}: still locked: {locked:?}"));
    }
    let strays = strays(&world.state());
    if !strays.is_empty() {
        world.broken(format!("{here}: stray files after the next run: {strays:?}"));
    }
    judge::refold(world, std::slice::from_ref(&set.page), here);
}
