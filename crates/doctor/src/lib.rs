//! What on a machine would stop, slow down or distort a capture, and the line that changes it.
//!
//! [`examine`] looks at the kernel, permissions, interfaces, clocks, memory, disks and libraries,
//! and changes nothing. Each [`Check`] has what was seen, what is wanted, and the command line that
//! changes it. What cannot be found out, such as a file that an old kernel does not have, is
//! `unknown` and never an error. What is shown comes from [`text`] or [`json`].
//!
//! Facts about interfaces are asked of the network namespace of the caller, by ioctl: `/sys` shows
//! that in which it was mounted. Everything else, interrupts and packet steering among it, is read
//! below a root that tests replace.

#![forbid(unsafe_code)]

mod card;
mod check;
mod disk;
mod kernel;
mod machine;
mod permission;
mod shown;
mod spread;
mod system;

use std::path::PathBuf;

pub use check::{Check, Level};
pub use disk::Place;
pub use shown::{json, text, width_of};
use system::System;

/// Interfaces that are examined where none is named.
const INTERFACES_MAX: usize = 8;

/// What is to be examined.
#[derive(Clone, Debug, Default)]
pub struct DoctorRequest {
    /// Interfaces that are to be listened on; if there is none, all that are up.
    pub interfaces: Vec<String>,
    /// Where a run would write; if there is no settings file, the current folder.
    pub places: Vec<Place>,
    /// A settings file and its mistakes, a line each.
    pub settings: Option<(PathBuf, Vec<String>)>,
    /// Whether a filter is asked for, which libpcap compiles.
    pub has_filter: bool,
    /// Whether programs in the kernel are asked for: taps, marks, verdicts on packets.
    pub has_taps: bool,
    /// Whether the settings listen on no interface: they read captures, or the rows of sensors.
    pub listens_nowhere: bool,
    /// This program's file, for the line that gives it a capability.
    pub program: PathBuf,
    /// Why ONNX Runtime cannot be loaded, if it cannot.
    pub onnx_refusal: Option<String>,
}

/// Examines this machine.
#[must_use]
pub fn examine(asked: &DoctorRequest) -> Vec<Check> {
    let system = System::of(PathBuf::from("/"));
    let mut checks = vec![kernel::release(&system)];
    checks.extend(settings(asked));
    let capture = permission::capture(&permission::try_socket(), &asked.program);
    checks.push(if asked.listens_nowhere { permission::not_needed(capture) } else { capture });
    checks.push(permission::taps(&system, asked.has_taps, &asked.program));
    checks.extend(kernel::checks(&system));
    checks.extend(card::checks(&system, &asked.interfaces, INTERFACES_MAX));
    checks.extend(machine::checks(&system));
    checks.push(libpcap(capture::filter::library_version(), asked.has_filter));
    checks.push(onnx(asked.onnx_refusal.as_deref()));
    checks.extend(asked.places.iter().map(|place| disk::check(&system, place)));
    checks
}

/// Whether something stops a capture.
#[must_use]
pub fn has_problem(checks: &[Check]) -> bool {
    checks.iter().any(|check| check.level == Level::Problem)
}

fn settings(asked: &DoctorRequest) -> Option<Check> {
    let (path, mistakes) = asked.settings.as_ref()?;
    let path = path.display();
    Some(match mistakes.as_slice() {
        [] => Check::ok("settings", format!("{path}: no mistake")),
        mistakes => Check::problem("settings", mistakes.join("; "))
            .wanted("settings without mistakes")
            .change(format!("wirelens run -c {path} --check")),
    })
}

fn libpcap(version: Result<String, String>, has_filter: bool) -> Check {
    let make = if has_filter { Check::problem } else { Check::warning };
    match version {
        Ok(version) => Check::ok("libpcap", version),
        Err(reason) => make("libpcap", format!("not found ({})", one_line(&reason)))
            .wanted("libpcap 1.0 or newer, which compiles filters; nothing else needs it")
            .change("sudo apt install libpcap0.8"),
    }
}

fn onnx(refusal: Option<&str>) -> Check {
    match refusal {
        None => Check::ok("ONNX Runtime", "can be loaded"),
        Some(reason) => {
            // What was looked for, and why it is not used; where it was looked for is a long list.
            let cause: Vec<_> = reason.split(": ").take(2).collect();
            let cause = one_line(&cause.join(": "));
            let seen = format!("{cause}; only models of your own in ONNX need it");
            Check::ok("ONNX Runtime", seen)
        }
    }
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests;
