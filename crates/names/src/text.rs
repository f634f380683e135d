//! Names as text that is safe to print.
//!
//! A name is what a stranger sent. It may hold control characters that move a terminal's cursor, or
//! ones that turn the direction of reading, so that a row looks like another row. Everything that
//! is not plainly visible is escaped.

use std::fmt::Write as _;

/// Bytes of a name that are kept at most: those of the longest name in DNS (RFC 1035 §2.3.4).
pub const NAME_LEN_MAX: usize = 255;

/// Appends bytes of a name in lower case. Letters, digits and visible ASCII of any script stay;
/// other characters become `\u{…}`, as does a sign of arithmetic at the beginning, and bytes that
/// are no UTF-8 `\x…`.
pub fn push(text: &mut String, bytes: &[u8]) {
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            push_char(text, c);
        }
        for byte in chunk.invalid() {
            // Writing to a string cannot fail.
            let _ = write!(text, "\\x{byte:02x}");
        }
    }
}

fn push_char(text: &mut String, c: char) {
    match c {
        '\\' => text.push_str("\\\\"),
        // A spreadsheet takes what begins so for a formula, and runs it.
        ' '..='~' if !(text.is_empty() && "=+-@".contains(c)) => text.push(c.to_ascii_lowercase()),
        _ if c.is_alphanumeric() => text.push(c),
        _ => {
            let _ = write!(text, "\\u{{{:x}}}", u32::from(c));
        }
    }
}

/// The first [`NAME_LEN_MAX`] bytes of a name as text, without the dot of the root at its end.
#[must_use]
pub fn shown(bytes: &[u8]) -> String {
    let bytes = bytes.strip_suffix(b".").unwrap_or(bytes);
    let bytes = bytes.get(..NAME_LEN_MAX).unwrap_or(bytes);
    let mut text = String::with_capacity(bytes.len());
    push(&mut text, bytes);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_lower_case_and_keep_letters_of_other_scripts() {
        assert_eq!(shown(b"WWW.Example.COM."), "www.example.com");
        assert_eq!(shown("bücher.example".as_bytes()), "bücher.example");
        assert_eq!(shown(b"living room._airplay._tcp.local"), "living room._airplay._tcp.local");
    }

    #[test]
    fn what_a_spreadsheet_would_calculate_is_escaped() {
        assert_eq!(shown(b"=cmd|' /c calc'!a1"), "\\u{3d}cmd|' /c calc'!a1");
        assert_eq!(shown(b"-a.example"), "\\u{2d}a.example");
        assert_eq!(shown(b"a-b@c=d+e"), "a-b@c=d+e");
    }

    #[test]
    fn what_a_terminal_would_obey_is_escaped() {
        assert_eq!(shown(b"a\x1b[2Jb\r\n"), "a\\u{1b}[2jb\\u{d}\\u{a}");
        assert_eq!(shown("x\u{202e}moc".as_bytes()), "x\\u{202e}moc");
        assert_eq!(shown(b"\xff\xfea\\"), "\\xff\\xfea\\\\");
    }

    #[test]
    fn a_name_of_any_length_is_bounded() {
        assert_eq!(shown(&vec![b'a'; 1 << 16]).len(), NAME_LEN_MAX);
    }
}
