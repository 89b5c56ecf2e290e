//! A payload on its way in. What tools gave back may be megabytes, and leaf looks at the beginnings of its texts alone: the rest
//! of a long one is checked and let go as it comes, so that what is kept and parsed stays small.
//!
//! Only a text within the values of [`CUT`] is cut, whatever the event, so that nothing rests on the order of the keys. A key
//! that is spelled with escapes is not recognized, and its value kept whole. What is let go was valid, else the payload that is
//! kept isn't either: it is read as the whole one would be.

use std::io;

use wide::u8x16;

/// The keys of a payload's object that hold what tools gave back.
const CUT: [&[u8]; 2] = [b"tool_response", b"tool_calls"];
/// At least so much of a text is kept, bytes as they are written: [`super::LOOKED_AT`] of what they mean, each written as an escape
/// of six, and half a pair of those.
const KEPT: usize = (super::LOOKED_AT + 1) * 6;
/// So much is read at once, bytes: what a pipe holds.
const CHUNK: usize = 64 << 10;

/// Reads a payload to its end, with the long texts that tools gave back cut. `Ok(None)` where it is larger than `limit` bytes; it
/// was read to its end then too, as the client must be able to write all of it.
///
/// `more` reads what comes next behind what a buffer holds, as much as it has room for, and returns how much that was, bytes.
///
/// # Errors
/// Where it can't be read.
pub fn read(mut more: impl FnMut(&mut Vec<u8>) -> io::Result<usize>, limit: u64) -> io::Result<Option<Vec<u8>>> {
    let mut intake = Intake::default();
    // Never written but by what comes: memory that a short payload doesn't need is not touched.
    let mut buffer = Vec::with_capacity(CHUNK);
    let mut size = 0;
    loop {
        let count = match more(&mut buffer) {
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        if count == 0 {
            break;
        }
        size += count as u64;
        let taken = if size > limit { buffer.len() } else { intake.take(&buffer) };
        buffer.drain(..taken);
    }
    intake.kept.append(&mut buffer);
    Ok((size <= limit).then_some(intake.kept))
}

/// What was read so far.
#[derive(Default)]
struct Intake {
    kept: Vec<u8>,
    /// How many objects and arrays are open.
    depth: usize,
    /// Whether the outermost is an object.
    object: bool,
    /// Whether the next text is a key of it.
    key_next: bool,
    /// Whether its present value is one of those that are cut.
    cuts: bool,
    text: Option<Text>,
}

/// A text that is open.
struct Text {
    /// Where it begins in what is kept.
    begin: usize,
    is_key: bool,
}

impl Intake {
    /// Takes what was read next. Returns how much of it, bytes: the rest is the beginning of an escape or of a character, and is
    /// to come again with what follows.
    fn take(&mut self, bytes: &[u8]) -> usize {
        let mut at = 0;
        while at < bytes.len() {
            let rest = &bytes[at..];
            let taken = match self.text.take() {
                Some(text) => self.text(text, rest),
                None => self.structure(rest),
            };
            if taken == 0 {
                break;
            }
            at += taken;
        }
        at
    }

    /// Takes what stands outside of texts, up to where the next begins.
    fn structure(&mut self, bytes: &[u8]) -> usize {
        let quote = bytes.iter().position(|byte| *byte == b'"');
        let end = quote.map_or(bytes.len(), |at| at + 1);
        for byte in &bytes[..end] {
            match byte {
                b'{' | b'[' => {
                    self.depth += 1;
                    if self.depth == 1 {
                        self.object = *byte == b'{';
                        self.key_next = self.object;
                    }
                }
                b'}' | b']' => self.depth = self.depth.saturating_sub(1),
                b',' if self.depth == 1 => self.key_next = self.object,
                b':' if self.depth == 1 => self.key_next = false,
                _ => {}
            }
        }
        self.kept.extend_from_slice(&bytes[..end]);
        if quote.is_some() {
            let is_key = self.depth == 1 && self.key_next;
            self.cuts &= !is_key;
            self.text = Some(Text { begin: self.kept.len(), is_key });
        }
        end
    }

    /// Takes of an open text what is whole.
    fn text(&mut self, text: Text, bytes: &[u8]) -> usize {
        let room = if self.cuts { KEPT.saturating_sub(self.kept.len() - text.begin) } else { usize::MAX };
        // Room for one escape more, so that there is always something whole.
        let most = if room == 0 { bytes.len() } else { bytes.len().min(room.saturating_add(5)) };
        let run = Run::of(&bytes[..most]);
        let end = if self.cuts && !run.ends_text { whole(&bytes[..run.end]) } else { run.end };
        let taken = &bytes[..end];
        if room > 0 {
            self.kept.extend_from_slice(taken);
        } else if !run.is_well || simdutf8::basic::from_utf8(taken).is_err() {
            // A byte that no text may have in the place of what was wrong.
            self.kept.push(0);
        }
        if !run.ends_text {
            self.text = Some(text);
            return end;
        }
        if text.is_key {
            self.cuts = CUT.contains(&&self.kept[text.begin..]);
        }
        self.kept.push(b'"');
        end + 1
    }
}

/// The next part of a text, up to its end or to an escape that is not all there.
struct Run {
    end: usize,
    ends_text: bool,
    /// Whether its escapes are such, and no byte of it is a control character.
    is_well: bool,
}

/// So many bytes are looked at together.
const BLOCK: usize = 64;

impl Run {
    fn of(bytes: &[u8]) -> Run {
        let mut is_well = true;
        // Whether the block before ended within an escape, after its backslash.
        let mut within = false;
        for (n, block) in bytes.chunks(BLOCK).enumerate() {
            let mut padded = [b' '; BLOCK];
            let block: &[u8; BLOCK] = match block.try_into() {
                Ok(block) => block,
                Err(_) => {
                    padded[..block.len()].copy_from_slice(block);
                    &padded
                }
            };
            let parts = block.as_chunks::<16>().0;
            // Nothing in it, as in most of a text.
            let special = |part: u8x16| backslash(part) | quote(part) | control(part);
            if !within && parts.iter().map(|part| special(u8x16::new(*part))).fold(u8x16::ZERO, |a, b| a | b).none() {
                continue;
            }
            let escaped = escaped_in(marks(parts, backslash), &mut within);
            let quotes = marks(parts, quote) & !escaped;
            let inside = quotes.wrapping_sub(1) & !quotes;
            is_well &= marks(parts, control) & inside == 0;
            let (mut left, mut kinds) = (escaped & inside, 0);
            while left != 0 {
                kinds |= ESCAPES[usize::from(block[left.trailing_zeros() as usize])];
                left &= left - 1;
            }
            // Few texts have others than those of one letter.
            if kinds & !SHORT != 0 {
                let (well, open) = long_escapes(bytes, n * BLOCK, escaped & inside);
                is_well &= well;
                if let Some(begin) = open {
                    return Run { end: begin, ends_text: false, is_well };
                }
            }
            if quotes != 0 {
                return Run { end: n * BLOCK + quotes.trailing_zeros() as usize, ends_text: true, is_well };
            }
        }
        Run { end: bytes.len() - usize::from(within), ends_text: false, is_well }
    }
}

// The loops over megabytes are made of these: they are inlined though leaf as a whole is built small.

#[inline(always)]
fn backslash(part: u8x16) -> u8x16 {
    part.simd_eq(u8x16::splat(b'\\'))
}

#[inline(always)]
fn quote(part: u8x16) -> u8x16 {
    part.simd_eq(u8x16::splat(b'"'))
}

#[inline(always)]
fn control(part: u8x16) -> u8x16 {
    part.max(u8x16::splat(0x1f)).simd_eq(u8x16::splat(0x1f))
}

/// Returns of which bytes of a block something holds, the first one's bit the lowest.
#[inline(always)]
fn marks(parts: &[[u8; 16]], is: impl Fn(u8x16) -> u8x16) -> u64 {
    let of = |marks, part: &[u8; 16]| marks << 16 | u64::from(is(u8x16::new(*part)).to_bitmask());
    parts.iter().rev().fold(0, of)
}

/// Returns which bytes of a block are escaped by a backslash before them: of a row of backslashes every second is escaped itself.
/// `within`: whether the last byte of the block before was a backslash that escapes. By simdjson's way, without a loop.
fn escaped_in(backslashes: u64, within: &mut bool) -> u64 {
    const ODD: u64 = 0xAAAA_AAAA_AAAA_AAAA;
    let first = u64::from(*within);
    let may_escape = backslashes & !first;
    let ends = (may_escape << 1 | ODD).wrapping_sub(may_escape) ^ ODD;
    *within = (ends & backslashes) >> 63 == 1;
    ends ^ (backslashes | first)
}

const SHORT: u8 = 1;
const UNICODE: u8 = 2;
const WRONG: u8 = 4;

/// What may follow a backslash.
const ESCAPES: [u8; 256] = {
    let mut kinds = [WRONG; 256];
    let short = b"\"\\/bfnrt";
    let mut at = 0;
    while at < short.len() {
        kinds[short[at] as usize] = SHORT;
        at += 1;
    }
    kinds[b'u' as usize] = UNICODE;
    kinds
};

/// Whether the escapes of a block are such, of which not all are of one letter, and where one begins that is not all there.
fn long_escapes(bytes: &[u8], block: usize, escaped: u64) -> (bool, Option<usize>) {
    let mut well = true;
    for at in (0..BLOCK).filter(|at| escaped >> at & 1 == 1).map(|at| block + at) {
        let is_escape = match bytes.get(at).map(|byte| ESCAPES[usize::from(*byte)]) {
            Some(UNICODE) => bytes.get(at + 1..at + 5).map(|digits| digits.iter().all(u8::is_ascii_hexdigit)),
            Some(kind) => Some(kind == SHORT),
            // It lies behind the last backslash that there is.
            None => None,
        };
        match is_escape {
            Some(is_escape) => well &= is_escape,
            None => return (well, Some(at - 1)),
        }
    }
    (well, None)
}

/// Returns how much of a text is whole characters: all but the beginning of one at its end.
fn whole(text: &[u8]) -> usize {
    let lead = text.iter().rev().take(3).position(|byte| byte & 0xC0 != 0x80);
    match lead.map(|back| (back + 1, text[text.len() - back - 1])) {
        Some((has, lead)) if lead >= 0xC0 && has < usize::try_from(lead.leading_ones()).unwrap_or(0) => {
            text.len() - has
        }
        _ => text.len(),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    const LIMIT: u64 = 1 << 20;

    /// Gives its bytes in pieces of these sizes, over and over.
    struct Pieces<'a> {
        bytes: &'a [u8],
        sizes: std::iter::Cycle<std::slice::Iter<'a, usize>>,
    }

    impl Pieces<'_> {
        fn more(&mut self, buffer: &mut Vec<u8>) -> io::Result<usize> {
            let most = self.sizes.next().copied().unwrap_or(CHUNK);
            let count = most.min(buffer.capacity() - buffer.len()).min(self.bytes.len());
            buffer.extend_from_slice(&self.bytes[..count]);
            self.bytes = &self.bytes[count..];
            Ok(count)
        }
    }

    fn kept(bytes: &[u8], sizes: &[usize]) -> Vec<u8> {
        let mut pieces = Pieces { bytes, sizes: sizes.iter().cycle() };
        read(|buffer| pieces.more(buffer), LIMIT).expect("it is read").expect("it is no larger")
    }

    /// What leaf makes of a payload; nothing where it is none.
    fn made(bytes: &[u8]) -> Option<String> {
        super::super::read(bytes).ok().map(|event| format!("{event:?}"))
    }

    #[test]
    fn a_long_response_is_cut_and_a_long_command_is_not() {
        let long = "x\n\u{e9}\u{1f33f}\"".repeat(10_000);
        let payload = json!({"tool_response": {"stdout": long, "agentId": "a1"}, "tool_input": {"command": long}});
        let read: Value = serde_json::from_slice(&kept(payload.to_string().as_bytes(), &[CHUNK])).expect("JSON");
        assert_eq!(read["tool_input"], payload["tool_input"]);
        assert_eq!(read["tool_response"]["agentId"], "a1");
        let cut = read["tool_response"]["stdout"].as_str().expect("a text");
        assert!(cut.len() >= super::super::LOOKED_AT && cut.len() < 2 * KEPT && long.starts_with(cut), "{}", cut.len());
    }

    #[test]
    fn only_what_tools_gave_back_is_cut() {
        let long = "x".repeat(10 * KEPT);
        for payload in [
            json!({"tool_input": {"tool_response": long}}),
            json!({"prompt": long, "x": "tool_calls"}),
            json!(["tool_calls", long]),
            json!([{"tool_calls": long}]),
            json!("tool_calls"),
        ] {
            let text = payload.to_string();
            assert_eq!(kept(text.as_bytes(), &[CHUNK]), text.as_bytes());
        }
    }

    #[test]
    fn more_than_the_limit_is_read_to_its_end() {
        let bytes = vec![b' '; 3 << 20];
        let mut pieces = Pieces { bytes: &bytes, sizes: [CHUNK].iter().cycle() };
        assert!(read(|buffer| pieces.more(buffer), LIMIT).expect("it is read").is_none());
        assert!(pieces.bytes.is_empty());
        let mut pieces = Pieces { bytes: &bytes[..1 << 20], sizes: [CHUNK].iter().cycle() };
        assert!(read(|buffer| pieces.more(buffer), LIMIT).expect("it is read").is_some());
    }

    /// Long and short texts as a payload has them: with quotes, escapes, and characters of every length.
    fn text() -> impl Strategy<Value = String> {
        let piece = prop_oneof![
            4 => "[ -~]{1,60}",
            1 => Just("running in background with ID: b7k2 ".to_owned()),
            1 => Just("was moved to the background (ID: b7k2) ".to_owned()),
            1 => "[\u{0}-\u{1f}\u{e9}\u{20ac}\u{1f33f}\"\\\\]{1,30}",
        ];
        (proptest::collection::vec(piece, 1..6), 1..200_usize).prop_map(|(pieces, times)| pieces.concat().repeat(times))
    }

    fn response() -> impl Strategy<Value = Value> {
        prop_oneof![
            text().prop_map(Value::from),
            (text(), text()).prop_map(|(a, b)| json!({"stdout": a, "agentId": "a2d3fa93fc9d30ff5", "stderr": b})),
            (text(), text()).prop_map(|(a, b)| json!([{"type": "text", "text": a}, {"type": "text", "text": b}])),
            text().prop_map(|key| json!({key: 1})),
        ]
    }

    /// A recorded payload with other responses, its keys in any order, one perhaps twice or spelled with an escape.
    fn payload() -> impl Strategy<Value = Vec<u8>> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/support/payloads");
        let files = std::fs::read_dir(folder).expect("the payloads").map(|file| file.expect("a file").path());
        let recorded: Vec<Value> =
            files.map(|file| serde_json::from_slice(&std::fs::read(file).expect("a payload")).expect("JSON")).collect();
        let keys = any::<(prop::sample::Index, u8)>();
        (prop::sample::select(recorded), response(), response(), any::<prop::sample::Index>(), keys).prop_flat_map(
            |(mut payload, one, two, twice, (escaped, odd))| {
                payload["tool_response"] = one;
                payload["tool_calls"] = json!([{"tool_name": "Bash", "tool_response": two}]);
                let object = payload.as_object().expect("an object");
                let mut members: Vec<String> =
                    object.iter().map(|(key, value)| format!("{}:{value}", json!(key))).collect();
                if odd % 8 == 0 {
                    members.push(twice.get(&members).clone());
                }
                if odd % 8 == 1 {
                    let member = escaped.index(members.len());
                    let first = u32::from(members[member].as_bytes()[1]);
                    members[member].replace_range(1..2, &format!("\\u{first:04x}"));
                }
                Just(members).prop_shuffle().prop_map(|members| format!("{{{}}}", members.join(", ")).into_bytes())
            },
        )
    }

    #[test]
    fn a_wrong_escape_before_one_that_is_not_all_there_is_seen() {
        let text = format!(r#"{{"tool_response": "{}\u000\\x"}}"#, "x".repeat(2 * KEPT));
        for size in 1..40 {
            assert!(serde_json::from_slice::<Value>(&kept(text.as_bytes(), &[size])).is_err(), "{size}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

        /// What is read of a cut payload is what is read of the whole one, whatever is wrong with it.
        #[test]
        fn a_cut_payload_says_what_the_whole_one_does(
            payload in payload(),
            sizes in proptest::collection::vec(prop_oneof![1..20_usize, 1..CHUNK], 1..6),
            wrongs in proptest::collection::vec(
                (any::<prop::sample::Index>(), 0..3_u8, prop::sample::select(&b"\"\\u{}[]:,d\x00\x1f\x80\xc3\xe2\xf0\xff"[..])),
                0..3,
            ),
        ) {
            let mut bytes = payload;
            for (at, what, byte) in wrongs {
                let at = at.index(bytes.len());
                match what {
                    0 => bytes[at] = byte,
                    1 => bytes.insert(at, byte),
                    _ => drop(bytes.remove(at)),
                }
            }
            prop_assert_eq!(made(&kept(&bytes, &sizes)), made(&bytes));
        }
    }
}
