//! The network interfaces that can be listened on.

use std::fmt;
use std::io;
use std::net::IpAddr;

use packet::LinkType;

use crate::live::link_type_of;
use crate::sys::interfaces::{Address, interface_addresses, mtu};

/// One network interface.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Device {
    /// Its name.
    pub name: String,
    /// Its index in this network namespace, from 1.
    pub index: i32,
    /// `ARPHRD_*`.
    pub hardware_type: u16,
    /// What its frames begin with; `None` where this is not known, so that it cannot be
    /// listened on.
    pub link: Option<LinkType>,
    /// Its link address, at most 8 bytes of it; empty where it has none.
    pub link_address: Vec<u8>,
    /// Its IP addresses.
    pub addresses: Vec<IpAddr>,
    /// The largest packet without link header, in bytes; 0 where the system does not tell.
    pub mtu_bytes: u32,
    /// It has been switched on.
    pub is_up: bool,
    /// It is up and there is something at the other end.
    pub is_running: bool,
    /// It leads back to this host.
    pub is_loopback: bool,
}

/// The interfaces of this network namespace, by index.
///
/// # Errors
/// The system's.
pub fn list() -> io::Result<Vec<Device>> {
    let mut devices: Vec<Device> = Vec::new();
    for entry in interface_addresses()? {
        let device = match devices.iter_mut().find(|device| device.name == entry.name) {
            Some(device) => device,
            None => {
                devices.push(Device { name: entry.name.clone(), ..Device::default() });
                let Some(device) = devices.last_mut() else { continue };
                device
            }
        };
        match entry.address {
            Address::Ip(address) => device.addresses.push(address),
            Address::Link { index, hardware_type, bytes } => {
                let has = |flag: libc::c_int| entry.flags & flag.cast_unsigned() != 0;
                device.index = index;
                device.hardware_type = hardware_type;
                device.link = link_type_of(hardware_type);
                // A loopback interface has an address of zeros, which names nobody.
                device.link_address =
                    if bytes.iter().all(|byte| *byte == 0) { Vec::new() } else { bytes };
                device.is_up = has(libc::IFF_UP);
                device.is_running = device.is_up && has(libc::IFF_RUNNING);
                device.is_loopback = has(libc::IFF_LOOPBACK);
                // An interface that was removed this moment tells no MTU.
                device.mtu_bytes = mtu(&entry.name).unwrap_or(0);
            }
            Address::Other => {}
        }
    }
    // Old-style aliases such as `eth0:1` have addresses and no link of their own.
    devices.retain(|device| device.index > 0);
    devices.sort_by_key(|device| device.index);
    Ok(devices)
}

/// One line: name, link type, state, addresses.
impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, index, hardware_type, link, mtu_bytes, .. } = self;
        write!(f, "{index} {name}: ")?;
        match link {
            Some(link) => write!(f, "{link}")?,
            None => write!(f, "ARPHRD {hardware_type}")?,
        }
        let state = match (self.is_up, self.is_running) {
            (false, _) => "down",
            (true, false) => "up, no carrier",
            (true, true) => "up, running",
        };
        write!(f, ", {state}, MTU {mtu_bytes}")?;
        if self.is_loopback {
            f.write_str(", loopback")?;
        }
        for (index, byte) in self.link_address.iter().enumerate() {
            write!(f, "{}{byte:02x}", if index == 0 { ", " } else { ":" })?;
        }
        self.addresses.iter().try_for_each(|address| write!(f, ", {address}"))
    }
}
