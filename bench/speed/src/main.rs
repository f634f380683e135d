//! `wirelens-bench`: makes large captures, and measures what the engine is made of.
//!
//! Whole programs are measured from outside, by `bench/speed/run.py`; what happens
//! inside one process is measured here: queues between two threads
//! ([`queues`]), records in memory through the paper's design and through ours
//! ([`pipeline`]), items that cross cores ([`crossing`]), rows on their way to a file
//! ([`rows`]), packets into header bits ([`extract`]), rows down trees ([`trees`]), and packets
//! through a cascade of them ([`serve`], [`asks`]), and packets judged, kept in a log and found
//! again ([`packetlog`]), slots of a queue ([`mod@cca`]), tokens through an encoder
//! ([`mod@encoder`]) or, in ONNX, a window at a time, and the fine-tuning of its head ([`tuning`]).
//! Each measurement prints one line of JSON.

#![forbid(unsafe_code)]

mod asks;
mod cca;
mod clock;
mod crossing;
mod encoder;
mod extract;
mod frames;
mod generate;
mod measurement;
#[cfg(feature = "onnx")]
mod onnx;
mod own_ring;
mod packetlog;
mod pipeline;
mod placement;
mod plain;
mod queues;
mod records;
mod rows;
mod serve;
mod trees;
mod tuning;
#[cfg(feature = "onnx")]
mod windowed;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Makes large captures and measures queues, pipelines and crossings.
#[derive(Debug, Parser)]
#[command(name = "wirelens-bench", disable_help_subcommand = true)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Make a backbone-like capture, as frames, as 40-byte records and as columns
    Gen(generate::GenArguments),
    /// Make a load of flows drawn from captures, under addresses of their own
    Load(generate::LoadArguments),
    /// Write a capture anew: cut, as records, as columns
    Convert(generate::ConvertArguments),
    /// Integers between two threads through seven queues (Figure 3 of the paper)
    Queues(queues::QueuesArguments),
    /// Records in memory, counted by source: the paper's three threads and Wirelens (Figure 4)
    Pipeline(pipeline::PipelineArguments),
    /// Items that cross from one core to another in chunks
    Crossing(crossing::CrossingArguments),
    /// Rows of sixteen columns, filled and written in each format
    Rows(rows::RowsArguments),
    /// Packets of a capture into header bits, as compact records and as nPrint's text
    Extract(extract::ExtractArguments),
    /// Rows down trees, alone and in batches
    Trees(trees::TreesArguments),
    /// Packets in memory through a cascade, to verdicts
    Serve(serve::ServeArguments),
    /// Packets into judgements and into a log, and questions to a log
    Packetlog(packetlog::PacketlogArguments),
    /// Slots of flows in a queue: told by the kernel, made to inputs, told apart
    Cca(cca::CcaArguments),
    /// What each model of a cascade takes for each of many rows
    Asks(asks::AsksArguments),
    /// New tokens through a Transformer encoder that keeps keys and values, and queries scored
    Encoder(encoder::EncoderArguments),
    /// Queries scored by networks in ONNX that read a whole window for each call
    #[cfg(feature = "onnx")]
    Windowed(windowed::WindowedArguments),
    /// A minute's tokens through an encoder, and its head fine-tuned on the minute's packets
    Tuning(tuning::TuningArguments),
}

/// What went wrong, as one line: what was seen, what was wanted.
type Failure = String;

#[allow(clippy::print_stderr)] // A door: this program is run by developers.
fn main() -> ExitCode {
    let done = match Arguments::parse().command {
        Command::Gen(arguments) => generate::generate(&arguments),
        Command::Load(arguments) => generate::load(&arguments),
        Command::Convert(arguments) => generate::convert(&arguments),
        Command::Queues(arguments) => queues::run(&arguments),
        Command::Pipeline(arguments) => pipeline::run(&arguments),
        Command::Crossing(arguments) => crossing::run(&arguments),
        Command::Rows(arguments) => rows::run(&arguments),
        Command::Extract(arguments) => extract::run(&arguments),
        Command::Trees(arguments) => trees::run(&arguments),
        Command::Serve(arguments) => serve::run(&arguments),
        Command::Packetlog(arguments) => packetlog::run(&arguments),
        Command::Cca(arguments) => cca::run(&arguments),
        Command::Asks(arguments) => asks::run(&arguments),
        Command::Encoder(arguments) => encoder::run(&arguments),
        #[cfg(feature = "onnx")]
        Command::Windowed(arguments) => windowed::run(&arguments),
        Command::Tuning(arguments) => tuning::run(&arguments),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("wirelens-bench: {failure}");
            ExitCode::FAILURE
        }
    }
}
