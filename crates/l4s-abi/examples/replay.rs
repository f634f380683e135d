//! Asks a router what a journal's was asked, and says whether it decides the same:
//! `replay SETTINGS SEED JOURNAL`. `make ns3` builds it, as `target/release/examples/replay`.

#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, clippy::print_stderr)]

use std::error::Error;
use std::process::ExitCode;

use l4s::journal::{ENTRY_LEN, Replayed, replay};

fn run() -> Result<Replayed, Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [settings, seed, path] = arguments.as_slice() else {
        return Err("usage: replay SETTINGS SEED JOURNAL".into());
    };
    let router = dualq::Router::new(settings.parse()?, seed.parse()?, 0)?;
    let journal = std::fs::read(path).map_err(|error| format!("{path}: {error}"))?;
    if journal.len() % ENTRY_LEN != 0 {
        let len = journal.len();
        return Err(format!("{path}: {len} bytes; wanted entries of {ENTRY_LEN}").into());
    }
    Ok(replay(router, &journal))
}

fn main() -> ExitCode {
    match run() {
        Err(error) => {
            eprintln!("replay: {error}");
            ExitCode::from(2)
        }
        Ok(Replayed { calls, first_difference: None }) => {
            println!("{calls} calls, decided the same");
            ExitCode::SUCCESS
        }
        Ok(Replayed { calls, first_difference: Some(at) }) => {
            println!("{calls} calls, the first that was decided otherwise is {at}");
            ExitCode::FAILURE
        }
    }
}
