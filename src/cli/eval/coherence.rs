//! `leaf eval coherence`.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

use anyhow::Result;
use clap::Args;

use super::outcome::{Stories, stories};
use super::{AskArgs, Question, answers, ended};
use crate::cli::{Run, output};
use crate::client::claude_code::transcript;
use crate::eval::coherence::{JUDGE, Pair, Report, Statement, Verdict, count_up, pairs, question};
use crate::text::{count, first_words, one_line};

/// `leaf eval coherence`
#[derive(Debug, Args)]
pub struct CoherenceArgs {
    /// List the pairs
    #[arg(long)]
    pairs: bool,
    #[command(flatten)]
    ask: AskArgs,
}

/// Runs `leaf eval coherence`.
///
/// # Errors
/// Where the state directory or recorded judgments can't be read, or asking stopped early.
pub fn run(run: &Run, args: &CoherenceArgs) -> Result<()> {
    let (pairs, silent) = paired(&stories(run)?);
    let questions = || -> Result<Vec<Question>> {
        let asked = |pair: &Pair| -> Result<Question> { Ok(Question { id: pair.id.clone(), text: question(pair)? }) };
        pairs.iter().map(asked).collect()
    };
    let known = |id: &str| pairs.iter().any(|pair| pair.id == id);
    let (given, stopped) = answers(run, &args.ask, "leaf eval coherence --claude", JUDGE, None, questions, known)?;
    let report = count_up(&pairs, silent, given.as_ref());
    let listed = args.pairs.then_some(pairs.as_slice());
    if run.common.json {
        let mut whole = serde_json::to_value(&report)?;
        if let Some(pairs) = listed {
            whole["listed"] = serde_json::to_value(pairs)?;
        }
        output::print_json(&whole)?;
    } else {
        output::print(&format!("{}{}", told(&report), listed.map(list).unwrap_or_default()))?;
    }
    ended(stopped)
}

fn paired(stories: &Stories) -> (Vec<Pair>, usize) {
    let mut transcripts = BTreeMap::new();
    for record in stories.records.iter().filter(|record| stories.scope.has(&record.id)) {
        let Some(path) = &record.transcript else { continue };
        let said = transcript::said(Path::new(path)).into_iter();
        let said = said.map(|(ts, text)| Statement { ts, thread: None, text });
        transcripts.insert(record.id.clone(), said.collect());
    }
    pairs(&stories.pages, &transcripts, &stories.scope)
}

/// Counts the pairs alone.
pub fn unjudged(stories: &Stories) -> Report {
    let (pairs, silent) = paired(stories);
    count_up(&pairs, silent, None)
}

/// Returns the report for a person.
pub fn told(report: &Report) -> String {
    let mut out = format!(
        "Coherence: {} of forks after which main said something, {} after which it said nothing\n",
        count(report.pairs, "answer"),
        report.silent
    );
    let Some(header) = &report.judged_by else {
        if report.pairs > 0 {
            out.push_str("not judged: --claude asks the client's model, --answers FILE replays its judgments, --pairs lists them\n");
        }
        return out;
    };
    let from = [&header.model, &header.client, &header.recorded];
    let from: Vec<String> = from.into_iter().flatten().map(|part| first_words(part, 120)).collect();
    let verdicts: Vec<String> = Verdict::ALL
        .into_iter()
        .map(|verdict| format!("{} {}", report.verdicts.get(verdict.word()).copied().unwrap_or(0), verdict.word()))
        .collect();
    let _ = writeln!(
        out,
        "judged{}: {}, {} not readable, {} failed, {} missing",
        if from.is_empty() { String::new() } else { format!(" ({})", from.join("; ")) },
        verdicts.join(", "),
        report.broken.len(),
        count(report.failed.len(), "call"),
        report.missing
    );
    for contradiction in &report.contradictions {
        let _ = writeln!(
            out,
            "  {} in thread {}: {}; the answer: {}",
            one_line(&contradiction.id),
            contradiction.thread,
            contradiction.why,
            contradiction.answer
        );
    }
    for id in &report.broken {
        let _ = writeln!(out, "  {}: the judgment is not the one JSON object that was asked for", one_line(id));
    }
    for (id, why) in &report.failed {
        let _ = writeln!(out, "  {}: the call failed: {}", one_line(id), one_line(why));
    }
    out
}

fn list(pairs: &[Pair]) -> String {
    let mut out = String::new();
    for pair in pairs {
        let _ = writeln!(out, "\n{}, thread {}, {}", pair.id, pair.thread, pair.ts.brief());
        let _ = writeln!(out, "  user: {}", first_words(&pair.message, 160));
        let _ = writeln!(out, "  fork: {}", first_words(&pair.answer, 160));
        for statement in &pair.later {
            let place = statement.thread.map_or("itself".to_owned(), |thread| format!("thread {thread}"));
            let _ = writeln!(out, "  main, {place}, {}: {}", statement.ts.brief(), first_words(&statement.text, 160));
        }
    }
    out
}
