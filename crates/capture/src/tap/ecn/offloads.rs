//! Segmentation offloads of an interface: by them one packet, with one ECN field, stands for many.

use std::io;

use super::error::EcnError;
use crate::sys::features::Features;
use crate::sys::gso_limit::GsoLimit;
use crate::sys::interfaces;
use crate::tap::attach::Attaching;

/// Features of a device and the usual name of what they are of.
const FEATURES: [(&str, &str); 6] = [
    ("tx-tcp-segmentation", "TSO"),
    ("tx-tcp-ecn-segmentation", "TSO"),
    ("tx-tcp-mangleid-segmentation", "TSO"),
    ("tx-tcp6-segmentation", "TSO"),
    ("tx-generic-segmentation", "GSO"),
    ("tx-udp-segmentation", "USO"),
];

/// Of a device whose packets hold one segment each.
const ONE_SEGMENT: u32 = 1;

/// Segmentation offloads of an interface that are on, out of TSO, GSO and USO.
///
/// TCP of this host hands over packets of many segments also where none is on: see
/// [`Offloads::off`].
///
/// # Errors
/// There is no such interface.
pub(super) fn list(device: &str) -> Result<Vec<&'static str>, EcnError> {
    let listing = || -> io::Result<Vec<&'static str>> {
        let on = on(&Features::open(device)?)?;
        let mut names: Vec<&str> = FEATURES
            .into_iter()
            .filter_map(|(feature, name)| on.contains(&feature).then_some(name))
            .collect();
        names.dedup();
        Ok(names)
    };
    listing().map_err(|error| failed(device, error))
}

fn on(features: &Features) -> io::Result<Vec<&'static str>> {
    let names = FEATURES.map(|(feature, _)| feature);
    let are_on = features.are_on(&names)?;
    Ok(names.into_iter().zip(are_on).filter_map(|(name, is_on)| is_on.then_some(name)).collect())
}

fn failed(device: &str, error: io::Error) -> EcnError {
    EcnError::new(device, Attaching::from(error).into())
}

/// Keeps an interface from sending packets of many segments, so that each packet on the wire has a
/// decision of its own. Put back when this is dropped.
///
/// TSO, GSO and USO are switched off where they are on, and the interface is limited to one segment
/// per packet (`gso_max_segs` of ip-link(8)). Without this limit, TCP of this kernel hands over
/// many segments as one packet, whatever the device can do. It costs CPU time for each packet.
///
/// Three things it cannot do:
/// - If this process is killed, nothing is put back: the [commands](Self::put_back_by) that do it
///   are for its successors.
/// - A connection that was open before keeps its limit until its route is looked up again;
///   `sysctl -w net.ipv4.route.flush=1` has that done for IPv4.
/// - A program that has UDP datagrams segmented itself (`UDP_SEGMENT`, some QUIC servers), and
///   packets that this host forwards and merged on receipt (GRO), are not affected.
///
/// [`EcnCounts::segmented`](super::EcnCounts::segmented) shows whether a packet of several segments
/// was sent all the same. No budget is exceeded by one.
#[derive(Debug)]
pub struct Offloads {
    device: String,
    features: Features,
    limit: GsoLimit,
    were_on: Vec<&'static str>,
    segments_max: u32,
    /// From when they are switched off until they were put back.
    is_off: bool,
}

impl Offloads {
    /// Switches them off at an interface of the calling thread's network namespace.
    ///
    /// # Errors
    /// It takes `CAP_NET_ADMIN` and such an interface. What was switched off is put back then.
    pub fn off(device: &str) -> Result<Self, EcnError> {
        let mut offloads = Self::found(device)?;
        offloads.switch_off()?;
        Ok(offloads)
    }

    /// Reads which are on at an interface of the calling thread's network namespace, and leaves
    /// them on.
    ///
    /// # Errors
    /// There is no such interface.
    pub fn found(device: &str) -> Result<Self, EcnError> {
        let reading = || -> io::Result<Self> {
            let features = Features::open(device)?;
            let limit = GsoLimit::open(interfaces::index(device)?)?;
            let (were_on, segments_max) = (on(&features)?, limit.get()?);
            let device = device.to_owned();
            Ok(Self { device, features, limit, were_on, segments_max, is_off: false })
        };
        reading().map_err(|error| failed(device, error))
    }

    /// Switches off what was found on.
    ///
    /// # Errors
    /// As [`Self::off`].
    pub fn switch_off(&mut self) -> Result<(), EcnError> {
        self.is_off = true;
        let switching = self.features.switch(&self.were_on, false);
        let switching = switching.and_then(|()| self.limit.set(ONE_SEGMENT));
        switching.map_err(|error| failed(&self.device, error))
    }

    /// Command lines of ip(8), and of ethtool(8) where an offload was on, that put back what was
    /// found.
    #[must_use]
    pub fn put_back_by(&self) -> Vec<String> {
        let Self { device, segments_max, were_on, .. } = self;
        let mut lines = vec![format!("ip link set dev {device} gso_max_segs {segments_max}")];
        if !were_on.is_empty() {
            let features = were_on.iter().map(|feature| format!(" {feature} on"));
            lines.push(format!("ethtool -K {device}{}", features.collect::<String>()));
        }
        lines
    }

    /// Offloads that the device does not let be switched off.
    ///
    /// # Errors
    /// The interface is gone.
    pub fn still_on(&self) -> Result<Vec<&'static str>, EcnError> {
        on(&self.features).map_err(|error| failed(&self.device, error))
    }

    /// Puts them back now, and says whether that could be done; dropping it says nothing. What
    /// fails can be tried again.
    ///
    /// # Errors
    /// The system's; the interface is gone.
    pub fn put_back(&mut self) -> Result<(), EcnError> {
        self.put_back_here().map_err(|error| failed(&self.device, error))
    }

    fn put_back_here(&mut self) -> io::Result<()> {
        if !self.is_off {
            return Ok(());
        }
        // Both are tried, whatever becomes of one.
        let features = self.features.switch(&self.were_on, true);
        self.limit.set(self.segments_max).and(features)?;
        self.is_off = false;
        Ok(())
    }
}

impl Drop for Offloads {
    fn drop(&mut self) {
        // An interface that is gone needs nothing put back.
        let _ = self.put_back_here();
    }
}
