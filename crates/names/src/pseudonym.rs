//! Names that join and cannot be read.

use std::fmt::Write as _;

use ring::hmac;

/// Bytes of a key at least: as many as those of a SHA-256 digest (RFC 2104 §3).
pub const KEY_LEN_MIN: usize = 32;

/// Bytes of a digest that a pseudonym shows: two of 2^32 names collide with a chance of 2^-64.
const SHOWN_LEN: usize = 16;

/// Turns names into pseudonyms by a key: HMAC-SHA-256 (RFC 2104). The same name has the same
/// pseudonym under the same key, so rows can be joined; without the key no list of names can be
/// tried.
#[derive(Clone, Debug)]
pub struct Pseudonyms(hmac::Key);

impl Pseudonyms {
    /// By a key.
    ///
    /// # Errors
    /// How many bytes the key has, where those are fewer than [`KEY_LEN_MIN`].
    pub fn new(key: &[u8]) -> Result<Self, usize> {
        match key.len() {
            0..KEY_LEN_MIN => Err(key.len()),
            _ => Ok(Self(hmac::Key::new(hmac::HMAC_SHA256, key))),
        }
    }

    /// The pseudonym of a name: 32 hexadecimal digits.
    #[must_use]
    pub fn of(&self, name: &str) -> String {
        let tag = hmac::sign(&self.0, name.as_bytes());
        let mut text = String::with_capacity(2 * SHOWN_LEN);
        for byte in tag.as_ref().iter().take(SHOWN_LEN) {
            // Writing to a string cannot fail.
            let _ = write!(text, "{byte:02x}");
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pseudonym_is_the_start_of_the_digest() {
        // Test case 6 of RFC 4231, whose key has 131 bytes.
        let pseudonyms = Pseudonyms::new(&[0xaa; 131]).unwrap();
        let name = "Test Using Larger Than Block-Size Key - Hash Key First";
        assert_eq!(pseudonyms.of(name), "60e431591ee0b67f0d8a26aacbf5b77f");
    }

    #[test]
    fn another_key_gives_another_pseudonym_and_a_short_one_none() {
        let [one, other] = [[1; 32], [2; 32]].map(|key| Pseudonyms::new(&key).unwrap());
        assert_eq!(one.of("example.com"), one.of("example.com"));
        assert_ne!(one.of("example.com"), other.of("example.com"));
        assert_eq!(Pseudonyms::new(&[1; 31]).unwrap_err(), 31);
    }
}
