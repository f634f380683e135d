//! The view over hand-made rows, for some seconds: `cargo run --example demo -- 5`. A second
//! argument adds so many flows. `ASCII=1`,
//! `NO_COLOR=1` and `PANIC=1` try what their names say.
#![allow(clippy::expect_used, clippy::panic, clippy::disallowed_methods, missing_docs)]
#![allow(clippy::cast_possible_truncation, clippy::cast_precision_loss, unreachable_pub)]

mod rows;

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use terminal::{Facts, Glyphs, Messages};

fn main() -> std::io::Result<()> {
    let seconds = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(5);
    let store = rows::full();
    let more = std::env::args().nth(2).and_then(|text| text.parse().ok()).unwrap_or(0);
    if let Some(flows) = store.find("flows") {
        (0..more / 1_000)
            .for_each(|at| flows.push(&rows::flows(at * 1_000..(at + 1) * 1_000, 0, "fin")));
    }
    let messages = Messages::default();
    let (filled, warned) = (Arc::clone(&store), messages.clone());
    thread::spawn(move || {
        for tick in 1.. {
            thread::sleep(Duration::from_secs(1));
            let find = |name| filled.find(name).expect("the demo has the table");
            find("traffic").push(&rows::traffic(59 + tick..60 + tick));
            find("cca").push(&rows::cca(39 + tick..40 + tick));
            rows::tick(&filled, tick);
            if tick == 3 {
                warned.put("eth0: removed\x1b[31m; the others go on");
            }
        }
    });
    let is_set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    let facts = Facts {
        title: String::from("wirelens demo"),
        inputs: Box::new(|| vec![String::from("hand-made rows")]),
        packets: Box::new(|| (123_456, 2)),
        out: || Box::new(std::io::stdout()),
        messages,
        now: Instant::now,
        glyphs: if is_set("ASCII") { Glyphs::Ascii } else { Glyphs::Unicode },
        first: None,
        has_colour: !is_set("NO_COLOR"),
    };
    let begun = Instant::now();
    let stop = move || begun.elapsed() > Duration::from_secs(seconds);
    if is_set("PANIC") {
        let facts = Facts { packets: Box::new(|| panic!("on purpose")), ..facts };
        return terminal::run(store, facts, stop, || {});
    }
    terminal::run(store, facts, stop, || {})
}
