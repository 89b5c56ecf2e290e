//! `leaf eval`: how good the sort is, what became of what forks did, and whether it agrees with what came later. It reads and
//! counts; it writes nothing but `--save`'s file (R12).

mod asking;
mod coherence;
mod decision;
mod outcome;

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Result;
use clap::{Args, Subcommand};

use super::{Run, output};
use crate::eval::set::{Answers, Header, wording};
use crate::place::plain;
use crate::refused::{Refused, Usage};

/// `leaf eval`
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
#[command(
    after_help = "Alone it does all that needs no model: `decision` on ./examples/sorting where that is there, with its \
recorded answers, then `outcome` and the pairs of `coherence` of this state directory."
)]
pub struct EvalArgs {
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Compare a line fork's sorts with labels: what a wrong one costs, each by its id
    ///
    /// A set is a directory with messages.jsonl, labels-a.jsonl and labels-b.jsonl (two labellings, made independently), and maybe
    /// answers.jsonl (a model's answers to the line fork's question). Each answer is read by the product's own parser. Only messages
    /// that both labellings label alike count as right or wrong; the disputed ones are shown.
    Decision(decision::DecisionArgs),
    /// Count what became of forks' turns and answers, of to-dos and of lines, from the journals
    ///
    /// All sessions of the state directory, or `--session ID`. An answer stood where neither main wrote beside it nor the
    /// user asked again; a turn that main answered over is counted by its outcome.
    Outcome,
    /// Pair each fork's answer with what main said later, and let a model judge whether they agree
    Coherence(coherence::CoherenceArgs),
}

/// Where answers of a model come from.
#[derive(Debug, Args)]
pub struct AskArgs {
    /// Recorded answers, one JSON object a line
    #[arg(long, value_name = "FILE", conflicts_with = "claude")]
    answers: Option<PathBuf>,
    /// Ask the client's model now, a call of `claude -p` each: that costs what it costs
    #[arg(long)]
    claude: bool,
    /// The model (default: the client's)
    #[arg(long, requires = "claude")]
    model: Option<String>,
    /// How many calls run at once
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u8).range(1..=32), requires = "claude")]
    jobs: u8,
    /// Ask only so many, spread evenly
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..), requires = "claude")]
    limit: Option<u32>,
    /// How long a call may take, seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 120, value_parser = clap::value_parser!(u64).range(1..), requires = "claude")]
    timeout: u64,
    /// Write the answers into a new file as they come, for --answers
    #[arg(long, value_name = "FILE", requires = "claude")]
    save: Option<PathBuf>,
}

/// Runs `leaf eval`.
///
/// # Errors
/// Where what is to be read can't be, or asking the model came to nothing.
pub fn run(run: &Run, args: EvalArgs) -> Result<()> {
    if run.common.page.is_some() {
        return Err(Usage("`leaf eval` counts whole sessions: leave --page out, or give --session".to_owned()).into());
    }
    match args.command {
        Some(Command::Decision(args)) => decision::run(run, &args),
        Some(Command::Outcome) => outcome::run(run),
        Some(Command::Coherence(args)) => coherence::run(run, &args),
        None => everything(run),
    }
}

/// All that needs no model.
fn everything(run: &Run) -> Result<()> {
    let set = Path::new(decision::SET);
    let decided = if set.is_dir() { Some(decision::recorded(set)?) } else { None };
    let stories = outcome::stories(run)?;
    let counted = outcome::count(&stories);
    let coherence = coherence::unjudged(&stories);
    if run.common.json {
        let whole = serde_json::json!({"decision": decided, "outcome": counted, "coherence": coherence});
        return output::print_json(&whole);
    }
    let decided = match &decided {
        Some(report) => decision::told(report),
        None => format!("Decision: there is no {} here. Another set: leaf eval decision --set DIR\n", decision::SET),
    };
    output::print(&format!("{decided}\n{}\n{}", outcome::told(&counted), coherence::told(&coherence)))
}

/// A question for a model.
struct Question {
    /// What it is about.
    id: String,
    /// The question.
    text: String,
}

/// Gets answers: recorded ones, or from the client's model. The second value says why asking stopped early, where it did.
fn answers(
    run: &Run,
    args: &AskArgs,
    how: &str,
    question: &str,
    recorded: Option<PathBuf>,
    questions: impl FnOnce() -> Result<Vec<Question>>,
    known: impl Fn(&str) -> bool,
) -> Result<(Option<Answers>, Option<String>)> {
    if args.claude {
        if run.agent.is_some() {
            let sentence = "a fork starts no runs of its own: leave `--claude` to main or the person";
            return Err(Refused::by("R116", sentence).into());
        }
        let mut questions = questions()?;
        if let Some(limit) = args.limit {
            questions = spread(questions, limit as usize);
        }
        let header = Header {
            model: args.model.clone(),
            client: None,
            recorded: Some(run.desk.now().to_string()),
            how: Some(how.to_owned()),
            question: Some(wording(question)),
        };
        let options = asking::Options {
            model: args.model.as_deref(),
            jobs: args.jobs.into(),
            timeout: Duration::from_secs(args.timeout),
            save: args.save.as_deref(),
        };
        let asked = asking::ask(&run.desk.env, &options, header, &questions)?;
        return Ok((Some(asked.answers), asked.stopped));
    }
    let Some(file) = args.answers.clone().or(recorded) else { return Ok((None, None)) };
    Ok((Some(read_answers(&file, known)?), None))
}

fn read_answers(file: &Path, known: impl Fn(&str) -> bool) -> Result<Answers> {
    let name = file.file_name().unwrap_or(file.as_os_str()).to_string_lossy().into_owned();
    Ok(Answers::read(&name, &read(file)?, known)?)
}

fn read(file: &Path) -> Result<String> {
    let failed = |error| Refused::input(format!("can't read {}: {}", file.display(), plain(&error)));
    Ok(std::fs::read_to_string(file).map_err(failed)?)
}

/// Returns so many of the questions, evenly from the first to the last: neighbours are often of one kind.
fn spread(questions: Vec<Question>, limit: usize) -> Vec<Question> {
    let whole = questions.len();
    let wanted = limit.min(whole);
    let mut next = 0;
    let kept = questions.into_iter().enumerate().filter(|(at, _)| {
        let take = next < wanted && *at == next * whole / wanted;
        next += usize::from(take);
        take
    });
    kept.map(|(_, question)| question).collect()
}

/// Says after the report that asking stopped early.
fn ended(stopped: Option<String>) -> Result<()> {
    stopped.map_or(Ok(()), |why| Err(anyhow::anyhow!(why)))
}

/// Returns a share for a person.
fn share(percent: Option<f64>) -> String {
    percent.map_or("-".to_owned(), |percent| format!("{percent:.1} %"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_takes_from_all_over_the_set() {
        let ids = |whole: usize, limit: usize| -> Vec<String> {
            let questions = (0..whole).map(|at| Question { id: at.to_string(), text: String::new() }).collect();
            spread(questions, limit).into_iter().map(|question| question.id).collect()
        };
        assert_eq!(ids(10, 3), ["0", "3", "6"]);
        assert_eq!(ids(3, 9), ["0", "1", "2"]);
        assert_eq!(ids(7, 7).len(), 7);
    }
}
