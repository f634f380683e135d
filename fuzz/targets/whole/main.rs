//! Many targets in one program, which would take minutes to link one by one: whole commands, and
//! what others send or leave behind that is no packet. The name by which the program is called says
//! which target it is; `tools/fuzz.sh` gives it these names, as `Cargo.toml` lists them.
#![no_main]

mod applications;
mod exports;
mod logs;
mod messages;
mod recording;
mod settings;
mod texts;

use std::path::Path;
use std::process::exit;
use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;

type Target = fn(&[u8]);

const TARGETS: [(&str, Target); 25] = [
    ("run_top", applications::top),
    ("run_flows", applications::flows),
    ("run_classify", applications::classify),
    ("run_packetlog", recording::packetlog),
    ("run_cca", applications::cca),
    ("run_cca_taps", applications::cca_taps),
    ("run_latency", applications::latency),
    ("run_latency_taps", applications::latency_taps),
    ("run_l4s", applications::l4s),
    ("run_traffic", applications::traffic),
    ("run_all", applications::all),
    ("run_capture", applications::any_capture),
    ("info", applications::info),
    ("exports", exports::exports),
    ("log_ledger", logs::ledger),
    ("log_start", logs::start),
    ("settings", settings::run),
    ("log_settings", settings::packetlog),
    ("indicators", settings::indicators),
    ("control_socket", messages::control_socket),
    ("bus_rows", messages::rows),
    ("bus_escalation", messages::escalation),
    ("worker_rows", messages::worker_rows),
    ("ring_block", messages::ring_block),
    ("recover_rows", texts::recover),
];

static CHOSEN: LazyLock<Target> = LazyLock::new(|| {
    let called = std::env::args_os().next().unwrap_or_default();
    let name = Path::new(&called).file_name().unwrap_or_default().to_string_lossy().into_owned();
    match TARGETS.iter().find(|(target, _)| *target == name) {
        Some((_, target)) => *target,
        None => {
            let names: Vec<_> = TARGETS.iter().map(|(target, _)| *target).collect();
            eprintln!(
                "{name}: no target; wanted a link to this program of the name of one: {names:?}"
            );
            exit(2);
        }
    }
});

fuzz_target!(|bytes: &[u8]| {
    (*CHOSEN)(bytes);
});
