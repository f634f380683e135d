//! `flows` as people read them.

use std::io::{self, Write as _};

use comfy_table::{CellAlignment, Table};
use engine::flow::{FlowCounts, FlowRecord};
use packet::Timestamp;
use session::captures::Captures;
use session::flows::ShownFlow;
use session::outlet::{RowsError, Taker};
use session::share;

use crate::failure::Failure;
use crate::table;
use crate::top::grouped;

const TITLES: [&str; 10] = [
    "protocol",
    "source",
    "destination",
    "first",
    "seconds",
    "packets",
    "bytes",
    "flags",
    "end",
    "share",
];

/// What a narrow terminal can do without, the least needed first.
const LEAST: [&str; 6] = ["flags", "first", "end", "seconds", "share", "packets"];

/// Prints the heaviest flows, with their shares of the bytes of all.
pub(super) fn print(
    flows: &[ShownFlow],
    counts: &FlowCounts,
    captures: &Captures,
) -> Result<(), Failure> {
    let mut table = Table::new();
    table.load_style(comfy_table::presets::NOTHING);
    let has_names = flows.iter().any(|(_, name)| name.is_some());
    let last = [has_names.then_some("name"), captures.are_named().then_some("capture")];
    table.set_header(TITLES.into_iter().chain(last.into_iter().flatten()));
    for (flow, name) in flows {
        let last = [name.clone(), captures.name(flow.input).map(str::to_owned)];
        table.add_row(cells(flow, counts).into_iter().chain(last.into_iter().flatten()));
    }
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    for title in ["seconds", "packets", "bytes", "share"] {
        let index = TITLES.iter().position(|&known| known == title).unwrap_or_default();
        if let Some(column) = table.column_mut(index) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    let mut out = std::io::stdout().lock();
    writeln!(out, "{}", table::fitted(&mut table, &LEAST))?;
    let others = counts.total().saturating_sub(flows.len() as u64);
    if others > 0 {
        writeln!(out, "… and {others} more (-n 0 shows all)")?;
    }
    Ok(())
}

/// Flows of an interface as lines, each when it has ended.
pub(super) struct Lines {
    /// Which of the columns fit the terminal.
    shown: [bool; WIDTHS.len()],
}

/// Widths of the columns of [`Lines`]: what IPv4 takes, since lines are not known in advance.
const WIDTHS: [usize; 9] = [9, 21, 21, 30, 9, 15, 21, 5, 9];

impl Lines {
    /// Prints the titles.
    pub(super) fn begin(has_names: bool) -> Result<Self, Failure> {
        let lines = Self { shown: shown(terminal::width()) };
        let titles = TITLES.iter().copied().take(WIDTHS.len());
        lines.line(titles.chain(has_names.then_some("name")))?;
        Ok(lines)
    }

    /// One line of all cells except the share: the total is unknown while flows are open.
    fn line<'a>(&self, cells: impl Iterator<Item = &'a str>) -> io::Result<()> {
        let widths = WIDTHS.into_iter().zip(self.shown).chain(std::iter::repeat((0, true)));
        let cells = cells.zip(widths).filter(|(_, (_, is_shown))| *is_shown);
        let cells = cells.map(|(cell, (width, _))| format!("{cell:width$}"));
        let line = cells.collect::<Vec<_>>().join("  ");
        writeln!(io::stdout(), "{}", line.trim_end())
    }
}

/// Which columns of [`Lines`] fit so many characters.
fn shown(width: Option<u16>) -> [bool; WIDTHS.len()] {
    let mut shown = [true; WIDTHS.len()];
    let Some(width) = width else { return shown };
    for title in LEAST {
        let widths = WIDTHS.iter().zip(shown).filter(|(_, is_shown)| *is_shown);
        let needed = widths.map(|(width, _)| width + 2).sum::<usize>().saturating_sub(2);
        if needed <= usize::from(width) {
            break;
        }
        let place = TITLES.iter().position(|&known| known == title);
        if let Some(is_shown) = place.and_then(|place| shown.get_mut(place)) {
            *is_shown = false;
        }
    }
    shown
}

impl Taker<Vec<ShownFlow>> for Lines {
    fn take(&mut self, flows: &Vec<ShownFlow>) -> Result<(), RowsError> {
        for (flow, name) in flows {
            let cells = cells(flow, &FlowCounts::default());
            self.line(cells.iter().take(WIDTHS.len()).map(String::as_str).chain(name.as_deref()))?;
        }
        Ok(())
    }

    fn finish(self) -> Result<(), RowsError> {
        Ok(io::stdout().flush()?)
    }
}

fn cells(flow: &FlowRecord, counts: &FlowCounts) -> [String; TITLES.len()] {
    let (source, destination) = flow.endpoints();
    [
        flow.key.protocol().to_string(),
        source.to_string(),
        destination.to_string(),
        if flow.first == Timestamp::UNKNOWN { "-".to_owned() } else { flow.first.to_string() },
        format!("{:.3}", flow.last.since(flow.first).as_seconds_f64()),
        format!("{} + {}", grouped(flow.packets[0].into()), grouped(flow.packets[1].into())),
        format!("{} + {}", grouped(flow.bytes[0]), grouped(flow.bytes[1])),
        flag_letters(flow.tcp_flags[0] | flow.tcp_flags[1]),
        flow.reason.name().to_owned(),
        format!("{:.1} %", share(flow.bytes_total(), counts.bytes) * 100.0),
    ]
}

/// TCP flags as tcpdump and nfdump abbreviate them, from CWR to FIN.
fn flag_letters(flags: u8) -> String {
    let letters = "CEUAPRSF".chars().enumerate();
    letters.filter(|(place, _)| flags >> (7 - place) & 1 == 1).map(|(_, letter)| letter).collect()
}
