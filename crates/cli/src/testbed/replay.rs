//! `wirelens testbed replay`: a router that is asked again, and what it answers otherwise.

use std::fs;

use ::testbed::TestbedError;
use ::testbed::trace::replay;
use serde_json::json;

use super::args::ReplayArguments;
use super::say_report;
use crate::failure::{Failure, Status};

pub(super) fn run(arguments: &ReplayArguments) -> Result<Status, Failure> {
    let ReplayArguments { journal, router, seed, start } = arguments;
    let path = journal.display();
    let journal =
        fs::read(journal).map_err(|error| Failure::error(format_args!("{path}: {error}")))?;
    let replayed = replay(*router, *seed, *start, &journal).map_err(TestbedError::Router)?;
    let Some(replayed) = replayed else {
        return Err(Failure::error(format_args!(
            "{path}: no journal of a relay: wanted entries of 24 bytes; give the file of its \
             --journal"
        )));
    };
    say_report(&json!({
        "calls": replayed.calls,
        "first_difference": replayed.first_difference,
    }))?;
    match replayed.first_difference {
        None => Ok(Status::Fine),
        Some(call) => Err(Failure::error(format_args!(
            "{path}: call {call} is decided otherwise; wanted the router, seed and start of the \
             relay that wrote it"
        ))),
    }
}
