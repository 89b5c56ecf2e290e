//! `leaf eval decision`.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::Args;

use super::{AskArgs, Question, answers, ended, read, read_answers, share};
use crate::cli::{Run, output};
use crate::eval::decision::{LENGTHS, Report, Wrong, score};
use crate::eval::set::{self, ANSWERS, Answers, LABELS, MESSAGES, Set, wording};
use crate::eval::{SORTS, word};
use crate::refused::Refused;
use crate::rules::prompts::QUESTION;
use crate::text::{count, first_words, one_line};

/// Where the set is looked for.
pub const SET: &str = "examples/sorting";

/// `leaf eval decision`
#[derive(Debug, Args)]
pub struct DecisionArgs {
    /// The labelled set (its answers.jsonl, where it has one, is read unless --answers or --claude says otherwise)
    #[arg(long, value_name = "DIR", default_value = SET)]
    set: PathBuf,
    #[command(flatten)]
    ask: AskArgs,
}

/// Runs `leaf eval decision`.
///
/// # Errors
/// Where the set or the answers can't be read, or asking stopped early.
pub fn run(run: &Run, args: &DecisionArgs) -> Result<()> {
    let set = read_set(&args.set)?;
    let questions = || -> Result<Vec<Question>> {
        let asked = |message: &set::Message| -> Result<Question> {
            Ok(Question { id: message.id.clone(), text: set::question(message, run.desk.now())? })
        };
        set.messages.iter().map(asked).collect()
    };
    let known = |id: &str| set.messages.iter().any(|message| message.id == id);
    let own = args.set.join(ANSWERS);
    let (given, stopped) = answers(
        run,
        &args.ask,
        "leaf eval decision --claude",
        QUESTION,
        own.is_file().then_some(own),
        questions,
        known,
    )?;
    let report = score(&set, &given.unwrap_or_default());
    if run.common.json {
        output::print_json(&report)?;
    } else {
        output::print(&told(&report))?;
    }
    ended(stopped)
}

/// Scores a set's recorded answers.
///
/// # Errors
/// Where the set or the answers can't be read.
pub fn recorded(dir: &Path) -> Result<Report> {
    let set = read_set(dir)?;
    let own = dir.join(ANSWERS);
    let file = own.is_file().then_some(own);
    let known = |id: &str| set.messages.iter().any(|message| message.id == id);
    let given = file.map_or(Ok(Answers::default()), |file| read_answers(&file, known))?;
    Ok(score(&set, &given))
}

fn read_set(dir: &Path) -> Result<Set> {
    if !dir.join(MESSAGES).is_file() {
        let sentence =
            format!("there is no labelled set in {}: name the directory of one with --set DIR", dir.display());
        return Err(Refused::input(sentence).into());
    }
    let text = |name: &str| read(&dir.join(name));
    Ok(Set::read(&text(MESSAGES)?, [&text(LABELS[0])?, &text(LABELS[1])?])?)
}

/// Returns the report for a person.
pub fn told(report: &Report) -> String {
    let mut out = format!("Decision: {}\n", count(report.messages, "message"));
    labels(&mut out, report);
    answered(&mut out, report);
    if report.answers.missing == report.messages {
        out.push_str("  there are no answers: --answers FILE, or --claude to ask your client's model\n");
    } else {
        matrix(&mut out, report);
        costs(&mut out, report);
        groups(&mut out, report);
    }
    disputed(&mut out, report);
    out
}

fn labels(out: &mut String, report: &Report) {
    let labels = &report.labels;
    let kappa = labels.kappa.map_or("-".to_owned(), |kappa| format!("{kappa:.2}"));
    let _ = writeln!(
        out,
        "labels: {} of {} agree ({}), Cohen's kappa {kappa}; {} disputed",
        labels.agree,
        labels.both,
        share(labels.percent),
        labels.disagreements.len()
    );
    if !labels.complete {
        let _ = writeln!(out, "  not labelled twice, and left out: {}", names(&labels.missing));
    }
}

fn names(ids: &[String]) -> String {
    one_line(&ids.join(", "))
}

fn answered(out: &mut String, report: &Report) {
    let given = &report.answers;
    let header = &given.header;
    let from = [&header.model, &header.client, &header.recorded, &header.how];
    let from: Vec<String> = from.into_iter().flatten().map(|part| first_words(part, 120)).collect();
    let from = if from.is_empty() { String::new() } else { format!(" ({})", from.join("; ")) };
    let _ = writeln!(
        out,
        "answers{from}: {} sorted, {} broke R21, {} failed, {} missing",
        given.sorted,
        given.broken,
        count(given.failed, "call"),
        given.missing
    );
    if header.question.as_ref().is_some_and(|question| *question != wording(QUESTION)) {
        out.push_str("  the question has another wording by now: record them anew with --claude --save FILE\n");
    }
    for (fault, ids) in &given.faults {
        let _ = writeln!(out, "  broke R21, {}: {} ({})", fault.words(), ids.len(), names(ids));
    }
    if given.untitled > 0 {
        let _ = writeln!(out, "  significant without a title of its own: {}", given.untitled);
    }
}

fn matrix(out: &mut String, report: &Report) {
    let columns: Vec<&str> = SORTS.into_iter().map(word).chain(["failed"]).collect();
    let _ = writeln!(out, "\nlabel down, sort across, where both labels agree (a failed line or call goes to main):");
    let _ = writeln!(out, "  {:<12}{}", "", columns.iter().map(|name| format!("{name:>13}")).collect::<String>());
    for label in SORTS.into_iter().map(word) {
        let at = |column: &&str| report.confusion.get(label).and_then(|row| row.get(column)).copied().unwrap_or(0);
        let row: String = columns.iter().map(|column| format!("{:>13}", at(column))).collect();
        let _ = writeln!(out, "  {label:<12}{row}");
    }
    let _ = writeln!(out, "right: {} of {} ({})", report.right, report.judged, share(report.percent));
    let _ = writeln!(
        out,
        "disputed: {} of {} sorted as one of the two labels",
        report.disputed.hit, report.disputed.judged
    );
}

fn costs(out: &mut String, report: &Report) {
    let _ = writeln!(out, "\nWhat a wrong sort costs, each apart: they can't be weighed against each other here.");
    for (name, costs, wrong) in [
        ("wrong takes", "labelled not small, sorted small: a fork works on what is main's", &report.wrong_takes),
        ("wrong hand-overs", "labelled small, sorted otherwise: the user waits for main", &report.wrong_hand_overs),
        ("wrong interruptions", "labelled significant, sorted now: main is interrupted", &report.wrong_interruptions),
        ("wrong delays", "labelled now, sorted otherwise: main hears late or not at all", &report.wrong_delays),
    ] {
        cost(out, name, costs, wrong);
    }
    let _ = writeln!(out, "failed lines and calls: {}", report.failed.len());
    for failed in &report.failed {
        let label = failed.label.map_or("disputed", word);
        let _ = writeln!(out, "  {} ({label}): {}", one_line(&failed.id), one_line(&failed.why));
    }
}

fn cost(out: &mut String, name: &str, costs: &str, wrong: &Wrong) {
    let _ = writeln!(out, "{name}: {} of {} ({})  {costs}", wrong.count, wrong.of, share(wrong.percent));
    for case in &wrong.cases {
        let (label, sort) = (word(case.label), word(case.sort));
        let _ = writeln!(out, "  {} {label}, sorted {sort}: {}", one_line(&case.id), case.text);
    }
}

fn groups(out: &mut String, report: &Report) {
    for (name, groups) in [("language", &report.languages), ("kind", &report.kinds), ("length", &report.lengths)] {
        let _ = writeln!(
            out,
            "\n{:<16}{:>6}{:>9}{:>14}{:>19}{:>9}",
            format!("by {name}"),
            "of",
            "right",
            "wrong takes",
            "wrong hand-overs",
            "failed"
        );
        // Lengths stand in their own order; every other name in the alphabet's.
        let place = |name: &str| LENGTHS.iter().position(|length| *length == name);
        let mut rows: Vec<_> = groups.iter().collect();
        rows.sort_by_key(|(name, _)| place(name));
        for (name, group) in rows {
            let _ = writeln!(
                out,
                "  {:<14}{:>6}{:>9}{:>14}{:>19}{:>9}",
                one_line(name),
                group.judged,
                group.right,
                group.wrong_takes,
                group.wrong_hand_overs,
                group.failed
            );
        }
    }
}

fn disputed(out: &mut String, report: &Report) {
    if report.labels.disagreements.is_empty() {
        return;
    }
    let _ = writeln!(out, "\nDisputed labels:");
    for disputed in &report.labels.disagreements {
        let said = disputed.said.map_or("not sorted", word);
        let _ = writeln!(out, "  {} {}", one_line(&disputed.id), disputed.text);
        let _ = writeln!(
            out,
            "      a {}: {}; b {}: {}; the answer: {said}",
            word(disputed.a.sort),
            first_words(&disputed.a.why, 120),
            word(disputed.b.sort),
            first_words(&disputed.b.why, 120)
        );
    }
}
