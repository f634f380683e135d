//! The kernel's version and settings.

use crate::check::Check;
use crate::system::System;

/// `TPACKET_V3`, in which frames are read.
const RING_SINCE: (u32, u32) = (3, 2);
/// Programs at tcx hooks, which count and mark packets.
const TAPS_SINCE: (u32, u32) = (6, 6);
/// Memory of eBPF maps counts for a control group, and no more as locked memory.
const MAPS_UNLOCKED_SINCE: (u32, u32) = (5, 11);
/// Bytes that a filter of a few hundred instructions takes.
const OPTMEM_MIN: u64 = 20_480;
/// Bytes of locked memory that the maps of all taps take.
const LOCKED_MIN: u64 = 64 << 20;

pub(crate) fn release(system: &System) -> Check {
    let name = "kernel";
    let release = system.read("proc/sys/kernel/osrelease").unwrap_or_default();
    match system.kernel() {
        None => Check::unknown(name, "its version cannot be read"),
        Some(version) if version < RING_SINCE => Check::problem(name, format!("Linux {release}"))
            .wanted("Linux 3.2 or newer, for packet rings (TPACKET_V3)"),
        Some(version) if version < TAPS_SINCE => Check::ok(
            name,
            format!(
                "Linux {release}; eBPF taps (cca --egress, l4s --act) need Linux 6.6, all else works"
            ),
        ),
        Some(_) => Check::ok(name, format!("Linux {release}")),
    }
}

pub(crate) fn checks(system: &System) -> Vec<Check> {
    vec![jit(system), buffers(system), locked_memory(system)]
}

/// Filters and taps are programs of the kernel: translated, or interpreted.
fn jit(system: &System) -> Check {
    let name = "BPF JIT";
    match system.read("proc/sys/net/core/bpf_jit_enable").as_deref() {
        // Readable by root alone on some kernels.
        None => Check::unknown(name, "net.core.bpf_jit_enable cannot be read"),
        Some("0") => Check::warning(name, "off: filters in the kernel are interpreted")
            .wanted("on, which makes a filter several times as fast")
            .change("sudo sysctl -w net.core.bpf_jit_enable=1"),
        Some(_) => Check::ok(name, "on"),
    }
}

fn buffers(system: &System) -> Check {
    let name = "socket buffers";
    let receive = system.number("proc/sys/net/core/rmem_max");
    let receive = receive.map_or(String::from("unknown"), |bytes| bytes.to_string());
    match system.number("proc/sys/net/core/optmem_max") {
        None => Check::unknown(name, "net.core.optmem_max cannot be read"),
        Some(bytes) if bytes < OPTMEM_MIN => {
            Check::warning(name, format!("optmem_max {bytes} bytes: long filters are refused"))
                .wanted(format!("{OPTMEM_MIN} bytes or more"))
                .change("sudo sysctl -w net.core.optmem_max=131072")
        }
        Some(bytes) => Check::ok(
            name,
            format!(
                "optmem_max {bytes} bytes, for filters; rmem_max {receive} bytes, which packet \
                 rings do not depend on"
            ),
        ),
    }
}

fn locked_memory(system: &System) -> Check {
    let name = "locked memory";
    let limit = system.field("proc/self/limits", "Max locked memory");
    let Some(soft) = limit.as_deref().and_then(|limit| limit.split_whitespace().next()) else {
        return Check::unknown(name, "its limit cannot be read");
    };
    let is_counted = system.kernel().is_none_or(|version| version < MAPS_UNLOCKED_SINCE);
    let is_short = soft.parse().is_ok_and(|bytes: u64| bytes < LOCKED_MIN);
    if is_counted && is_short {
        return Check::warning(name, format!("limit {soft} bytes: eBPF taps may be refused"))
            .wanted("64 MiB or more on kernels before 5.11; packet rings are not counted")
            .change("ulimit -l unlimited");
    }
    let why = if is_counted { "enough for eBPF taps" } else { "this kernel counts no eBPF maps" };
    Check::ok(name, format!("limit {soft}{}; {why}", if is_short { " bytes" } else { "" }))
}
