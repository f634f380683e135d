//! A link with propagation delay and loss: two TUN devices in two network namespaces, and
//! packets that wait in between.
//!
//! Linux has netem for this, but not every kernel is built with it, and it tells neither how
//! late it was nor what it lost. The relay adds delay and loss; the rate and the buffer of the
//! link are the kernel's, by a queueing discipline on each device. One way may have a rate and the
//! queues of an L4S router instead, which not every kernel has.
//!
//! One thread waits for both devices, for the clock and for commands, each to the nanosecond,
//! before all that is not real time where that is permitted.

mod bottleneck;
mod header;
mod loss;
mod way;

use std::fs::{self, File};
use std::os::fd::AsFd as _;

use capture::Place;
use capture::sys::namespace;
use packet::Span;

use crate::TestbedError;
use crate::lines::Lines;
use crate::sys::time::{monotonic_ns, set_least_timer_slack, set_realtime};
use crate::sys::tun::Tun;
use crate::sys::waiting::wait;
use crate::trace::{Teller, TraceReport, TraceSettings, Writing};

pub use bottleneck::{BottleneckReport, BottleneckSettings};
pub use way::{WayReport, WaySettings};

use way::{PACKET_LEN_MAX, Way};

/// What a relay is to do.
#[derive(Clone, Debug)]
pub struct Settings {
    /// One end.
    pub a: Place,
    /// The other.
    pub b: Place,
    /// From `a` to `b`.
    pub ab: WaySettings,
    /// From `b` to `a`.
    pub ba: WaySettings,
    /// Packets that may wait, each way.
    pub queue_len_max: usize,
    /// Decides which packets are lost, and every draw of a router.
    pub seed: u64,
    /// What is written of each packet of the way with queues.
    pub trace: TraceSettings,
}

/// Which way.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Towards {
    /// From `a` to `b`.
    B,
    /// From `b` to `a`.
    A,
}

/// What may be asked of a relay while it runs.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Command {
    /// Delay packets of no class so long from now on.
    Delay(Towards, Span),
    /// Lose packets with this probability from now on.
    Loss(Towards, f64),
    /// End, as at the end of the commands.
    Stop,
}

/// What a relay has done.
#[derive(Clone, Debug)]
pub struct RelayReport {
    /// Whether it ran before all that is not real time.
    pub is_realtime: bool,
    /// From `a` to `b`.
    pub ab: WayReport,
    /// From `b` to `a`.
    pub ba: WayReport,
    /// What was written of each packet, where that was asked for.
    pub trace: Option<TraceReport>,
}

/// One end of a relay.
#[derive(Debug)]
struct End {
    place: Place,
    namespace: File,
    tun: Tun,
    /// Set when the device or its namespace was removed: nothing comes or goes any more.
    is_gone: bool,
}

/// A relay whose devices are made. Packets wait in them until it runs.
#[derive(Debug)]
pub struct Relay {
    a: End,
    b: End,
    ab: Way,
    ba: Way,
    is_realtime: bool,
    teller: Teller,
    writing: Option<Writing>,
}

impl Relay {
    /// Makes the devices. The calling thread is the one to run the relay: it is moved into
    /// the namespaces, and before others where that is permitted.
    ///
    /// # Errors
    /// A namespace cannot be entered, a device or a file not be made, or a router not be as it was
    /// asked for.
    pub fn open(settings: &Settings) -> Result<Self, TestbedError> {
        let a = End::open(&settings.a)?;
        let b = End::open(&settings.b)?;
        // Real time needs no slack; without the permission for it this is what remains.
        let _ = set_least_timer_slack();
        // Its thread is made before this one goes before others, and stays behind.
        let (teller, writing) = Writing::begin(&settings.trace)?;
        Ok(Self {
            a,
            b,
            ab: Way::new(&settings.ab, settings.queue_len_max, settings.seed)?,
            ba: Way::new(&settings.ba, settings.queue_len_max, !settings.seed)?,
            is_realtime: set_realtime().is_ok(),
            teller,
            writing,
        })
    }

    /// Carries packets until the commands end, and tells what became of them. `understand`
    /// turns a line into a command.
    ///
    /// # Errors
    /// A line is not understood, waiting is refused, or a file cannot be written.
    pub fn run(
        mut self,
        commands: &File,
        understand: impl Fn(&str) -> Result<Command, String>,
    ) -> Result<RelayReport, TestbedError> {
        let mut lines = Lines::new(commands);
        let mut buffer = vec![0; PACKET_LEN_MAX];
        let mut may_have_more = false;
        loop {
            self.ab.send_due(&self.b.tun, &mut self.teller);
            self.ba.send_due(&self.a.tun, &mut self.teller);
            let timeout_ns = if may_have_more { Some(0) } else { self.until_next_due_ns() };
            let descriptors =
                [self.a.descriptor(), self.b.descriptor(), Some(lines.source().as_fd())];
            let [a, b, command] = wait(descriptors, timeout_ns).map_err(TestbedError::Wait)?;
            let teller = &mut self.teller;
            may_have_more = a.is_readable && self.a.take_in(&mut self.ab, &mut buffer, teller);
            may_have_more |= b.is_readable && self.b.take_in(&mut self.ba, &mut buffer, teller);
            self.a.is_gone |= a.is_gone;
            self.b.is_gone |= b.is_gone;
            if command != Default::default() && !self.obey(&mut lines, &understand)? {
                return self.end();
            }
        }
    }

    /// Reads commands and does what they say; false when it is to end.
    fn obey(
        &mut self,
        lines: &mut Lines<'_>,
        understand: impl Fn(&str) -> Result<Command, String>,
    ) -> Result<bool, TestbedError> {
        let heard = lines.read().map_err(TestbedError::Wait)?;
        for line in &heard.lines {
            match understand(line).map_err(TestbedError::Command)? {
                Command::Delay(towards, delay) => self.way(towards).set_delay(delay),
                Command::Loss(towards, loss) => self.way(towards).set_loss(loss),
                Command::Stop => return Ok(false),
            }
        }
        Ok(!heard.is_end)
    }

    fn way(&mut self, towards: Towards) -> &mut Way {
        match towards {
            Towards::B => &mut self.ab,
            Towards::A => &mut self.ba,
        }
    }

    fn until_next_due_ns(&self) -> Option<u64> {
        let due_ns = [self.ab.next_due_ns(), self.ba.next_due_ns()].into_iter().flatten().min()?;
        Some(due_ns.saturating_sub(monotonic_ns()))
    }

    fn end(self) -> Result<RelayReport, TestbedError> {
        let ab = self.ab.end(self.a.dropped_before());
        let ba = self.ba.end(self.b.dropped_before());
        let trace = self.writing.map(|writing| writing.end(self.teller)).transpose()?;
        Ok(RelayReport { is_realtime: self.is_realtime, ab, ba, trace })
    }
}

impl End {
    fn open(place: &Place) -> Result<Self, TestbedError> {
        let failed = |error| TestbedError::Namespace { place: place.clone(), error };
        let namespace = namespace::open(&place.namespace_file()).map_err(failed)?;
        namespace::enter(&namespace).map_err(failed)?;
        let tun = Tun::make(&place.device)
            .map_err(|error| TestbedError::Tun { place: place.clone(), error })?;
        Ok(Self { place: place.clone(), namespace, tun, is_gone: false })
    }

    /// What to wait for, while there is anything.
    fn descriptor(&self) -> Option<std::os::fd::BorrowedFd<'_>> {
        (!self.is_gone).then(|| self.tun.as_fd())
    }

    /// Takes in what has come; whether there may be more.
    fn take_in(&mut self, way: &mut Way, buffer: &mut [u8], teller: &mut Teller) -> bool {
        match way.take_in(&self.tun, buffer, teller) {
            Ok(may_have_more) => may_have_more,
            // EBADFD: the device was removed, most likely with its namespace.
            Err(_) => {
                self.is_gone = true;
                false
            }
        }
    }

    /// What the kernel could not keep for us. Moves this thread into the namespace.
    fn dropped_before(&self) -> Option<u64> {
        namespace::enter(&self.namespace).ok()?;
        let table = fs::read_to_string("/proc/thread-self/net/dev").ok()?;
        transmit_dropped_in(&table, &self.place.device)
    }
}

/// Packets that an interface was given to send and dropped.
fn transmit_dropped_in(table: &str, device: &str) -> Option<u64> {
    const TRANSMIT_DROP_COLUMN: usize = 11;
    let row = |line: &str| {
        let (named, numbers) = line.split_once(':')?;
        let number = numbers.split_whitespace().nth(TRANSMIT_DROP_COLUMN)?;
        (named.trim() == device).then(|| number.parse().ok())?
    };
    table.lines().find_map(row)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drops_of_a_device_stand_in_the_twelfth_column_of_its_row() {
        let table = " face |bytes packets errs drop fifo frame compressed multicast|bytes\n  \
                     ack0: 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16\n    \
                     lo: 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0\n";
        assert_eq!(transmit_dropped_in(table, "ack0"), Some(12));
        assert_eq!(transmit_dropped_in(table, "lo"), Some(0));
        assert_eq!(transmit_dropped_in(table, "ck0"), None);
    }
}
