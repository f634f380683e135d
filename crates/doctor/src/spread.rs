//! How the work on received packets is spread over processors: queues of the card, their
//! interrupts, and packet steering (RPS). The kernel's Documentation/networking/scaling.rst.

use std::fmt::Write as _;
use std::io;

use capture::sys::interfaces::{self, Channels};

use crate::check::Check;
use crate::system::System;

/// Queues, interrupts and processes that are inspected.
const ENTRIES_MAX: usize = 65_536;
/// Words in the names of interrupts that come without a received packet.
const OTHER_INTERRUPTS: [&str; 7] = ["config", "event", "async", "output", "mgmt", "misc", "ctrl"];

/// Of one interface. Nothing of what it does not have.
pub(crate) fn checks(system: &System, name: &str) -> Vec<Check> {
    let spread = Spread::of(system, name);
    let channels = interfaces::channels(name);
    [spread.queues(&channels), spread.interrupts(), spread.steering()]
        .into_iter()
        .flatten()
        .collect()
}

/// What the kernel says of an interface.
pub(crate) struct Spread {
    name: String,
    /// Processors that are online.
    cpus: Vec<usize>,
    /// Whether `/sys` shows the interface, which may be in another network namespace.
    is_shown: bool,
    /// Whether there is a card; a `veth`, a bridge or a tunnel has none.
    has_card: bool,
    /// Number and processors of each interrupt of a receive queue.
    interrupts: Vec<(u32, Vec<usize>)>,
    /// The processors that each receive queue is steered to.
    steered: Vec<Vec<usize>>,
    is_balanced: bool,
}

impl Spread {
    pub(crate) fn of(system: &System, name: &str) -> Self {
        let folder = format!("sys/class/net/{name}");
        let online = system.read("sys/devices/system/cpu/online").unwrap_or_default();
        let mut queues = system.names(&format!("{folder}/queues"), ENTRIES_MAX);
        queues.retain(|queue| queue.starts_with("rx-"));
        let steered = |queue: &String| {
            let mask = system.read(&format!("{folder}/queues/{queue}/rps_cpus"));
            of_mask(&mask.unwrap_or_default())
        };
        Self {
            name: name.to_owned(),
            cpus: of_list(&online),
            is_shown: system.has(&folder),
            has_card: system.has(&format!("{folder}/device")),
            interrupts: interrupts(system, &folder),
            steered: queues.iter().map(steered).collect(),
            is_balanced: system.names("proc", ENTRIES_MAX).iter().any(|process| {
                process.starts_with(|c: char| c.is_ascii_digit())
                    && system.read(&format!("proc/{process}/comm")).as_deref() == Some("irqbalance")
            }),
        }
    }

    /// Too few queues leave processors idle while one takes every packet from the card.
    pub(crate) fn queues(&self, channels: &io::Result<Channels>) -> Option<Check> {
        let Ok(Channels { rx, combined, rx_max, combined_max }) = *channels else { return None };
        let (now, max) = (rx + combined, rx_max.max(combined_max));
        if max < 2 || (self.is_shown && !self.has_card) {
            return None;
        }
        let title = format!("queues {}", self.name);
        let cpus = u32::try_from(self.cpus.len()).unwrap_or(u32::MAX);
        let wanted = cpus.min(max);
        if now >= wanted {
            return Some(Check::ok(title, format!("{now} receive queues, {cpus} processors")));
        }
        let kind = if combined_max >= rx_max { "combined" } else { "rx" };
        Some(
            Check::warning(title, format!("{now} of {max} receive queues, {cpus} processors"))
                .wanted("as many as processors: each takes packets from queues of its own")
                .change(format!("sudo ethtool -L {} {kind} {wanted}", self.name)),
        )
    }

    /// Interrupts of several queues on one processor make it do the work of all.
    pub(crate) fn interrupts(&self) -> Option<Check> {
        let (first, others) = self.interrupts.split_first()?;
        let title = format!("interrupts {}", self.name);
        let count = self.interrupts.len();
        let balanced = if self.is_balanced { "irqbalance runs" } else { "irqbalance does not run" };
        let is_one = first.1.len() == 1 && others.iter().all(|(_, cpus)| *cpus == first.1);
        if count > 1 && self.cpus.len() > 1 && is_one {
            let cpu = first.1[0];
            let mut numbers = String::new();
            for (number, _) in &self.interrupts {
                let _ = write!(numbers, " {number}");
            }
            let cpus: String = self.cpus.iter().map(|cpu| format!(" {cpu}")).collect();
            return Some(
                Check::warning(title, format!("{count}, all on processor {cpu}; {balanced}"))
                    .wanted("one processor after the other, by irqbalance or by hand")
                    .change(format!(
                        "set --{cpus}; for i in{numbers}; do echo $1 | sudo tee \
                         /proc/irq/$i/smp_affinity_list; set -- \"$@\" $1; shift; done"
                    )),
            );
        }
        let mut cpus: Vec<_> = self.interrupts.iter().flat_map(|(_, cpus)| cpus).collect();
        cpus.sort_unstable();
        cpus.dedup();
        let seen = format!("{count} on processors {}; {balanced}", listed(cpus.into_iter()));
        Some(Check::ok(title, seen))
    }

    /// One queue is spread over processors by the kernel, if configured to.
    pub(crate) fn steering(&self) -> Option<Check> {
        let count = self.steered.len();
        let title = format!("packet steering {}", self.name);
        let mut cpus: Vec<_> = self.steered.iter().flatten().collect();
        cpus.sort_unstable();
        cpus.dedup();
        if count == 0 {
            return None;
        }
        if !cpus.is_empty() {
            let seen = format!("RPS to processors {}", listed(cpus.into_iter()));
            return Some(Check::ok(title, seen));
        }
        if count > 1 || !self.has_card || self.cpus.len() < 2 {
            let why = match (count, self.has_card) {
                (2.., _) => format!("{count} receive queues"),
                (_, false) => String::from("no card"),
                _ => String::from("one processor"),
            };
            return Some(Check::ok(title, format!("off, and not needed: {why}")));
        }
        let path = format!("/sys/class/net/{}/queues/rx-0/rps_cpus", self.name);
        Some(
            Check::warning(title, "off: one receive queue, so one processor takes every packet")
                .wanted("RPS to all processors, where one is too slow; a flow stays on one")
                .change(format!("echo {} | sudo tee {path}", mask(&self.cpus))),
        )
    }
}

/// The interrupts of a card's receive queues, and the processors that take them.
fn interrupts(system: &System, folder: &str) -> Vec<(u32, Vec<usize>)> {
    let table = system.read("proc/interrupts").unwrap_or_default();
    // A virtio card's are those of the bus device above it.
    let places = ["device/msi_irqs", "device/../msi_irqs"];
    let numbers = places
        .map(|place| system.names(&format!("{folder}/{place}"), ENTRIES_MAX))
        .into_iter()
        .find(|names| !names.is_empty())
        .unwrap_or_default();
    let mut numbers: Vec<u32> = numbers.iter().filter_map(|name| name.parse().ok()).collect();
    numbers.sort_unstable();
    let of_number = |number: u32| {
        let label = format!("{number}:");
        let line = table.lines().find(|line| line.trim_start().starts_with(&label))?;
        let name = line.split_whitespace().last()?.to_ascii_lowercase();
        let is_other = OTHER_INTERRUPTS.iter().any(|word| name.contains(word))
            || (name.contains("tx") && !name.contains("rx"));
        let affinity = || {
            let read = |file| system.read(&format!("proc/irq/{number}/{file}"));
            read("effective_affinity_list")
                .filter(|list| !list.is_empty())
                .or_else(|| read("smp_affinity_list"))
        };
        let cpus = if is_other { Vec::new() } else { of_list(&affinity()?) };
        (!cpus.is_empty()).then_some((number, cpus))
    };
    numbers.into_iter().filter_map(of_number).collect()
}

/// Processors of a list such as `0-3,8`.
fn of_list(text: &str) -> Vec<usize> {
    let range = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
        (last < ENTRIES_MAX).then_some(first..=last)
    };
    text.split(',').filter_map(range).flatten().collect()
}

/// Processors of a mask such as `00000001,0000000f`: words of 32 bits, the highest first.
fn of_mask(text: &str) -> Vec<usize> {
    let word = |(at, word): (usize, &str)| {
        let bits = u32::from_str_radix(word.trim(), 16).unwrap_or(0);
        (0..32).filter(move |bit| bits >> bit & 1 == 1).map(move |bit| at * 32 + bit)
    };
    text.rsplit(',').take(ENTRIES_MAX / 32).enumerate().flat_map(word).collect()
}

/// The mask of these processors.
fn mask(cpus: &[usize]) -> String {
    let words = cpus.iter().max().map_or(0, |last| last / 32) + 1;
    let word = |at: usize| {
        let bits = cpus.iter().filter(|cpu| **cpu / 32 == at);
        bits.fold(0_u32, |bits, cpu| bits | 1 << (cpu % 32))
    };
    let parts: Vec<_> = (0..words).rev().map(word).collect();
    let rest = parts[1..].iter().map(|word| format!(",{word:08x}"));
    format!("{:x}{}", parts[0], rest.collect::<String>())
}

fn listed<'c>(cpus: impl Iterator<Item = &'c usize>) -> String {
    cpus.map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_and_masks_name_processors() {
        assert_eq!(of_list("0-2,8\n"), [0, 1, 2, 8]);
        assert_eq!(of_list(""), Vec::<usize>::new());
        assert_eq!(of_list("0-99999999999,x,3"), [3]);
        assert_eq!(of_mask("00000001,0000000a\n"), [1, 3, 32]);
        assert_eq!(of_mask("zz"), Vec::<usize>::new());
        for cpus in [vec![0], vec![1, 3, 32], (0..70).collect::<Vec<_>>()] {
            assert_eq!(of_mask(&mask(&cpus)), cpus);
        }
        assert_eq!(mask(&[0, 1]), "3");
        assert_eq!(mask(&[33]), "2,00000000");
    }
}
