//! What others wrote is data (R124): made harmless for a terminal, and fenced in a delivery.

use std::fmt::Write;

/// Returns text that can't drive a terminal or hide in it: control characters (C0 but newline and tab, C1, so that no
/// escape sequence comes through), bidirectional and unseen characters become `\u{…}`.
pub fn harmless(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if c != '\n' && c != '\t' && drives(c) {
            let _ = write!(out, "\\u{{{:x}}}", u32::from(c));
        } else {
            out.push(c);
        }
    }
    out
}

/// Returns a JSON value's text with the same characters as escapes of JSON's own: it is shown in a terminal too, and means the same.
pub fn harmless_json(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    let mut units = [0; 2];
    for c in json.chars() {
        if drives(c) {
            for unit in c.encode_utf16(&mut units) {
                let _ = write!(out, "\\u{unit:04x}");
            }
        } else {
            out.push(c);
        }
    }
    out
}

/// Returns harmless text as one line: newlines and tabs become blanks.
pub fn one_line(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    harmless(&line)
}

/// A thread's title, where the user gives none, is its text's first words: at most this many characters.
pub const TITLE: usize = 60;

/// Returns the first words of a text as one line of at most `limit` characters, as they were written: for what is stored.
pub fn clip(text: &str, limit: usize) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if line.chars().count() <= limit {
        return line;
    }
    let cut: String = line.chars().take(limit.saturating_sub(1)).collect();
    match cut.rfind(' ').filter(|at| *at > cut.len() / 2) {
        Some(at) => format!("{}…", &cut[..at]),
        None => format!("{cut}…"),
    }
}

/// Returns the first words of a text as one harmless line: for what is shown.
pub fn first_words(text: &str, limit: usize) -> String {
    harmless(&clip(text, limit))
}

/// Whether a character drives a terminal, changes the direction of writing, or is not seen at all: the controls, Unicode's
/// Default_Ignorable_Code_Point, its line separators and interlinear marks. The 16 selectors by which an emoji takes its colours stay.
fn drives(c: char) -> bool {
    c.is_control()
        || matches!(
            c,
            '\u{ad}'
                | '\u{34f}'
                | '\u{61c}'
                | '\u{115f}'..='\u{1160}'
                | '\u{17b4}'..='\u{17b5}'
                | '\u{180b}'..='\u{180f}'
                | '\u{200b}'..='\u{200f}'
                | '\u{2028}'..='\u{202e}'
                | '\u{2060}'..='\u{206f}'
                | '\u{3164}'
                | '\u{feff}'
                | '\u{ffa0}'
                | '\u{fff0}'..='\u{fffb}'
                | '\u{1bca0}'..='\u{1bca3}'
                | '\u{1d173}'..='\u{1d17a}'
                | '\u{e0000}'..='\u{e0fff}'
        )
}

/// Returns a text as it stands in a delivery: harmless, and without a `<` that could open a tag.
pub fn for_delivery(text: &str) -> String {
    harmless(text).replace('<', "&lt;")
}

/// The mark of a delivery's fences: fresh, and in none of the texts that it fences.
#[derive(Clone, Debug)]
pub struct Fence(String);

impl Fence {
    /// Returns a mark that none of the texts holds.
    ///
    /// # Errors
    /// Where the system gives no random bytes.
    pub fn around<'a>(texts: impl Iterator<Item = &'a str> + Clone) -> std::io::Result<Fence> {
        loop {
            let mark = format!("{:012x}", crate::ids::random_u64()? >> 16);
            if !texts.clone().any(|text| text.contains(&mark)) {
                return Ok(Fence(mark));
            }
        }
    }

    /// Returns a mark that none of the texts holds, the same at every call with the same secret: for a text that is read in
    /// parts.
    pub fn of<'a>(secret: &str, texts: impl Iterator<Item = &'a str> + Clone) -> Fence {
        let mut attempt = 0u32;
        loop {
            let mark = crate::ids::sha256_hex(format!("{secret}:{attempt}").as_bytes())[..12].to_owned();
            if !texts.clone().any(|text| text.contains(&mark)) {
                return Fence(mark);
            }
            attempt += 1;
        }
    }

    /// Returns the mark.
    pub fn mark(&self) -> &str {
        &self.0
    }

    /// Returns the text between two marks; `head` is leaf's own words, outside.
    pub fn fenced(&self, head: &str, text: &str) -> String {
        format!("{head}\n[{mark}\n{text}\n{mark}]\n", mark = self.0, text = for_delivery(text))
    }
}

/// Returns a text's length in UTF-16 units: what the client counts.
pub fn utf16(text: &str) -> usize {
    text.encode_utf16().count()
}

/// Returns "1 message", "2 messages".
pub fn count(number: usize, noun: &str) -> String {
    if number == 1 { format!("1 {noun}") } else { format!("{number} {noun}s") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn r124_no_text_drives_a_terminal_or_opens_a_tag(text: String) {
            let shown = for_delivery(&text);
            prop_assert!(!shown.contains('<'));
            prop_assert!(!shown.chars().any(|c| c.is_control() && c != '\n' && c != '\t'));
        }

        #[test]
        fn r124_json_that_drives_no_terminal_is_the_same_json(text: String) {
            let json = serde_json::to_string(&text).unwrap();
            let shown = harmless_json(&json);
            prop_assert!(!shown.chars().any(drives));
            prop_assert_eq!(serde_json::from_str::<String>(&shown).unwrap(), text);
        }

        #[test]
        fn r124_a_fence_is_in_no_text(texts: Vec<String>) {
            let fence = Fence::around(texts.iter().map(String::as_str)).unwrap();
            prop_assert!(texts.iter().all(|text| !text.contains(fence.mark())));
        }
    }

    #[test]
    fn r124_escapes_are_shown_not_sent() {
        assert_eq!(harmless("a\u{1b}]0;x\u{7}b\u{202e}\u{9b}1m"), "a\\u{1b}]0;x\\u{7}b\\u{202e}\\u{9b}1m");
        assert_eq!(harmless("\u{2764}\u{fe0f}"), "\u{2764}\u{fe0f}", "an emoji's colours stay");
        assert_eq!(harmless_json("\"\u{9b}\u{e0041}\""), "\"\\u009b\\udb40\\udc41\"");
        assert_eq!(one_line(" a\n b\tc "), "a b c");
        assert_eq!(first_words("one two three four", 12), "one two…");
    }
}
