//! Files of indicators.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

use super::addresses::{Addresses, Prefix};
use super::names::{Names, domain, ja4};
use crate::settings::IndicatorKind;

/// Bytes of a line; what is longer is no entry.
const LINE_LEN_MAX: u64 = 4096;

/// Bad lines that are shown.
const SHOWN_MAX: usize = 5;

/// The entries of a file, made for looking up.
pub(crate) enum Entries {
    Addresses(Addresses),
    Domains(Names),
    Fingerprints(Names),
}

/// What a file held.
pub(crate) struct Contents {
    pub entries: Entries,
    pub account: Account,
}

/// How much of a file was taken in.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Account {
    /// Entries that are looked up.
    pub entries: u64,
    /// Lines that are none.
    pub bad_lines: u64,
    /// The first of them: number from 1 on, and the beginning of the text.
    pub bad_shown: Vec<(u64, String)>,
    /// Entries beyond the maximum, which were left out.
    pub left_out: u64,
    /// Bytes of memory.
    pub byte_count: u64,
}

/// Reads a file.
///
/// # Errors
/// The file cannot be read.
pub(crate) fn read(path: &Path, kind: IndicatorKind, max: usize) -> io::Result<Contents> {
    let mut reader = BufReader::with_capacity(1 << 18, File::open(path)?);
    let mut account = Account::default();
    let (mut prefixes, mut texts, mut ends) = (Vec::new(), String::new(), Vec::new());
    let mut line = Vec::new();
    let mut number = 0;
    loop {
        line.clear();
        if reader.by_ref().take(LINE_LEN_MAX).read_until(b'\n', &mut line)? == 0 {
            break;
        }
        number += 1;
        let is_whole = line.ends_with(b"\n") || line.len() < LINE_LEN_MAX as usize;
        if !is_whole {
            skip_line(&mut reader)?;
        }
        let text = std::str::from_utf8(&line).ok().filter(|_| is_whole);
        let found = match text.map(|text| entry(text, kind)) {
            Some(None) => continue,
            Some(Some(entry)) => Some(entry),
            None => None,
        };
        let is_full = account.entries >= max as u64;
        let taken = match (found, kind) {
            (Some(entry), IndicatorKind::Ip) => {
                let prefix = Prefix::parse(entry);
                prefixes.extend(prefix.filter(|_| !is_full));
                prefix.is_some()
            }
            (Some(entry), _) => {
                let is_domain = kind == IndicatorKind::Domain;
                let read = if is_domain { domain(entry) } else { ja4(entry) };
                if let Some(entry) = read.as_ref().filter(|_| !is_full) {
                    texts.push_str(entry);
                    ends.push(texts.len());
                }
                read.is_some()
            }
            (None, _) => false,
        };
        account.take(taken, is_full, number, &line);
    }
    let names = || {
        let starts = std::iter::once(0).chain(ends.iter().copied());
        let ranges = starts.zip(ends.iter().copied());
        Names::new(ranges.filter_map(|(start, end)| texts.get(start..end)))
    };
    let entries = match kind {
        IndicatorKind::Ip => Entries::Addresses(Addresses::new(prefixes)),
        IndicatorKind::Domain => Entries::Domains(names()),
        IndicatorKind::Ja4 => Entries::Fingerprints(names()),
    };
    account.byte_count = match &entries {
        Entries::Addresses(addresses) => addresses.byte_count(),
        Entries::Domains(names) | Entries::Fingerprints(names) => names.byte_count(),
    } as u64;
    Ok(Contents { entries, account })
}

impl Account {
    fn take(&mut self, is_entry: bool, is_full: bool, number: u64, line: &[u8]) {
        match (is_entry, is_full) {
            (true, false) => self.entries += 1,
            (true, true) => self.left_out += 1,
            (false, _) => {
                self.bad_lines += 1;
                if self.bad_shown.len() < SHOWN_MAX {
                    let mut shown = String::new();
                    let text = String::from_utf8_lossy(line.get(..80).unwrap_or(line));
                    crate::text::push_clean(&mut shown, text.trim(), 80);
                    self.bad_shown.push((number, shown));
                }
            }
        }
    }
}

fn skip_line(reader: &mut impl BufRead) -> io::Result<()> {
    loop {
        let buffer = reader.fill_buf()?;
        let (len, is_end) = match buffer.iter().position(|&byte| byte == b'\n') {
            Some(at) => (at + 1, true),
            None => (buffer.len(), buffer.is_empty()),
        };
        reader.consume(len);
        if is_end {
            return Ok(());
        }
    }
}

/// The entry of a line: its first column, without quotes. Lines of a file of hosts
/// (`0.0.0.0 NAME`) have their name second.
fn entry(line: &str, kind: IndicatorKind) -> Option<&str> {
    let line = line.trim_start_matches('\u{feff}');
    let line = line.split('#').next().unwrap_or_default().trim();
    if line.is_empty() || line.starts_with(';') {
        return None;
    }
    let mut columns = line.split([',', ';', '\t', ' ']);
    let first = columns.next().unwrap_or_default().trim_matches('"');
    let is_hosts = kind == IndicatorKind::Domain && matches!(first, "0.0.0.0" | "127.0.0.1" | "::");
    Some(if is_hosts { columns.find(|column| !column.is_empty())? } else { first })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn read_text(name: &str, text: impl AsRef<[u8]>, kind: IndicatorKind, max: usize) -> Contents {
        let path = std::env::temp_dir().join(format!("wirelens-{}-{name}", std::process::id()));
        fs::write(&path, text).unwrap();
        let read = read(&path, kind, max).unwrap();
        fs::remove_file(path).unwrap();
        read
    }

    #[test]
    fn bad_lines_are_counted_and_do_not_end_it() {
        let long = format!("{}\n", "1".repeat(9_999));
        let text = format!(
            "# list\n\"192.0.2.0/24\",\"c2\",5\n198.51.100.7 # x\r\n\nno\n300.1.1.1\n{long}::1;a\n\
             1.2.3.4/40\n2001:db8::/32\n9.9.9.9/99\n\u{1b}[31m\n"
        );
        let Contents { entries, account } = read_text("ip", text, IndicatorKind::Ip, 100);
        assert_eq!((account.entries, account.bad_lines), (4, 6));
        let lines: Vec<_> = account.bad_shown.iter().map(|(line, _)| *line).collect();
        assert_eq!(lines, [5, 6, 7, 9, 11]);
        let Entries::Addresses(addresses) = entries else { panic!() };
        assert!(addresses.find("192.0.2.200".parse().unwrap()).is_some());
        assert!(addresses.find("::1".parse().unwrap()).is_some());
    }

    #[test]
    fn lists_of_names_and_hosts_are_read_and_bounded() {
        let text = "0.0.0.0 ads.example\nEvil.example,malware\n*.x.example\nb.example\n";
        let Contents { entries, account } = read_text("names", text, IndicatorKind::Domain, 3);
        assert_eq!((account.entries, account.left_out, account.bad_lines), (3, 1, 0));
        let Entries::Domains(names) = entries else { panic!() };
        assert_eq!(names.find_domain("a.ads.example"), Some("ads.example"));
        assert_eq!(names.find_domain("b.example"), None);
        let ja4 = "t13d1516h2_8daaf6152771_b186095e22b6\n\u{ff}\n";
        let Contents { account, .. } = read_text("ja4", ja4, IndicatorKind::Ja4, 3);
        assert_eq!((account.entries, account.bad_lines), (1, 1));
        let Contents { account, .. } =
            read_text("bytes", b"\xff\xfe\n1.2.3.4", IndicatorKind::Ip, 3);
        assert_eq!((account.entries, account.bad_lines), (1, 1));
    }
}
