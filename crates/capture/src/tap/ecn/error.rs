//! Why packets of an interface cannot be re-marked.

use std::error::Error;
use std::fmt;

use packet::{EcnRefusal, OneWayFlow};

use crate::tap::attach::{Attaching, Cause};

/// Why an interface, or a flow that leaves it, cannot be re-marked.
#[derive(Debug)]
pub struct EcnError {
    device: String,
    fault: EcnFault,
}

/// What is at fault.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum EcnFault {
    /// This user may not.
    NotPermitted,
    /// There is no such interface.
    NoInterface,
    /// The interface was removed, or moved to another network namespace.
    Gone,
    /// This kernel, of this release, has no tcx. A filter of clsact would stay when this process
    /// is killed, so none is tried.
    NoTcx(String),
    /// The kernel refuses the program, with these words.
    ProgramRefused(String),
    /// Frames of this hardware type (`ARPHRD_*`) do not begin with an Ethernet header.
    NotEthernet(u16),
    /// A maximum of flows out of range.
    FlowCountMax(u32),
    /// As many flows are named as there may be.
    Full(u32),
    /// The flow is not named.
    NotNamed(OneWayFlow),
    /// Neither TCP nor UDP: there are no ports to name the flow by.
    NotTcpUdp(OneWayFlow),
    /// The system's words.
    System(String),
}

impl EcnError {
    pub(super) fn new(device: &str, fault: EcnFault) -> Self {
        Self { device: device.to_owned(), fault }
    }

    /// What is at fault.
    #[must_use]
    pub const fn fault(&self) -> &EcnFault {
        &self.fault
    }
}

impl From<Attaching> for EcnFault {
    fn from(error: Attaching) -> Self {
        match error.cause() {
            Cause::Refused => Self::NotPermitted,
            Cause::NoDevice => Self::NoInterface,
            Cause::Gone => Self::Gone,
            Cause::NoTcx(release) => Self::NoTcx(release),
            Cause::Program(words) => Self::ProgramRefused(words),
            Cause::NoTypes(words) | Cause::Other(words) => Self::System(words),
        }
    }
}

impl From<EcnError> for EcnRefusal {
    fn from(error: EcnError) -> Self {
        match error.fault {
            EcnFault::Full(flow_count_max) => Self::Full { flow_count_max },
            EcnFault::NotNamed(flow) => Self::NotNamed(flow),
            _ => Self::Failed(error.to_string()),
        }
    }
}

impl fmt::Display for EcnError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: cannot re-mark packets: ", self.device)?;
        match &self.fault {
            EcnFault::NotPermitted => f.write_str(
                "not permitted; wanted CAP_BPF, CAP_NET_ADMIN, CAP_NET_RAW and CAP_PERFMON, try as \
                 root",
            ),
            EcnFault::NoInterface => {
                f.write_str("no such interface; wanted one that `ip link` shows")
            }
            EcnFault::Gone => f.write_str(
                "the interface is gone; wanted one that stays, attach again when it is back",
            ),
            EcnFault::NoTcx(release) => write!(
                f,
                "this is Linux {release}, which takes no links at tc (tcx), and a clsact filter \
                 would remain if this process were killed; wanted Linux 6.6 or newer, try a newer \
                 kernel"
            ),
            EcnFault::ProgramRefused(words) => write!(
                f,
                "the kernel refuses the program: {words}; wanted Linux 6.6 or newer with \
                 CONFIG_BPF_SYSCALL, try another kernel"
            ),
            EcnFault::NotEthernet(hardware_type) => write!(
                f,
                "hardware type {hardware_type} has no Ethernet header; wanted Ethernet or \
                 loopback, try the interface that it runs over"
            ),
            EcnFault::FlowCountMax(seen) => {
                write!(f, "a maximum of {seen} flows; wanted 1 to {}", crate::tap::FLOW_COUNT_MAX)
            }
            EcnFault::Full(flow_count_max) => {
                EcnRefusal::Full { flow_count_max: *flow_count_max }.fmt(f)
            }
            EcnFault::NotNamed(flow) => EcnRefusal::NotNamed(*flow).fmt(f),
            EcnFault::NotTcpUdp(flow) => {
                write!(f, "{flow}: has no ports; wanted a flow of TCP or UDP")
            }
            EcnFault::System(words) => write!(
                f,
                "{words}; wanted Linux 6.6 or newer with CONFIG_BPF_SYSCALL, and memory for its \
                 tables"
            ),
        }
    }
}

impl Error for EcnError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_says_what_was_seen_wanted_and_what_to_try() {
        let text = |fault| EcnError::new("eth0", fault).to_string();
        let refused = text(EcnFault::NotPermitted);
        assert!(refused.starts_with("eth0: ") && refused.contains("CAP_NET_ADMIN"), "{refused}");
        let old = text(EcnFault::NoTcx(String::from("5.15")));
        assert!(["5.15", "clsact", "6.6"].iter().all(|word| old.contains(word)), "{old}");
        let full = text(EcnFault::Full(2));
        assert!(full.contains("all 2 places") && full.contains("forget"), "{full}");
    }
}
