//! The line fork's decision against labels (R21 to R26): each answer is read as the product reads it.

use std::collections::BTreeMap;

use serde::Serialize;

use super::set::{Answers, Header, Label, Message, Set};
use super::{Counts, SORTS, count, percent, word};
use crate::rules::take::{self, LINE};
use crate::session::journal::Sort;
use crate::text;

/// A message's first words are shown up to this length, characters.
const WORDS: usize = 70;

/// What came of a question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Came {
    /// The message was sorted.
    Sorted(Sort),
    /// The answer breaks R21: a failed line, and the message is main's (R26).
    Broken(Fault),
    /// There was no answer.
    Failed(String),
}

/// Why an answer breaks R21.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Fault {
    /// There is no JSON object in it.
    NoObject,
    /// There is something before or behind the object.
    AroundObject,
    /// What looks like an object can't be read as JSON.
    BadJson,
    /// `line` is missing, or no string.
    NoLine,
    /// `line` is empty.
    EmptyLine,
    /// `line` has more than one line.
    SeveralLines,
    /// `line` is longer than it may be.
    LongLine,
    /// `sort` is missing, or no string.
    NoSort,
    /// `sort` is another word.
    OtherSort,
    /// Something else.
    Other,
}

impl Fault {
    /// Returns the fault in words.
    pub fn words(self) -> &'static str {
        match self {
            Fault::NoObject => "prose, no JSON object",
            Fault::AroundObject => "something before or behind the object",
            Fault::BadJson => "an object that is no JSON",
            Fault::NoLine => "no `line`",
            Fault::EmptyLine => "an empty `line`",
            Fault::SeveralLines => "a `line` of several lines",
            Fault::LongLine => "a `line` of more than 200 characters",
            Fault::NoSort => "no `sort`",
            Fault::OtherSort => "a `sort` that is none of the three",
            Fault::Other => "something else",
        }
    }
}

/// Reads an answer as `leaf fork line` does.
pub fn came(answer: &str) -> Came {
    match take::read_line(answer) {
        Some(read) => Came::Sorted(read.sort),
        None => Came::Broken(fault(answer)),
    }
}

/// Tells why an answer that [`take::read_line`] doesn't read breaks R21.
fn fault(answer: &str) -> Fault {
    use serde_json::Value;
    let answer = answer.trim();
    let inner = answer.strip_prefix("```json").and_then(|rest| rest.strip_suffix("```")).unwrap_or(answer).trim();
    let object = match serde_json::from_str::<Value>(inner) {
        Ok(Value::Object(object)) => object,
        Ok(_) => return Fault::NoObject,
        Err(_) => {
            let (Some(from), Some(to)) = (inner.find('{'), inner.rfind('}')) else { return Fault::NoObject };
            let within = inner.get(from..=to).unwrap_or_default();
            let found = matches!(serde_json::from_str::<Value>(within), Ok(Value::Object(_)));
            return match (found, within == inner) {
                (true, _) => Fault::AroundObject,
                (false, true) => Fault::BadJson,
                (false, false) => Fault::NoObject,
            };
        }
    };
    let Some(line) = object.get("line").and_then(Value::as_str) else { return Fault::NoLine };
    let Some(sort) = object.get("sort").and_then(Value::as_str) else { return Fault::NoSort };
    if !SORTS.into_iter().any(|known| word(known) == sort) {
        return Fault::OtherSort;
    }
    let line = line.trim();
    if line.is_empty() {
        Fault::EmptyLine
    } else if line.contains(['\n', '\r']) {
        Fault::SeveralLines
    } else if line.chars().count() > LINE {
        Fault::LongLine
    } else {
        Fault::Other
    }
}

/// The whole report.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// How many messages the set has.
    pub messages: usize,
    /// What the two labellings say of each other.
    pub labels: Agreement,
    /// How the answers came to be, and what they are.
    pub answers: Given,
    /// Label by sort, over the messages whose labels agree; `failed` is a failed line or call.
    pub confusion: BTreeMap<&'static str, BTreeMap<&'static str, usize>>,
    /// How many messages with one label were answered, failed lines and calls counted.
    pub judged: usize,
    /// How many of them were sorted as labelled.
    pub right: usize,
    /// The same in percent.
    pub percent: Option<f64>,
    /// The disputed ones that were sorted.
    pub disputed: Disputed,
    /// Labelled not small, sorted small: a fork works on what main owns.
    pub wrong_takes: Wrong,
    /// Labelled small, sorted otherwise: the user waits for main.
    pub wrong_hand_overs: Wrong,
    /// Labelled significant, sorted now: main is interrupted.
    pub wrong_interruptions: Wrong,
    /// Labelled now, sorted significant or small: main hears late, or never.
    pub wrong_delays: Wrong,
    /// Failed lines and calls, which go to main.
    pub failed: Vec<Failed>,
    /// By language.
    pub languages: BTreeMap<String, Group>,
    /// By kind.
    pub kinds: BTreeMap<String, Group>,
    /// By the message's length.
    pub lengths: BTreeMap<String, Group>,
}

/// What two labellings say of each other.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Agreement {
    /// Whether both label every message.
    pub complete: bool,
    /// The messages that not both label.
    pub missing: Vec<String>,
    /// How many both label.
    pub both: usize,
    /// How many they label alike.
    pub agree: usize,
    /// The same in percent.
    pub percent: Option<f64>,
    /// Cohen's kappa: agreement beyond chance. `None` where chance alone would agree always.
    pub kappa: Option<f64>,
    /// How often each labelling has each sort.
    pub sorts: [Counts; 2],
    /// Each message that they label differently.
    pub disagreements: Vec<Disagreement>,
}

/// A message that two labellings label differently.
#[derive(Clone, Debug, Serialize)]
pub struct Disagreement {
    /// The message.
    pub id: String,
    /// Its first words.
    pub text: String,
    /// The first labelling.
    pub a: Label,
    /// The second.
    pub b: Label,
    /// How the model sorted it, where it did.
    pub said: Option<Sort>,
}

/// What the answers are.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Given {
    /// How they came to be.
    #[serde(flatten)]
    pub header: Header,
    /// Answers that sort.
    pub sorted: usize,
    /// Answers that break R21.
    pub broken: usize,
    /// Calls that gave none.
    pub failed: usize,
    /// Messages that were not asked about.
    pub missing: usize,
    /// Why answers break R21.
    pub faults: BTreeMap<Fault, Vec<String>>,
    /// `significant` without a title that can be used: the message's first words stand in.
    pub untitled: usize,
}

/// The disputed messages that were sorted.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Disputed {
    /// How many.
    pub judged: usize,
    /// How many were sorted as one of the two labels.
    pub hit: usize,
}

/// A way to be wrong.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Wrong {
    /// How many could have been: sorted, and labelled so.
    pub of: usize,
    /// How many were.
    pub count: usize,
    /// The same in percent.
    pub percent: Option<f64>,
    /// Which.
    pub cases: Vec<Case>,
}

/// A message that was sorted wrong.
#[derive(Clone, Debug, Serialize)]
pub struct Case {
    /// The message.
    pub id: String,
    /// Its label.
    pub label: Sort,
    /// Its sort.
    pub sort: Sort,
    /// Its first words.
    pub text: String,
}

/// A failed line or call.
#[derive(Clone, Debug, Serialize)]
pub struct Failed {
    /// The message.
    pub id: String,
    /// Its label, where both agree.
    pub label: Option<Sort>,
    /// Why.
    pub why: String,
}

/// A part of the messages whose labels agree.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Group {
    /// How many were answered, failed ones counted.
    pub judged: usize,
    /// How many were sorted as labelled.
    pub right: usize,
    /// Wrong takes.
    pub wrong_takes: usize,
    /// Wrong hand-overs.
    pub wrong_hand_overs: usize,
    /// Failed lines and calls.
    pub failed: usize,
}

/// Scores answers against labels.
pub fn score(set: &Set, answers: &Answers) -> Report {
    let came: BTreeMap<&str, Came> =
        answers.by_id.values().map(|answer| (answer.id.as_str(), came_of(answer))).collect();
    let mut report = Report {
        messages: set.messages.len(),
        labels: agreement(set, &came),
        answers: given(set, answers, &came),
        confusion: SORTS.into_iter().map(|label| (word(label), row())).collect(),
        judged: 0,
        right: 0,
        percent: None,
        disputed: Disputed::default(),
        wrong_takes: Wrong::default(),
        wrong_hand_overs: Wrong::default(),
        wrong_interruptions: Wrong::default(),
        wrong_delays: Wrong::default(),
        failed: Vec::new(),
        languages: BTreeMap::new(),
        kinds: BTreeMap::new(),
        lengths: BTreeMap::new(),
    };
    for message in &set.messages {
        let Some(came) = came.get(message.id.as_str()) else { continue };
        let [a, b] = labels_of(set, message);
        let label = a.filter(|_| a == b);
        match (came, label, a.zip(b)) {
            (Came::Sorted(sort), Some(label), _) => report.sorted(message, label, *sort),
            (Came::Sorted(sort), None, Some((a, b))) => {
                report.disputed.judged += 1;
                report.disputed.hit += usize::from(*sort == a || *sort == b);
            }
            // One label alone is no measure.
            (Came::Sorted(_), None, None) => {}
            (Came::Broken(fault), label, _) => report.failed(message, label, fault.words()),
            (Came::Failed(why), label, _) => report.failed(message, label, why),
        }
    }
    report.percent = percent(report.right, report.judged);
    for wrong in [
        &mut report.wrong_takes,
        &mut report.wrong_hand_overs,
        &mut report.wrong_interruptions,
        &mut report.wrong_delays,
    ] {
        wrong.percent = percent(wrong.count, wrong.of);
    }
    report
}

fn came_of(answer: &super::set::Answer) -> Came {
    match (&answer.answer, &answer.failed) {
        (Some(text), None) => came(text),
        (_, Some(why)) => Came::Failed(why.clone()),
        (None, None) => Came::Failed("nothing was recorded".to_owned()),
    }
}

fn row() -> BTreeMap<&'static str, usize> {
    SORTS.into_iter().map(word).chain(["failed"]).map(|name| (name, 0)).collect()
}

fn labels_of(set: &Set, message: &Message) -> [Option<Sort>; 2] {
    [0, 1].map(|number| set.labels[number].get(&message.id).map(|label| label.sort))
}

fn agreement(set: &Set, came: &BTreeMap<&str, Came>) -> Agreement {
    let mut found = Agreement::default();
    let mut both: Vec<(Sort, Sort)> = Vec::new();
    for message in &set.messages {
        let [a, b] = [0, 1].map(|number| set.labels[number].get(&message.id));
        for (number, label) in [a, b].into_iter().enumerate() {
            if let Some(label) = label {
                count(&mut found.sorts[number], word(label.sort));
            }
        }
        let (Some(a), Some(b)) = (a, b) else {
            found.missing.push(message.id.clone());
            continue;
        };
        both.push((a.sort, b.sort));
        if a.sort != b.sort {
            let said = match came.get(message.id.as_str()) {
                Some(Came::Sorted(sort)) => Some(*sort),
                Some(Came::Broken(_) | Came::Failed(_)) | None => None,
            };
            found.disagreements.push(Disagreement {
                id: message.id.clone(),
                text: text::first_words(&message.text, WORDS),
                a: a.clone(),
                b: b.clone(),
                said,
            });
        }
    }
    found.complete = found.missing.is_empty();
    found.both = both.len();
    found.agree = both.iter().filter(|(a, b)| a == b).count();
    found.percent = percent(found.agree, found.both);
    found.kappa = kappa(&both);
    found
}

/// Returns Cohen's kappa, with two decimals: how far two labellings agree beyond what their shares of each sort bring by chance.
#[allow(clippy::cast_precision_loss, reason = "counts of messages are far below 2^52")]
pub fn kappa(pairs: &[(Sort, Sort)]) -> Option<f64> {
    let whole = pairs.len() as f64;
    let share =
        |counts: &dyn Fn(&(Sort, Sort)) -> bool| pairs.iter().filter(|pair| counts(pair)).count() as f64 / whole;
    let seen = share(&|(a, b)| a == b);
    let chance: f64 = SORTS.into_iter().map(|sort| share(&|(a, _)| *a == sort) * share(&|(_, b)| *b == sort)).sum();
    let kappa = (seen - chance) / (1.0 - chance);
    (!pairs.is_empty() && chance < 1.0).then(|| (kappa * 100.0).round() / 100.0)
}

fn given(set: &Set, answers: &Answers, came: &BTreeMap<&str, Came>) -> Given {
    let mut given = Given { header: answers.header.clone(), ..Given::default() };
    for message in &set.messages {
        match came.get(message.id.as_str()) {
            Some(Came::Sorted(sort)) => {
                given.sorted += 1;
                let answer = answers.by_id.get(&message.id).and_then(|answer| answer.answer.as_deref());
                let titled = answer.and_then(take::read_line).is_some_and(|read| read.title.is_some());
                given.untitled += usize::from(*sort == Sort::Significant && !titled);
            }
            Some(Came::Broken(fault)) => {
                given.broken += 1;
                given.faults.entry(*fault).or_default().push(message.id.clone());
            }
            Some(Came::Failed(_)) => given.failed += 1,
            None => given.missing += 1,
        }
    }
    given
}

impl Report {
    fn sorted(&mut self, message: &Message, label: Sort, sort: Sort) {
        self.count(label, word(sort));
        let right = label == sort;
        self.right += usize::from(right);
        let take = label != Sort::Small && sort == Sort::Small;
        let hand_over = label == Sort::Small && sort != Sort::Small;
        let case = || Case { id: message.id.clone(), label, sort, text: text::first_words(&message.text, WORDS) };
        let interruption = label == Sort::Significant && sort == Sort::Now;
        let delay = label == Sort::Now && sort != Sort::Now;
        for (wrong, could, was) in [
            (&mut self.wrong_takes, label != Sort::Small, take),
            (&mut self.wrong_hand_overs, label == Sort::Small, hand_over),
            (&mut self.wrong_interruptions, label == Sort::Significant, interruption),
            (&mut self.wrong_delays, label == Sort::Now, delay),
        ] {
            wrong.of += usize::from(could);
            if was {
                wrong.count += 1;
                wrong.cases.push(case());
            }
        }
        self.group(message, |group| {
            group.right += usize::from(right);
            group.wrong_takes += usize::from(take);
            group.wrong_hand_overs += usize::from(hand_over);
        });
    }

    fn failed(&mut self, message: &Message, label: Option<Sort>, why: &str) {
        self.failed.push(Failed { id: message.id.clone(), label, why: text::first_words(why, 200) });
        if let Some(label) = label {
            self.count(label, "failed");
            self.group(message, |group| group.failed += 1);
        }
    }

    fn count(&mut self, label: Sort, column: &'static str) {
        self.judged += 1;
        *self.confusion.entry(word(label)).or_insert_with(row).entry(column).or_default() += 1;
    }

    fn group(&mut self, message: &Message, mut count: impl FnMut(&mut Group)) {
        for (groups, name) in [
            (&mut self.languages, message.language.as_str()),
            (&mut self.kinds, message.kind.as_str()),
            (&mut self.lengths, length(&message.text)),
        ] {
            let group = groups.entry(name.to_owned()).or_default();
            group.judged += 1;
            count(group);
        }
    }
}

/// How long a message is, characters, from the shortest to the longest.
pub const LENGTHS: [&str; 4] = ["under 40", "40 to 199", "200 to 599", "600 and more"];

fn length(text: &str) -> &'static str {
    match text.chars().count() {
        0..40 => LENGTHS[0],
        40..200 => LENGTHS[1],
        200..600 => LENGTHS[2],
        _ => LENGTHS[3],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r021_what_fails_a_line_is_told_by_its_cause() {
        let fault = |text: &str| match came(text) {
            Came::Broken(fault) => fault,
            other => panic!("{text}: {other:?}"),
        };
        assert_eq!(fault("I will look into it."), Fault::NoObject);
        assert_eq!(fault("[1]"), Fault::NoObject);
        assert_eq!(fault(r#"Sure: {"line": "a", "sort": "now"}"#), Fault::AroundObject);
        assert_eq!(fault("```\n{\"line\": \"a\", \"sort\": \"now\"}\n```"), Fault::AroundObject);
        assert_eq!(fault(r#"{"line": "a", "sort": now}"#), Fault::BadJson);
        assert_eq!(fault(r#"{"sort": "now"}"#), Fault::NoLine);
        assert_eq!(fault(r#"{"line": " ", "sort": "now"}"#), Fault::EmptyLine);
        assert_eq!(fault(r#"{"line": "a\nb", "sort": "now"}"#), Fault::SeveralLines);
        assert_eq!(fault(&format!(r#"{{"line": "{}", "sort": "now"}}"#, "a".repeat(201))), Fault::LongLine);
        assert_eq!(fault(r#"{"line": "a"}"#), Fault::NoSort);
        assert_eq!(fault(r#"{"line": "a", "sort": "later"}"#), Fault::OtherSort);
        assert_eq!(fault(r#"{"line": "a", "line": "b", "sort": "now"}"#), Fault::Other);
        assert_eq!(came(r#"{"line": "a", "sort": "now"}"#), Came::Sorted(Sort::Now));
    }

    #[test]
    fn kappa_is_agreement_beyond_chance() {
        use Sort::{Now, Significant, Small};
        assert_eq!(kappa(&[]), None);
        assert_eq!(kappa(&[(Small, Small), (Small, Small)]), None, "chance alone would agree always");
        assert_eq!(kappa(&[(Small, Small), (Now, Now), (Significant, Significant)]), Some(1.0));
        // Seen 0.5; by chance 0.5 · 0.5 + 0.5 · 0.5.
        assert_eq!(kappa(&[(Small, Small), (Small, Now), (Now, Small), (Now, Now)]), Some(0.0));
        // Textbook: 20 yes/yes, 5 yes/no, 10 no/yes, 15 no/no gives 0.4.
        let mut pairs = vec![(Small, Small); 20];
        pairs.extend(vec![(Small, Now); 5]);
        pairs.extend(vec![(Now, Small); 10]);
        pairs.extend(vec![(Now, Now); 15]);
        assert_eq!(kappa(&pairs), Some(0.4));
    }
}
