//! The ids, as newtypes. An id from outside is data until one of these took it (R125).

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use sha2::{Digest, Sha256};

/// Why a text is no id of its kind, as the second half of a sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invalid(pub &'static str);

impl fmt::Display for Invalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl std::error::Error for Invalid {}

macro_rules! serde_as_text {
    ($name:ident) => {
        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }
        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<$name, D::Error> {
                struct Text;
                impl serde::de::Visitor<'_> for Text {
                    type Value = $name;
                    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                        f.write_str(stringify!($name))
                    }
                    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<$name, E> {
                        text.parse().map_err(E::custom)
                    }
                }
                deserializer.deserialize_str(Text)
            }
        }
        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }
    };
}

macro_rules! hex_id {
    ($(#[$doc:meta])* $name:ident($int:ty), $digits:literal, $complaint:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub $int);
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!("{:0", stringify!($digits), "x}"), self.0)
            }
        }
        impl FromStr for $name {
            type Err = Invalid;
            fn from_str(text: &str) -> Result<$name, Invalid> {
                let hex = text.len() == $digits && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
                match <$int>::from_str_radix(text, 16) {
                    Ok(value) if hex => Ok($name(value)),
                    _ => Err(Invalid($complaint)),
                }
            }
        }
        serde_as_text!($name);
    };
}

hex_id!(
    /// An event of a page: the image of its `seq` under the page's permutation. 8 hex digits.
    EventId(u32), 8, "an id is 8 hex digits"
);
hex_id!(
    /// A thread, named by its first message.
    ThreadId(u32), 8, "a thread's id is 8 hex digits"
);
hex_id!(
    /// A message: of the user, or an agent's reply.
    MessageId(u32), 8, "a message's id is 8 hex digits"
);
hex_id!(
    /// A to-do.
    TodoId(u32), 8, "a to-do's id is 8 hex digits"
);
hex_id!(
    /// A delivery: of its first pickup, or of a pointer.
    DeliveryId(u32), 8, "a delivery's id is 8 hex digits"
);
hex_id!(
    /// One run of an agent. 16 hex digits, random.
    TurnId(u64), 16, "a turn's id is 16 hex digits"
);
hex_id!(
    /// A generation of a session: one client process's hold on it. 32 hex digits, random.
    Generation(u128), 32, "a generation is 32 hex digits"
);

macro_rules! event_names {
    ($($name:ident),*) => { $(
        impl From<EventId> for $name {
            fn from(id: EventId) -> $name { $name(id.0) }
        }
        impl From<$name> for EventId {
            fn from(id: $name) -> EventId { EventId(id.0) }
        }
    )* };
}
event_names!(ThreadId, MessageId, TodoId, DeliveryId);

impl From<ThreadId> for MessageId {
    fn from(id: ThreadId) -> MessageId {
        MessageId(id.0)
    }
}

macro_rules! text_id {
    ($(#[$doc:meta])* $name:ident, $valid:expr, $complaint:literal) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(String);
        impl $name {
            /// Returns the id as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
        impl FromStr for $name {
            type Err = Invalid;
            fn from_str(text: &str) -> Result<$name, Invalid> {
                let valid: fn(&str) -> bool = $valid;
                if valid(text) { Ok($name(text.to_owned())) } else { Err(Invalid($complaint)) }
            }
        }
        serde_as_text!($name);
    };
}

text_id!(
    /// A page, by its slug: `[a-z0-9-]{1,64}`.
    PageId,
    |text| (1..=64).contains(&text.len()) && text.bytes().all(|b| matches!(b, b'a'..=b'z' | b'0'..=b'9' | b'-')),
    "a page's slug is 1 to 64 of a-z, 0-9 and -"
);
text_id!(
    /// A session, by the client's own id: any text of 1 to 256 bytes.
    SessionId,
    |text| (1..=256).contains(&text.len()),
    "a session's id is 1 to 256 bytes"
);
text_id!(
    /// An agent of the client: `[A-Za-z0-9_-]{1,128}`.
    AgentId,
    |text| (1..=128).contains(&text.len())
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-'),
    "an agent's id is 1 to 128 of A-Z, a-z, 0-9, _ and -"
);

impl SessionId {
    /// Returns the session's directory name: the first 32 hex digits of the id's SHA-256 (R125).
    pub fn key(&self) -> SessionKey {
        SessionKey(sha256_hex(self.0.as_bytes())[..32].to_owned())
    }
}

/// A session's directory name. Sessions are locked in the order of their keys.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SessionKey(String);

impl SessionKey {
    /// Returns the key as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Takes a directory's name as a key, `None` where it is none.
    pub fn from_name(name: &str) -> Option<SessionKey> {
        let hex = name.len() == 32 && name.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
        hex.then(|| SessionKey(name.to_owned()))
    }
}

/// Returns the SHA-256 of bytes, as 64 hex digits.
pub fn sha256_hex(bytes: &[u8]) -> String {
    use fmt::Write;
    Sha256::digest(bytes).iter().fold(String::with_capacity(64), |mut hex, byte| {
        let _ = write!(hex, "{byte:02x}");
        hex
    })
}

/// What a delivery gave for answering a thread: `<delivery>:<message>`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Reference {
    /// The delivery that carried the message.
    pub delivery: DeliveryId,
    /// The message that an answer responds to.
    pub message: MessageId,
}

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.delivery, self.message)
    }
}

impl FromStr for Reference {
    type Err = Invalid;
    fn from_str(text: &str) -> Result<Reference, Invalid> {
        let invalid = Invalid("a reference is <delivery>:<message>, 8 hex digits each");
        let (delivery, message) = text.split_once(':').ok_or(invalid.clone())?;
        match (delivery.parse(), message.parse()) {
            (Ok(delivery), Ok(message)) => Ok(Reference { delivery, message }),
            _ => Err(invalid),
        }
    }
}
serde_as_text!(Reference);

/// A page's secret of 64 bits, which keys the permutation of its ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IdKey(pub u64);

impl IdKey {
    /// Returns the id of an event: the image of its `seq`. A Feistel network over two halves of 16 bits is a
    /// permutation whatever its round function, so that ids never collide.
    pub fn id(self, seq: u32) -> EventId {
        let (mut left, mut right) = ((seq >> 16) as u16, seq as u16);
        for round in 0..4 {
            (left, right) = (right, left ^ self.round(round, right));
        }
        EventId((u32::from(left) << 16) | u32::from(right))
    }

    /// Returns the `seq` whose image an id is.
    pub fn seq(self, id: EventId) -> u32 {
        let (mut left, mut right) = ((id.0 >> 16) as u16, id.0 as u16);
        for round in (0..4).rev() {
            (left, right) = (right ^ self.round(round, left), left);
        }
        (u32::from(left) << 16) | u32::from(right)
    }

    fn round(self, round: u64, half: u16) -> u16 {
        // The finalizer of splitmix64 over key, round and half.
        let mut x = self.0 ^ (round << 56) ^ (u64::from(half) << 17).wrapping_add(0x9e37_79b9_7f4a_7c15);
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((x ^ (x >> 31)) & 0xffff) as u16
    }
}

impl Serialize for IdKey {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&TurnId(self.0))
    }
}

impl<'de> Deserialize<'de> for IdKey {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<IdKey, D::Error> {
        TurnId::deserialize(deserializer).map(|hex| IdKey(hex.0))
    }
}

/// Returns 16 random bytes of the system.
///
/// # Errors
/// Where the system has none to give.
pub fn random() -> std::io::Result<[u8; 16]> {
    let mut bytes = [0; 16];
    let mut filled = 0;
    while filled < bytes.len() {
        match rustix::rand::getrandom(&mut bytes[filled..], rustix::rand::GetRandomFlags::empty()) {
            Ok(count) => filled += count,
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(bytes)
}

impl Generation {
    /// Returns a new random generation.
    ///
    /// # Errors
    /// As [`random`].
    pub fn new() -> std::io::Result<Generation> {
        Ok(Generation(u128::from_le_bytes(random()?)))
    }
}

impl TurnId {
    /// Returns a new random turn id.
    ///
    /// # Errors
    /// As [`random`].
    pub fn new() -> std::io::Result<TurnId> {
        Ok(TurnId(random_u64()?))
    }
}

/// Returns 64 random bits.
///
/// # Errors
/// As [`random`].
pub fn random_u64() -> std::io::Result<u64> {
    let bytes = random()?;
    Ok(u64::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3], bytes[4], bytes[5], bytes[6], bytes[7]]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn an_id_leads_back_to_its_seq(key: u64, seq: u32) {
            let key = IdKey(key);
            prop_assert_eq!(key.seq(key.id(seq)), seq);
        }
    }

    #[test]
    fn r125_an_id_from_outside_is_validated() {
        assert!("../../etc".parse::<PageId>().is_err());
        assert!("A".parse::<PageId>().is_err());
        assert!("".parse::<SessionId>().is_err());
        assert!("../x".parse::<AgentId>().is_err());
        assert!("+1234567".parse::<MessageId>().is_err());
        assert!("ABCDEF01".parse::<MessageId>().is_err());
        assert_eq!("../../x".parse::<SessionId>().unwrap().key().as_str().len(), 32);
    }
}
