//! A host is looked for in a log.

use std::net::IpAddr;
use std::ops::ControlFlow;
use std::path::PathBuf;

use clap::Args;
use packetlog::log::{Log, Query};

use crate::Failure;
use crate::clock::Stopwatch;
use crate::measurement::Measurement;

/// Arguments of `packetlog query`.
#[derive(Debug, Args)]
pub(crate) struct QueryArguments {
    /// The folder of the log
    #[arg(long, value_name = "FOLDER")]
    folder: PathBuf,
    /// The host
    #[arg(long, value_name = "ADDRESS")]
    host: IpAddr,
    /// What is said of the page cache in the result
    #[arg(long, default_value = "warm")]
    cache: String,
    /// Times to measure everything
    #[arg(long, default_value_t = 1)]
    repetitions: usize,
}

pub(crate) fn run(arguments: &QueryArguments) -> Result<(), Failure> {
    let query = Query { hosts: vec![arguments.host], ..Query::default() };
    for _ in 0..arguments.repetitions {
        let stopwatch = Stopwatch::start();
        let log = Log::open(&arguments.folder).map_err(|error| error.to_string())?;
        print(arguments, "open", log.file_count() as u64, &stopwatch, 0);
        let plan = log.find(&query);
        print(arguments, "open and find", plan.chunk_count, &stopwatch, plan.wanted_count);
        let mut first = true;
        let mut bytes = 0;
        let report = log.read(&query, &plan, &mut |found| {
            if first {
                first = false;
                print(arguments, "until the first packet", 1, &stopwatch, 0);
            }
            bytes += found.bytes.len() as u64;
            ControlFlow::Continue(())
        });
        let report = report.map_err(|error| error.to_string())?;
        print(arguments, "until the last packet", report.packets_found, &stopwatch, bytes);
    }
    Ok(())
}

fn print(arguments: &QueryArguments, what: &str, item_count: u64, since: &Stopwatch, check: u64) {
    let name = format!("query {what}, {} cache", arguments.cache);
    let elapsed = since.stop();
    Measurement { figure: "packetlog", name, thread_count: 1, item_count, elapsed, check }.print();
}
