//! What a run reports to the service manager that started it: systemd's notification protocol
//! (sd_notify(3)), over the datagram socket that `NOTIFY_SOCKET` names.
//!
//! - `READY=1`: everything is open, and packets are read.
//! - `RELOADING=1` with `MONOTONIC_USEC`, then `READY=1`: settings were asked to be read again, and
//!   they are in force, or were refused.
//! - `STOPPING=1`: the run was asked to end, or has ended by itself.
//! - `WATCHDOG=1`: at half of `WATCHDOG_USEC`, by the thread that calls [`Service::tick`]. That is
//!   the thread that reads packets, so that a run whose packets stall is not reported alive.
//! - `STATUS=`: one line, every ten seconds.
//!
//! Nothing here waits: packets do. What the manager's socket has no room for is sent with a later
//! tick, and states are sent in their order.

#![forbid(unsafe_code)]

mod socket;

use std::collections::VecDeque;
use std::ffi::OsString;
use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};
use socket::Socket;

/// Between two lines of status.
const STATUS_EVERY: Duration = Duration::from_secs(10);

/// States that wait for room in the manager's socket. One that is more replaces the oldest.
const WAITING_MAX: usize = 16;

/// What a process is started with by a service manager.
#[derive(Clone, Debug, Default)]
pub struct ServiceEnvironment {
    /// `NOTIFY_SOCKET`: a path, or an abstract name behind `@`.
    pub socket: Option<OsString>,
    /// `WATCHDOG_USEC`: in microseconds, how long a service may be silent.
    pub watchdog_usec: Option<OsString>,
    /// `WATCHDOG_PID`: whose watchdog it is, if it is given.
    pub watchdog_pid: Option<OsString>,
    /// The number of this process.
    pub pid: u32,
}

/// A service manager that waits for news of this process.
#[derive(Debug)]
pub struct Service {
    socket: Socket,
    watchdog_every: Option<Duration>,
    tell: fn(&str),
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    waiting: VecDeque<String>,
    is_ready: bool,
    is_stopping: bool,
    /// A message that cannot be delivered is reported once.
    has_failed: bool,
    /// Reloads that were begun, and those of them whose settings were taken up since the last tick.
    reloads: usize,
    taken_up: usize,
    /// Since when the watchdog and the status are due.
    watchdog_at: Option<Instant>,
    status_at: Option<Instant>,
}

impl Service {
    /// The manager that started this process, if one did that wants news. `tell` takes what cannot
    /// be delivered: once, and it ends nothing.
    ///
    /// # Errors
    /// What is wrong with `NOTIFY_SOCKET`, and what was wanted.
    pub fn found(started: &ServiceEnvironment, tell: fn(&str)) -> Result<Option<Self>, String> {
        let Some(name) = started.socket.as_deref().filter(|name| !name.is_empty()) else {
            return Ok(None);
        };
        let socket = Socket::open(name)?;
        let watchdog_every = watchdog_every(started);
        Ok(Some(Self { socket, watchdog_every, tell, state: Mutex::default() }))
    }

    /// Settings were asked to be read again.
    pub fn reloading(&self) {
        let mut state = self.state();
        if !state.is_stopping {
            state.reloads += 1;
            self.send(&mut state, format!("RELOADING=1\nMONOTONIC_USEC={}", monotonic_usec()));
        }
    }

    /// The settings of a reload are handed to the run: they are in force at the next tick.
    pub fn taken_up(&self) {
        self.state().taken_up += 1;
    }

    /// The run ends; said once.
    pub fn stopping(&self) {
        let mut state = self.state();
        if !state.is_stopping {
            state.is_stopping = true;
            // What waited for room is over, and no later tick may come.
            state.waiting.clear();
            self.send(&mut state, String::from("STOPPING=1"));
        }
    }

    /// Packets arrive from now on; with the first tick the service is ready. `status` is asked for
    /// a line every ten seconds.
    pub fn tick(&self, now: Instant, status: impl FnOnce() -> String) {
        let mut state = self.state();
        self.flush(&mut state);
        if !state.is_ready && !state.is_stopping {
            state.is_ready = true;
            self.send(&mut state, String::from("READY=1"));
        }
        let taken_up = std::mem::take(&mut state.taken_up);
        if taken_up > 0 {
            state.reloads = state.reloads.saturating_sub(taken_up);
            if state.reloads == 0 && !state.is_stopping {
                self.send(&mut state, String::from("READY=1"));
            }
        }
        let has_room = state.waiting.is_empty();
        let is_over = |since: Option<Instant>, every: Duration| {
            since.is_none_or(|since| now.saturating_duration_since(since) >= every)
        };
        if let Some(every) = self.watchdog_every
            && has_room
            && is_over(state.watchdog_at, every)
        {
            state.watchdog_at = Some(now);
            self.send(&mut state, String::from("WATCHDOG=1"));
        }
        if has_room && !state.is_stopping && is_over(state.status_at, STATUS_EVERY) {
            state.status_at = Some(now);
            // A message is lines of its own.
            let line = status().replace(['\n', '\r'], " ");
            self.send(&mut state, format!("STATUS={line}"));
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn send(&self, state: &mut State, message: String) {
        if state.waiting.len() >= WAITING_MAX {
            state.waiting.pop_front();
        }
        state.waiting.push_back(message);
        self.flush(state);
    }

    /// Sends what there is room for.
    fn flush(&self, state: &mut State) {
        while let Some(message) = state.waiting.front() {
            match self.socket.send(message) {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) => {
                    if !std::mem::replace(&mut state.has_failed, true) {
                        (self.tell)(&format!(
                            "NOTIFY_SOCKET: {}: {error}; wanted: the socket of the service manager \
                             that started this; the run goes on without it",
                            self.socket.name()
                        ));
                    }
                }
            }
            state.waiting.pop_front();
        }
    }
}

/// Half of the time that a service may be silent; nothing where no one watches it, or another
/// process is meant (sd_watchdog_enabled(3)).
fn watchdog_every(started: &ServiceEnvironment) -> Option<Duration> {
    let number = |text: &Option<OsString>| text.as_ref()?.to_str()?.parse::<u64>().ok();
    let is_ours = match &started.watchdog_pid {
        None => true,
        pid => number(pid) == Some(started.pid.into()),
    };
    let usec = number(&started.watchdog_usec).filter(|usec| *usec > 0 && is_ours)?;
    Some(Duration::from_micros(usec / 2))
}

/// `CLOCK_MONOTONIC` in microseconds, by which the manager orders a reload (sd_notify(3)).
fn monotonic_usec() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    let usec = |number: i64| u64::try_from(number).unwrap_or(0);
    usec(now.tv_sec) * 1_000_000 + usec(now.tv_nsec) / 1_000
}

#[cfg(test)]
mod tests;
