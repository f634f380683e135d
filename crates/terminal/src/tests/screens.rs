//! What each screen shows at 80×24.

use std::fs;
use std::path::Path;

use super::*;
use crate::screens::Screen;

/// Compares with the text beside this file; `BLESS=1` writes it.
fn assert_snapshot(name: &str, lines: &[String]) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/tests/snapshots");
    let path = folder.join(format!("{name}.txt"));
    let seen = format!("{}\n", lines.join("\n"));
    if std::env::var_os("BLESS").is_some() {
        fs::create_dir_all(&folder).unwrap();
        fs::write(&path, &seen).unwrap();
    }
    let wanted = fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(seen, wanted, "{name}; BLESS=1 writes {}", path.display());
}

#[test]
fn each_screen_is_usable_at_80_by_24() {
    let store = rows::full();
    let mut bench = Bench::new(Arc::clone(&store), Glyphs::Unicode);
    for (screen, key) in Screen::ALL.into_iter().zip('1'..) {
        bench.press(KeyCode::Char(key));
        rows::tick(&store, u64::from(key as u32));
        bench.refresh();
        assert_snapshot(&screen.title().to_lowercase(), &bench.lines(80, 24));
    }
}

#[test]
fn other_tables_of_a_screen_are_one_key_away() {
    let mut bench = Bench::new(rows::full(), Glyphs::Unicode);
    for (screen, name) in [('4', "devices"), ('5', "queues_one_tap"), ('6', "destinations")] {
        bench.press(KeyCode::Char(screen));
        bench.press(KeyCode::Char('t'));
        assert_snapshot(name, &bench.lines(80, 24));
    }
}

#[test]
fn a_view_can_begin_with_the_screen_of_a_table_and_its_first_rows() {
    let names: &[_] = &["dst_rtt_p99_ns", "src_rtt_p99_ns"];
    let first = First { table: "latency", sort: names, rows: Some(3), window_ns: None };
    let mut bench = Bench::beginning(rows::full(), Glyphs::Unicode, Some(first));
    assert_eq!(bench.app.screen, Screen::Latency);
    let by = |bench: &Bench| {
        let (place, is_descending) = bench.app.order().unwrap();
        (bench.app.sheet.columns[place].title, is_descending)
    };
    assert_eq!(by(&bench), ("Either p99", true));
    bench.refresh();
    assert_eq!(bench.app.sheet.rows.len(), 3, "and again");
    assert!(bench.lines(80, 24)[22].contains("1 of the first 3, of 25"));
    bench.press(KeyCode::Char('s'));
    assert_ne!(by(&bench).0, "Either p99", "a key changes it");
    assert_eq!(bench.app.sheet.rows.len(), 3);
    bench.press(KeyCode::Char('2'));
    assert!(bench.app.sheet.rows.len() > 3, "of other screens all are there");
}

#[test]
fn windows_have_rates_and_end() {
    let store = rows::full();
    let first = First { table: "top", sort: &["packets"], rows: None, window_ns: Some(1_000_000) };
    let begin =
        |store: &Arc<Store>| Bench::beginning(Arc::clone(store), Glyphs::Unicode, Some(first));
    assert_snapshot("top_is_over", &begin(&store).lines(80, 24));
    let first = First { window_ns: Some(3_600_000_000_000), ..first };
    let mut bench = Bench::beginning(store, Glyphs::Unicode, Some(first));
    assert_eq!(bench.app.screen, Screen::Tables);
    assert_snapshot("top_by_packets", &bench.lines(80, 24));
}

#[test]
fn a_wide_terminal_has_more_columns_and_an_ascii_one_only_ascii() {
    let mut bench = Bench::new(rows::full(), Glyphs::Ascii);
    bench.press(KeyCode::Char('5'));
    let lines = bench.lines(160, 14);
    assert!(lines.iter().all(|line| line.is_ascii()), "{lines:#?}");
    assert_snapshot("queues_wide_ascii", &lines);
}

#[test]
fn details_and_help_are_over_the_screen_until_escape() {
    let mut bench = Bench::new(rows::full(), Glyphs::Unicode);
    bench.press(KeyCode::Char('2'));
    bench.press(KeyCode::Enter);
    assert_snapshot("details", &bench.lines(80, 40));
    bench.press(KeyCode::Esc);
    assert!(bench.lines(80, 24)[2].starts_with("Flow"));
    bench.press(KeyCode::Char('?'));
    assert_snapshot("help", &bench.lines(80, 24));
}

#[test]
fn a_run_without_a_table_says_what_to_add() {
    let store = Store::new();
    let mut bench = Bench::new(store, Glyphs::Unicode);
    assert_eq!(bench.app.screen, Screen::Health, "the first that there is");
    bench.press(KeyCode::Char('5'));
    let text = bench.lines(80, 24).join("\n");
    assert!(text.contains("wirelens.toml") && text.contains("[cca]"), "{text}");
}

#[test]
fn rows_have_rates_once_they_have_grown() {
    let store = rows::full();
    let mut bench = Bench::new(Arc::clone(&store), Glyphs::Unicode);
    bench.press(KeyCode::Char('2'));
    rows::tick(&store, 1);
    bench.refresh();
    // The largest: 39 × 39 × 1,000 bytes four times in a second.
    let row = bench.lines(80, 24).into_iter().find(|line| line.contains(":40039")).unwrap();
    assert!(row.contains("48.7 Mbit/s"), "{row}");
}

#[test]
fn a_message_is_shown_until_a_key_and_stays_in_health() {
    let mut bench = Bench::new(rows::full(), Glyphs::Unicode);
    bench.app.facts.messages.put("eth0: removed\x1b[2J");
    assert_eq!(bench.lines(80, 24)[23], "eth0: removed?[2J");
    bench.press(KeyCode::Char('8'));
    let lines = bench.lines(80, 24);
    assert!(lines[23].starts_with("q Quit"), "{}", lines[23]);
    assert!(lines[3].starts_with("message      eth0: removed?[2J"), "{}", lines[3]);
}

#[test]
fn keys_sort_by_column_and_reverse() {
    let mut bench = Bench::new(rows::full(), Glyphs::Unicode);
    bench.press(KeyCode::Char('3'));
    assert_eq!(bench.app.order(), Some((2, true)), "bytes");
    bench.press(KeyCode::Char('s'));
    bench.press(KeyCode::Char('S'));
    assert_eq!(bench.app.order(), Some((3, false)));
    let sent: Vec<_> =
        bench.app.sheet.rows.iter().filter_map(|row| row.values[3].number()).collect();
    assert!(sent.is_sorted() && sent.len() == 6, "{sent:?}");
}

#[test]
fn a_filter_that_is_wrong_says_so_and_stays() {
    let mut bench = Bench::new(rows::full(), Glyphs::Unicode);
    bench.press(KeyCode::Char('2'));
    let all = bench.app.sheet.rows.len();
    bench.press(KeyCode::Char('/'));
    bench.type_text("dst_prt == 443");
    bench.press(KeyCode::Enter);
    let last = bench.lines(80, 24).pop().unwrap();
    assert!(last.contains("no column \"dst_prt\"; try \"dst_port\""), "{last}");
    for _ in 0.."prt == 443".len() {
        bench.press(KeyCode::Backspace);
    }
    bench.type_text("port == 443");
    bench.press(KeyCode::Enter);
    let found = bench.app.sheet.rows.len();
    assert!(found > 0 && found < all, "{found} of {all}");
    assert!(bench.lines(80, 24)[22].contains("filter: dst_port == 443"));
    bench.press(KeyCode::Esc);
    assert_eq!(bench.app.sheet.rows.len(), all);
}

#[test]
fn the_selected_row_is_followed_when_others_come() {
    let store = rows::full();
    let mut bench = Bench::new(Arc::clone(&store), Glyphs::Unicode);
    bench.press(KeyCode::Char('2'));
    for _ in 0..12 {
        bench.press(KeyCode::Down);
    }
    let id = |bench: &Bench| bench.app.sheet.rows[bench.app.chosen().selected].id.clone();
    let before = id(&bench);
    store.find("flows").unwrap().push(&rows::flows(90..95, 9, "fin"));
    bench.refresh();
    assert_eq!(id(&bench), before);
    assert_eq!(bench.app.chosen().selected, 17);
    bench.press(KeyCode::End);
    assert_eq!(bench.app.chosen().selected, bench.app.sheet.rows.len() - 1);
}
