//! A capture as people read it.

use std::fmt::Display;
use std::io::Write;

use comfy_table::{CellAlignment, Table};
use engine::census::Census;
use engine::table::Tally;
use packet::file::{Decoder, Format, Interface, Section};
use session::interface_statistics::StatisticsSum;
use session::share;

use super::Capture;
use crate::failure::Failure;
use crate::table;
use crate::top::grouped;

/// Prints what one capture holds.
pub(super) fn print(capture: &Capture) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    let Capture { name, source, census, .. } = capture;
    let decoder = source.decoder();
    line(&mut out, "capture", name)?;
    line(&mut out, "format", format_name(decoder.format()))?;
    sections(&mut out, decoder.sections())?;
    times(&mut out, census)?;
    sizes(&mut out, census)?;
    for described in interfaces(decoder, census) {
        let title = format!("interface {}", described.index);
        line(&mut out, &title, interface_text(&described))?;
    }
    if census.total.packets > 0 {
        tables(&mut out, census)?;
    }
    let counts = decoder.counts().iter().filter(|&(name, count)| count > 0 && is_odd(name));
    for (name, count) in counts {
        line(&mut out, "in the file", format!("{} {}", grouped(count), name.replace('_', " ")))?;
    }
    writeln!(out)?;
    Ok(())
}

/// What sections say of themselves; once, of several in a row that say the same, with their number.
fn sections(out: &mut impl Write, sections: &[Section]) -> Result<(), Failure> {
    for alike in sections.chunk_by(|one, next| one == next) {
        let Some(section) = alike.first() else { continue };
        for (title, text) in [
            ("written by", &section.application),
            ("system", &section.os),
            ("hardware", &section.hardware),
        ] {
            if !text.is_empty() {
                line(out, title, printable(text))?;
            }
        }
        for comment in &section.comments.texts {
            line(out, "comment", printable(comment))?;
        }
        if alike.len() > 1 {
            line(
                out,
                "sections",
                format!("{} with this description", grouped(alike.len() as u64)),
            )?;
        }
    }
    Ok(())
}

/// An interface, and all that was met of it.
struct Described {
    /// Of its first description.
    index: usize,
    interface: Interface,
    tally: Tally,
    count: u64,
    counted: StatisticsSum,
}

/// The interfaces. If a capture has several sections, each describes them again: those that are
/// described alike are one.
fn interfaces(decoder: &Decoder, census: &Census) -> Vec<Described> {
    let has_sections = decoder.counts().section_blocks > 1;
    let mut found: Vec<Described> = Vec::new();
    for (index, interface) in decoder.interfaces().iter().enumerate() {
        let tally = census.interfaces.get(index).copied().unwrap_or_default();
        let known = found.iter_mut().find(|known| {
            let statistics = known.interface.statistics;
            has_sections && Interface { statistics, ..interface.clone() } == known.interface
        });
        match known {
            Some(known) => {
                known.tally.packets += tally.packets;
                known.tally.bytes += tally.bytes;
                known.count += 1;
                known.counted.put(interface.statistics);
            }
            None => {
                let (interface, mut counted) = (interface.clone(), StatisticsSum::default());
                counted.put(interface.statistics);
                found.push(Described { index, interface, tally, count: 1, counted });
            }
        }
    }
    found
}

fn line(out: &mut impl Write, title: &str, text: impl Display) -> Result<(), Failure> {
    writeln!(out, "{}", table::broken(&format!("{title:<12}  {text}")))?;
    Ok(())
}

/// Text from a file, without what would move a terminal's cursor.
fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// Counts of a file's blocks that a person wants to hear of.
fn is_odd(name: &str) -> bool {
    !matches!(name, "section_blocks" | "interface_blocks" | "enhanced_packet_blocks")
}

/// A format by name, byte order and resolution.
pub(super) fn format_name(format: Format) -> String {
    match format {
        Format::Pcap { order, resolution, modified } => {
            let modified = if modified { ", modified" } else { "" };
            format!("pcap, {resolution}, {order}{modified}")
        }
        Format::Pcapng { order } => format!("pcapng, {order}"),
    }
}

fn times(out: &mut impl Write, census: &Census) -> Result<(), Failure> {
    if census.total.packets == 0 {
        return line(out, "packets", "0");
    }
    if census.unstamped > 0 {
        line(out, "without time", format!("{} packets", grouped(census.unstamped)))?;
    }
    if !census.has_time() {
        return Ok(());
    }
    line(out, "first", census.first)?;
    line(out, "last", census.last)?;
    let seconds = census.duration().as_seconds_f64();
    line(out, "duration", format!("{seconds:.6} s"))?;
    if census.backwards > 0 {
        let text = format!(
            "{} packets with a timestamp before that of the previous packet",
            grouped(census.backwards)
        );
        line(out, "time order", text)?;
    }
    Ok(())
}

#[allow(clippy::cast_precision_loss)]
fn sizes(out: &mut impl Write, census: &Census) -> Result<(), Failure> {
    let Tally { packets, bytes } = census.total;
    if packets == 0 {
        return Ok(());
    }
    let seconds = census.duration().as_seconds_f64();
    let rate = |amount: u64| if seconds > 0.0 { amount as f64 / seconds } else { 0.0 };
    line(out, "packets", format!("{} ({:.0} per second)", grouped(packets), rate(packets)))?;
    let mbit = rate(bytes) * 8.0 / 1e6;
    line(out, "bytes", format!("{} on the wire ({mbit:.3} Mbit/s)", grouped(bytes)))?;
    let mean = bytes as f64 / packets as f64;
    let (min, max) = (census.wire_len_min, census.wire_len_max);
    line(out, "packet size", format!("{min} to {max} bytes, mean {mean:.1}"))?;
    if census.shortened > 0 {
        let text = format!(
            "{} bytes captured; {} packets truncated, {} of them within their headers",
            grouped(census.captured_bytes),
            grouped(census.shortened),
            grouped(census.cut)
        );
        line(out, "snaplen", text)?;
    }
    Ok(())
}

fn interface_text(described: &Described) -> String {
    let Described { interface, tally, count, counted, .. } = described;
    let mut parts = vec![interface.link.to_string()];
    if !interface.name.is_empty() {
        parts.push(printable(&interface.name));
    }
    if interface.snaplen > 0 {
        parts.push(format!("snaplen {}", interface.snaplen));
    }
    if !interface.filter.is_empty() {
        parts.push(format!("filter `{}`", printable(&interface.filter)));
    }
    parts.push(format!("{} packets", grouped(tally.packets)));
    let names = ["received", "dropped", "dropped by the system"];
    for (name, count) in names.into_iter().zip(counted.counters()) {
        parts.extend(count.map(|count| format!("{} {name}", grouped(count))));
    }
    if *count > 1 {
        parts.push(format!("described {} times", grouped(*count)));
    }
    parts.join(", ")
}

/// What was met, by kind.
fn tables(out: &mut impl Write, census: &Census) -> Result<(), Failure> {
    let mut table = Table::new();
    table.load_style(comfy_table::presets::NOTHING);
    table.set_header(["layer", "name", "packets", "bytes", "share"]);
    let total = census.total.bytes;
    if census.links.len() > 1 {
        rows(&mut table, "link", census.links.iter(), total);
    }
    rows(&mut table, "network", census.networks.iter(), total);
    rows(&mut table, "above ip", census.protocols.iter(), total);
    rows(&mut table, "also", census.features.iter(), total);
    for (cause, count) in census.malformed.iter() {
        table.add_row(["malformed", cause.name(), &grouped(count), "", ""]);
    }
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    for column in table.column_iter_mut().skip(2) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    writeln!(out, "{}", table::fitted(&mut table, &["share"]))?;
    if census.malformed.total() == 0 {
        line(out, "malformed", "none")?;
    }
    Ok(())
}

fn rows<'a, N: Display + 'a>(
    table: &mut Table,
    layer: &str,
    counted: impl Iterator<Item = (&'a N, &'a Tally)>,
    total_bytes: u64,
) {
    let mut counted: Vec<_> = counted.collect();
    counted.sort_by_key(|(_, tally)| std::cmp::Reverse(tally.bytes));
    for (name, tally) in counted {
        table.add_row([
            layer.to_owned(),
            name.to_string(),
            grouped(tally.packets),
            grouped(tally.bytes),
            format!("{:.1} %", share(tally.bytes, total_bytes) * 100.0),
        ]);
    }
}
