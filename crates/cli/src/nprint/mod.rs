//! `wirelens nprint`: packets and flows as the bits of their headers.

pub mod args;
mod flows;
mod packets;
mod rows;
mod sequences;

use std::io::Write as _;

use engine::columns::Schema;
use engine::flow::FlowOptions;
use model::{
    Block, FeatureSchema, Headers, Layout, Subscription, SubscriptionError, SubscriptionRequest,
};
use session::first::{FlowsRequest, index};
use session::flows::RunTotals;
use session::reading::{Inputs, Needs, OpenSources, hash_seed};
use session::run::Jail;
use session::summary::StageSummary;

use crate::asked;
use crate::failure::{Failure, Status};
use crate::run::tell_line;
use crate::summary;
use args::{BitArguments, NprintArguments};
use rows::Rows;
use session::first::bits::Shape;

/// What rows are made of; the payload is not counted.
const NEEDS: Needs = Needs { stage: "nprint", len: Needs::TRANSPORT_LEN, takes_all: false };

/// The columns before the bits. Those of the bits are in `docs/specs/feature-schema.md`.
pub(crate) fn declared_columns() -> Vec<(&'static str, Schema)> {
    vec![("wirelens nprint --depth N", index::FLOW)]
}

/// Runs `wirelens nprint`.
pub(crate) fn run(arguments: &NprintArguments) -> Result<Status, Failure> {
    let subscription = subscription(arguments)?;
    if arguments.schema {
        return print_schema(arguments, &subscription);
    }
    let inputs = asked::find(&arguments.input, None, true)?;
    asked::spare(&inputs, [arguments.output.output.as_ref()])?;
    let depth = arguments.depth.map(usize::from);
    let (relative, absolute) = (arguments.relative_timestamps, arguments.absolute_timestamps);
    let packet_fields = index::packet_fields(arguments.index, relative, absolute);
    let fields = if depth.is_some() { index::FLOW } else { &packet_fields };
    let shape = Shape { subscription: &subscription, fields, depth };
    arguments.output.chosen()?;
    if arguments.sequences {
        sequences::check(&arguments.output)?;
    }
    let opened = inputs.open_any(NEEDS, 1)?;
    if arguments.input.check {
        return Ok(Status::Fine);
    }
    let jail = Jail::unless(arguments.input.no_jail);
    if let Some(depth) = depth.filter(|_| arguments.sequences) {
        let (request, output) = (request(arguments), &arguments.output);
        let done = sequences::run(request, &inputs, opened, (output, jail), depth)?;
        return told(arguments, &inputs, &done);
    }
    let rows = Rows::create(&arguments.output, &shape)?;
    jail.enter(&inputs, tell_line);
    if depth.is_some() {
        let done = flows::run(request(arguments), &inputs, opened, &subscription, rows)?;
        told(arguments, &inputs, &done)
    } else {
        by_packet(arguments, &inputs, opened, &subscription, rows)
    }
}

fn by_packet(
    arguments: &NprintArguments,
    inputs: &Inputs,
    opened: OpenSources,
    subscription: &Subscription,
    rows: Rows,
) -> Result<Status, Failure> {
    let (outcome, received) = packets::run(arguments, inputs, opened, subscription.layout(), rows)?;
    let key = if arguments.all_ip { "an IP header" } else { "IP with TCP, UDP or ICMP" };
    let stage = summary_of(&outcome, key);
    summary::print(inputs, arguments.input.quiet, &received, Some(&stage))
}

/// What was typed about flows.
fn request(arguments: &NprintArguments) -> FlowsRequest {
    let options = FlowOptions {
        idle_timeout: arguments.idle_timeout,
        active_timeout: arguments.active_timeout,
        flow_count_max: arguments.max_flows,
        ..FlowOptions::default()
    };
    FlowsRequest { options, seed: hash_seed(arguments.input.seed) }
}

/// Reports the outcome of packets and flows.
fn told(arguments: &NprintArguments, inputs: &Inputs, done: &RunTotals) -> Result<Status, Failure> {
    let stage = summary_of(&done.outcome, "an IP header");
    let quiet = arguments.input.quiet;
    let status = summary::print(inputs, quiet, &done.received, Some(&stage))?;
    if !quiet {
        eprint!("{}", done.lines());
    }
    Ok(status)
}

fn summary_of<'a>(outcome: &'a engine::group::Outcome, key: &'a str) -> StageSummary<'a> {
    StageSummary { name: "nprint", outcome, key, late: 0, beyond_max_keys: 0 }
}

/// What was typed about bits.
fn subscription(arguments: &NprintArguments) -> Result<Subscription, Failure> {
    let bits = &arguments.bits;
    let wanted = SubscriptionRequest {
        layout: layout(bits),
        exclude: &bits.exclude,
        addresses: !bits.no_addresses,
        ports: !bits.no_ports,
        depth: arguments.depth.map_or(1, usize::from),
        missing: bits.fill,
    };
    Subscription::new(&wanted).map_err(|error| match error {
        SubscriptionError::Pattern { .. } => Failure::usage(format_args!("-x: {error}")),
        _ => Failure::usage(error),
    })
}

fn layout(bits: &BitArguments) -> Layout {
    let asked = [
        (bits.ipv4, Block::Ipv4),
        (bits.ipv6, Block::Ipv6),
        (bits.tcp, Block::Tcp),
        (bits.udp, Block::Udp),
        (bits.icmp, Block::Icmp),
    ];
    let blocks: Vec<_> =
        asked.iter().filter(|(is_asked, _)| *is_asked).map(|&(_, block)| block).collect();
    if blocks.is_empty() && bits.payload == 0 {
        return Layout::default();
    }
    Layout::new(&blocks, bits.payload)
}

/// What the values mean, and the hash of it in a last line that is not part of it.
fn print_schema(
    arguments: &NprintArguments,
    subscription: &Subscription,
) -> Result<Status, Failure> {
    let headers = if arguments.input.no_decap { Headers::Outermost } else { Headers::Innermost };
    let schema = match arguments.depth {
        Some(depth) if arguments.sequences => FeatureSchema::of_steps(depth.into(), headers),
        Some(_) => FeatureSchema::of_flows(subscription, headers),
        None => FeatureSchema::of_packets(subscription, headers),
    };
    let mut out = std::io::stdout().lock();
    write!(out, "{}", schema.text())?;
    writeln!(out, "sha256 {}", schema.hash())?;
    Ok(Status::Fine)
}
