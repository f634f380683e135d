//! Between the applications and the front ends: which frames are read and how, applications run
//! on them, and the account of every packet.
//!
//! Requests are values and errors are types, for every front end: the command, whose
//! arguments become a request, or the Python package. Nothing here parses arguments or prints.

#![forbid(unsafe_code)]

pub mod amount;
pub mod application;
pub mod applications;
pub mod captures;
pub mod cca;
pub mod choice;
pub mod classify;
pub mod clock;
pub mod copied;
#[cfg(all(target_os = "linux", feature = "tap"))]
mod device_keeper;
pub mod devices;
pub mod done;
pub mod drills;
pub mod exports;
pub mod first;
pub mod flows;
pub mod host;
pub mod in_order;
mod indicated;
pub mod input;
pub mod interface_statistics;
pub mod l4s;
pub mod latency;
mod live_interfaces;
#[cfg(all(target_os = "linux", feature = "tap"))]
mod lock;
mod names_read;
pub mod networks;
#[cfg(feature = "onnx")]
pub mod onnx;
pub mod outlet;
pub mod outside;
pub mod packetlog;
pub mod page;
pub mod predictor;
pub mod published;
pub mod rate;
pub mod reading;
pub mod refusal;
pub mod rules;
pub mod run;
mod second;
pub mod sensors;
pub mod shipped;
pub mod stored;
pub mod summary;
pub mod toml_text;
pub mod top;
mod weight;
pub mod windows;
pub mod worker;
pub mod written;

pub use packet::{duration, when};

pub use host::{Environment, Host};

/// Is the helper of a run, if the arguments of this process are those of one: it opens interfaces
/// in place of the run, or changes a device, and puts it back when the run ends. `stdin` is its end
/// of a pair of sockets.
#[cfg(all(target_os = "linux", feature = "tap"))]
#[must_use]
pub fn serve_as_helper(
    words: &[std::ffi::OsString],
    stdin: impl std::os::fd::AsFd,
) -> Option<std::process::ExitCode> {
    let [_, word, chore] = words else { return None };
    let serve = cca::act::helper_of(chore)
        .or_else(|| l4s::helper_of(chore))
        .or_else(|| run::helper_of(chore));
    let serve = serve.filter(|_| word == device_keeper::WORD)?;
    jail::ignore_ends();
    let stream = stdin.as_fd().try_clone_to_owned();
    Some(stream.map_or(std::process::ExitCode::FAILURE, |stream| serve(stream.into())))
}

/// Keys that may be kept: at least one in each partition, and slots are numbered by 32 bits.
pub const KEY_COUNTS: std::ops::RangeInclusive<usize> = 64..=1_000_000_000;

/// The share of `part` in `whole`; of nothing, 0.
#[must_use]
#[allow(clippy::cast_precision_loss)]
pub fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}
