//! Text that a terminal only prints, and how wide it is.

use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

/// What the terminal can print, as the caller knows from the locale.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Glyphs {
    /// UTF-8: block characters and every letter.
    #[default]
    Unicode,
    /// Printable ASCII only.
    Ascii,
}

/// Heights of a bar, from nothing to full.
const BLOCKS: [&str; 9] = [" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"];
const LETTERS: [&str; 9] = [" ", ".", ".", ":", ":", "=", "=", "#", "#"];

impl Glyphs {
    /// Nine heights of a bar, the lowest empty.
    pub(crate) const fn bars(self) -> [&'static str; 9] {
        match self {
            Self::Unicode => BLOCKS,
            Self::Ascii => LETTERS,
        }
    }

    pub(crate) const fn ellipsis(self) -> char {
        match self {
            Self::Unicode => '…',
            Self::Ascii => '~',
        }
    }

    /// Signs of descending and ascending order.
    pub(crate) const fn order(self, is_descending: bool) -> &'static str {
        match (self, is_descending) {
            (Self::Unicode, true) => "↓",
            (Self::Unicode, false) => "↑",
            (Self::Ascii, true) => "-",
            (Self::Ascii, false) => "+",
        }
    }
}

/// Characters that turn the direction of text, are seen nowhere, or end a line elsewhere: a name
/// that an attacker chose could show something other than it says.
const fn is_deceptive(c: char) -> bool {
    matches!(
        c,
        '\u{ad}'
            | '\u{61c}'
            | '\u{115f}'..='\u{1160}'
            | '\u{180e}'
            | '\u{200b}'..='\u{200f}'
            | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{3164}'
            | '\u{fe00}'..='\u{fe0f}'
            | '\u{feff}'
            | '\u{ffa0}'
            | '\u{fff9}'..='\u{fffb}'
            | '\u{e0000}'..='\u{e0fff}'
    )
}

/// The text with `?` in place of every character that a terminal would obey, or would not show in
/// columns of its own: combining marks can be piled over the lines above.
pub(crate) fn plain(text: &str, glyphs: Glyphs) -> String {
    let is_plain = |c: char| match glyphs {
        Glyphs::Ascii => c == ' ' || c.is_ascii_graphic(),
        Glyphs::Unicode => {
            !c.is_control() && !is_deceptive(c) && c.width().is_some_and(|width| width > 0)
        }
    };
    text.chars().map(|c| if is_plain(c) { c } else { '?' }).collect()
}

/// Columns that plain text takes.
pub(crate) fn width(text: &str) -> usize {
    text.width()
}

/// Plain text cut to so many columns, with a sign where something is missing.
pub(crate) fn cut(text: &str, columns: usize, glyphs: Glyphs) -> String {
    if width(text) <= columns {
        return text.to_owned();
    }
    let mut kept = String::new();
    let mut taken = 0;
    for c in text.chars() {
        taken += c.width().unwrap_or(0);
        // One column is the sign's.
        if taken >= columns {
            break;
        }
        kept.push(c);
    }
    if columns > 0 {
        kept.push(glyphs.ellipsis());
    }
    kept
}

/// Both ends of a flow cut to so many columns: of each the address, as ports say more.
pub(crate) fn cut_ends(text: &str, columns: usize, glyphs: Glyphs) -> String {
    let sign = if glyphs == Glyphs::Ascii { " > " } else { " → " };
    let Some((source, destination)) = text.split_once(sign) else {
        return cut(text, columns, glyphs);
    };
    let room = columns.saturating_sub(3);
    let (one, other) = (width(source), width(destination));
    if one + other <= room || room < 12 {
        return cut(text, columns, glyphs);
    }
    // What the shorter end leaves of its half is the longer one's.
    let half = room / 2;
    let one_len = if other < half { room - other } else { one.min(room - half) };
    let source = cut_address(source, one_len, glyphs);
    let destination = cut_address(destination, room - width(&source), glyphs);
    format!("{source}{sign}{destination}")
}

fn cut_address(end: &str, columns: usize, glyphs: Glyphs) -> String {
    let port = end.rfind(':').and_then(|at| end.get(at..)).unwrap_or_default();
    let address = end.strip_suffix(port).unwrap_or(end);
    match columns.checked_sub(width(port)) {
        Some(left) if left >= 4 && width(end) > columns => {
            format!("{}{port}", cut(address, left, glyphs))
        }
        _ => cut(end, columns, glyphs),
    }
}

/// Values as bars, the last ones if there are more than columns, as high as the highest of them.
pub(crate) fn chart(values: &[f64], columns: usize, glyphs: Glyphs) -> String {
    let values = values.get(values.len().saturating_sub(columns)..).unwrap_or_default();
    let highest = values.iter().copied().filter(|value| value.is_finite()).fold(0.0, f64::max);
    let bars = glyphs.bars();
    let bar = |value: f64| {
        if highest <= 0.0 || value.is_nan() || value <= 0.0 {
            return bars[0];
        }
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        let height = (value / highest * 8.0).round().clamp(1.0, 8.0) as usize;
        bars.get(height).copied().unwrap_or_default()
    };
    values.iter().map(|&value| bar(value)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_would_obey_is_replaced() {
        let hostile = "a\x1b[2Jb\u{202e}c\u{9b}d\u{200b}e\u{301}\n";
        assert_eq!(plain(hostile, Glyphs::Unicode), "a?[2Jb?c?d?e??");
        assert_eq!(plain("Müller 東京", Glyphs::Unicode), "Müller 東京");
        assert_eq!(plain("Müller 東京", Glyphs::Ascii), "M?ller ??");
    }

    #[test]
    fn a_cut_text_is_never_wider_than_its_columns() {
        for columns in 0..12 {
            for text in ["", "a", "東京都東京都", "a東b京c", "abcdefghijkl"] {
                let cut = cut(text, columns, Glyphs::Unicode);
                assert!(width(&cut) <= columns, "{text} in {columns}: {cut}");
            }
        }
        assert_eq!(cut("abcdef", 4, Glyphs::Ascii), "abc~");
    }

    #[test]
    fn both_ends_of_a_flow_are_seen() {
        let text = "[2001:db8:85a3::8a2e:370:7334]:40039 → 198.51.100.200:443";
        let cut = cut_ends(text, 40, Glyphs::Unicode);
        assert_eq!(cut, "[2001:db8:85…:40039 → 198.51.100.200:443");
        for columns in 0..70 {
            assert!(width(&cut_ends(text, columns, Glyphs::Unicode)) <= columns);
        }
    }

    #[test]
    fn a_chart_is_as_high_as_its_highest() {
        assert_eq!(chart(&[0.0, 1.0, 4.0, 8.0], 9, Glyphs::Unicode), " ▁▄█");
        assert_eq!(chart(&[1.0, 8.0, 4.0], 2, Glyphs::Ascii), "#:");
        assert_eq!(chart(&[f64::NAN, 0.0], 9, Glyphs::Unicode), "  ");
    }
}
