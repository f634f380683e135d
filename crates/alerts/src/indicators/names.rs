//! A set of texts, such as domain names or fingerprints.
//!
//! Texts lie end to end in one buffer; a table with open addressing, at most half full, has their
//! numbers, and a second one seven bits of each hash, so that what is not in the set is mostly
//! known after one byte. A million domain names of 20 bytes take 34 MB. Hashes are seeded at
//! random, as the author of a list may also send the traffic.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;

/// Bytes of the longest domain name in text (RFC 1035, 2.3.4, without the last dot).
const DOMAIN_LEN_MAX: usize = 253;

/// Labels of a name that are tried, from the whole name on; a name has no more than 127.
const LABELS_MAX: usize = 127;

/// A set of texts.
pub struct Names {
    text: String,
    /// Where each text ends.
    ends: Vec<u32>,
    /// The number of the text of each slot.
    slots: Vec<u32>,
    /// Bits of its hash, never 0; 0 where there is none.
    tags: Vec<u8>,
    state: RandomState,
}

impl Names {
    /// Of these texts, up to 4 GiB of them.
    #[must_use]
    pub fn new<'a>(texts: impl Iterator<Item = &'a str>) -> Self {
        let (mut text, mut ends) = (String::new(), Vec::new());
        for one in texts {
            let Ok(end) = u32::try_from(text.len() + one.len()) else { break };
            text.push_str(one);
            ends.push(end);
        }
        text.shrink_to_fit();
        ends.shrink_to_fit();
        let len = (ends.len() * 2).next_power_of_two().max(2);
        let (slots, tags) = (vec![0; len], vec![0; len]);
        let mut names = Self { text, ends, slots, tags, state: RandomState::new() };
        let count = u32::try_from(names.ends.len()).unwrap_or(u32::MAX);
        for number in 0..count {
            let (slot, tag, found) = names.slot(names.get(number));
            let is_there = found.is_some();
            let places = names.slots.get_mut(slot).zip(names.tags.get_mut(slot));
            if let Some((into, its_tag)) = places.filter(|_| !is_there) {
                (*into, *its_tag) = (number, tag);
            }
        }
        names
    }

    fn get(&self, number: u32) -> &str {
        let at = number as usize;
        let end = self.ends.get(at).map_or(0, |&end| end as usize);
        let start = at.checked_sub(1).and_then(|at| self.ends.get(at)).map_or(0, |&at| at as usize);
        self.text.get(start..end).unwrap_or_default()
    }

    /// Where a text is, or would be; its tag; and the text, if it is there.
    #[allow(clippy::cast_possible_truncation)]
    fn slot(&self, text: &str) -> (usize, u8, Option<&str>) {
        let mask = self.slots.len() - 1;
        let hash = self.state.hash_one(text);
        let tag = (hash >> 56) as u8 | 1;
        let mut slot = hash as usize & mask;
        loop {
            match self.tags.get(slot) {
                None | Some(0) => return (slot, tag, None),
                Some(&seen) if seen == tag => {
                    let found = self.slots.get(slot).map_or("", |&number| self.get(number));
                    if found == text {
                        return (slot, tag, Some(found));
                    }
                }
                Some(_) => {}
            }
            slot = (slot + 1) & mask;
        }
    }

    /// The text itself.
    #[must_use]
    pub fn find(&self, text: &str) -> Option<&str> {
        self.slot(text).2
    }

    /// The longest name of the set that a domain name is or is below. Case does not matter, nor a
    /// dot at the end.
    #[must_use]
    pub fn find_domain(&self, name: &str) -> Option<&str> {
        let mut buffer = [0; DOMAIN_LEN_MAX];
        let name = name.strip_suffix('.').unwrap_or(name).as_bytes();
        let lower = buffer.get_mut(..name.len())?;
        lower.copy_from_slice(name);
        lower.make_ascii_lowercase();
        let mut rest = std::str::from_utf8(lower).ok()?;
        for _ in 0..LABELS_MAX {
            if let Some(found) = self.find(rest) {
                return Some(found);
            }
            (_, rest) = rest.split_once('.')?;
        }
        None
    }

    /// Bytes of memory.
    #[must_use]
    pub fn byte_count(&self) -> usize {
        let numbers = self.ends.capacity() + self.slots.capacity();
        self.text.capacity() + 4 * numbers + self.tags.capacity()
    }
}

/// A domain name as lists have it, in lower case: `*.` or a dot before it and a dot after it are
/// dropped. Names in other alphabets are wanted as in DNS (`xn--`).
#[must_use]
pub fn domain(text: &str) -> Option<String> {
    let text = text.strip_prefix("*.").or_else(|| text.strip_prefix('.')).unwrap_or(text);
    let text = text.strip_suffix('.').unwrap_or(text);
    let is_label = |label: &str| {
        let is_fine = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
        (1..=63).contains(&label.len()) && label.bytes().all(is_fine)
    };
    let is_name = text.len() <= DOMAIN_LEN_MAX && text.split('.').all(is_label);
    // An address is no name, though it looks like one.
    let is_address = text.parse::<std::net::IpAddr>().is_ok();
    (is_name && !is_address).then(|| text.to_ascii_lowercase())
}

/// A JA4 fingerprint, `t13d1516h2_8daaf6152771_b186095e22b6`, in lower case.
#[must_use]
pub fn ja4(text: &str) -> Option<String> {
    let text = text.to_ascii_lowercase();
    let mut parts = text.split('_');
    let (head, ciphers, rest) = (parts.next()?, parts.next()?, parts.next()?);
    let is_hash = |part: &str| part.len() == 12 && part.bytes().all(|b| b.is_ascii_hexdigit());
    let is_head = head.len() == 10
        && head.starts_with(['t', 'q', 'd'])
        && head.bytes().all(|byte| byte.is_ascii_alphanumeric());
    let is_ja4 = is_head && is_hash(ciphers) && is_hash(rest) && parts.next().is_none();
    is_ja4.then_some(text)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn names_below_a_name_are_found() {
        let names = Names::new(["evil.example", "b.good.example", "zip"].into_iter());
        for (asked, found) in [
            ("evil.example", Some("evil.example")),
            ("A.B.Evil.Example.", Some("evil.example")),
            ("notevil.example", None),
            ("good.example", None),
            ("a.b.good.example", Some("b.good.example")),
            ("x.zip", Some("zip")),
            ("", None),
            (".", None),
            ("é.evil.example", Some("evil.example")),
        ] {
            assert_eq!(names.find_domain(asked), found, "{asked}");
        }
        assert_eq!(names.find_domain(&"a.".repeat(500)), None);
        assert_eq!(Names::new(std::iter::empty()).find_domain("a.b"), None);
    }

    #[test]
    fn entries_are_read() {
        for (text, wanted) in [
            ("*.Evil.example.", Some("evil.example")),
            (".evil.example", Some("evil.example")),
            ("xn--e1aybc", Some("xn--e1aybc")),
            ("192.0.2.1", None),
            ("a..b", None),
            ("bücher.example", None),
            ("a b", None),
            ("", None),
        ] {
            assert_eq!(domain(text).as_deref(), wanted, "{text}");
        }
        assert!(ja4("T13d1516h2_8daaf6152771_b186095e22b6").is_some());
        for bad in ["", "t13d1516h2", "t13d1516h2_8daaf6152771_b186095e22bz", "a_b_c"] {
            assert_eq!(ja4(bad), None, "{bad}");
        }
    }

    proptest! {
        #[test]
        fn the_set_has_what_it_was_made_of(
            texts in proptest::collection::vec("[ab]{1,4}", 0..60),
            asked in "[ab]{1,4}",
        ) {
            let set = Names::new(texts.iter().map(String::as_str));
            let wanted: HashSet<_> = texts.iter().collect();
            prop_assert!(texts.iter().all(|text| set.find(text) == Some(text.as_str())));
            prop_assert_eq!(set.find(&asked).is_some(), wanted.contains(&asked));
        }
    }
}
