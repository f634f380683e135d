//! A run as a service: what the manager that started this process is reported.

use std::sync::{Arc, OnceLock};

pub(crate) use service::Service;
use service::ServiceEnvironment;
use session::reading::Inputs;

use crate::run::tell_line;
use crate::{clock, environment};

/// Also asked by the thread that waits for signals.
static SERVICE: OnceLock<Service> = OnceLock::new();

/// Looks for a service manager that waits for news of this process. What is wrong with it is a
/// warning: packets are read all the same.
pub(crate) fn find() {
    let names = ["NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"];
    let [socket, watchdog_usec, watchdog_pid] = names.map(environment);
    let started =
        ServiceEnvironment { socket, watchdog_usec, watchdog_pid, pid: std::process::id() };
    match Service::found(&started, tell_line) {
        Ok(service) => service.into_iter().for_each(|service| drop(SERVICE.set(service))),
        Err(wrong) => tell_line(&wrong),
    }
}

/// The run ends.
pub(crate) fn stopping() {
    SERVICE.get().into_iter().for_each(Service::stopping);
}

/// How far a run is, for who looks at its service.
type StatusLine = Box<dyn Fn() -> String + Send + Sync>;

/// News of one run, by the thread that reads its packets.
pub(crate) struct Notices(Option<&'static Service>, StatusLine);

impl Notices {
    /// Of a run whose inputs and outputs are open. Captures may take a while to hand out the first
    /// packet, so their run is ready from here on; that of an interface when it is listened on.
    pub(crate) fn of(inputs: &Inputs) -> Self {
        let progress = Arc::clone(&inputs.options.progress);
        let notices = Self::with(Box::new(move || {
            let (read, dropped) = (progress.frames_read(), progress.frames_dropped());
            format!("{read} packets read, {dropped} dropped")
        }));
        if inputs.interface.is_none() {
            notices.tick();
        }
        notices
    }

    /// Of a run without packets of its own.
    pub(crate) fn with(status: StatusLine) -> Self {
        Self(SERVICE.get(), status)
    }

    /// Reports that packets are still being processed.
    pub(crate) fn tick(&self) {
        let Some(service) = self.0 else { return };
        service.tick(clock::now(), &self.1);
    }

    /// SIGHUP came, or its settings were read and are handed to the run.
    pub(crate) fn send(&self, news: fn(&Service)) {
        self.0.into_iter().for_each(news);
    }
}
