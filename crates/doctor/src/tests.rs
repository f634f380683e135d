#![allow(clippy::unwrap_used)]

use std::fs;
use std::io;
use std::path::Path;

use capture::devices::Device;
use capture::sys::interfaces::{CardRing, Channels};
use tempfile::TempDir;

use super::*;
use crate::card::Facts;
use crate::permission::SocketProbe;
use crate::spread::Spread;

/// A root with these files.
fn root(files: &[(&str, &str)]) -> (TempDir, System) {
    let folder = tempfile::tempdir().unwrap();
    for (path, text) in files {
        let path = folder.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    let system = System::of(folder.path().to_owned());
    (folder, system)
}

const RELEASE: &str = "proc/sys/kernel/osrelease";
const CLOCK: &str = "sys/devices/system/clocksource/clocksource0/current_clocksource";
const CLOCKS: &str = "sys/devices/system/clocksource/clocksource0/available_clocksource";

fn named<'c>(checks: &'c [Check], name: &str) -> &'c Check {
    checks.iter().find(|check| check.name == name).unwrap()
}

/// What is read from files, without what this machine is asked.
fn of_files(system: &System) -> Vec<Check> {
    let mut checks = vec![kernel::release(system)];
    checks.push(permission::taps(system, true, Path::new("/usr/bin/wirelens")));
    checks.extend(kernel::checks(system));
    let of_machine = machine::checks(system);
    checks.push(named(&of_machine, "clock source").clone());
    checks.push(named(&of_machine, "memory").clone());
    checks
}

#[test]
fn a_machine_without_any_of_the_files_is_unknown_and_no_error() {
    let (_folder, system) = root(&[]);
    let checks = of_files(&system);
    assert_eq!(checks.len(), 7);
    assert!(checks.iter().all(|check| check.level == Level::Unknown), "{checks:#?}");
    // Files with something else in them are like none.
    let (_folder, system) = root(&[
        (RELEASE, "plan9"),
        ("proc/self/status", "CapEff:\tzz\n"),
        ("proc/sys/net/core/optmem_max", "many"),
        ("proc/self/limits", "Limit\n"),
        ("proc/meminfo", "MemAvailable: lots\n"),
    ]);
    let levels = of_files(&system).iter().filter(|check| check.level == Level::Unknown).count();
    assert_eq!(levels, 7);
}

#[test]
fn an_old_and_slow_machine_is_warned_of_with_what_changes_it() {
    let (_folder, system) = root(&[
        (RELEASE, "4.19.0-27-amd64\n"),
        ("proc/self/status", "Name:\tx\nCapEff:\t0000000000003000\n"),
        ("proc/self/limits", "Max locked memory         65536                65536      bytes\n"),
        ("proc/sys/net/core/bpf_jit_enable", "0\n"),
        ("proc/sys/net/core/optmem_max", "10240\n"),
        ("proc/meminfo", "MemTotal: 1 kB\nMemAvailable:   102400 kB\n"),
        (CLOCK, "hpet\n"),
        (CLOCKS, "hpet acpi_pm tsc \n"),
    ]);
    let checks = of_files(&system);
    assert_eq!(named(&checks, "kernel").level, Level::Ok);
    assert!(named(&checks, "kernel").seen.contains("4.19.0-27-amd64; eBPF taps"));
    let taps = named(&checks, "eBPF taps");
    assert_eq!(taps.level, Level::Problem);
    assert_eq!(taps.seen, "not permitted: CAP_PERFMON, CAP_BPF missing");
    for (name, change) in [
        ("BPF JIT", "sudo sysctl -w net.core.bpf_jit_enable=1"),
        ("socket buffers", "sudo sysctl -w net.core.optmem_max=131072"),
        ("locked memory", "ulimit -l unlimited"),
        (
            "clock source",
            "echo tsc | sudo tee /sys/devices/system/clocksource/clocksource0/current_clocksource",
        ),
        ("memory", ""),
    ] {
        let check = named(&checks, name);
        assert_eq!((check.level, check.change.as_str()), (Level::Warning, change), "{name}");
        assert!(!check.wanted.is_empty());
    }
    let (_folder, ancient) = root(&[(RELEASE, "2.6.32\n")]);
    assert_eq!(kernel::release(&ancient).level, Level::Problem);
}

#[test]
fn a_machine_as_it_should_be_has_nothing_to_change() {
    let (_folder, system) = root(&[
        (RELEASE, "6.12.1"),
        ("proc/self/status", "CapEff:\t000001ffffffffff"),
        ("proc/self/limits", "Max locked memory         unlimited            unlimited  bytes"),
        ("proc/sys/net/core/bpf_jit_enable", "1"),
        ("proc/sys/net/core/optmem_max", "131072"),
        ("proc/sys/net/core/rmem_max", "212992"),
        ("proc/meminfo", "MemAvailable: 8388608 kB"),
        (CLOCK, "tsc"),
    ]);
    for check in of_files(&system) {
        let Check { level, wanted, change, .. } = &check;
        assert_eq!((*level, wanted.as_str(), change.as_str()), (Level::Ok, "", ""), "{check:?}");
    }
}

#[test]
fn a_missing_permission_is_a_problem_with_the_line_that_gives_it() {
    let program = Path::new("/usr/bin/wirelens");
    let refused =
        |code| SocketProbe { ring: Err(io::Error::from_raw_os_error(code)), fanout: None };
    let check = permission::capture(&refused(1), program);
    assert_eq!(check.level, Level::Problem);
    assert_eq!(check.change, "sudo setcap cap_net_raw=eip /usr/bin/wirelens");
    assert!(check.seen.contains("CAP_NET_RAW"));
    assert_eq!(permission::capture(&refused(97), program).change, "sudo modprobe af_packet");
    assert_eq!(permission::capture(&refused(22), program).level, Level::Problem);
    let fine = permission::capture(&SocketProbe { ring: Ok(()), fanout: Some(true) }, program);
    assert_eq!(fine.level, Level::Ok);
    // Captures and rows of sensors are read without.
    for code in [1, 97, 22] {
        let check = permission::not_needed(permission::capture(&refused(code), program));
        assert_eq!(
            (check.level, check.wanted.as_str(), check.change.as_str()),
            (Level::Ok, "", "")
        );
        assert!(check.seen.ends_with("; these settings listen on no interface"), "{check:?}");
    }
    assert_eq!(permission::not_needed(fine.clone()), fine);
}

fn facts(offloads: Vec<&'static str>, ring: Option<CardRing>) -> Facts {
    let device = Device {
        name: String::from("eth0"),
        // Of loopback, which every machine has.
        link: capture::devices::list().unwrap().into_iter().find_map(|one| one.link),
        is_up: true,
        is_running: true,
        mtu_bytes: 1500,
        ..Device::default()
    };
    Facts { device, ring: Ok(ring), offloads: Ok(offloads), has_stamps: Ok(true) }
}

#[test]
fn an_interface_is_judged_by_its_card() {
    let checks = facts(vec!["GRO", "TSO"], Some(CardRing { rx: 256, rx_max: 4096 })).checks();
    let offloads = named(&checks, "offloads eth0");
    assert_eq!(offloads.level, Level::Warning);
    assert_eq!(offloads.change, "sudo ethtool -K eth0 gro off tso off");
    let ring = named(&checks, "RX ring eth0");
    assert_eq!(
        (ring.level, ring.change.as_str()),
        (Level::Warning, "sudo ethtool -G eth0 rx 4096")
    );
    let checks = facts(Vec::new(), None).checks();
    assert!(checks.iter().all(|check| check.level == Level::Ok), "{checks:?}");
    let mut down = facts(Vec::new(), Some(CardRing { rx: 4096, rx_max: 4096 }));
    down.device.is_running = false;
    assert_eq!(named(&down.checks(), "interface eth0").level, Level::Warning);
    down.device.is_up = false;
    assert_eq!(named(&down.checks(), "interface eth0").change, "sudo ip link set dev eth0 up");
    assert_eq!(named(&down.checks(), "RX ring eth0").level, Level::Ok);
    down.device.link = None;
    assert_eq!(named(&down.checks(), "interface eth0").level, Level::Problem);
    let absent = card::absent("eth7", std::slice::from_ref(&down.device));
    assert_eq!((absent.level, absent.wanted.as_str()), (Level::Problem, "one of eth0"));
}

#[test]
fn text_fits_and_command_lines_are_whole() {
    let checks = facts(vec!["GRO", "LRO", "TSO", "GSO"], None).checks();
    for width in [20, 40, 59, 60, 80, 200] {
        let text = text(&checks, width);
        for line in text.lines().filter(|line| !line.contains("sudo ")) {
            assert!(line.len() <= width.max(24), "{width}: {line:?}");
        }
        let change = "sudo ethtool -K eth0 gro off lro off tso off gso off";
        assert!(text.lines().any(|line| line.trim() == change), "{width}:\n{text}");
        assert!(text.is_ascii());
        let words: Vec<_> = text.split_whitespace().collect();
        assert!(words.join(" ").ends_with("problems: 0, warnings: 1, unknown: 0"), "{text}");
    }
    let wide = text(&checks, 80);
    assert!(wide.starts_with("ok       interface eth0      up, "), "{wide}");
    let read: serde_json::Value = serde_json::from_str(&json(&checks)).unwrap();
    assert_eq!(read["checks"].as_array().unwrap().len(), checks.len());
    assert_eq!((&read["warnings"], &read["problems"]), (&1.into(), &0.into()));
    assert!(read["checks"][0]["change"].is_null());
}

#[test]
fn this_machine_can_be_examined() {
    let asked = DoctorRequest {
        interfaces: vec![String::from("lo"), String::from("no-such-one")],
        settings: Some((PathBuf::from("a.toml"), vec![String::from("a.toml:1: wrong")])),
        onnx_refusal: Some(String::from("not\n found")),
        ..DoctorRequest::default()
    };
    let checks = examine(&asked);
    assert_eq!(named(&checks, "interface no-such-one").level, Level::Problem);
    assert_eq!(named(&checks, "settings").change, "wirelens run -c a.toml --check");
    assert_eq!(named(&checks, "ONNX Runtime").level, Level::Ok);
    assert!(has_problem(&checks));
    let missing = libpcap(Err(String::from("no\nfile")), true);
    assert_eq!((missing.level, missing.seen.as_str()), (Level::Problem, "not found (no file)"));
}

/// A machine of four processors with a card of these interrupts: number, name, processors.
fn with_card(interrupts: &[(u32, &str, &str)], steered: &[&str]) -> (TempDir, System) {
    let mut files = vec![(String::from("sys/devices/system/cpu/online"), String::from("0-3\n"))];
    let mut table = String::from("           CPU0  CPU1  CPU2  CPU3\n");
    for (number, name, cpus) in interrupts {
        files.push((format!("sys/class/net/eth0/device/msi_irqs/{number}"), String::new()));
        files.push((format!("proc/irq/{number}/effective_affinity_list"), format!("{cpus}\n")));
        table += &format!(" {number}:  1  0  0  0  PCI-MSIX-0000:00:04.0  1-edge  {name}\n");
    }
    files.push((String::from("sys/class/net/eth0/device/vendor"), String::new()));
    files.push((String::from("proc/interrupts"), table));
    for (number, mask) in steered.iter().enumerate() {
        let path = format!("sys/class/net/eth0/queues/rx-{number}/rps_cpus");
        files.push((path, format!("{mask}\n")));
        files.push((format!("sys/class/net/eth0/queues/tx-{number}/xps_cpus"), String::new()));
    }
    let files: Vec<_> = files.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
    root(&files)
}

#[test]
fn interrupts_of_all_queues_on_one_processor_are_spread_by_the_line() {
    let on_one = [
        (40, "eth0-config", "3"),
        (41, "eth0-TxRx-0", "2"),
        (42, "eth0-TxRx-1", "2"),
        (43, "eth0-tx-2", "0"),
    ];
    let (folder, system) = with_card(&on_one, &["0", "0"]);
    let check = Spread::of(&system, "eth0").interrupts().unwrap();
    assert_eq!(check.level, Level::Warning);
    assert_eq!(check.seen, "2, all on processor 2; irqbalance does not run");
    // The line does what it says, with the fixture for /proc and nobody to ask for rights.
    let root = folder.path().to_str().unwrap();
    let line = check.change.replace("sudo tee /", &format!("tee {root}/"));
    let done = std::process::Command::new("sh").args(["-ec", &line]).output().unwrap();
    assert!(done.status.success(), "{done:?}");
    for (number, cpu) in [(41, "0"), (42, "1")] {
        let path = format!("proc/irq/{number}/smp_affinity_list");
        assert_eq!(system.read(&path).as_deref(), Some(cpu));
    }
    // On two processors, or with one queue, there is nothing to change.
    let mut apart = on_one;
    apart[2].2 = "3";
    for (interrupts, seen) in [
        (&apart[..], "2 on processors 2, 3; irqbalance runs"),
        (&on_one[..2], "1 on processors 2; irqbalance runs"),
    ] {
        let (folder, system) = with_card(interrupts, &["0"]);
        fs::create_dir_all(folder.path().join("proc/77")).unwrap();
        fs::write(folder.path().join("proc/77/comm"), "irqbalance\n").unwrap();
        let check = Spread::of(&system, "eth0").interrupts().unwrap();
        assert_eq!((check.level, check.seen.as_str()), (Level::Ok, seen));
    }
}

#[test]
fn one_queue_is_to_be_steered_and_several_are_not() {
    let steering = |masks: &[&str]| {
        let (_folder, system) = with_card(&[], masks);
        Spread::of(&system, "eth0").steering().unwrap()
    };
    let off = steering(&["00000000"]);
    assert_eq!(off.level, Level::Warning);
    assert_eq!(off.change, "echo f | sudo tee /sys/class/net/eth0/queues/rx-0/rps_cpus");
    assert_eq!(steering(&["00000006"]).seen, "RPS to processors 1, 2");
    assert_eq!(steering(&["0", "0", "0"]).seen, "off, and not needed: 3 receive queues");
    assert!(steering(&["6"]).change.is_empty());
    // Of an interface in another network namespace there is nothing to read.
    let (_folder, system) = root(&[]);
    let unseen = Spread::of(&system, "eth0");
    assert!(unseen.steering().is_none() && unseen.interrupts().is_none());
}

#[test]
fn queues_are_as_many_as_processors_where_the_card_has_them() {
    let (_folder, system) = with_card(&[], &["0"]);
    let spread = Spread::of(&system, "eth0");
    let judge = |rx, combined, rx_max, combined_max| {
        spread.queues(&Ok(Channels { rx, combined, rx_max, combined_max }))
    };
    let few = judge(0, 1, 0, 8).unwrap();
    assert_eq!(
        (few.level, few.seen.as_str()),
        (Level::Warning, "1 of 8 receive queues, 4 processors")
    );
    assert_eq!(few.change, "sudo ethtool -L eth0 combined 4");
    assert_eq!(judge(1, 0, 2, 0).unwrap().change, "sudo ethtool -L eth0 rx 2");
    assert_eq!(judge(0, 8, 0, 8).unwrap().level, Level::Ok);
    assert!(judge(0, 1, 0, 1).is_none(), "it has no more than one");
    assert!(spread.queues(&Err(io::Error::from_raw_os_error(95))).is_none());
}
