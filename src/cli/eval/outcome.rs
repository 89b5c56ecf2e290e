//! `leaf eval outcome`.

use std::fmt::Write;

use anyhow::Result;

use super::share;
use crate::cli::Run;
use crate::cli::output::{self, cost_words};
use crate::eval::outcome::{Fate, PageStory, Report, Scope, SessionStory, count_up};
use crate::eval::{Counts, SORTS, Times, percent, word};
use crate::ids::PageId;
use crate::page::{LOG, Page};
use crate::place::Dir;
use crate::refused::Refused;
use crate::session::Session;
use crate::session::journal;
use crate::session::record::SessionRecord;
use crate::text;

/// How many of a kind are listed for a person; `--json` has all.
const LISTED: usize = 20;

/// What a state directory holds.
pub struct Stories {
    /// The sessions.
    pub sessions: Vec<SessionStory>,
    /// Their records.
    pub records: Vec<SessionRecord>,
    /// The pages.
    pub pages: Vec<PageStory>,
    /// What of it is counted.
    pub scope: Scope,
    /// What could not be read, each with the reason: it hides no other.
    unread: Vec<String>,
}

/// Reads the state directory, without a lock and without a cache: it writes nothing (R12).
///
/// # Errors
/// Where a record can't be read, or the session that is named is unknown.
pub fn stories(run: &Run) -> Result<Stories> {
    let (mut sessions, mut records, mut pages, mut unread) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    if let Some(home) = run.desk.home()? {
        for session in Session::all(&home)? {
            let (entries, damaged) = match journal::all(&session.dir) {
                Ok(read) => read,
                Err(error) => {
                    unread.push(format!("session {}: {error}", session.record.id));
                    continue;
                }
            };
            let cut = entries.first().is_some_and(|entry| entry.piece.is_some());
            sessions.push(SessionStory { id: session.record.id.clone(), entries, damaged, cut });
            records.push(session.record);
        }
        for id in Page::all(&home)? {
            match page(&home, &id) {
                Ok(page) => pages.extend(page),
                Err(error) => unread.push(format!("page {id}: {error:#}")),
            }
        }
    }
    let named = run.common.session.as_slice();
    if let Some(unknown) = named.iter().find(|id| !sessions.iter().any(|session| session.id == **id)) {
        return Err(
            Refused::input(format!("leaf knows no session {unknown}: `leaf status` lists those it knows")).into()
        );
    }
    let scope = Scope::of(named, &sessions);
    Ok(Stories { sessions, records, pages, scope, unread })
}

fn page(home: &Dir, id: &PageId) -> Result<Option<PageStory>> {
    let Some(page) = Page::open(home, id)? else { return Ok(None) };
    let bytes = page.dir.read(LOG)?.unwrap_or_default();
    Ok(Some(PageStory::read(id.clone(), page.record.key, &bytes)))
}

/// Counts what became of everything in scope.
pub fn count(stories: &Stories) -> Report {
    Report { unread: stories.unread.clone(), ..count_up(&stories.sessions, &stories.pages, &stories.scope) }
}

/// Runs `leaf eval outcome`.
///
/// # Errors
/// Where the state directory can't be read.
pub fn run(run: &Run) -> Result<()> {
    let report = count(&stories(run)?);
    if run.common.json {
        return output::print_json(&report);
    }
    output::print(&told(&report))
}

/// Returns the report for a person.
pub fn told(report: &Report) -> String {
    let mut out = format!("Outcome: {}\n", text::count(report.sessions, "session"));
    if report.cut > 0 {
        let _ = writeln!(
            out,
            "  of {} the oldest entries are gone: counts of turns and lines are of what is left",
            report.cut
        );
    }
    if report.damaged > 0 {
        let _ = writeln!(out, "  {} could not be read: leaf doctor", text::count(report.damaged as usize, "line"));
    }
    for unread in &report.unread {
        let _ = writeln!(out, "  not counted: {}", text::one_line(unread));
    }
    turns(&mut out, report);
    answers(&mut out, report);
    todos(&mut out, report);
    lines(&mut out, report);
    waits(&mut out, report);
    out
}

fn turns(out: &mut String, report: &Report) {
    let turns = &report.turns;
    let open = if turns.open > 0 { format!(", {} not ended", turns.open) } else { String::new() };
    let _ = writeln!(
        out,
        "working forks: {} ended{open}{}",
        text::count(turns.ended, "turn"),
        costing(cost_words(turns.cost))
    );
    listed(out, "outcomes", &turns.outcomes);
    listed(out, "ways", &turns.ways);
    if turns.over_by_main > 0 {
        let _ = writeln!(out, "  answered over by main: {}", turns.over_by_main);
    }
    for back in turns.hand_backs.iter().take(LISTED) {
        let thread = back.thread.map_or(String::new(), |thread| format!(" of thread {thread}"));
        let _ = writeln!(out, "  handed back: turn {}{thread}: {}", back.turn, back.why);
    }
    more(out, turns.hand_backs.len());
}

fn more(out: &mut String, number: usize) {
    if number > LISTED {
        let _ = writeln!(out, "  and {} more: --json", number - LISTED);
    }
}

fn costing(cost: String) -> String {
    if cost.is_empty() { cost } else { format!("; cost, where the client told: {cost}") }
}

fn listed(out: &mut String, name: &str, counts: &Counts) {
    if !counts.is_empty() {
        let counts: Vec<String> = counts.iter().map(|(name, number)| format!("{name} {number}")).collect();
        let _ = writeln!(out, "  {name}: {}", counts.join(", "));
    }
}

fn answers(out: &mut String, report: &Report) {
    let answers = &report.answers;
    let _ = writeln!(out, "forks' answers: {}", answers.count);
    for fate in Fate::ALL {
        let number = answers.fates.get(fate.word()).copied().unwrap_or(0);
        if number > 0 {
            let _ = writeln!(out, "  {}: {number} ({})", meaning(fate), share(percent(number, answers.count)));
        }
    }
    for case in answers.cases.iter().take(LISTED) {
        let _ = writeln!(
            out,
            "  page {}, thread {}, answer {}: {}; to: {}",
            case.page,
            case.thread,
            case.answer,
            meaning(case.fate),
            case.text
        );
    }
    more(out, answers.cases.len());
}

fn meaning(fate: Fate) -> &'static str {
    match fate {
        Fate::Stood => "stood",
        Fate::CarriedOn => "came with a to-do, which main carried on",
        Fate::AskedAgain => "the user wrote again within 10 minutes, or reopened the thread",
        Fate::Corrected => "main wrote beside it before the user's next message",
    }
}

fn todos(out: &mut String, report: &Report) {
    let todos = &report.todos;
    let _ = writeln!(out, "to-dos: {}", todos.opened.values().sum::<usize>());
    listed(out, "opened by", &todos.opened);
    listed(out, "state", &todos.states);
    times(out, "ended after", todos.open_for);
    times(out, "the sort's, answered after", todos.answered_after);
}

fn times(out: &mut String, name: &str, times: Times) {
    if times.count > 0 {
        let _ = writeln!(out, "  {name}: {}", spread(times));
    }
}

fn spread(times: Times) -> String {
    match (times.median, times.p90) {
        (Some(median), Some(p90)) => {
            format!("median {}, nine of ten within {} ({})", duration(median), duration(p90), times.count)
        }
        (_, _) => "-".to_owned(),
    }
}

fn duration(ms: i64) -> String {
    match ms {
        ..10_000 => format!("{}.{} s", ms / 1000, ms.rem_euclid(1000) / 100),
        10_000..120_000 => format!("{} s", ms / 1000),
        120_000..7_200_000 => format!("{} min", ms / 60_000),
        _ => format!("{} h", ms / 3_600_000),
    }
}

fn lines(out: &mut String, report: &Report) {
    let lines = &report.lines;
    let _ = writeln!(
        out,
        "line forks: {} posted, {} failed{}",
        text::count(lines.posted, "line"),
        lines.failed,
        costing(cost_words(lines.cost))
    );
    listed(out, "sorted", &lines.sorts);
    for (why, number) in &report.handed {
        let _ = writeln!(out, "  handed to main, {why}: {number}");
    }
}

fn waits(out: &mut String, report: &Report) {
    let names = SORTS.into_iter().map(word).chain(["none"]);
    for (name, wait) in names.filter_map(|name| report.waits.get(name).map(|wait| (name, wait))) {
        let name = if name == "none" { "not sorted" } else { name };
        let _ = writeln!(
            out,
            "{name}: {}, {} answered by a fork, {} by main",
            text::count(wait.messages, "message"),
            wait.by_fork,
            wait.by_main
        );
        times(out, "to the line", wait.line);
        times(out, "to the answer", wait.answer);
    }
}
