//! Live capture on interfaces of the tests' own.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used)]
// A test that is skipped says so.
#![allow(clippy::print_stderr)]

mod changing;
#[cfg(feature = "tap")]
mod ecn;
mod frames;
mod lab;
mod overload;
mod system;
