//! Taps on two devices while something else sends: what they tell, and whether all that passed is
//! in it.
//!
//! Beside each tap a program of its own counts what passes. Every packet that it counts has to be
//! in a slot that was told, or in a count that says why it is in none: then every slot in which a
//! packet was seen has a record.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::thread;
use std::time::Duration;

use capture::Place;
use capture::live::Passing;
use capture::sys::namespace;
use capture::tap::{Moment, SlotTap, SlotTapCounts, SlotTapOptions, TapCounter, TapEvent, TapSide};
use cca::inputs::{Empty, ProgressRule, Throughput};
use cca::{FlowWay, Input, Pair, Period, Rules, Segment, TapOptions};
use clap::Args;
use packet::{FlowKey, FlowSlot, Protocol, SlotClock, Span, TapSlot, Timestamp};

use crate::Failure;
use crate::clock::Stopwatch;

const DRAIN_EVERY: Duration = Duration::from_millis(5);
const SETTLED_AFTER: Duration = Duration::from_millis(200);
const SLOT: Span = Span::from_ns(1_000_000);

/// Arguments of `cca collect`.
#[derive(Debug, Args)]
pub(crate) struct CollectArguments {
    /// Where packets come to the queue, NETNS:DEV
    #[arg(long)]
    ingress: Place,
    /// Where they have left it, NETNS:DEV
    #[arg(long)]
    egress: Place,
    /// Flows that are followed: SOURCE-DESTINATION, each ADDRESS:PORT
    #[arg(long = "flow", value_parser = parse_flow)]
    flows: Vec<(SocketAddr, SocketAddr)>,
    /// Stop after so many seconds
    #[arg(long)]
    seconds: u64,
    /// Tell every packet: no first-packet sampling
    #[arg(long)]
    each_packet: bool,
    /// Keep so many records at most, as the paper's table does
    #[arg(long, default_value_t = 5_000_000)]
    records_max: usize,
    /// Count beside the taps what passes
    #[arg(long)]
    counted: bool,
}

fn parse_flow(text: &str) -> Result<(SocketAddr, SocketAddr), String> {
    let wrong = || format!("{text}; wanted ADDRESS:PORT-ADDRESS:PORT");
    let (source, destination) = text.split_once('-').ok_or_else(wrong)?;
    let end = |text: &str| text.parse().map_err(|_| wrong());
    Ok((end(source)?, end(destination)?))
}

/// What was told, in the order in which it was.
type Record = (TapSide, u32, TapSlot);

/// What the taps told until the table was full or the time was over.
struct Table {
    records: Vec<Record>,
    /// Records for which there was no place any more.
    beyond: u64,
    /// When the last place was taken, since the first record.
    full_after_s: Option<f64>,
}

/// Attaches, waits, and says what was told.
#[allow(clippy::print_stdout, clippy::print_stderr)] // A door: the lines are this program's output.
pub(crate) fn run(arguments: &CollectArguments) -> Result<(), Failure> {
    let mut tap = SlotTap::load(SlotTapOptions {
        slot: SLOT,
        share: 1.0,
        each_packet: arguments.each_packet,
        seen_share: 0.0,
    })
    .map_err(|error| error.to_string())?;
    let mut counters = Vec::new();
    for (place, side) in
        [(&arguments.ingress, TapSide::Ingress), (&arguments.egress, TapSide::Egress)]
    {
        within(place, |device| {
            tap.attach(device, side).map_err(|error| error.to_string())?;
            if arguments.counted {
                let counter = TapCounter::attach(device, Passing::In).map_err(|e| e.to_string())?;
                counters.push(counter);
            }
            Ok(())
        })?;
    }
    for (&flow, index) in arguments.flows.iter().zip(0..) {
        let place = FlowSlot { index, generation: 0 };
        tap.follow(flow, place).map_err(|error| error.to_string())?;
    }
    let start = Moment { realtime: Timestamp::from_ns(0), monotonic_ns: 0 };
    for counter in &mut counters {
        counter.count_between(start, None).map_err(|error| error.to_string())?;
    }
    eprintln!("attached");
    let table = collect(&mut tap, arguments)?;
    let open = open_slots(&tap, arguments)?;
    println!("{}", told(arguments, &tap, &table, &open, &counters)?);
    println!("{}", build(arguments, &table));
    Ok(())
}

/// Does something where a device is, in a thread that ends there.
fn within(
    place: &Place,
    what: impl FnOnce(&str) -> Result<(), Failure> + Send,
) -> Result<(), Failure> {
    let file = place.namespace_file();
    let entered = || {
        let shown = file.display();
        namespace::open(&file)
            .and_then(|file| namespace::enter(&file))
            .map_err(|error| format!("{shown}: {error}; wanted a network namespace"))?;
        what(&place.device)
    };
    let done = thread::scope(|scope| scope.spawn(entered).join());
    done.map_err(|_| String::from("the thread that attaches ended"))?
}

fn collect(tap: &mut SlotTap, arguments: &CollectArguments) -> Result<Table, Failure> {
    let mut table =
        Table { records: Vec::with_capacity(arguments.records_max), beyond: 0, full_after_s: None };
    let watch = Stopwatch::start();
    let mut first_s = None;
    let end = Duration::from_secs(arguments.seconds) + SETTLED_AFTER;
    while watch.stop().wall < end {
        thread::sleep(DRAIN_EVERY);
        tap.keep_time().map_err(|error| error.to_string())?;
        tap.read(|heard| {
            let TapEvent::Slot { side, flow, slot } = heard else { return };
            if table.records.len() < arguments.records_max {
                table.records.push((side, flow.index, slot));
            } else {
                table.beyond += 1;
            }
        });
        let now_s = watch.stop().wall.as_secs_f64();
        if !table.records.is_empty() {
            let first_s = *first_s.get_or_insert(now_s);
            if table.beyond > 0 {
                table.full_after_s.get_or_insert(now_s - first_s);
            }
        }
    }
    Ok(table)
}

fn open_slots(tap: &SlotTap, arguments: &CollectArguments) -> Result<Vec<Record>, Failure> {
    let mut open = Vec::new();
    for (_, index) in arguments.flows.iter().zip(0..) {
        for side in TapSide::ALL {
            let slot = tap.open_slot(index, side).map_err(|error| error.to_string())?;
            open.extend(slot.map(|slot| (side, index, slot)));
        }
    }
    Ok(open)
}

/// What was told of each tap, and what was counted beside it.
fn told(
    arguments: &CollectArguments,
    tap: &SlotTap,
    table: &Table,
    open: &[Record],
    counters: &[TapCounter],
) -> Result<String, Failure> {
    let mut sides = Vec::new();
    for (at, side) in TapSide::ALL.into_iter().enumerate() {
        let SlotTapCounts { taken, not_followed, left_out, no_room, not_tcp, no_data, unreadable } =
            tap.counts(side).map_err(|error| error.to_string())?;
        let of = || table.records.iter().chain(open).filter(|record| record.0 == side);
        let packets: u64 = of().map(|record| u64::from(record.2.packets)).sum();
        let data_bytes: u64 = of().map(|record| record.2.data_bytes).sum();
        let counted = match counters.get(at) {
            Some(counter) => {
                let counts = counter.counts().map_err(|error| error.to_string())?;
                format!(r#","counted_packets":{},"counted_bytes":{}"#, counts.packets, counts.bytes)
            }
            None => String::new(),
        };
        sides.push(format!(
            r#""{side:?}":{{"records":{},"packets":{packets},"data_bytes":{data_bytes},"taken":{taken},"not_followed":{not_followed},"left_out":{left_out},"no_room":{no_room},"not_tcp":{not_tcp},"no_data":{no_data},"unreadable":{unreadable}{counted}}}"#,
            of().count(),
        ));
    }
    let full_after = table.full_after_s.map_or_else(|| "null".to_owned(), |s| format!("{s:.3}"));
    Ok(format!(
        r#"{{"what":"collected","each_packet":{},"records":{},"beyond":{},"full_after_s":{full_after},"seconds":{},{}}}"#,
        arguments.each_packet,
        table.records.len(),
        table.beyond,
        arguments.seconds,
        sides.join(",")
    ))
}

/// What it takes to make the inputs of all slots out of the table.
fn build(arguments: &CollectArguments, table: &Table) -> String {
    let options = TapOptions {
        clock: SlotClock::new(SLOT),
        flow_count_max: usize::MAX,
        kept: Span::from_ns(i64::MAX),
        sampler: None,
    };
    let ways: Vec<FlowWay> = arguments.flows.iter().copied().map(way).collect();
    let watch = Stopwatch::start();
    let mut pair = Pair::new(options);
    for &(side, index, slot) in &table.records {
        let Some(&way) = ways.get(index as usize) else { continue };
        let tap = match side {
            TapSide::Ingress => &mut pair.ingress,
            TapSide::Egress => &mut pair.egress,
        };
        if arguments.each_packet {
            tap.add(way, &Segment::from_lone_slot(&slot));
        } else {
            tap.put(way, slot);
        }
    }
    let put = watch.stop();
    let rules = Rules {
        passed: ProgressRule::Highest,
        empty: Empty::Next,
        throughput: Throughput::Counted,
    };
    let (mut slots, mut sums) = (0, HashMap::new());
    for way in &ways {
        let mut seen = Vec::new();
        pair.ingress.slots(way, &mut seen);
        let (Some(first), Some(last)) = (seen.first(), seen.last()) else { continue };
        let len = usize::try_from(last.slot - first.slot).unwrap_or(0) + 1;
        let period = Period { start: first.slot, len };
        if let Ok(rows) = pair.fill(way, period, &[Input::Cbiq, Input::IngressBytes], rules) {
            slots += len;
            sums.insert(*way, rows.iter().map(|&value| f64::from(value)).sum::<f64>());
        }
    }
    let all = watch.stop();
    format!(
        r#"{{"what":"built","records":{},"slots":{slots},"flows":{},"put_cpu_s":{:.6},"cpu_s":{:.6},"wall_s":{:.6}}}"#,
        table.records.len(),
        sums.len(),
        put.cpu.as_secs_f64(),
        all.cpu.as_secs_f64(),
        all.wall.as_secs_f64()
    )
}

fn way((source, destination): (SocketAddr, SocketAddr)) -> FlowWay {
    let (from, to): (IpAddr, IpAddr) = (source.ip(), destination.ip());
    let (key, direction) =
        FlowKey::from_tuple(from, to, source.port(), destination.port(), Protocol::TCP);
    FlowWay { key, direction }
}
