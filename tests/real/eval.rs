//! `leaf eval --claude` in the real client: each question is one request, with no tools and no hooks, and leaves no transcript.

use std::fs;
use std::process::Command;

use serde_json::{Value, json};

use crate::client::Client;
use crate::model::{Reply, Request};

/// The model of the evaluation: one right answer, one of prose, one failure.
fn sorter(request: &Request) -> Reply {
    let text = request.text();
    if text.contains("Which colour is the door?") {
        Reply::text(json!({"line": "It is walnut.", "sort": "small"}).to_string())
    } else if text.contains("Stop that.") {
        Reply::text("I will stop.")
    } else {
        Reply::failure(400, "scripted failure")
    }
}

#[test]
#[ignore = "needs the real client: .ci/run"]
fn r020_the_clients_model_sorts_a_labelled_set_with_no_tools_and_leaves_no_transcript() {
    let client = Client::new(sorter);
    let set = client.path("project/set");
    fs::create_dir(&set).expect("a directory");
    let lines = |rows: &[Value]| rows.iter().map(|row| format!("{row}\n")).collect::<String>();
    let message = |id: &str, text: &str| {
        json!({"id": id, "kind": "question", "language": "en", "text": text,
            "context": "Main paints the house and just chose walnut for the door."})
    };
    let messages =
        [message("m1", "Which colour is the door?"), message("m2", "Stop that."), message("m3", "Paint the fence.")];
    fs::write(set.join("messages.jsonl"), lines(&messages)).expect("messages");
    let labels = [("m1", "small"), ("m2", "now"), ("m3", "significant")];
    let labels = lines(&labels.map(|(id, sort)| json!({"id": id, "sort": sort, "why": "so it is"})));
    fs::write(set.join("labels-a.jsonl"), &labels).expect("labels");
    fs::write(set.join("labels-b.jsonl"), &labels).expect("labels");

    let ask = ["eval", "decision", "--set", "set", "--claude", "--jobs", "2", "--save", "saved.jsonl"];
    let report = client.json(&ask);
    assert_eq!(report["confusion"]["small"]["small"], 1, "{report}");
    assert_eq!(report["answers"]["faults"]["no_object"], json!(["m2"]), "{report}");
    let failed = report["failed"].as_array().expect("failed").iter().find(|failed| failed["id"] == "m3");
    let why = failed.and_then(|failed| failed["why"].as_str()).expect("m3 failed");
    assert!(why.contains("scripted failure"), "{why}");
    assert!(report["answers"]["model"].is_string(), "the client told its model: {report}");
    assert_eq!(client.json(&["eval", "decision", "--set", "set", "--answers", "saved.jsonl"]), report, "replayed");

    let requests = client.model.requests();
    let asked = requests.iter().find(|request| request.text().contains("Which colour is the door?")).expect("asked");
    assert_eq!(asked.tools, [""; 0], "no tools");
    let text = asked.text();
    let told = text.find("just chose walnut").expect("the conversation");
    let question = text.find("\"sort\": \"small\", \"title\"").expect("the product's question");
    assert!(told < question, "the conversation comes first: {text}");
    assert!(!client.path("home/.local/state/leaf").exists(), "no hook ran, and nothing was recorded");
    let found = Command::new("find").arg(client.path("home/.claude")).args(["-name", "*.jsonl"]).output();
    let left = found.expect("find runs").stdout;
    assert_eq!(String::from_utf8_lossy(&left), "", "no transcript");
}
