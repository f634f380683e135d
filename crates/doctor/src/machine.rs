//! Clocks, processors and memory.

use std::io;
use std::thread;

use capture::sys::clock::discipline;

use crate::check::Check;
use crate::system::System;

/// Sources that are read by an instruction or two, and not over a bus.
const FAST_SOURCES: [&str; 7] = [
    "tsc",
    "kvm-clock",
    "arch_sys_counter",
    "hyperv_clocksource_tsc_page",
    "tsc-early",
    "xen",
    "riscv_clocksource",
];
const CLOCKS: &str = "sys/devices/system/clocksource/clocksource0";

/// KiB that a run with a ring, flow tables and a model takes.
const MEMORY_MIN_KIB: u64 = 512 << 10;

pub(crate) fn checks(system: &System) -> Vec<Check> {
    let cpus = thread::available_parallelism().map_or(0, usize::from);
    vec![clock(&discipline()), source(system), processors(cpus), memory(system)]
}

fn clock(asked: &io::Result<(bool, u64)>) -> Check {
    let name = "clock";
    match asked {
        Err(error) => Check::unknown(name, format!("cannot be asked: {error}")),
        Ok((true, wrong_us)) => {
            #[allow(clippy::cast_precision_loss)]
            let wrong_ms = *wrong_us as f64 / 1e3;
            Check::ok(name, format!("synchronised, wrong by at most {wrong_ms:.1} ms"))
        }
        Ok((false, _)) => Check::warning(name, "not synchronised")
            .wanted("NTP or PTP, so that times match those of other logs and taps")
            .change("sudo timedatectl set-ntp true"),
    }
}

/// Each frame is stamped: a slow source costs microseconds a packet.
fn source(system: &System) -> Check {
    let name = "clock source";
    let Some(current) = system.read(&format!("{CLOCKS}/current_clocksource")) else {
        return Check::unknown(name, "cannot be read");
    };
    if FAST_SOURCES.contains(&current.as_str()) {
        return Check::ok(name, current);
    }
    let available = system.read(&format!("{CLOCKS}/available_clocksource")).unwrap_or_default();
    let fast =
        FAST_SOURCES.iter().find(|fast| available.split_whitespace().any(|one| one == **fast));
    let check = Check::warning(name, format!("{current}: slow, and each packet is stamped by it"));
    match fast {
        Some(fast) => check
            .wanted(*fast)
            .change(format!("echo {fast} | sudo tee /{CLOCKS}/current_clocksource")),
        None => check.wanted(format!("one of {}", FAST_SOURCES[..3].join(", "))),
    }
}

fn processors(count: usize) -> Check {
    let name = "processors";
    match count {
        0 => Check::unknown(name, "their number cannot be found out"),
        1 => Check::warning(name, "1: reading, analysis and writing take turns")
            .wanted("2 or more on a busy link"),
        count => Check::ok(name, count.to_string()),
    }
}

fn memory(system: &System) -> Check {
    let name = "memory";
    let available = system.field("proc/meminfo", "MemAvailable:");
    let kib = available.and_then(|text| text.split_whitespace().next()?.parse::<u64>().ok());
    match kib {
        None => Check::unknown(name, "what is available cannot be read"),
        Some(kib) if kib < MEMORY_MIN_KIB => {
            Check::warning(name, format!("{} MiB available", kib >> 10))
                .wanted("512 MiB or more; a smaller ring with -B, fewer flows with --max-flows")
        }
        Some(kib) => Check::ok(name, format!("{} MiB available", kib >> 10)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::Level;

    #[test]
    fn clocks_and_processors_are_judged() {
        assert_eq!(clock(&Ok((true, 1500))).seen, "synchronised, wrong by at most 1.5 ms");
        let adrift = clock(&Ok((false, 0)));
        assert_eq!(adrift.level, Level::Warning);
        assert!(adrift.change.contains("set-ntp"));
        assert_eq!(clock(&Err(io::ErrorKind::PermissionDenied.into())).level, Level::Unknown);
        let levels = [0, 1, 2].map(|count| processors(count).level);
        assert_eq!(levels, [Level::Unknown, Level::Warning, Level::Ok]);
    }
}
