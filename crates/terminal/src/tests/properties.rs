//! Any size, any keys.

use proptest::prelude::*;

use super::*;

fn key() -> impl Strategy<Value = KeyCode> {
    prop_oneof![
        6 => "[1-9]".prop_map(|text| KeyCode::Char(text.chars().next().unwrap_or('1'))),
        8 => "[jkgGsStp?/q]".prop_map(|text| KeyCode::Char(text.chars().next().unwrap_or('j'))),
        2 => any::<char>().prop_map(KeyCode::Char),
        6 => prop::sample::select(vec![
            KeyCode::Enter,
            KeyCode::Esc,
            KeyCode::Tab,
            KeyCode::BackTab,
            KeyCode::PageDown,
            KeyCode::PageUp,
            KeyCode::Home,
            KeyCode::End,
            KeyCode::Backspace,
            KeyCode::Delete,
        ]),
    ]
}

/// What a terminal would obey, or could be deceived by.
fn is_harmful(symbol: &str) -> bool {
    let is_bidi = |c: char| matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    symbol.chars().any(|c| c.is_control() || is_bidi(c))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn no_size_and_no_keys_bring_about_a_panic_or_a_harmful_cell(
        keys in prop::collection::vec((key(), 0_u16..130, 0_u16..45), 1..24),
        is_ascii in any::<bool>(),
        is_empty in prop::bool::weighted(0.1),
    ) {
        let store = if is_empty { Store::new() } else { rows::full() };
        let glyphs = if is_ascii { Glyphs::Ascii } else { Glyphs::Unicode };
        let mut bench = Bench::new(Arc::clone(&store), glyphs);
        for (at, (key, width, height)) in keys.into_iter().enumerate() {
            bench.press(key);
            rows::tick(&store, at as u64);
            bench.refresh();
            for cell in bench.cells(width, height).content() {
                let symbol = cell.symbol();
                prop_assert!(!is_harmful(symbol), "{symbol:?}");
                prop_assert!(!is_ascii || symbol.is_ascii(), "{symbol:?}");
            }
        }
    }

    #[test]
    fn small_terminals_show_rows(width in 20_u16..80, height in 5_u16..24) {
        let mut bench = Bench::new(rows::full(), Glyphs::Unicode);
        bench.press(KeyCode::Char('3'));
        let text = bench.lines(width, height).join("\n");
        prop_assert!(text.contains("10.1.2.3") || text.contains("192.0.2."), "{text}");
    }
}
