//! Cache files: JSON of which one can tell whether it is whole. A bit that a bad disk flipped may leave JSON that reads well and says
//! something else; what is rebuilt from a log must never be believed then.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

#[derive(Serialize, Deserialize)]
struct Sealed<'a> {
    crc: u32,
    #[serde(borrow)]
    body: &'a RawValue,
}

/// Returns a cache file's bytes.
///
/// # Errors
/// Where the body is no JSON.
pub fn to_vec(body: &impl Serialize) -> serde_json::Result<Vec<u8>> {
    let body = serde_json::value::to_raw_value(body)?;
    serde_json::to_vec(&Sealed { crc: crc32fast::hash(body.get().as_bytes()), body: &body })
}

/// Reads a cache file; `None` where it is damaged, or of another version.
pub fn from_slice<T: DeserializeOwned>(bytes: &[u8]) -> Option<T> {
    let sealed: Sealed<'_> = serde_json::from_slice(bytes).ok()?;
    if crc32fast::hash(sealed.body.get().as_bytes()) != sealed.crc {
        return None;
    }
    serde_json::from_str(sealed.body.get()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r127_a_cache_of_which_any_bit_was_flipped_is_none() {
        let body = serde_json::json!({"seq": 17, "text": "a b c", "on": true});
        let bytes = to_vec(&body).unwrap();
        assert_eq!(from_slice::<serde_json::Value>(&bytes), Some(body.clone()));
        for bit in 0..bytes.len() * 8 {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            // A key that isn't read any more makes no difference to what is read.
            assert!(from_slice::<serde_json::Value>(&damaged).is_none_or(|read| read == body), "bit {bit}");
        }
    }
}
