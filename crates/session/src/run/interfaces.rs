//! Interfaces that are added and let go while packets are read, when settings are read again.
//!
//! They are opened on a thread of their own, so that no packet waits for it, and all of them before
//! anything changes. The source takes them in, and lets others go, between two batches.

use std::path::Path;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;

use capture::live::{ANY, LiveOptions, LiveSource};
use engine::run::spawn_free;

use super::opener::Opener;
use super::plan::Plan;
use crate::in_order::InOrder;
use crate::live_interfaces::LiveInterfaces;
use crate::reading::Inputs;

impl Plan {
    /// Keeps a way to open interfaces that later settings in this path add: to be asked for while
    /// this process has the rights that it takes. Where it is not possible, a reload says why.
    pub fn keep_opening(&mut self, settings: &Path, inputs: &Inputs) {
        let Some(interface) = &inputs.interface else { return };
        self.opener = match self.fixed_by() {
            Some(why) => Err(why),
            None => {
                let options = LiveOptions {
                    socket_count: 1,
                    cut: None,
                    stall_until_dropped: None,
                    ..interface.options.clone()
                };
                let read = inputs.live_reading(self.wants.needs);
                Opener::start(settings, self.input.filter.clone(), (options, read))
            }
        };
    }

    /// Why the interfaces of this run are those of its start.
    fn fixed_by(&self) -> Option<String> {
        let mut attaching = self.applications.iter().filter(|one| one.ready.attaches());
        if let Some(one) = attaching.next() {
            return Some(format!("[{}] has programs in the kernel for them", one.ready.name()));
        }
        if self.input.interface.iter().any(|name| name == ANY) {
            return Some(String::from("any stands for all of them"));
        }
        (!self.takes_packets()).then(|| String::from("no application reads their packets"))
    }
}

/// Why interfaces stay as they are where nothing else says so.
pub(super) const NOT_NAMED: &str = "they were not named by these settings";

/// What the source of a run changes between two batches.
struct Change {
    added: Vec<(u16, LiveSource)>,
    let_go: Vec<String>,
    /// Where it says that this was done.
    done: Sender<()>,
}

/// The source's end.
pub(super) struct Changing(Receiver<Change>);

impl Changing {
    /// Does what is asked for by now.
    pub(super) fn carry_out(&self, source: &mut InOrder) {
        for Change { added, let_go, done } in self.0.try_iter() {
            for (number, added) in added {
                source.add(added, number);
            }
            let_go.iter().for_each(|name| source.let_go(name));
            // Who asked has gone where the run ends.
            let _ = done.send(());
        }
    }
}

/// The interfaces of a run, as its settings are read again.
pub(super) struct Interfaces {
    live: LiveInterfaces,
    asking: Result<Asking, String>,
}

/// The thread that opens interfaces: it is asked for the names that are wanted, and says what was
/// done.
struct Asking {
    wanted: Option<Sender<Vec<String>>>,
    /// What was asked for last.
    latest: Option<Vec<String>>,
    said: Receiver<String>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Interfaces {
    /// Those of a run that has no way to change them.
    pub(super) fn fixed() -> Self {
        Self { live: LiveInterfaces::default(), asking: Err(String::from(NOT_NAMED)) }
    }

    /// Of a run that may change them, or why it may not; and the source's end.
    pub(super) fn new(
        live: LiveInterfaces,
        opener: Result<Opener, String>,
    ) -> (Self, Option<Changing>) {
        let opener = match opener {
            Ok(opener) => opener,
            Err(why) => return (Self { live, asking: Err(why) }, None),
        };
        let ((wanted, asked), (to, changes)) = (mpsc::channel(), mpsc::channel());
        let (say, said) = mpsc::channel();
        let mut worker = Worker { opener, live: live.clone(), to, say };
        let thread = spawn_free("interfaces", move || worker.work(&asked));
        let (wanted, thread) = (Some(wanted), Some(thread));
        let asking = Asking { wanted, latest: None, said, thread };
        (Self { live, asking: Ok(asking) }, Some(Changing(changes)))
    }

    /// Has those listened on that later settings name. A line where they stay as they are although
    /// the settings name `others` than at the start; whether anything was asked for.
    pub(super) fn take_up(&mut self, wanted: &[String], others: bool) -> Result<bool, String> {
        let asking = match &mut self.asking {
            Ok(asking) => asking,
            Err(_) if !others => return Ok(false),
            Err(why) => return Err(next_start(why)),
        };
        if wanted.iter().any(|name| name == ANY) {
            return Err(next_start("any stands for all of them"));
        }
        if wanted.is_empty() {
            return Err(next_start("a run listens on one at least"));
        }
        let present = self.live.open_names();
        let is_same = |names: &[String]| {
            names.len() == wanted.len() && wanted.iter().all(|name| names.contains(name))
        };
        // What was asked for last may not be done yet.
        if is_same(&present) && asking.latest.as_deref().is_none_or(is_same) {
            return Ok(false);
        }
        asking.latest = Some(wanted.to_vec());
        // Where no one takes it any more, the run is over.
        Ok(asking.wanted.as_ref().is_some_and(|to| to.send(wanted.to_vec()).is_ok()))
    }

    /// What was done since this was asked last.
    pub(super) fn news(&self) -> impl Iterator<Item = String> + '_ {
        self.asking.iter().flat_map(|asking| asking.said.try_iter())
    }
}

impl Drop for Asking {
    /// The helper has ended when the run has.
    fn drop(&mut self) {
        drop(self.wanted.take());
        if let Some(thread) = self.thread.take() {
            // What it panicked with was printed, and there is nothing to be done for it.
            let _ = thread.join();
        }
    }
}

fn next_start(why: &str) -> String {
    format!("[input] interface was changed: takes effect at the next start, as {why}")
}

/// Opens interfaces, and hands them to the source.
struct Worker {
    opener: Opener,
    live: LiveInterfaces,
    to: Sender<Change>,
    say: Sender<String>,
}

impl Worker {
    fn work(&mut self, asked: &Receiver<Vec<String>>) {
        for wanted in asked {
            for line in self.change(&wanted) {
                // Where no one takes it any more, the run is over.
                let _ = self.say.send(line);
            }
        }
    }

    /// Changes to the interfaces of these names; what there is to say of it.
    fn change(&mut self, wanted: &[String]) -> Vec<String> {
        let present = self.live.open_names();
        let Self { opener, live, to, .. } = self;
        let mut added = Vec::new();
        for name in wanted.iter().filter(|name| !present.contains(name)) {
            match numbered(opener, live, name) {
                Ok(one) => added.push(one),
                Err(why) => {
                    added.iter().for_each(|(_, one): &(u16, LiveSource)| live.close(one.name()));
                    return vec![format!("[input] {why}"), unchanged(&present)];
                }
            }
        }
        let let_go: Vec<_> =
            present.iter().filter(|name| !wanted.contains(name)).cloned().collect();
        let mut lines = Vec::new();
        for (_, one) in &added {
            let name = one.name();
            lines.push(format!("[input] listens on {name} as well"));
            if !one.is_up_at_start() {
                lines.push(format!("{name}: the interface is down; waiting for it to come up"));
            }
        }
        lines.extend(let_go.iter().map(|name| format!("[input] no longer listens on {name}")));
        let (done, is_done) = mpsc::channel();
        let names = let_go.clone();
        if to.send(Change { added, let_go, done }).is_err() || is_done.recv().is_err() {
            // The run has ended before.
            return Vec::new();
        }
        names.iter().for_each(|name| live.close(name));
        lines
    }
}

/// Opens an interface that records call by a number from now on.
fn numbered(
    opener: &mut Opener,
    live: &LiveInterfaces,
    name: &str,
) -> Result<(u16, LiveSource), String> {
    let source = opener.open(name)?;
    let number = source.link().and_then(|link| live.open(name, link));
    let none = || format!("{name}: this run has had as many interfaces as it can number");
    Ok((number.ok_or_else(none)?, source))
}

fn unchanged(present: &[String]) -> String {
    format!("[input] interface was not changed: {} stays in force", present.join(", "))
}

#[cfg(test)]
mod tests {
    use packet::LinkType;

    use super::*;

    fn named(names: &[&str]) -> Vec<String> {
        names.iter().copied().map(String::from).collect()
    }

    #[test]
    fn interfaces_that_stay_are_reported_only_where_the_settings_name_others() {
        let mut fixed = Interfaces::fixed();
        assert_eq!(fixed.take_up(&named(&["eth1"]), false), Ok(false));
        let said = fixed.take_up(&named(&["eth1"]), true).unwrap_err();
        assert!(said.ends_with(NOT_NAMED) && said.contains("at the next start"), "{said}");
        assert_eq!(fixed.news().count(), 0);
    }

    #[test]
    fn what_is_asked_for_is_the_last_that_the_settings_named() {
        let live = LiveInterfaces::default();
        live.open("eth0", LinkType::ETHERNET);
        let ((wanted, asked), (_, said)) = (mpsc::channel(), mpsc::channel());
        let asking = Asking { wanted: Some(wanted), latest: None, said, thread: None };
        let mut interfaces = Interfaces { live: live.clone(), asking: Ok(asking) };
        let mut take_up = |names: &[&str]| interfaces.take_up(&named(names), true);
        assert_eq!(take_up(&["eth0"]), Ok(false));
        assert_eq!(take_up(&["eth0", "eth1"]), Ok(true));
        // Not done yet, and no longer wanted.
        assert_eq!(take_up(&["eth0"]), Ok(true));
        assert_eq!(take_up(&["eth0"]), Ok(false));
        live.open("eth1", LinkType::ETHERNET);
        assert_eq!(take_up(&["eth1", "eth0"]), Ok(true));
        assert_eq!(take_up(&["eth1", "eth0"]), Ok(false));
        // One that has vanished is wanted again.
        live.close("eth1");
        assert_eq!(take_up(&["eth1", "eth0"]), Ok(true));
        for refused in [&[][..], &["any"], &["eth0", "any"]] {
            assert!(take_up(refused).unwrap_err().contains("at the next start, as"), "{refused:?}");
        }
        let asked: Vec<_> = asked.try_iter().map(|names| names.len()).collect();
        assert_eq!(asked, [2, 1, 2, 2]);
        drop(interfaces);
    }
}
