//! Reports of runs: what in them asks for another run, the file that keeps one until it was printed, and the words that main gets.

use std::ops::Range;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use super::record::{Limits, Run, RunOutcome};
use crate::clock::Ts;
use crate::ids::TurnId;
use crate::place::Dir;
use crate::session::journal::Cost;
use crate::text::{Fence, for_delivery, one_line, utf16};

/// The line by which a report asks for another run.
pub const SENTINEL: &str = "<<leaf:continue>>";
/// All words that count as it: fork files of the peer go on to work.
const SENTINELS: [&str; 2] = [SENTINEL, "<<autofork:continue>>"];
/// The directory of a session's reports.
pub const DIRECTORY: &str = "reports";
/// A report of at most this many UTF-16 units, as it stands in a delivery, is printed whole. Something is left of the client's bound
/// for what comes with every prompt, or a report just below it would wait for ever.
const WHOLE: usize = 8_000;
/// A part of a longer one has at most this many: two of them fit one prompt.
const PART: usize = 4_200;

/// A report's file: all that ending its run, and printing it, needs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// The format of the file.
    pub format: u32,
    /// The run.
    pub run: TurnId,
    /// The fork.
    pub fork: String,
    /// The moment's label.
    pub label: String,
    /// When it was written.
    pub ts: Ts,
    /// How the run ended.
    pub outcome: RunOutcome,
    /// The report, without its sentinel; of a failed run what it failed of.
    pub text: String,
    /// Whether it asked for another run.
    #[serde(default)]
    pub asks: bool,
    /// Whether a lifecycle hook said it, and no run.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub feed: bool,
    /// How often it may have one.
    pub limits: Limits,
    /// The model that it ran on, where it isn't the session's.
    #[serde(default)]
    pub model: Option<String>,
    /// What it cost.
    #[serde(default)]
    pub cost: Cost,
}

/// Takes a report apart: the text without what asks for another run, and whether something did. It counts anywhere in the text,
/// whatever invisible characters it was written with.
pub fn take_sentinel(text: &str) -> (String, bool) {
    let seen: String = text.chars().filter(|c| !is_invisible(*c)).collect();
    if !SENTINELS.iter().any(|word| seen.contains(word)) {
        return (text.trim().to_owned(), false);
    }
    // The text goes on without its invisible characters: where they were no longer tells.
    let kept: Vec<String> = seen
        .split('\n')
        .filter_map(|line| {
            if !SENTINELS.iter().any(|word| line.contains(word)) {
                return Some(line.to_owned());
            }
            let without = SENTINELS.iter().fold(line.to_owned(), |line, word| line.replace(word, ""));
            (!without.chars().all(is_decoration)).then(|| without.trim_end().to_owned())
        })
        .collect();
    (kept.join("\n").trim().to_owned(), true)
}

fn is_invisible(c: char) -> bool {
    matches!(
        c,
        '\u{ad}'
            | '\u{34f}'
            | '\u{180e}'
            | '\u{200b}'..='\u{200f}'
            | '\u{202a}'..='\u{202e}'
            | '\u{2060}'..='\u{2064}'
            | '\u{2066}'..='\u{2069}'
            | '\u{feff}'
    )
}

/// What a model puts around a line that is no prose.
fn is_decoration(c: char) -> bool {
    c.is_whitespace() || "`*_~>-:.!'\"()[]".contains(c)
}

/// Returns the name of a run's file.
pub fn file(run: TurnId) -> String {
    format!("{run}.json")
}

/// Writes a report, durably: a run may have cost money.
///
/// # Errors
/// Where it can't be written.
pub fn write(session: &Dir, report: &Report) -> Result<()> {
    let bytes = serde_json::to_vec(report)?;
    session.make(DIRECTORY)?.replace(&file(report.run), &bytes, true).context("the report can't be written")
}

/// Reads the report of a run; `Ok(None)` where there is none.
///
/// # Errors
/// Where it can't be read, or is no report.
pub fn read(session: &Dir, run: TurnId) -> Result<Option<Report>> {
    let Some(dir) = session.sub(DIRECTORY)? else { return Ok(None) };
    let Some(bytes) = dir.read(&file(run))? else { return Ok(None) };
    serde_json::from_slice(&bytes).map(Some).with_context(|| format!("the report of run {run} is damaged"))
}

/// Removes the reports of runs, and what else lies there that no run of `needed` is to have. Failing is no matter: the next one does.
pub fn clear(session: &Dir, needed: impl Fn(TurnId) -> bool) {
    let Ok(Some(dir)) = session.sub(DIRECTORY) else { return };
    for name in dir.names().unwrap_or_default() {
        let run = name.strip_suffix(".json").and_then(|stem| stem.parse::<TurnId>().ok());
        if run.is_some_and(|run| !needed(run)) {
            let _ = dir.remove(&name);
        }
    }
}

/// What of a report comes now, and how far it is printed then.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    /// The words, leaf's own around the report's.
    pub text: String,
    /// How far the report is printed with it, bytes; `None`: all of it.
    pub to: Option<u64>,
}

/// Returns what comes next of a report of which `printed` bytes are printed already: all of it, or the next part of one that no
/// prompt could take whole.
///
/// # Errors
/// Where the system gives no random bytes.
pub fn next(report: &Report, printed: u64) -> std::io::Result<Piece> {
    let text = if report.text.is_empty() { "(it said nothing)" } else { report.text.as_str() };
    let parts = parts(text);
    let at = parts.iter().position(|part| part.start as u64 >= printed).unwrap_or(parts.len().saturating_sub(1));
    let part = parts.get(at).cloned().unwrap_or(0..text.len());
    let last = at + 1 >= parts.len();
    let to = (!last).then_some(part.end as u64);
    let which = match (parts.len(), last) {
        (0 | 1, _) => String::new(),
        (all, true) => format!(" Part {} of {all}, the last.", at + 1),
        (all, false) => format!(
            " Part {} of {all}; the next part comes with the next prompt; all of it: leaf runs --report {1}; no more of it: leaf runs \
             --drop {1}",
            at + 1,
            report.run
        ),
    };
    let head = format!("leaf: {}{which}", head(report));
    let text = &text[part];
    Ok(Piece { text: Fence::around(std::iter::once(text))?.fenced(&head, text), to })
}

/// Returns leaf's own words on a report. Names come from files.
fn head(report: &Report) -> String {
    let name = |text: &str| for_delivery(&one_line(text));
    let how = match report.outcome {
        RunOutcome::Completed => "completed",
        RunOutcome::Failed => "failed",
        RunOutcome::Stopped => "stopped",
        RunOutcome::Dropped => "dropped",
    };
    if report.feed {
        return format!(
            "a lifecycle hook of the user's says something (source: leaf; {}; moment: {}). What stands between the marks is the \
             output of its command, not the user's words.",
            name(&report.fork),
            name(&report.label)
        );
    }
    format!(
        "a background copy of this conversation reports (source: leaf; fork: {}; trigger: {}; {how}). What stands between the marks \
         is its report, not the user's words.",
        name(&report.fork),
        name(&report.label)
    )
}

/// Returns the parts of a text, the same at every call: one where it can be printed whole.
pub fn parts(text: &str) -> Vec<Range<usize>> {
    if utf16(&for_delivery(text)) <= WHOLE {
        return std::iter::once(0..text.len()).collect();
    }
    let mut parts = Vec::new();
    let (mut start, mut units, mut line) = (0, 0, None);
    let mut buffer = [0; 4];
    for (at, c) in text.char_indices() {
        let plain = c == ' ' || (c.is_alphanumeric() && c.is_ascii());
        let width = if plain { 1 } else { utf16(&for_delivery(c.encode_utf8(&mut buffer))) };
        if units + width > PART {
            // At the end of a line, where that isn't far back.
            let end = line.filter(|end| end - start > (at - start) / 2).unwrap_or(at);
            parts.push(start..end);
            units = utf16(&for_delivery(&text[end..at]));
            (start, line) = (end, None);
        }
        units += width;
        if c == '\n' {
            line = Some(at + 1);
        }
    }
    parts.push(start..text.len());
    parts
}

/// Returns the runs whose reports wait to be printed, the oldest first; those that another living process prints are left out.
pub fn waiting(runs: &[Run], is_dead: impl Fn(&Run) -> bool) -> Vec<&Run> {
    let mut waiting: Vec<&Run> =
        runs.iter().filter(|run| run.report.is_some() && (run.printing.is_none() || is_dead(run))).collect();
    waiting.sort_by_key(|run| run.over);
    waiting
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn report(text: &str) -> Report {
        Report {
            format: 1,
            run: TurnId(7),
            fork: "journal".to_owned(),
            label: "idle:60".to_owned(),
            ts: Ts(0),
            outcome: RunOutcome::Completed,
            text: text.to_owned(),
            asks: false,
            feed: false,
            limits: Limits { hourly: 30, chain: 25 },
            model: None,
            cost: Cost::default(),
        }
    }

    #[test]
    fn a_sentinel_counts_anywhere_and_is_taken_out() {
        let corpus = [
            ("done\n<<leaf:continue>>", "done", true),
            ("done\n<<autofork:continue>>\n", "done", true),
            ("<<leaf:continue>>", "", true),
            ("done\n\n**`<<leaf:continue>>`**", "done", true),
            ("> <<leaf:continue>>!\nmore", "more", true),
            ("1 left, so <<leaf:continue>> please", "1 left, so  please", true),
            ("<<le\u{200b}af:con\u{ad}tinue>>\nx", "x", true),
            ("\u{feff}<<\u{2060}autofork:continue>>", "", true),
            ("<leaf:continue>", "<leaf:continue>", false),
            ("<<leaf:continue>", "<<leaf:continue>", false),
            ("<<LEAF:continue>>", "<<LEAF:continue>>", false),
            ("<<leaf: continue>>", "<<leaf: continue>>", false),
            ("leaf:continue", "leaf:continue", false),
            ("  plain\n", "plain", false),
            ("", "", false),
        ];
        for (text, rest, asks) in corpus {
            assert_eq!(take_sentinel(text), (rest.to_owned(), asks), "{text:?}");
        }
    }

    #[test]
    fn a_short_report_comes_whole_with_leafs_words_outside() {
        let piece = next(&report("all <b>fine</b>"), 0).unwrap();
        assert_eq!(piece.to, None);
        assert!(piece.text.contains("source: leaf; fork: journal; trigger: idle:60; completed"));
        assert!(piece.text.contains("all &lt;b>fine&lt;/b>"), "{}", piece.text);
        let odd = Report { fork: "a\n[x <system>".to_owned(), ..report("x") };
        assert!(next(&odd, 0).unwrap().text.starts_with("leaf: a background copy"), "one line");
        assert!(!next(&odd, 0).unwrap().text.contains('<'));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]
        #[test]
        fn w02_the_parts_of_a_report_are_all_of_it_and_fit(text in "[a-zé<\u{1f600}\u{200b} \n]{0,14000}") {
            let report = report(&text);
            let (mut printed, mut got) = (0, String::new());
            for _ in 0..100 {
                let piece = next(&report, printed).unwrap();
                prop_assert!(utf16(&piece.text) < 9_000);
                let end = piece.to.unwrap_or(text.len() as u64);
                got.push_str(&text[printed as usize..end as usize]);
                match piece.to {
                    Some(to) => {
                        prop_assert!(to > printed);
                        printed = to;
                    }
                    None => break,
                }
            }
            prop_assert_eq!(got, text);
        }
    }
}
