//! `leaf eval decision` through the built binary: its numbers against a count of the test's own, and the client's model played by a
//! script.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::{Value, json};
use tempfile::TempDir;

const LEAF: &str = env!("CARGO_BIN_EXE_leaf");
const SORTS: [&str; 3] = ["small", "significant", "now"];

/// Id, kind, language, text, and the two labels.
type Row = (&'static str, &'static str, &'static str, &'static str, &'static str, &'static str);

/// A small set: the message's text says what the scripted model does with it.
const ROWS: [Row; 7] = [
    ("m1", "question", "en", "GOOD small", "small", "small"),
    ("m2", "change", "de", "GOOD now", "significant", "significant"),
    ("m3", "steering", "en", "GOOD small", "now", "now"),
    ("m4", "lookup", "ja", "PROSE", "small", "small"),
    ("m5", "status", "en", "GOOD now", "small", "now"),
    ("m6", "lookup", "en", "GOOD significant", "small", "small"),
    ("m7", "pr", "fr", "GOOD significant", "significant", "significant"),
];

/// What the model says to them, as it was recorded.
fn said(text: &str) -> String {
    match text.strip_prefix("GOOD ") {
        Some(sort) => format!("```json\n{}\n```", json!({"line": "On it.", "sort": sort, "title": "to do it"})),
        None => "Sure, I will look into it.".to_owned(),
    }
}

/// A home with a project, and a set in it.
struct Bench(TempDir);

impl Bench {
    fn new(rows: &[Row]) -> Bench {
        let found = Bench(tempfile::Builder::new().prefix("leaf-eval-").tempdir().expect("a directory"));
        for name in ["set", "project", "tools", "tmp"] {
            fs::create_dir(found.path(name)).expect("a directory");
        }
        let lines =
            |row: &dyn Fn(&Row) -> Value| -> String { rows.iter().map(|of| format!("{}\n", row(of))).collect() };
        let thread = json!([{"by": "user", "text": "Is it done?"}, {"by": "agent", "text": "Not yet."}]);
        found.write(
            "set/messages.jsonl",
            &lines(&|(id, kind, language, text, _, _)| {
                json!({"id": id, "kind": kind, "language": language, "text": text, "thread": thread,
                    "context": "Main runs the tests of the parser."})
            }),
        );
        found.write("set/labels-a.jsonl", &lines(&|(id, .., a, _)| json!({"id": id, "sort": a, "why": "so it is"})));
        found.write("set/labels-b.jsonl", &lines(&|(id, .., b)| json!({"id": id, "sort": b, "why": "it seems so"})));
        found
    }

    /// The same, with the answers as they were recorded.
    fn recorded() -> Bench {
        let found = Bench::new(&ROWS);
        let answers =
            ROWS.iter().map(|(id, _, _, text, ..)| json!({"id": id, "answer": said(text)}).to_string() + "\n");
        let header = json!({"model": "a-model", "recorded": "2027-03-01", "how": "by hand"}).to_string();
        found.write("set/answers.jsonl", &format!("{header}\n{}", answers.collect::<String>()));
        found
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).expect("a file");
    }

    /// A stand-in for the client: it notes how it was called, and does what the message says.
    fn client(&self, body: &str) {
        let script = format!(
            "#!/bin/sh\n[ \"$1\" = --version ] && {{ echo '2.1.332 (Claude Code)'; exit 0; }}\nasked=$(cat)\n\
             {{ pwd; env; for word in \"$@\"; do echo \"<$word>\"; done; }} > \"$HOME/called.$$\"\n{body}\n"
        );
        self.write("tools/claude", &script);
        fs::set_permissions(self.path("tools/claude"), fs::Permissions::from_mode(0o755)).expect("a mode");
    }

    /// How often the client was asked, and how: each call's directory, environment and words.
    fn calls(&self) -> Vec<String> {
        let entries = fs::read_dir(self.path("")).expect("the home").flatten();
        let called = entries.filter(|entry| entry.file_name().to_string_lossy().starts_with("called."));
        called.map(|entry| fs::read_to_string(entry.path()).expect("a call")).collect()
    }

    fn leaf(&self, args: &[&str]) -> (i32, String, String) {
        let output = Command::new(LEAF)
            .args(args)
            .current_dir(self.path("project"))
            .env_clear()
            .env("HOME", self.path(""))
            .env("TMPDIR", self.path("tmp"))
            .env("CLAUDECODE", "1")
            .env("PATH", format!("{}:/usr/bin:/bin", self.path("tools").display()))
            .stdin(Stdio::null())
            .output()
            .expect("leaf runs");
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("UTF-8");
        (output.status.code().unwrap_or(-1), text(output.stdout), text(output.stderr))
    }

    #[track_caller]
    fn report(&self, args: &[&str]) -> Value {
        let (code, stdout, stderr) = self.leaf(&[&["eval", "decision", "--set", "../set", "--json"], args].concat());
        assert_eq!(code, 0, "{stderr}");
        serde_json::from_str(&stdout).unwrap_or_else(|error| panic!("{error}: {stdout}"))
    }
}

/// What the set's files say by a count that shares nothing with the product's.
struct Count {
    rows: Vec<(String, [String; 2], Option<String>)>,
}

impl Count {
    fn of(set: &Path) -> Count {
        let rows = |name: &str| -> Vec<Value> {
            let text = fs::read_to_string(set.join(name)).unwrap_or_else(|error| panic!("{name}: {error}"));
            text.lines().map(|line| serde_json::from_str(line).expect("a JSON line")).collect()
        };
        let by_id = |name: &str, field: &str| -> BTreeMap<String, String> {
            let string = |value: &Value| value.as_str().map(str::to_owned);
            rows(name).iter().filter_map(|row| Some((string(&row["id"])?, string(&row[field])?))).collect()
        };
        let (a, b) = (by_id("labels-a.jsonl", "sort"), by_id("labels-b.jsonl", "sort"));
        let answers = by_id("answers.jsonl", "answer");
        let row = |message: &Value| {
            let id = message["id"].as_str().expect("an id").to_owned();
            let labels = [&a, &b].map(|labels| labels.get(&id).unwrap_or_else(|| panic!("{id} has a label")).clone());
            let sort = answers.get(&id).and_then(|answer| sort_of(answer));
            (id, labels, sort)
        };
        Count { rows: rows("messages.jsonl").iter().map(row).collect() }
    }

    fn agreed(&self) -> impl Iterator<Item = (&str, &str, Option<&str>)> {
        let agreed = self.rows.iter().filter(|(_, [a, b], _)| a == b);
        agreed.map(|(id, [a, _], sort)| (id.as_str(), a.as_str(), sort.as_deref()))
    }

    fn ids(&self, wrong: impl Fn(&str, &str) -> bool) -> Vec<&str> {
        let of = self.agreed().filter(|(_, label, sort)| sort.is_some_and(|sort| wrong(label, sort)));
        of.map(|(id, ..)| id).collect()
    }

    /// Cohen's kappa times 100, as whole numbers of pairs give it.
    fn kappa(&self) -> f64 {
        let n = self.rows.len() as f64;
        let of =
            |which: usize, sort: &str| self.rows.iter().filter(|(_, labels, _)| labels[which] == sort).count() as f64;
        let chance: f64 = SORTS.iter().map(|sort| of(0, sort) * of(1, sort)).sum::<f64>();
        let agreed = self.agreed().count() as f64;
        ((n * agreed - chance) / (n * n - chance) * 100.0).round()
    }
}

/// A sort, where the answer is what was asked for.
fn sort_of(answer: &str) -> Option<String> {
    let bare = answer.trim().trim_start_matches("```json").trim_end_matches("```");
    let object: Value = serde_json::from_str(bare.trim()).ok()?;
    let line = object["line"].as_str()?.trim();
    let one_line = !line.is_empty() && line.chars().count() <= 200 && line.lines().count() == 1;
    let sort = object["sort"].as_str().filter(|sort| SORTS.contains(sort))?;
    one_line.then(|| sort.to_owned())
}

#[track_caller]
fn assert_counted(report: &Value, text: &str, count: &Count) {
    let agreed = count.agreed().count();
    assert_eq!(report["messages"], count.rows.len());
    assert_eq!(report["labels"]["complete"], true);
    assert_eq!((&report["labels"]["both"], &report["labels"]["agree"]), (&json!(count.rows.len()), &json!(agreed)));
    assert_eq!((report["labels"]["kappa"].as_f64().expect("kappa") * 100.0).round(), count.kappa());
    let disputed: Vec<&str> = count.rows.iter().filter(|(_, [a, b], _)| a != b).map(|(id, ..)| id.as_str()).collect();
    let shown = report["labels"]["disagreements"].as_array().expect("disagreements");
    assert_eq!(shown.iter().map(|one| one["id"].as_str().expect("an id")).collect::<Vec<_>>(), disputed);
    for label in SORTS {
        for sort in SORTS {
            let number = count.agreed().filter(|(_, of, said)| *of == label && *said == Some(sort)).count();
            assert_eq!(report["confusion"][label][sort], number, "{label}, sorted {sort}");
        }
        let failed = count.agreed().filter(|(_, of, said)| *of == label && said.is_none()).count();
        assert_eq!(report["confusion"][label]["failed"], failed, "{label}, failed");
    }
    let right = count.ids(|label, sort| label == sort).len();
    assert_eq!((&report["right"], &report["judged"]), (&json!(right), &json!(agreed)));
    let hit = count
        .rows
        .iter()
        .filter(|(_, [a, b], sort)| a != b && sort.as_ref().is_some_and(|sort| sort == a || sort == b));
    assert_eq!(report["disputed"]["hit"], hit.count());
    for (name, line, ids) in [
        ("wrong_takes", "wrong takes", count.ids(|label, sort| label != "small" && sort == "small")),
        ("wrong_hand_overs", "wrong hand-overs", count.ids(|label, sort| label == "small" && sort != "small")),
        (
            "wrong_interruptions",
            "wrong interruptions",
            count.ids(|label, sort| label == "significant" && sort == "now"),
        ),
        ("wrong_delays", "wrong delays", count.ids(|label, sort| label == "now" && sort != "now")),
    ] {
        let cases = report[name]["cases"].as_array().expect("cases");
        assert_eq!(cases.iter().map(|case| case["id"].as_str().expect("an id")).collect::<Vec<_>>(), ids, "{name}");
        assert_eq!(report[name]["count"], ids.len(), "{name}");
        let printed = format!("{line}: {} of {} (", ids.len(), report[name]["of"]);
        assert!(text.lines().any(|line| line.starts_with(&printed)), "{printed} in {text}");
    }
    for groups in ["languages", "kinds", "lengths"] {
        let groups = report[groups].as_object().expect("groups");
        let sum = |field: &str| groups.values().map(|group| group[field].as_u64().expect("a count")).sum::<u64>();
        assert_eq!((sum("judged"), sum("right")), (agreed as u64, right as u64));
    }
    assert!(text.contains(&format!("\nright: {right} of {agreed} (")), "{text}");
    assert!(text.contains(&format!("labels: {agreed} of {} agree (", count.rows.len())), "{text}");
    for id in disputed {
        assert!(text.lines().any(|line| line.starts_with(&format!("  {id} "))), "{id} is shown: {text}");
    }
}

#[test]
fn answers_that_were_recorded_for_another_wording_of_the_question_are_told() {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/sorting");
    let recorded = fs::read_to_string(examples.join("answers.jsonl")).expect("recorded answers");
    let bench = Bench::new(&ROWS);
    let told = |answers: &str| {
        bench.write("answers.jsonl", answers);
        let set = examples.to_string_lossy();
        let (code, stdout, stderr) = bench.leaf(&["eval", "decision", "--set", &set, "--answers", "../answers.jsonl"]);
        assert_eq!(code, 0, "{stderr}");
        stdout
    };
    let says = "the question has another wording by now";
    assert!(!told(&recorded).contains(says), "record them anew: they are of another wording of the question");
    let header: Value = serde_json::from_str(recorded.lines().next().expect("a header")).expect("JSON");
    let wording = header["question"].as_str().expect("which wording");
    assert!(told(&recorded.replacen(wording, "000000000000", 1)).contains(says));
}

#[test]
fn the_numbers_are_those_of_a_count_by_hand() {
    let set = Bench::recorded();
    let report = set.report(&[]);
    let (code, text, stderr) = set.leaf(&["eval", "decision", "--set", "../set"]);
    assert_eq!((code, stderr.as_str()), (0, ""));
    assert_counted(&report, &text, &Count::of(&set.path("set")));
    // By hand, for the count itself.
    assert_eq!((&report["right"], &report["judged"]), (&json!(2), &json!(6)));
    assert_eq!(report["answers"]["faults"]["no_object"], json!(["m4"]));
    assert_eq!(report["labels"]["kappa"], 0.77, "(7 · 6 - 18) / (7 · 7 - 18)");
    assert!(text.contains("m5 GOOD now\n      a small: so it is; b now: it seems so; the answer: now"), "{text}");
    assert!(text.contains("a-model; 2027-03-01; by hand"), "{text}");
}

/// CI holds the recorded answers to the labels, with no account and no network.
#[test]
fn the_examples_are_scored_as_a_count_by_hand_has_it() {
    let bench = Bench::new(&[]);
    let set = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/sorting");
    let answers = set.join("answers.jsonl");
    let [set_path, answers] = [&set, &answers].map(|path| path.to_str().expect("UTF-8"));
    let args = ["eval", "decision", "--set", set_path, "--answers", answers];
    let (code, text, stderr) = bench.leaf(&args);
    assert_eq!((code, stderr.as_str()), (0, ""));
    let (code, json, _) = bench.leaf(&[&args[..], &["--json"]].concat());
    assert_eq!(code, 0);
    let report: Value = serde_json::from_str(&json).expect("JSON");
    assert_counted(&report, &text, &Count::of(&set));
    assert!(report["messages"].as_u64().is_some_and(|messages| messages >= 120), "{text}");
    assert_eq!(report["answers"]["missing"], 0, "{text}");
    for groups in ["languages", "kinds"] {
        assert!(report[groups].as_object().is_some_and(|groups| groups.len() >= 8), "varied: {text}");
    }
}

#[test]
fn labels_that_lack_a_message_are_told() {
    let set = Bench::recorded();
    let labels = fs::read_to_string(set.path("set/labels-b.jsonl")).expect("labels");
    set.write("set/labels-b.jsonl", labels.split_once('\n').expect("lines").1);
    let report = set.report(&[]);
    assert_eq!(report["labels"]["complete"], false);
    assert_eq!(report["labels"]["missing"], json!(["m1"]));
    assert_eq!(report["judged"], 5, "one label alone is no measure");
}

#[test]
fn a_set_without_answers_shows_how_far_the_labels_agree() {
    let set = Bench::new(&ROWS);
    let report = set.report(&[]);
    assert_eq!((&report["labels"]["agree"], &report["answers"]["missing"]), (&json!(6), &json!(7)));
    let (code, _, said) = set.leaf(&["eval", "decision"]);
    assert_eq!(code, 1);
    assert!(said.contains("--set DIR"), "{said}");
    set.write("set/labels-a.jsonl", "{\"id\": \"m9\", \"sort\": \"now\"}\n");
    let (code, _, said) = set.leaf(&["eval", "decision", "--set", "../set"]);
    assert_eq!(code, 1);
    assert!(said.contains("labels-a.jsonl names m9"), "{said}");
}

/// The scripted client's answer to a message that says GOOD and a sort, else to one that says what it is to do.
const MODEL: &str = r#"tell() { printf '{"type":"result","is_error":%s,"result":"%s","duration_ms":7,"usage":{"input_tokens":5},"modelUsage":{"a-model":{"outputTokens":9}}}' "$1" "$2"; }
case $asked in
*"GOOD small"*) sort=small ;; *"GOOD significant"*) sort=significant ;; *"GOOD now"*) sort=now ;;
*PROSE*) tell false 'Sure, I will look into it.'; exit 0 ;;
*ERROR*) tell true 'API Error: overloaded'; exit 1 ;;
*HANG*) exec sleep 100 ;;
esac
tell false "{\\\"line\\\": \\\"On it.\\\", \\\"sort\\\": \\\"$sort\\\", \\\"title\\\": \\\"to do it\\\"}""#;

#[test]
fn the_clients_model_is_asked_and_what_it_says_can_be_replayed() {
    let set = Bench::new(&ROWS);
    set.client(MODEL);
    let asked = set.report(&["--claude", "--model", "some-model", "--save", "../saved.jsonl"]);
    assert_counted_alike(&asked, &Bench::recorded().report(&[]));
    assert_eq!(asked["answers"]["client"], "2.1.332 (Claude Code)");
    assert_eq!(asked["answers"]["model"], "some-model");
    assert_eq!(set.report(&["--answers", "../saved.jsonl"]), asked, "replayed");
    let calls = set.calls();
    assert_eq!(calls.len(), ROWS.len());
    for call in calls {
        for word in
            ["<-p>", "<--no-session-persistence>", "<--tools>\n<>", "disableAllHooks", "<--model>\n<some-model>"]
        {
            assert!(call.contains(word), "{word} in {call}");
        }
        assert!(!call.contains("--resume") && !call.contains("CLAUDECODE="), "{call}");
        assert_ne!(
            call.lines().next(),
            set.path("project").canonicalize().expect("it is there").to_str(),
            "no project's"
        );
    }
}

#[track_caller]
fn assert_counted_alike(one: &Value, other: &Value) {
    let counts = |report: &Value| {
        let mut report = report.clone();
        report["answers"] = json!([report["answers"]["sorted"], report["answers"]["faults"]]);
        report
    };
    assert_eq!(counts(one), counts(other));
}

#[test]
fn a_failed_call_is_shown_and_counted() {
    let rows = [
        ("m1", "question", "en", "GOOD small", "small", "small"),
        ("m2", "question", "en", "ERROR", "small", "small"),
        ("m3", "question", "en", "PROSE", "now", "now"),
        ("m4", "question", "en", "HANG", "significant", "significant"),
        ("m5", "question", "en", "GOOD now", "now", "now"),
    ];
    let set = Bench::new(&rows);
    set.client(MODEL);
    let args =
        ["eval", "decision", "--set", "../set", "--claude", "--jobs", "1", "--timeout", "2", "--save", "../s.jsonl"];
    let (code, text, progress) = set.leaf(&args);
    assert_eq!(code, 0, "{progress}");
    for shown in
        ["m2: the call failed: API Error: overloaded", "m4: the call failed: it took longer than 2 s", "5 of 5"]
    {
        assert!(progress.contains(shown), "{shown} in {progress}");
    }
    assert!(text.contains("2 sorted, 1 broke R21, 2 calls failed, 0 missing"), "{text}");
    assert!(text.contains("m2 (small): API Error: overloaded"), "{text}");
    let report = set.report(&["--answers", "../s.jsonl"]);
    assert_eq!((&report["confusion"]["significant"]["failed"], &report["answers"]["failed"]), (&json!(1), &json!(2)));
    assert_eq!(report["answers"]["model"], "a-model", "the client told");
}

#[test]
fn three_failed_calls_in_a_row_end_it() {
    let set = Bench::new(&ROWS);
    set.client("echo 'Not logged in · Please run /login'; exit 1");
    let args = ["eval", "decision", "--set", "../set", "--claude", "--jobs", "1", "--json"];
    let (code, stdout, said) = set.leaf(&args);
    assert_eq!(code, 1, "{said}");
    assert!(said.contains("the first said: Not logged in · Please run /login"), "{said}");
    let report: Value = serde_json::from_str(&stdout).expect("what there is, is told all the same");
    assert_eq!((&report["answers"]["failed"], &report["answers"]["missing"]), (&json!(3), &json!(4)));
    assert_eq!(set.calls().len(), 3);
}

#[test]
fn a_limit_asks_so_many_and_a_saved_file_is_never_written_over() {
    let set = Bench::new(&ROWS);
    set.client(MODEL);
    let report = set.report(&["--claude", "--limit", "2", "--save", "../saved.jsonl"]);
    assert_eq!((&report["answers"]["missing"], &report["judged"]), (&json!(5), &json!(2)));
    let before = fs::read(set.path("saved.jsonl")).expect("saved");
    let (code, _, said) = set.leaf(&["eval", "decision", "--set", "../set", "--claude", "--save", "../saved.jsonl"]);
    assert_eq!(code, 1);
    assert!(said.contains("is there already"), "{said}");
    assert_eq!(fs::read(set.path("saved.jsonl")).expect("saved"), before);
    assert_eq!(set.calls().len(), 2, "refused before anything was asked");
}

#[test]
fn without_a_client_the_way_out_is_told() {
    let set = Bench::new(&ROWS);
    let (code, _, said) = set.leaf(&["eval", "decision", "--set", "../set", "--claude", "--save", "../saved.jsonl"]);
    assert_eq!(code, 1);
    assert!(said.contains("no `claude` on PATH") && said.contains("--answers FILE"), "{said}");
    assert!(!set.path("saved.jsonl").exists(), "nothing was written");
    let (code, _, said) = set.leaf(&["eval", "decision", "--set", "../set", "--model", "m"]);
    assert_eq!(code, 2, "a model without --claude is nothing: {said}");
}
