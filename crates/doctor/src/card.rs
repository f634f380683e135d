//! Interfaces: whether they can be listened on, and what their card does to packets.

use std::io;

use capture::devices::{self, Device};
use capture::sys::interfaces::{self, CardRing};

use crate::check::Check;
use crate::spread;
use crate::system::System;

/// What is asked of an interface.
pub(crate) struct Facts {
    pub device: Device,
    pub ring: io::Result<Option<CardRing>>,
    pub offloads: io::Result<Vec<&'static str>>,
    pub has_stamps: io::Result<bool>,
}

impl Facts {
    fn of(device: Device) -> Self {
        let name = &device.name;
        let ring = interfaces::card_ring(name);
        let offloads = interfaces::offloads(name);
        let has_stamps = interfaces::stamps_in_hardware(name);
        Self { device, ring, offloads, has_stamps }
    }

    pub(crate) fn checks(&self) -> Vec<Check> {
        let name = &self.device.name;
        let mut checks = vec![state(&self.device)];
        checks.extend(ring(name, &self.ring));
        checks.push(offloads(name, &self.offloads));
        checks.push(stamps(name, &self.has_stamps));
        checks
    }
}

/// Of these interfaces, or of the first few that are up.
pub(crate) fn checks(system: &System, asked: &[String], count_max: usize) -> Vec<Check> {
    let all = match devices::list() {
        Ok(all) => all,
        Err(error) => {
            return vec![Check::unknown("interfaces", format!("cannot be listed: {error}"))];
        }
    };
    let of = |device: Device| {
        let name = device.name.clone();
        let mut checks = Facts::of(device).checks();
        checks.extend(spread::checks(system, &name));
        checks
    };
    let named: Vec<_> = asked.iter().filter(|name| *name != "any").collect();
    let mut checks = Vec::new();
    if named.is_empty() {
        let up = |device: &Device| device.is_up && !device.is_loopback && device.link.is_some();
        let up: Vec<_> = all.into_iter().filter(up).collect();
        if up.is_empty() {
            let seen = "none is up besides loopback";
            checks.push(Check::warning("interfaces", seen).wanted("an interface to listen on"));
        }
        let more = up.len().saturating_sub(count_max);
        checks.extend(up.into_iter().take(count_max).flat_map(of));
        if more > 0 {
            let seen = format!("{more} more are up; `wirelens doctor -i NAME` examines one");
            checks.push(Check::ok("interfaces", seen));
        }
        return checks;
    }
    for name in named {
        match all.iter().find(|device| device.name == *name) {
            Some(device) => checks.extend(of(device.clone())),
            None => checks.push(absent(name, &all)),
        }
    }
    checks
}

pub(crate) fn absent(name: &str, all: &[Device]) -> Check {
    let names: Vec<_> = all.iter().map(|device| device.name.as_str()).collect();
    Check::problem(format!("interface {name}"), "there is no such interface")
        .wanted(format!("one of {}", names.join(", ")))
        .change("wirelens devices")
}

fn state(device: &Device) -> Check {
    let Device { name, mtu_bytes, .. } = device;
    let title = format!("interface {name}");
    let Some(link) = device.link else {
        let seen = format!("frames of hardware type {} are not supported", device.hardware_type);
        return Check::problem(title, seen)
            .wanted("Ethernet, loopback, PPP or a tunnel of IP packets")
            .change("wirelens devices");
    };
    match (device.is_up, device.is_running) {
        (false, _) => Check::warning(title, "down: a capture waits for it")
            .wanted("an interface that is up")
            .change(format!("sudo ip link set dev {name} up")),
        (true, false) => Check::warning(title, "up, but without a carrier: no packet can come")
            .wanted("a cable or a peer at the other end"),
        (true, true) => Check::ok(title, format!("up, {link}, MTU {mtu_bytes} bytes")),
    }
}

fn is_unsupported(error: &io::Error) -> bool {
    // `EOPNOTSUPP` of Linux.
    error.kind() == io::ErrorKind::Unsupported || error.raw_os_error() == Some(95)
}

/// Nothing of an interface without a card.
fn ring(name: &str, ring: &io::Result<Option<CardRing>>) -> Option<Check> {
    let title = format!("RX ring {name}");
    match ring {
        Ok(None) => None,
        Err(error) if is_unsupported(error) => None,
        Err(error) => Some(Check::unknown(title, format!("cannot be asked: {error}"))),
        Ok(Some(CardRing { rx, rx_max })) if rx < rx_max => Some(
            Check::warning(title, format!("{rx} of {rx_max} descriptors"))
                .wanted("the maximum, so that bursts do not overflow the card")
                .change(format!("sudo ethtool -G {name} rx {rx_max}")),
        ),
        Ok(Some(CardRing { rx, .. })) => {
            Some(Check::ok(title, format!("{rx} descriptors, the maximum")))
        }
    }
}

fn offloads(name: &str, offloads: &io::Result<Vec<&'static str>>) -> Check {
    let title = format!("offloads {name}");
    match offloads.as_deref() {
        Err(error) => Check::unknown(title, format!("cannot be asked: {error}")),
        Ok([]) => Check::ok(title, "GRO, LRO, TSO and GSO are off: a frame is one packet"),
        Ok(on) => {
            let switches = on.iter().map(|offload| format!(" {} off", offload.to_lowercase()));
            let switches: String = switches.collect();
            let seen = format!(
                "{} on: card and kernel merge packets, so a frame may be several packets, up to \
                 64 KiB, and is counted as one",
                on.join(", ")
            );
            Check::warning(title, seen)
                .wanted("off, where sizes, times and numbers of packets on the wire matter")
                .change(format!("sudo ethtool -K {name}{switches}"))
        }
    }
}

fn stamps(name: &str, has_stamps: &io::Result<bool>) -> Check {
    let title = format!("timestamps {name}");
    match has_stamps {
        Ok(true) => Check::ok(title, "the kernel's are used; the card has its own"),
        Ok(false) => Check::ok(title, "the kernel's are used; the card has none"),
        Err(error) => {
            Check::ok(title, format!("the kernel's are used; the card cannot be asked: {error}"))
        }
    }
}
