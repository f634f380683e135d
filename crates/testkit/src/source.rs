//! Code without its comments and texts, so that a rule sees only what runs.

/// Blanks comments and the contents of texts. Lines and columns (in bytes)
/// stay where they were. Serves Rust, and C and C++ well enough.
#[must_use]
pub fn mask_rust(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut mask = Mask::new(bytes);
    while mask.at < bytes.len() {
        let rest = &bytes[mask.at..];
        if rest.starts_with(b"//") {
            mask.blank(line_len(rest));
        } else if rest.starts_with(b"/*") {
            mask.blank(block_comment_len(rest));
        } else if let Some((opening, whole)) = raw_text_len(bytes, mask.at) {
            mask.keep(opening);
            mask.blank(whole - opening);
        } else if rest[0] == b'"' {
            mask.blank(quoted_len(rest, b"\""));
        } else if rest[0] == b'\'' {
            match char_len(rest) {
                Some(len) => mask.blank(len),
                None => mask.keep(1),
            }
        } else {
            mask.keep(1);
        }
    }
    mask.into_text()
}

/// The same for Python: comments and all texts, documentation among them.
#[must_use]
pub fn mask_python(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut mask = Mask::new(bytes);
    while mask.at < bytes.len() {
        let rest = &bytes[mask.at..];
        if rest[0] == b'#' {
            mask.blank(line_len(rest));
        } else if rest.starts_with(b"\"\"\"") {
            mask.blank(quoted_len(rest, b"\"\"\""));
        } else if rest.starts_with(b"'''") {
            mask.blank(quoted_len(rest, b"'''"));
        } else if rest[0] == b'"' || rest[0] == b'\'' {
            mask.blank(quoted_len(rest, &rest[..1]));
        } else {
            mask.keep(1);
        }
    }
    mask.into_text()
}

/// How many lines say something, in a text that has been masked.
#[must_use]
pub fn code_line_count<'a>(masked_lines: impl IntoIterator<Item = &'a str>) -> usize {
    masked_lines.into_iter().filter(|line| !line.trim().is_empty()).count()
}

/// The lines before the test module, which comes last in a file of ours.
pub fn lines_before_tests(text: &str) -> impl Iterator<Item = (usize, &str)> {
    numbered(text).take_while(|(_, line)| !line.starts_with("#[cfg(test)]"))
}

/// Lines with their numbers, the first being 1.
pub fn numbered(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.lines().enumerate().map(|(index, line)| (index + 1, line))
}

/// Whether `line` holds `word` with no letter, digit or `_` right before it,
/// nor right after it where the word ends in one of these.
#[must_use]
pub fn has_word(line: &str, word: &str) -> bool {
    let is_inside = |c: char| c.is_alphanumeric() || c == '_';
    line.match_indices(word).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        let after = line[at + word.len()..].chars().next();
        let open_end = word.ends_with(|c: char| !is_inside(c));
        !before.is_some_and(is_inside) && (open_end || !after.is_some_and(is_inside))
    })
}

struct Mask<'a> {
    bytes: &'a [u8],
    at: usize,
    masked: Vec<u8>,
}

impl<'a> Mask<'a> {
    fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0, masked: Vec::with_capacity(bytes.len()) }
    }

    fn keep(&mut self, len: usize) {
        let end = self.bytes.len().min(self.at + len);
        self.masked.extend_from_slice(&self.bytes[self.at..end]);
        self.at = end;
    }

    fn blank(&mut self, len: usize) {
        let end = self.bytes.len().min(self.at + len);
        let blanks = self.bytes[self.at..end].iter();
        self.masked.extend(blanks.map(|&byte| if byte == b'\n' { b'\n' } else { b' ' }));
        self.at = end;
    }

    fn into_text(self) -> String {
        String::from_utf8_lossy(&self.masked).into_owned()
    }
}

fn line_len(rest: &[u8]) -> usize {
    rest.iter().position(|&byte| byte == b'\n').unwrap_or(rest.len())
}

/// Block comments nest in Rust.
fn block_comment_len(rest: &[u8]) -> usize {
    let mut depth = 0_usize;
    let mut at = 0;
    while at < rest.len() {
        if rest[at..].starts_with(b"/*") {
            depth += 1;
            at += 2;
        } else if rest[at..].starts_with(b"*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += 1;
        }
    }
    rest.len()
}

/// A text from its opening quote to its closing one; `\` takes the next byte along.
fn quoted_len(rest: &[u8], quote: &[u8]) -> usize {
    let mut at = quote.len();
    while at < rest.len() {
        if rest[at] == b'\\' {
            at += 2;
        } else if rest[at..].starts_with(quote) {
            return at + quote.len();
        } else {
            at += 1;
        }
    }
    rest.len()
}

/// Length of `r##` and of the whole raw text that begins at `at`, if one does.
fn raw_text_len(bytes: &[u8], at: usize) -> Option<(usize, usize)> {
    let rest = &bytes[at..];
    let goes_on_a_name = at > 0 && (bytes[at - 1].is_ascii_alphanumeric() || bytes[at - 1] == b'_');
    let follows_prefix = at > 0 && matches!(bytes[at - 1], b'b' | b'c');
    if rest[0] != b'r' || (goes_on_a_name && !follows_prefix) {
        return None;
    }
    let hash_count = rest[1..].iter().take_while(|&&byte| byte == b'#').count();
    let opening = 1 + hash_count;
    if rest.get(opening) != Some(&b'"') {
        return None;
    }
    let closing: Vec<u8> = [b"\"".as_slice(), &b"#".repeat(hash_count)].concat();
    let body = &rest[opening + 1..];
    let end = body.windows(closing.len()).position(|window| window == closing);
    Some((opening, end.map_or(rest.len(), |end| opening + 1 + end + closing.len())))
}

/// Length of a character literal; `None` for the mark of a lifetime or a loop.
fn char_len(rest: &[u8]) -> Option<usize> {
    if rest.get(1) == Some(&b'\\') {
        let closing = rest.iter().skip(3).position(|&byte| byte == b'\'')?;
        return Some(closing + 4);
    }
    let width = match rest.get(1)? {
        0..=0x7f => 1,
        0x80..=0xdf => 2,
        0xe0..=0xef => 3,
        _ => 4,
    };
    (rest.get(1 + width) == Some(&b'\'')).then_some(width + 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rust_keeps_code_and_blanks_the_rest() {
        let cases = [
            ("a // b\nc", "a     \nc"),
            ("a /* b /* c */ d */ e", "a                   e"),
            ("f(\"x // y\\\" z\", 1)", "f(             , 1)"),
            ("r#\"a\"b\"# + c", "r#       + c"),
            ("br\"\\\"x", "br    x"),
            ("for<'a> '\"' x", "for<'a>     x"),
            ("'\\'' 'ä' y", "          y"),
            ("'\\u{1F4A9}' z", "            z"),
        ];
        for (text, wanted) in cases {
            let masked = mask_rust(text);
            let (seen, wanted): (Vec<_>, Vec<_>) =
                (masked.split_whitespace().collect(), wanted.split_whitespace().collect());
            assert_eq!(seen, wanted, "{text}");
            assert_eq!(masked.len(), text.len(), "{text}");
            assert_eq!(masked.lines().count(), text.lines().count(), "{text}");
        }
    }

    #[test]
    fn python_blanks_documentation() {
        let masked =
            mask_python("def f():\n    \"\"\"Says\n    \\\"\"\" so.\"\"\"\n    return '#' # x\n");
        assert_eq!(code_line_count(masked.lines()), 2);
        assert!(masked.contains("return"));
        assert!(!masked.contains('#'));
    }

    #[test]
    fn words_have_borders() {
        assert!(has_word("unsafe {", "unsafe"));
        assert!(!has_word("#![forbid(unsafe_code)]", "unsafe"));
        assert!(has_word("println!(x)", "println!"));
        assert!(!has_word("eprintln!(x)", "println!"));
    }

    #[test]
    fn tests_come_last() {
        let text = "a\n#[cfg(test)]\nmod tests {\n}\n";
        assert_eq!(lines_before_tests(text).collect::<Vec<_>>(), [(1, "a")]);
    }
}
