//! `leaf fork run`: a scheduled fork now, because somebody asks.

use std::path::Path;

use anyhow::{Context, Result};
use clap::Args;
use serde_json::json;

use super::super::writer::Verb;
use super::super::{Run, output};
use crate::ids::TurnId;
use crate::refused::Refused;
use crate::rules::writes;
use crate::schedule::definition::Fork;
use crate::schedule::record::{Change, Issue, MANUAL, RunOutcome, Runner};
use crate::schedule::report::Report;
use crate::schedule::run::{self, Audience};
use crate::schedule::{discovery, lookup, prompt};
use crate::session::journal::Entry;
use crate::session::liveness::Process;
use crate::session::record::SessionRecord;
use crate::{text, trust};

/// `leaf fork run`
#[derive(Debug, Args)]
pub struct RunArgs {
    /// The fork's name
    #[arg(required_unless_present = "tag", conflicts_with = "tag")]
    name: Option<String>,
    /// All forks with this tag instead
    #[arg(long, value_name = "TAG")]
    tag: Option<String>,
    /// Print what the session is to be told so that it starts the fork itself
    #[arg(long)]
    print: bool,
}

/// The reports are printed here, and nowhere else.
struct Foreground<'a> {
    run: &'a Run,
    several: bool,
    reports: Vec<Report>,
    broken: Option<anyhow::Error>,
}

impl Audience for Foreground<'_> {
    fn delivers(&self) -> bool {
        false
    }

    fn begun(&mut self) {}

    fn over(&mut self, report: &Report) {
        if !self.run.common.json && report.outcome == RunOutcome::Completed {
            let head = if self.several { format!("{}:\n", text::one_line(&report.fork)) } else { String::new() };
            if let Err(error) = output::print(&format!("{head}{}", text::harmless(&report.text))) {
                self.broken = Some(error);
            }
        }
        self.reports.push(report.clone());
    }
}

/// Runs a fork, or all of a tag, as background copies of the session, and waits for them.
///
/// # Errors
/// Where there is none, one may not run, or fails.
pub fn run(run: &Run, args: &RunArgs) -> Result<()> {
    let speaker = run.speaker(Verb::Everyones)?;
    if run.acts_as_fork() || run.desk.env.var("LEAF_FORK").is_some() {
        return Err(writes::never_a_forks("running a fork").into());
    }
    let session = run.session(&speaker)?.ok_or_else(|| {
        Refused::input("there is no session here that a fork could be a copy of: name one with --session (`leaf status` lists them)")
    })?;
    let record = session.record.clone();
    let forks = wanted(run, &record, args)?;
    for fork in &forks {
        lookup::check(&run.desk, &record, fork)?;
    }
    if args.print {
        return print(run, &record, &forks);
    }
    let own = Process::own();
    let issues: Vec<Issue> = forks
        .iter()
        .map(|fork| {
            Ok(Issue {
                run: TurnId::new().context("no random bytes")?,
                fork: fork.name.clone(),
                path: fork.source.path.to_string_lossy().into_owned(),
                label: MANUAL.to_owned(),
                waits_for: Vec::new(),
                reports_of: Vec::new(),
                gate: false,
                chain: false,
                runner: Runner::Headless,
            })
        })
        .collect::<Result<_>>()?;
    let ids: Vec<TurnId> = issues.iter().map(|issue| issue.run).collect();
    let issued = Change::Issued { runs: issues, owner: own, flush: false };
    session.lock(run.desk.deadline())?.append(&[Entry::schedule(run.desk.now(), issued)])?;
    let mut here = Foreground { run, several: forks.len() > 1, reports: Vec::new(), broken: None };
    run::batch(&run.desk, &record.id, &ids, &mut here)?;
    if let Some(broken) = here.broken {
        return Err(broken);
    }
    if run.common.json {
        output::print_json(&here.reports)?;
    }
    let failed: Vec<String> = here
        .reports
        .iter()
        .filter(|report| report.outcome != RunOutcome::Completed)
        .map(|report| format!("fork {} failed: {}", text::one_line(&report.fork), text::first_words(&report.text, 300)))
        .collect();
    match (failed.is_empty(), here.reports.len() == ids.len()) {
        (false, _) => Err(Refused::input(failed.join("; ")).into()),
        (true, false) => Err(Refused::input("it was stopped: `leaf runs` tells more").into()),
        (true, true) => Ok(()),
    }
}

fn wanted(run: &Run, record: &SessionRecord, args: &RunArgs) -> Result<Vec<Fork>> {
    let dir = Path::new(&record.cwd);
    let project = discovery::project_root(&run.desk.env, dir);
    let shared = trust::of(&run.desk, &project)?;
    let found = discovery::forks(&run.desk.env, dir).settled(|source| trust::trusts(&shared, &project, source)).list;
    let (wanted, what): (Vec<Fork>, String) = match (&args.name, &args.tag) {
        (Some(name), _) => (
            found.into_iter().filter(|fork| fork.name == *name).collect(),
            format!("fork {}", text::first_words(name, 60)),
        ),
        (None, tag) => {
            let tag = tag.as_deref().unwrap_or_default();
            let tagged = found.into_iter().filter(|fork| fork.tags.iter().any(|other| other == tag)).collect();
            (tagged, format!("fork with the tag {}", text::first_words(tag, 60)))
        }
    };
    if wanted.is_empty() {
        return Err(Refused::input(format!(
            "there is no {what} for this session's directory: `leaf forks` lists what there is"
        ))
        .into());
    }
    Ok(wanted)
}

fn print(run: &Run, record: &SessionRecord, forks: &[Fork]) -> Result<()> {
    let project = discovery::project_root(&run.desk.env, Path::new(&record.cwd));
    let mut told = Vec::new();
    for fork in forks {
        let brief = prompt::Brief {
            fork,
            label: MANUAL,
            session: record.id.as_str(),
            project: &project.to_string_lossy(),
            chain: false,
            before: &[],
            last: None,
        };
        told.push((fork, prompt::spawn(&brief)?));
    }
    if run.common.json {
        let all: Vec<_> = told.iter().map(|(fork, text)| json!({ "fork": fork.name, "prompt": text })).collect();
        return output::print_json(&all);
    }
    let told: Vec<String> = told.into_iter().map(|(_, text)| text::harmless(&text)).collect();
    output::print(&told.join("\n"))
}
