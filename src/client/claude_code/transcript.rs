//! The client's transcript of a session: what its main said. Measured on 2.1.332.

use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

use serde::Deserialize;

use crate::clock::Ts;
use crate::place::open_plain;

/// How much of a transcript's end is read, bytes.
const TAIL: u64 = 16 << 20;
/// How much of it is read for its last rows, bytes.
const NEAR: u64 = 256 << 10;

/// Returns what the session's main said in its own conversation, each with its time, the oldest first; nothing where the transcript
/// can't be read. What its agents said stands in files of their own.
pub fn said(transcript: &Path) -> Vec<(Ts, String)> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Row {
        #[serde(rename = "type")]
        kind: String,
        timestamp: Ts,
        #[serde(default)]
        is_sidechain: bool,
        message: Said,
    }
    #[derive(Deserialize)]
    struct Said {
        content: Vec<Block>,
    }
    #[derive(Deserialize)]
    struct Block {
        #[serde(rename = "type")]
        kind: String,
        #[serde(default)]
        text: String,
    }
    let bytes = tail(transcript, TAIL).unwrap_or_default();
    let rows = bytes.split(|byte| *byte == b'\n').filter_map(|row| serde_json::from_slice::<Row>(row).ok());
    let mut said = Vec::new();
    for row in rows.filter(|row| row.kind == "assistant" && !row.is_sidechain) {
        let texts =
            row.message.content.into_iter().filter(|block| block.kind == "text" && !block.text.trim().is_empty());
        said.extend(texts.map(|block| (row.timestamp, block.text)));
    }
    said
}

/// Returns how many tokens the context of the session's main has by its last request, and the model that answered that; `None` where
/// nothing tells. Only the transcript's end is read, more of it where that says nothing.
pub fn context(transcript: &Path) -> Option<(u64, Option<String>)> {
    [NEAR, TAIL].into_iter().find_map(|most| context_in(&tail(transcript, most).ok()?))
}

fn context_in(bytes: &[u8]) -> Option<(u64, Option<String>)> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Row {
        #[serde(rename = "type")]
        kind: String,
        #[serde(default)]
        is_sidechain: bool,
        message: Said,
    }
    #[derive(Deserialize)]
    struct Said {
        #[serde(default)]
        model: Option<String>,
        usage: Usage,
    }
    #[derive(Deserialize)]
    struct Usage {
        #[serde(default)]
        input_tokens: u64,
        #[serde(default)]
        cache_read_input_tokens: u64,
        #[serde(default)]
        cache_creation_input_tokens: u64,
    }
    let rows = bytes.rsplit(|byte| *byte == b'\n').filter_map(|row| serde_json::from_slice::<Row>(row).ok());
    rows.filter(|row| row.kind == "assistant" && !row.is_sidechain)
        .map(|row| {
            let usage = row.message.usage;
            let cached = usage.cache_read_input_tokens.saturating_add(usage.cache_creation_input_tokens);
            (usage.input_tokens.saturating_add(cached), row.message.model)
        })
        // A message that the client made itself has none.
        .find(|(tokens, _)| *tokens > 0)
}

fn tail(path: &Path, most: u64) -> std::io::Result<Vec<u8>> {
    let mut file = open_plain(path)?;
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(most)))?;
    let mut bytes = Vec::new();
    file.take(most).read_to_end(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_main_itself_said_counts() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("t.jsonl");
        let row = |kind: &str, side: bool, content: &str| {
            format!(
                "{{\"type\":\"{kind}\",\"isSidechain\":{side},\"timestamp\":\"2027-03-01T10:00:00.000Z\",\"message\":{{\"content\":{content}}}}}\n"
            )
        };
        let text = |text: &str| format!("[{{\"type\":\"text\",\"text\":\"{text}\"}}]");
        let rows = [
            row("assistant", false, &text("it is 8080")),
            row("assistant", true, &text("an agent's")),
            row("user", false, &text("the user's")),
            row("assistant", false, r#"[{"type":"tool_use","name":"Bash","input":{}}]"#),
            "{\"type\":\"torn".to_owned(),
        ];
        std::fs::write(&file, rows.concat()).unwrap();
        assert_eq!(said(&file), [(Ts::parse("2027-03-01T10:00:00Z").unwrap(), "it is 8080".to_owned())]);
        assert_eq!(said(&dir.path().join("none")), []);
    }
}
