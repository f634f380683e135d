//! Classes and cuts in the kernel, where the driver hands packets over: `--offload xdp`.

use std::fmt::Display;
use std::hash::{BuildHasher as _, RandomState};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use capture::live::{CutFrames, HandOver};
use capture::sys::features::Features;
use capture::tap::{
    CUT_CLASSES_MAX, CutControl, CutModel, CutPlace, CutTable, PacketCutter, TapError,
};
use packet::file::Interface;
use packet::{HashSeed, LinkType};
use packetlog::Model;
use packetlog::integer::kernel::KernelModel;
use packetlog::integer::verdicts::{KernelVerdicts, NextModel, VerdictTally};
use packetlog::integer::{IntegerError, IntegerModel, IntegerOptions};
use packetlog::policy::{Granularity, Keep, KernelControl, Switch};
use serde_json::{Value, json};

use super::judging::Judging;
use super::{Ask, LogError, Means, PacketModel};

/// The model that ships for it.
const KERNEL_MODEL: &str = "packetlog-kernel";

/// Where packets are classified and cut, if not in user space.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Offload {
    frames: CutFrames,
}

/// Features of a card that take VLAN tags out of frames before a program sees them: those of 802.1Q
/// and of 802.1ad.
const TAKE_TAGS: [&str; 2] = ["rx-vlan-hw-parse", "rx-vlan-stag-hw-parse"];

impl Offload {
    /// By XDP, on an interface that `is_mirror`: it carries copies of traffic and nothing else.
    ///
    /// # Errors
    /// What was wanted, where that is not said.
    pub fn new(means: Means, is_mirror: bool) -> Result<Self, &'static str> {
        if !is_mirror {
            return Err(
                "xdp truncates packets for everyone on the interface, and what this machine \
                 forwards or receives there would be damaged; wanted: mirror as well, if the \
                 interface receives mirrored traffic alone",
            );
        }
        let secret = RandomState::new().hash_one("wirelens note");
        let hand_over = match means {
            Means::Xdp => None,
            Means::AfXdp => Some(HandOver::default()),
        };
        Ok(Self { frames: CutFrames { secret, hand_over } })
    }

    /// The model that is meant: what the usual one reads the kernel does not have, so that the
    /// default is then `packetlog-kernel`.
    #[must_use]
    pub fn model<'a>(asked: Option<&Self>, model: &'a Path) -> &'a Path {
        let is_usual = model.as_os_str() == "packetlog";
        if asked.is_some() && is_usual { Path::new(KERNEL_MODEL) } else { model }
    }

    /// How frames come.
    pub(super) fn frames(&self) -> CutFrames {
        self.frames.clone()
    }

    /// Refuses what needs more of a packet than the kernel leaves, or a verdict that it cannot
    /// give.
    ///
    /// # Errors
    /// What follows the option's name: the name of the other one, and why.
    pub(super) fn check(ask: &Ask) -> Result<(), String> {
        if ask.offload.is_none() {
            return Ok(());
        }
        let other =
            |name: &str, why: &str| Err(format!("with {name}: {why}; leave out one of both"));
        if ask.hindsight.time.is_some() {
            return other("hindsight", "packets are truncated before they could wait whole");
        }
        if ask.calibration.is_some() {
            return other("calibration", "thresholds are applied to scores in user space");
        }
        let tables = for_kernel(&ask.model.model);
        tables.map(|_| ()).map_err(|why| format!("with this model: {why}; try {KERNEL_MODEL}"))
    }
}

/// The model for what the program leaves alone, and its tables for the program.
fn for_kernel(model: &Model) -> Result<(Arc<IntegerModel>, KernelModel), IntegerError> {
    let integer = IntegerModel::new(model, IntegerOptions::Kernel)?;
    let tables = integer.for_kernel()?;
    Ok((Arc::new(integer), tables))
}

/// The program for as long as it is attached.
pub(super) struct KernelHalf {
    cutter: PacketCutter,
    tally: Arc<VerdictTally>,
    places: Vec<(String, CutPlace)>,
    /// What to know of frames that come by an `AF_XDP` socket.
    handed_over: Vec<String>,
    /// Where user space takes up a model.
    next: Arc<NextModel>,
    /// The model in force, and its tables.
    in_force: Mutex<(PacketModel, Arc<IntegerModel>)>,
}

impl Offload {
    /// Attaches to the interfaces, with the table in force.
    ///
    /// # Errors
    /// [`LogError::Failed`], with the kernel's reason.
    pub(super) fn attach(
        self,
        asked: &PacketModel,
        seed: HashSeed,
        interfaces: &[Interface],
        granularities: &[Granularity],
    ) -> Result<Judging, LogError> {
        check_interfaces(interfaces)?;
        let (integer, tables) = for_kernel(&asked.model).map_err(LogError::usage)?;
        let in_force = Mutex::new((asked.clone(), Arc::clone(&integer)));
        let table = table(1, granularities);
        let model = CutModel {
            bytes: &tables.bytes,
            layers: tables.layers,
            buckets: tables.buckets,
            window: tables.window,
            seed,
            secret: self.frames.secret,
        };
        let failed = |error: TapError| LogError::error(format_args!("--offload xdp: {error}"));
        let mut cutter = PacketCutter::load(&model, &table).map_err(failed)?;
        let hand_over = &self.frames.hand_over;
        if let Some(hand_over) = hand_over {
            cutter.hand_over(hand_over).map_err(failed)?;
        }
        let (mut places, mut handed_over) = (Vec::new(), Vec::new());
        for interface in interfaces {
            let place = cutter.attach(&interface.name).map_err(failed)?;
            if let Some(hand_over) = hand_over {
                if place == CutPlace::Driver {
                    hand_over.set_in_driver();
                }
                handed_over.extend(handed_over_lines(&interface.name));
            }
            places.push((interface.name.clone(), place));
        }
        let judge = KernelVerdicts::new(integer, seed, self.frames.secret);
        let (tally, next) = (judge.tally(), judge.next());
        let half = Arc::new(KernelHalf { cutter, tally, places, handed_over, next, in_force });
        Ok(Judging::Kernel(Box::new(judge), half))
    }
}

/// Refuses interfaces whose packets do not come with what the program puts in front of them.
fn check_interfaces(interfaces: &[Interface]) -> Result<(), LogError> {
    let refused = |why: &dyn Display| Err(LogError::usage(format_args!("--offload xdp: {why}")));
    if interfaces.iter().any(|interface| interface.link != LinkType::ETHERNET) {
        return refused(&"wanted an Ethernet interface");
    }
    match interfaces.len() {
        0 => refused(&"wanted one interface by its name, -i NAME"),
        1 => Ok(()),
        // Frames of several interfaces are copied into one order of time, without their notes.
        count => refused(&format_args!(
            "{count} interfaces; wanted one, as verdicts are lost where packets of several \
             interfaces are merged; try a run for each, or no offload"
        )),
    }
}

/// What to know of the frames of an interface that come by an `AF_XDP` socket.
fn handed_over_lines(name: &str) -> Vec<String> {
    let features = Features::open(name).and_then(|features| features.are_on(&TAKE_TAGS));
    let are_on = features.unwrap_or_default();
    let on = TAKE_TAGS.iter().zip(are_on).filter(|(_, is_on)| *is_on);
    let on: Vec<_> = on.map(|(feature, _)| *feature).collect();
    let first = format!("{name}: packets go to this command alone, by AF_XDP");
    std::iter::once(first).chain(tags_line(name, &on)).collect()
}

/// A warning, where the card takes tags out by these features.
fn tags_line(name: &str, features: &[&str]) -> Option<String> {
    let (seen, off) = (features.join(", "), features.join(" off "));
    (!features.is_empty()).then(|| {
        format!(
            "{name}: the card takes VLAN tags out of frames ({seen}), and they are not recorded; \
             try `ethtool -K {name} {off} off`"
        )
    })
}

/// The loss of packets of receive queues that have no socket.
fn queues_loss(name: &str, count: u64) -> Option<String> {
    (count > 0).then(|| {
        format!(
            "{name}: {count} packets are not in the log, as they came by other receive queues than \
             the first, which the interface did not have at the start; set it to one before the \
             next run: `ethtool -L {name} combined 1`"
        )
    })
}

impl KernelHalf {
    /// Whether it is another model than the one in force, which it then replaces in both halves,
    /// without detaching.
    ///
    /// # Errors
    /// Why it cannot: its classes, or the sums that it is computed of, are others.
    pub(super) fn take_up(&self, asked: &PacketModel) -> Result<bool, String> {
        let mut in_force = self.in_force.lock().unwrap_or_else(PoisonError::into_inner);
        let (before, tables) = &*in_force;
        if before.sha256 == asked.sha256 {
            return Ok(false);
        }
        let refused = |why: &dyn Display| {
            let (asked, before) = (&asked.sha256, &before.sha256);
            format!("model {asked} cannot replace {before} during a run: {why}")
        };
        if asked.model.classes() != before.model.classes() {
            return Err(refused(&"it has other classes"));
        }
        let (integer, kernel) = for_kernel(&asked.model).map_err(|why| refused(&why))?;
        integer.check_replaces(tables).map_err(|why| refused(&why))?;
        self.next.put(Arc::clone(&integer));
        self.cutter.control().put_model(&kernel.bytes);
        *in_force = (asked.clone(), integer);
        Ok(true)
    }

    /// Both halves as the desk sees them.
    pub(super) fn control(
        &self,
        switch: Arc<Switch>,
        table: &[Granularity],
    ) -> Arc<dyn KernelControl> {
        let kernel = Mutex::new(Kernel { generation: 1, in_force: table.to_vec(), next: None });
        Arc::new(Halves { control: self.cutter.control(), switch, kernel })
    }

    /// What is said before the first packet.
    pub(super) fn begin_lines(&self) -> Vec<String> {
        let line = |(name, place): &(String, CutPlace)| match place {
            CutPlace::Driver => {
                format!("{name}: packets are classified and truncated in the driver")
            }
            CutPlace::Stack(refusal) => format!(
                "{name}: packets are classified and truncated in the network stack, after they \
                 were copied once: the driver refuses the program: {refusal}"
            ),
        };
        self.places.iter().map(line).chain(self.handed_over.iter().cloned()).collect()
    }

    /// The outcome of packets, for events and closing lines.
    pub(super) fn status(&self) -> Value {
        let counts = self.cutter.control().counts();
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        json!({
            "seen": counts.seen,
            "classified": counts.judged,
            "classified_bytes": counts.bytes,
            "truncated_bytes": counts.cut_bytes,
            "left_whole": {
                "other_network": counts.other_network,
                "other_header": counts.other_header,
                "other_transport": counts.other_transport,
                "long": counts.long,
                "no_room": counts.no_room,
            },
            "other_queue": counts.other_queue,
            "refused_keys": counts.refused,
            "received_with_class": of(&self.tally.by_kernel),
            "received_whole": of(&self.tally.by_user),
        })
    }

    /// Packets that passed the program and reached no one who stores them.
    pub(super) fn loss(&self) -> Option<String> {
        let (name, _) = self.places.first()?;
        queues_loss(name, self.cutter.control().counts().other_queue)
    }

    /// A closing line.
    #[allow(clippy::cast_precision_loss)]
    pub(super) fn line(&self) -> String {
        let counts = self.cutter.control().counts();
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let share = 100.0 * counts.cut_bytes as f64 / counts.bytes.max(1) as f64;
        let other_queue = match counts.other_queue {
            0 => String::new(),
            count => format!("; {count} of other receive queues not received"),
        };
        format!(
            "in the kernel: {} packets classified, {share:.1} % of their bytes truncated; \
             {} classified in user space{other_queue}\n",
            of(&self.tally.by_kernel),
            of(&self.tally.by_user),
        )
    }
}

/// The program and the pipeline under one control.
///
/// What the kernel has cut cannot be put back: for a change it first keeps what either table does,
/// and follows the new one alone when the pipeline does.
#[derive(Debug)]
pub(super) struct Halves {
    control: Arc<CutControl>,
    switch: Arc<Switch>,
    kernel: Mutex<Kernel>,
}

#[derive(Debug)]
struct Kernel {
    generation: u32,
    in_force: Vec<Granularity>,
    /// What it follows once the pipeline holds this generation.
    next: Option<(u64, Vec<Granularity>)>,
}

impl Halves {
    fn put(&self, kernel: &mut Kernel, granularities: Vec<Granularity>) {
        kernel.generation = kernel.generation.wrapping_add(1);
        self.control.put_table(&table(kernel.generation, &granularities));
        kernel.in_force = granularities;
    }

    fn settle(&self) {
        let mut kernel = self.kernel.lock().unwrap_or_else(PoisonError::into_inner);
        if kernel.next.as_ref().is_some_and(|&(generation, _)| self.switch.holds(generation))
            && let Some((_, granularities)) = kernel.next.take()
        {
            self.put(&mut kernel, granularities);
        }
    }
}

impl KernelControl for Halves {
    fn ask(&self, mode: &str, granularities: Vec<Granularity>) -> u64 {
        let mut kernel = self.kernel.lock().unwrap_or_else(PoisonError::into_inner);
        let either = kernel
            .in_force
            .iter()
            .zip(&granularities)
            .map(|(one, other)| if payload(*one) >= payload(*other) { *one } else { *other });
        let either = either.collect();
        self.put(&mut kernel, either);
        let generation = self.switch.ask(mode, granularities.clone());
        kernel.next = Some((generation, granularities));
        generation
    }

    fn in_force(&self) -> u64 {
        self.settle();
        self.switch.in_force()
    }

    /// Settled after it was asked: who hears that it holds asks no more.
    fn holds(&self, generation: u64) -> bool {
        let holds = self.switch.holds(generation);
        self.settle();
        holds
    }
}

/// Bytes of payload that are left; all of them are more than any number.
fn payload(granularity: Granularity) -> u64 {
    match granularity.keep {
        Keep::Full => u64::MAX,
        Keep::Partial(bytes) => bytes.into(),
        // Headers say of which flow it is, also of a packet that is only counted.
        Keep::Header | Keep::Nothing => 0,
    }
}

fn table(generation: u32, granularities: &[Granularity]) -> CutTable {
    let mut left = [None; CUT_CLASSES_MAX];
    for (left, &granularity) in left.iter_mut().zip(granularities) {
        *left = u32::try_from(payload(granularity)).ok();
    }
    CutTable { generation, payload: left }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_interface_that_is_ethernet_is_taken() {
        let named = |name: &str, link| {
            let name = name.to_owned();
            Interface { link, name, ..Interface::default() }
        };
        let ethernet = named("eth0", LinkType::ETHERNET);
        let refusal = |interfaces: &[Interface]| {
            check_interfaces(interfaces).map_err(|error| error.to_string()).err()
        };
        assert_eq!(refusal(std::slice::from_ref(&ethernet)), None);
        let wanted = [
            (vec![], "wanted one interface by its name, -i NAME"),
            (vec![named("tun0", LinkType::RAW)], "wanted an Ethernet interface"),
            (vec![ethernet.clone(), named("eth1", LinkType::ETHERNET)], "2 interfaces; wanted one"),
        ];
        for (interfaces, wanted) in wanted {
            let text = refusal(&interfaces).unwrap();
            assert!(text.contains(wanted), "{text}");
        }
    }

    #[test]
    fn each_feature_that_takes_tags_out_is_named() {
        assert_eq!(tags_line("eth0", &[]), None);
        let text = tags_line("eth0", &TAKE_TAGS[1..]).unwrap();
        assert!(text.contains("(rx-vlan-stag-hw-parse)"), "{text}");
        let text = tags_line("eth0", &TAKE_TAGS).unwrap();
        let wanted = "`ethtool -K eth0 rx-vlan-hw-parse off rx-vlan-stag-hw-parse off`";
        assert!(text.ends_with(wanted), "{text}");
    }

    #[test]
    fn packets_of_other_queues_are_a_loss() {
        assert_eq!(queues_loss("eth0", 0), None);
        let text = queues_loss("eth0", 3).unwrap();
        assert!(text.starts_with("eth0: 3 packets are not in the log"), "{text}");
    }
}
