//! Drills: faults on purpose, so that operators see what a real one looks like.
//!
//! Each takes the way of the real fault, so that counters, alerts and messages are those of the
//! real one. A drill is bounded, and is named in messages, events, counters and on the page.

use std::fmt;
use std::fs::File;
use std::io;
use std::str::FromStr;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use capture::Report;
use capture::live::{STALL_AFTER, STALL_MAX};
use engine::flow::pass::Drill as FaultDrill;
use engine::run::Control;
use packet::Span;
use packet::duration::parse_duration;
use packetlog::recorder::{Disk, PlainDisk};
use serde::{Deserialize, Deserializer, de};
use store::Count;

use crate::written;

/// Packets that the kernel is to drop unless another number is given.
const DROPPED: u64 = 1_000;

/// Flows for which there is room unless another number is given.
const FLOWS: u32 = 1_000;

/// How much longer a write takes unless another time is given: the queue of a table that has rows
/// every second is full in less than half a minute.
const WRITE: Span = Span::from_seconds(5);

/// The packet at which an application panics unless another is given.
const PACKET: u64 = 1_000;

/// A file is written as fast as it can be after it was slowed down by so much.
const SLOWED_MAX: Duration = Duration::from_secs(60);

/// A stop is noticed after this time.
const LOOK_EVERY: Duration = Duration::from_millis(50);

const WANTED: &str = "wanted: drop, full-table, slow-disk or fault, such as drop=1000 (packets \
                      that the kernel drops), full-table=1000 (flows for which there is room), \
                      slow-disk=5s (added to each write) or fault=APPLICATION@1000 (its packet, \
                      1000+ for each from there on)";

/// A fault on purpose.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Drill {
    /// Reading stops until the kernel has dropped so many packets of an interface.
    Drop(u64),
    /// Flow tables have room for so many flows.
    FullTable(u32),
    /// Each write to a file takes so much longer.
    SlowDisk(Span),
    /// An application panics, or each does.
    Fault(Option<String>, FaultDrill),
}

impl FromStr for Drill {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("{text:?}; {WANTED}");
        let (what, number) = match text.split_once('=') {
            Some((what, number)) => (what, Some(number)),
            None => (text, None),
        };
        let whole = |usual: u64, most: u64| {
            let number = number.map_or(Ok(usual), |number| number.parse().map_err(|_| wrong()))?;
            if (1..=most).contains(&number) { Ok(number) } else { Err(wrong()) }
        };
        match what {
            "drop" => whole(DROPPED, 1_000_000_000).map(Self::Drop),
            "full-table" => {
                let flows = whole(FLOWS.into(), u32::MAX.into())?;
                Ok(Self::FullTable(u32::try_from(flows).unwrap_or(u32::MAX)))
            }
            "slow-disk" => {
                let span = number.map_or(Ok(WRITE), parse_duration).map_err(|_| wrong())?;
                let most = Span::from_seconds(60);
                if span <= most { Ok(Self::SlowDisk(span)) } else { Err(wrong()) }
            }
            "fault" => fault(number).ok_or_else(wrong),
            _ => Err(wrong()),
        }
    }
}

/// `APPLICATION@PACKET`, with `+` for each packet from there on.
fn fault(text: Option<&str>) -> Option<Drill> {
    let Some(text) = text else {
        return Some(Drill::Fault(None, FaultDrill::at(PACKET, false)));
    };
    let (name, packet) = text.split_once('@')?;
    let (number, repeats) = match packet.strip_suffix('+') {
        Some(number) => (number, true),
        None => (packet, false),
    };
    let number = number.parse().ok().filter(|&number| number > 0)?;
    Some(Drill::Fault(Some(name.to_owned()), FaultDrill::at(number, repeats)))
}

impl fmt::Display for Drill {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Drop(count) => write!(f, "drop={count}"),
            Self::FullTable(count) => write!(f, "full-table={count}"),
            Self::SlowDisk(span) => write!(f, "slow-disk={}s", span.as_seconds_f64()),
            Self::Fault(None, _) => f.write_str("fault"),
            Self::Fault(Some(name), drill) => {
                let repeats = if drill.repeats { "+" } else { "" };
                write!(f, "fault={name}@{}{repeats}", drill.packet)
            }
        }
    }
}

impl Drill {
    /// What is going to happen.
    fn announced(&self) -> String {
        match self {
            Self::Drop(count) => format!(
                "{} s after the start reading stops until the kernel has dropped {count} packets, \
                 for {} s at most",
                STALL_AFTER.as_seconds_f64(),
                STALL_MAX.as_seconds_f64()
            ),
            Self::FullTable(count) => format!("flow tables have room for {count} flows"),
            Self::SlowDisk(span) => format!(
                "each write of rows and of the packet log takes {} s longer, {} s for a file at \
                 most; the packet log is written through the page cache",
                span.as_seconds_f64(),
                SLOWED_MAX.as_secs()
            ),
            Self::Fault(name, drill) => {
                let who = name.as_deref().unwrap_or("each application");
                let (packet, repeats) = (drill.packet, drill.repeats);
                let on = if repeats { " and at each packet from there on" } else { "" };
                format!("{who} panics at its packet {packet}{on}")
            }
        }
    }

    /// What has happened.
    fn outcome(&self, report: &Report) -> String {
        let dropped = report.dropped.ring_full;
        match self {
            Self::Drop(_) if dropped == 0 => String::from(
                "the kernel dropped nothing, as the ring was not full in time; try a smaller \
                 buffer-size, or more traffic",
            ),
            Self::Drop(_) => format!("the kernel dropped {dropped} packets"),
            _ => String::from("what the lines below say of it is no fault of this machine"),
        }
    }
}

/// The drills of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Drills(Vec<Drill>);

impl<'de> Deserialize<'de> for Drills {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let texts = written::texts(deserializer)?;
        let drills: Result<_, _> = texts.iter().map(|text| text.parse()).collect();
        drills.map(Self).map_err(de::Error::custom)
    }
}

/// A run, as far as drills have to know it.
pub(crate) struct DrillSite<'a> {
    /// Whether packets are captured on an interface.
    pub takes_live_packets: bool,
    /// Flows for which there is room; none where no flows are followed.
    pub flow_count_max: Option<usize>,
    /// Whether anything is written to files.
    pub has_files: bool,
    /// The applications.
    pub names: &'a [&'static str],
}

impl Drills {
    /// Adds those that arguments ask for.
    pub fn add(&mut self, more: &[Drill]) {
        self.0.extend_from_slice(more);
    }

    /// Whether there is none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Refuses those without effect.
    pub(crate) fn check(&self, site: &DrillSite<'_>) -> Result<(), String> {
        for (at, drill) in self.0.iter().enumerate() {
            let refused = |why: &str| Err(format!("simulate {drill}: {why}"));
            let before = self.0.get(..at).unwrap_or_default();
            if before.iter().any(|other| drill.is_same_kind(other)) {
                return refused("is asked for twice; give one of them");
            }
            match drill {
                Drill::Drop(_) if !site.takes_live_packets => {
                    return refused("has no effect without packets of an interface; leave it out");
                }
                Drill::FullTable(_) if site.flow_count_max.is_none() => {
                    return refused("has no effect, as no application follows flows; leave it out");
                }
                Drill::FullTable(count)
                    if site.flow_count_max.is_some_and(|most| most <= *count as usize) =>
                {
                    return refused("has no effect, as the limit is not higher; give fewer flows");
                }
                Drill::SlowDisk(_) if !site.has_files => {
                    return refused("has no effect, as nothing is written to files; leave it out");
                }
                Drill::Fault(Some(name), _) if !site.names.contains(&name.as_str()) => {
                    let known = site.names.join(", ");
                    return refused(&format!("there is no table [{name}]; wanted one of {known}"));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// The fault of an application.
    pub(crate) fn fault(&self, application: &str) -> Option<FaultDrill> {
        self.0.iter().find_map(|drill| match drill {
            Drill::Fault(None, drill) => Some(*drill),
            Drill::Fault(Some(name), drill) if name == application => Some(*drill),
            _ => None,
        })
    }

    /// Frames of an interface that are to be dropped.
    pub(crate) fn dropped(&self) -> Option<u64> {
        self.0.iter().find_map(|drill| match drill {
            Drill::Drop(count) => Some(*count),
            _ => None,
        })
    }

    /// Flows for which there is room, of so many without a drill.
    pub(crate) fn flow_count_max(&self, usual: usize) -> usize {
        let full = self.0.iter().find_map(|drill| match drill {
            Drill::FullTable(count) => Some(*count as usize),
            _ => None,
        });
        full.unwrap_or(usual).min(usual)
    }

    /// A disk that is slow, for one file.
    pub(crate) fn slow_disk(&self, control: &Arc<Control>) -> Option<SlowDisk> {
        self.0.iter().find_map(|drill| match drill {
            Drill::SlowDisk(span) => Some(SlowDisk {
                write: Duration::from_nanos(u64::try_from(span.as_ns()).unwrap_or(0)),
                left: SLOWED_MAX,
                control: Arc::clone(control),
            }),
            _ => None,
        })
    }

    /// What users have to know before the first packet, a line each.
    pub(crate) fn announce(&self, warn: fn(&str)) {
        for drill in &self.0 {
            let what = drill.announced();
            warn(&format!("drill: simulate {drill}: {what}; it is no fault of this machine"));
        }
    }

    /// What users have to know at the end.
    pub(crate) fn end(&self, report: &Report, warn: fn(&str)) {
        for drill in &self.0 {
            warn(&format!("drill: simulate {drill}: {}", drill.outcome(report)));
        }
    }

    /// As they are counted.
    pub(crate) fn counts(&self) -> Vec<Count> {
        let about = "1 for each fault that this run simulates.";
        let count =
            |drill: &Drill| Count::gauge("drill", about, 1.0).with("simulate", drill.to_string());
        self.0.iter().map(count).collect()
    }

    /// As they are named in events.
    pub(crate) fn names(&self) -> Vec<String> {
        self.0.iter().map(ToString::to_string).collect()
    }
}

impl Drill {
    fn is_same_kind(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Fault(Some(one), _), Self::Fault(Some(other), _)) => one == other,
            _ => std::mem::discriminant(self) == std::mem::discriminant(other),
        }
    }
}

/// What makes the writes of one file slow.
pub struct SlowDisk {
    write: Duration,
    left: Duration,
    control: Arc<Control>,
}

impl SlowDisk {
    /// Takes the time of a write, unless the run was stopped or enough was taken.
    pub(crate) fn wait(&mut self) {
        let mut rest = self.write.min(self.left);
        self.left -= rest;
        while !rest.is_zero() && !self.control.is_stopped() {
            let step = rest.min(LOOK_EVERY);
            thread::sleep(step);
            rest -= step;
        }
    }
}

impl Disk for SlowDisk {
    fn write(&mut self, file: &File, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.wait();
        PlainDisk.write(file, bytes, offset)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drills(texts: &[&str]) -> Drills {
        Drills(texts.iter().map(|text| text.parse().unwrap()).collect())
    }

    fn site() -> DrillSite<'static> {
        DrillSite {
            takes_live_packets: true,
            flow_count_max: Some(1 << 22),
            has_files: true,
            names: &["flows", "top"],
        }
    }

    #[test]
    fn a_word_alone_stands_for_its_usual_number() {
        let names = drills(&["drop", "full-table", "slow-disk", "fault"]).names();
        assert_eq!(names, ["drop=1000", "full-table=1000", "slow-disk=5s", "fault"]);
        for text in ["drop=7", "full-table=64", "slow-disk=0.25s", "fault=flows@9", "fault=top@1+"]
        {
            assert_eq!(drills(&[text]).names(), [text]);
        }
    }

    #[test]
    fn what_is_no_drill_is_refused_with_all_that_there_are() {
        for wrong in [
            "",
            "panic",
            "drop=",
            "drop=0",
            "drop=-1",
            "full-table=x",
            "slow-disk=5",
            "slow-disk=2m",
            "fault=",
            "fault=flows",
            "fault=flows@0",
            "fault=flows@x",
        ] {
            let message = wrong.parse::<Drill>().unwrap_err();
            assert!(message.contains("wanted: drop, full-table, slow-disk or fault"), "{wrong}");
        }
    }

    #[test]
    fn a_drill_without_effect_is_refused_and_says_why() {
        let all = drills(&["drop", "full-table", "slow-disk", "fault=flows@1", "fault=top@1"]);
        assert_eq!(all.check(&site()), Ok(()));
        for (text, site, why) in [
            ("drop", DrillSite { takes_live_packets: false, ..site() }, "without packets"),
            ("full-table", DrillSite { flow_count_max: None, ..site() }, "follows flows"),
            ("full-table", DrillSite { flow_count_max: Some(1_000), ..site() }, "not higher"),
            ("slow-disk", DrillSite { has_files: false, ..site() }, "written to files"),
            ("fault=cca@1", site(), "there is no table [cca]; wanted one of flows, top"),
        ] {
            let refused = drills(&[text]).check(&site).unwrap_err();
            assert!(refused.contains(why), "{refused}");
        }
        for twice in [["drop=1", "drop=2"], ["fault=top@1", "fault=top@2"]] {
            assert!(drills(&twice).check(&site()).unwrap_err().contains("twice"));
        }
    }

    #[test]
    fn a_slow_disk_is_slow_for_a_bounded_time_and_not_once_the_run_is_stopped() {
        let control = Arc::<Control>::default();
        let mut disk = drills(&["slow-disk=60s"]).slow_disk(&control).unwrap();
        control.stop();
        disk.wait();
        assert_eq!(disk.left, Duration::ZERO, "all of it was taken, in no time");
    }

    #[test]
    fn every_drill_is_counted_under_its_name() {
        let drills = drills(&["drop", "fault=flows@3"]);
        let labels: Vec<_> = drills.counts().into_iter().flat_map(|count| count.labels).collect();
        let of = |name: &str| ("simulate", name.to_owned());
        assert_eq!(labels, [of("drop=1000"), of("fault=flows@3")]);
        assert_eq!(drills.flow_count_max(1 << 22), 1 << 22, "it fills no table");
        assert_eq!(drills.fault("flows"), Some(FaultDrill::at(3, false)));
        assert_eq!(drills.fault("top"), None);
    }
}
