//! Rows as a flow table has them: filled into columns, and written in each format.

use std::io::{self, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use clap::Args;
use engine::columns::{Columns, Field, Kind, Schema, Value};
use sink::{Format, Writer};

use crate::Failure;
use crate::clock::{ElapsedTime, Stopwatch};
use crate::measurement::Measurement;

/// Arguments of `rows`.
#[derive(Debug, Args)]
pub(crate) struct RowsArguments {
    /// Rows to fill and write
    #[arg(long, default_value_t = 1_000_000)]
    rows: u32,
    /// Times to measure everything
    #[arg(long, default_value_t = 1)]
    repetitions: usize,
}

/// Rows handed over at once.
const PIECE_ROWS: u32 = 1 << 16;

const SCHEMA: Schema = &[
    Field::new("community_id", Kind::Text, ""),
    Field::new("src_ip", Kind::Text, ""),
    Field::new("dst_ip", Kind::Text, ""),
    Field::new("src_port", Kind::U16, ""),
    Field::new("dst_port", Kind::U16, ""),
    Field::new("flags", Kind::U16, ""),
    Field::new("vlan", Kind::U16, ""),
    Field::new("first_ns", Kind::TimestampNs, ""),
    Field::new("last_ns", Kind::TimestampNs, ""),
    Field::new("src_packets", Kind::U64, ""),
    Field::new("dst_packets", Kind::U64, ""),
    Field::new("src_bytes", Kind::U64, ""),
    Field::new("dst_bytes", Kind::U64, ""),
    Field::new("src_payload", Kind::U64, ""),
    Field::new("dst_payload", Kind::U64, ""),
    Field::new("duration_ns", Kind::U64, ""),
];

/// Measures filling alone, then each format from columns that are filled already.
pub(crate) fn run(arguments: &RowsArguments) -> Result<(), Failure> {
    let flows: Vec<Flow> = (0..PIECE_ROWS).map(Flow::new).collect();
    for _ in 0..arguments.repetitions {
        let mut columns = Columns::new(SCHEMA);
        fill(&mut columns, &flows, 0)?;
        let mut filled = 0;
        let stopwatch = Stopwatch::start();
        for first in (0..arguments.rows).step_by(PIECE_ROWS as usize) {
            columns.clear();
            fill(&mut columns, &flows, first)?;
            filled += columns.row_count() as u64;
        }
        report("fill columns", filled, filled, stopwatch.stop());
        let piece_count = arguments.rows.div_ceil(PIECE_ROWS);
        for format in Format::ALL {
            let stopwatch = Stopwatch::start();
            let bytes = write(format, &columns, piece_count).map_err(|error| error.to_string())?;
            report(&format!("write {format}"), filled, bytes, stopwatch.stop());
        }
    }
    Ok(())
}

/// What a row is made of, so that filling is not measured with making it up.
struct Flow {
    id: [u8; 30],
    source: IpAddr,
    destination: IpAddr,
    random: u64,
    other: u64,
}

impl Flow {
    fn new(row: u32) -> Self {
        let random = mixed(u64::from(row));
        let other = mixed(random);
        let (source, destination) = (address(random), address(other));
        Self { id: id_text(random, other), source, destination, random, other }
    }
}

fn fill(columns: &mut Columns, flows: &[Flow], first: u32) -> Result<(), Failure> {
    for (flow, row) in flows.iter().zip(first..) {
        let &Flow { random, other, .. } = flow;
        let start = 1_700_000_000_000_000_000 + i64::from(row) * 1_000;
        let packets = random % 50;
        columns
            .push_row(&[
                Value::Str(str::from_utf8(&flow.id).unwrap_or_default()),
                Value::Address(flow.source),
                Value::Address(flow.destination),
                Value::U16(random as u16 | 1024),
                Value::U16([443, 53, 80, 22][(other % 4) as usize]),
                Value::U16((random >> 16) as u16 & 31),
                Value::U16(0),
                Value::TimestampNs(start),
                Value::TimestampNs(start + (other >> 34).cast_signed()),
                Value::U64(packets),
                Value::U64(other % 50),
                Value::U64(packets * 800 + random % 600),
                Value::U64(other % 60_000),
                Value::U64(packets * 760),
                Value::U64(other % 50_000),
                Value::U64(other >> 34),
            ])
            .map_err(|error| error.to_string())?;
    }
    Ok(())
}

fn write(format: Format, rows: &Columns, times: u32) -> Result<u64, sink::WriteError> {
    let mut writer = Writer::new(format, SCHEMA, Counted(0))?;
    for _ in 0..times {
        writer.write(rows)?;
    }
    Ok(writer.finish()?.0)
}

/// Takes bytes and keeps their number.
struct Counted(u64);

impl Write for Counted {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += bytes.len() as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn report(name: &str, row_count: u64, check: u64, elapsed: ElapsedTime) {
    Measurement {
        figure: "rows",
        name: format!("{name}, {} columns", SCHEMA.len()),
        thread_count: 1,
        item_count: row_count,
        elapsed,
        check,
    }
    .print();
}

/// One in eight is IPv6; some thousands of each repeat, as hosts do.
fn address(random: u64) -> IpAddr {
    let host = mixed(random % 20_000);
    if host.is_multiple_of(8) {
        IpAddr::V6(Ipv6Addr::from((0x2001_0db8_u128 << 96) | u128::from(host)))
    } else {
        IpAddr::V4(Ipv4Addr::from((host >> 16) as u32))
    }
}

/// Thirty characters of which no two rows have the same, as a Community ID has.
fn id_text(random: u64, other: u64) -> [u8; 30] {
    let mut text = *b"1:000000000000000000000000000=";
    let digits = text.iter_mut().skip(2).take(27).enumerate();
    for (index, byte) in digits {
        let bits = if index < 12 { random >> (index * 5) } else { other >> ((index - 12) * 4) };
        *byte = b"abcdefghijklmnopqrstuvwxyzABCDEF"[(bits % 32) as usize];
    }
    text
}

/// `splitmix64`.
fn mixed(number: u64) -> u64 {
    let mut mixed = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}
