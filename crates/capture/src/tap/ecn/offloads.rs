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
/// - If this process is killed, nothing is put back; `ethtool -K DEV tso on gso on` and
///   `ip link set DEV gso_max_segs 65535` do it by hand.
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
    switched_off: Vec<&'static str>,
    /// Until it was put back.
    segments_max: Option<u32>,
}

impl Offloads {
    /// Switches them off at an interface of the calling thread's network namespace.
    ///
    /// # Errors
    /// It takes `CAP_NET_ADMIN` and such an interface. What was switched off is put back then.
    pub fn off(device: &str) -> Result<Self, EcnError> {
        let reading = || -> io::Result<Self> {
            let features = Features::open(device)?;
            let limit = GsoLimit::open(interfaces::index(device)?)?;
            let switched_off = on(&features)?;
            let segments_max = Some(limit.get()?);
            let device = device.to_owned();
            Ok(Self { device, features, limit, switched_off, segments_max })
        };
        let offloads = reading().map_err(|error| failed(device, error))?;
        let switching = || -> io::Result<()> {
            offloads.features.switch(&offloads.switched_off, false)?;
            offloads.limit.set(ONE_SEGMENT)
        };
        switching().map_err(|error| failed(device, error))?;
        Ok(offloads)
    }

    /// Offloads that the device does not let be switched off.
    ///
    /// # Errors
    /// The interface is gone.
    pub fn still_on(&self) -> Result<Vec<&'static str>, EcnError> {
        on(&self.features).map_err(|error| failed(&self.device, error))
    }

    /// Puts them back now, and says whether that could be done; dropping it says nothing.
    ///
    /// # Errors
    /// The system's; the interface is gone.
    pub fn put_back(mut self) -> Result<(), EcnError> {
        self.put_back_here().map_err(|error| failed(&self.device, error))
    }

    fn put_back_here(&mut self) -> io::Result<()> {
        let Some(segments_max) = self.segments_max.take() else { return Ok(()) };
        // Both are tried, whatever becomes of one.
        let features = self.features.switch(&self.switched_off, true);
        self.limit.set(segments_max).and(features)
    }
}

impl Drop for Offloads {
    fn drop(&mut self) {
        // An interface that is gone needs nothing put back.
        let _ = self.put_back_here();
    }
}
