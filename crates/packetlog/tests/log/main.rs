//! Logs recorded, read back, torn, asked and repaired.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::panic)]
// A test that is skipped says so.
#![allow(clippy::print_stdout)]

mod account;
mod boots;
mod compact;
mod compressing;
mod crafted;
mod crashes;
mod faults;
mod holes;
mod lab;
mod ledger;
mod power;
mod reading;
mod room;
