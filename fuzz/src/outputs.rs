//! Files of rows and records, read as their readers would.

use std::fs;
use std::path::Path;

/// How a file should be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Form {
    /// Objects of JSON, a line each.
    JsonLines,
    /// RFC 4180, with a line of names.
    Csv,
    /// A log of Zeek: its head, then as many columns in each line.
    ZeekLog,
    /// Messages of RFC 7011, one after another.
    Ipfix,
    /// Anything that is not empty.
    Any,
}

/// Checks a file, if it was written; the number of rows in it.
///
/// # Panics
/// Where a reader would refuse the file.
pub fn check(path: &Path, wanted: Form) -> usize {
    let Ok(bytes) = fs::read(path) else { return 0 };
    match wanted {
        Form::JsonLines => json_lines(&text(bytes)),
        Form::Csv => csv(&text(bytes)),
        Form::ZeekLog => zeek_log(&text(bytes)),
        Form::Ipfix => ipfix(&bytes),
        Form::Any => usize::from(!bytes.is_empty()),
    }
}

fn text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).expect("text in UTF-8")
}

fn json_lines(text: &str) -> usize {
    let lines = text.split_terminator('\n');
    lines
        .map(|line| {
            let value: serde_json::Value = serde_json::from_str(line)
                .unwrap_or_else(|error| panic!("{line:?} is not JSON: {error}"));
            assert!(value.is_object(), "{line:?} is no object");
        })
        .count()
}

/// Records have as many fields as the first, the names.
fn csv(text: &str) -> usize {
    let (mut counts, mut count, mut is_quoted) = (Vec::new(), 1, false);
    for letter in text.chars() {
        match letter {
            // A quote within quotes is doubled, which ends them and begins them again.
            '"' => is_quoted = !is_quoted,
            ',' if !is_quoted => count += 1,
            '\n' if !is_quoted => counts.push(std::mem::replace(&mut count, 1)),
            _ => {}
        }
    }
    assert!(!is_quoted, "a quote is open at the end");
    assert!(counts.windows(2).all(|pair| pair[0] == pair[1]), "{text:?}");
    counts.len().saturating_sub(1)
}

fn zeek_log(text: &str) -> usize {
    let mut columns = 0;
    let mut rows = 0;
    for line in text.split_terminator('\n') {
        if let Some(names) = line.strip_prefix("#fields\t") {
            columns = names.split('\t').count();
        } else if let Some(types) = line.strip_prefix("#types\t") {
            assert_eq!(types.split('\t').count(), columns, "{line:?}");
        } else if !line.starts_with('#') {
            assert_eq!(line.split('\t').count(), columns, "{line:?}");
            rows += 1;
        }
        assert!(line.chars().all(|letter| letter == '\t' || !letter.is_control()), "{line:?}");
    }
    rows
}

fn ipfix(mut bytes: &[u8]) -> usize {
    let mut count = 0;
    while let [0, 10, high, low, ..] = *bytes {
        let len = usize::from(u16::from_be_bytes([high, low]));
        assert!((16..=bytes.len()).contains(&len), "a message of {len} bytes");
        let mut sets = &bytes[16..len];
        while let [_, _, high, low, ..] = *sets {
            let len = usize::from(u16::from_be_bytes([high, low]));
            assert!((4..=sets.len()).contains(&len), "a set of {len} bytes");
            sets = &sets[len..];
        }
        assert!(sets.is_empty());
        bytes = &bytes[len..];
        count += 1;
    }
    assert!(bytes.is_empty(), "{} bytes after the last message", bytes.len());
    count
}
