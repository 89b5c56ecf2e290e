//! What main is told once: R123.

use std::fs;
use std::path::{Path, PathBuf};

use crate::support::desk::Desk;

fn skills() -> Vec<PathBuf> {
    let mut found = Vec::new();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("skills");
    crate::support::desk::walk(&root, &mut |path| {
        if path.file_name().is_some_and(|n| n == "SKILL.md") {
            found.push(path.to_owned());
        }
    });
    found
}

/// The `leaf …` commands in code spans and fenced blocks: the words after `leaf`, up to the first that
/// is no plain lower-case word.
fn commands(text: &str) -> Vec<Vec<String>> {
    let mut found = Vec::new();
    let mut fenced = false;
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
            continue;
        }
        let spans: Vec<&str> = if fenced { vec![line] } else { line.split('`').skip(1).step_by(2).collect() };
        for span in spans {
            let mut words = span.split_whitespace();
            if words.next() == Some("leaf") {
                let plain = |w: &&str| !w.is_empty() && w.bytes().all(|b| b.is_ascii_lowercase());
                found.push(words.take_while(plain).take(2).map(str::to_owned).collect());
            }
        }
    }
    found
}

#[test]
fn r123_the_plugin_ships_one_skill_that_names_only_commands_that_exist() {
    let skills = skills();
    assert_eq!(skills.len(), 1, "one skill: {skills:?}");
    let text = fs::read_to_string(&skills[0]).expect("the skill");
    assert!(text.starts_with("---\n"), "a skill starts with its front matter");
    let front = text.split("---").nth(1).expect("front matter");
    assert!(front.contains("name:") && front.contains("description:"), "{front}");
    let named = commands(&text);
    assert!(named.len() >= 3, "it tells how to work with threads: {named:?}");
    let desk = Desk::new();
    for words in named {
        let mut args: Vec<&str> = words.iter().map(String::as_str).collect();
        // A second word may be an argument rather than a verb.
        let with_help = |args: &[&str]| {
            let args: Vec<&str> = args.iter().copied().chain(["--help"]).collect();
            desk.person(&args).code == 0
        };
        assert!(with_help(&args) || (args.pop().is_some() && !args.is_empty() && with_help(&args)), "leaf {words:?}");
    }
}

#[test]
fn r123_it_tells_what_main_has_to_know() {
    let text = fs::read_to_string(&skills()[0]).expect("the skill");
    for word in ["leaf thread reply", "SendMessage", "TaskStop", "to-do", "subagent", "reference"] {
        assert!(text.contains(word), "the skill speaks of {word}");
    }
    for word in ["leaf thread new", "leaf thread say", "leaf hook"] {
        assert!(!text.contains(&format!("`{word}")), "{word} is not main's");
    }
}
