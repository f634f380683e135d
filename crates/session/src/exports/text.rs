//! What records of several tools have in common: numbers of flows, times, JSON.

use std::fmt::{self, Write as _};

use packet::Timestamp;

const NS_PER_SECOND: i64 = 1_000_000_000;

/// Bits of a flow's number: what JavaScript's numbers hold.
const FLOW_ID_BITS: u32 = 53;

/// A number that the records of one flow share, whoever writes them, the same in every run: FNV-1a
/// of its Community ID and its first stamp.
#[must_use]
pub fn flow_id(community_id: &str, first: Timestamp) -> u64 {
    const OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
    const PRIME: u64 = 0x0100_0000_01b3;
    let bytes = community_id.bytes().chain(first.as_ns().to_be_bytes());
    let hash = bytes.fold(OFFSET, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(PRIME));
    // The last bytes have hardly reached the upper bits.
    (hash ^ hash >> 32).wrapping_mul(PRIME << 20 | 1) >> (u64::BITS - FLOW_ID_BITS)
}

/// The number as Zeek writes its own: `C` and digits of base 62.
#[must_use]
pub fn uid(number: u64) -> String {
    const DIGITS: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    let mut rest = number;
    let mut text = String::from("C");
    while rest > 0 {
        let digit = DIGITS.get((rest % 62) as usize);
        text.push(digit.copied().map_or('0', char::from));
        rest /= 62;
    }
    text
}

/// A stamp as Suricata writes it, cut to microseconds: `2026-11-21T09:30:00.000000+0000`.
#[must_use]
pub fn suricata_time(stamp: Timestamp) -> String {
    const MICROSECONDS_END: usize = "2026-11-21T09:30:00.000000".len();
    let text = stamp.to_string();
    format!("{}+0000", text.get(..MICROSECONDS_END).unwrap_or(&text))
}

/// Seconds since the epoch, cut to microseconds, as Zeek writes `time`.
#[must_use]
pub fn epoch_seconds(ns: i64) -> String {
    let (sign, ns) = (if ns < 0 { "-" } else { "" }, ns.unsigned_abs());
    let per_second = NS_PER_SECOND.unsigned_abs();
    format!("{sign}{}.{:06}", ns / per_second, ns % per_second / 1000)
}

/// A length of time in seconds, as Zeek writes `interval`.
#[must_use]
pub fn seconds(ns: u64) -> String {
    let per_second = NS_PER_SECOND.unsigned_abs();
    format!("{}.{:09}", ns / per_second, ns % per_second)
}

/// An object of JSON that grows at the end of a text.
pub struct Object<'a> {
    text: &'a mut String,
    is_empty: bool,
}

impl<'a> Object<'a> {
    /// Begins one.
    pub fn begin(text: &'a mut String) -> Self {
        text.push('{');
        Self { text, is_empty: true }
    }

    fn key(&mut self, key: &str) {
        if !self.is_empty {
            self.text.push(',');
        }
        self.is_empty = false;
        self.text.push_str(&quoted(key));
        self.text.push(':');
    }

    /// A text.
    pub fn text(&mut self, key: &str, value: &str) {
        self.key(key);
        self.text.push_str(&quoted(value));
    }

    /// A text that may be left out.
    pub fn text_if_any(&mut self, key: &str, value: Option<&str>) {
        if let Some(value) = value {
            self.text(key, value);
        }
    }

    /// What is JSON as it displays itself: a number, `true`, a list of numbers.
    pub fn raw(&mut self, key: &str, value: impl fmt::Display) {
        self.key(key);
        // Writing to a string cannot fail.
        let _ = write!(self.text, "{value}");
    }

    /// An object within.
    pub fn object(&mut self, key: &str, fill: impl FnOnce(&mut Object<'_>)) {
        self.key(key);
        let mut inner = Object::begin(self.text);
        fill(&mut inner);
        inner.end();
    }

    /// Ends it.
    pub fn end(self) {
        self.text.push('}');
    }
}

fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_numbers_are_as_the_tools_write_them() {
        let ns = 951_782_400_000_001_999;
        assert_eq!(suricata_time(Timestamp::from_ns(ns)), "2000-02-29T00:00:00.000001+0000");
        assert_eq!(epoch_seconds(ns), "951782400.000001");
        assert_eq!(epoch_seconds(-500_000_000), "-0.500000");
        assert_eq!(seconds(1_000_000_007), "1.000000007");
        assert_eq!(uid(61 + 62), "Cz1");
    }

    #[test]
    fn flow_numbers_fit_and_differ() {
        let id = |text: &str, ns| flow_id(text, Timestamp::from_ns(ns));
        let ids: std::collections::HashSet<_> = (0..10_000)
            .flat_map(|ns| [id("1:a=", ns), id("1:b=", ns)])
            .inspect(|id| assert!(*id < 1 << FLOW_ID_BITS))
            .collect();
        assert_eq!(ids.len(), 20_000);
    }

    #[test]
    fn an_object_reads_back() {
        let mut text = String::new();
        let mut object = Object::begin(&mut text);
        object.text("a", "q\"uote");
        object.text_if_any("none", None);
        object.object("b", |inner| inner.raw("n", 1.5));
        object.raw("c", true);
        object.end();
        assert_eq!(text, r#"{"a":"q\"uote","b":{"n":1.5},"c":true}"#);
    }
}
