//! `packetlog` on a pass that others share.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use capture::live::CutFrames;
use engine::columns::Schema;
use engine::flow::pass::{FaultScope, LabelKind, LabelUse, Labels, Lens, Piece};
use engine::group::Outcome;
use packet::{Batch, Span, Timestamp, must};
use serde::Deserialize;
use store::packets::PacketLog;

use super::offload::Offload;
use super::recording::{Ask, Recording, RunOf};
use super::search::{LogSearch, RecorderPlace};
use super::settings::Settings;
use super::{
    FileSettings, HINDSIGHT_BYTES, HindsightSettings, Means, NEEDS, Reach, metrics,
    read_calibration, read_model,
};
use crate::application::{
    Application, Closing, Counting, Opening, Refusal, Replacement, Site, Wants, Watcher, Watchers,
};
use crate::done::RunTotals;
use crate::reading::OpenSources;
use crate::rules::{Act, Following};
use crate::written;

/// Folder of a log, unless another is given.
const FOLDER: &str = "packetlog";

/// Settings of `packetlog`.
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct RecordSettings {
    /// Folder of the log; created if it does not exist, otherwise continued.
    pub output: PathBuf,
    /// Folder of a model, or the name of one that ships.
    pub model: PathBuf,
    /// A file of `wirelens packetlog calibrate`, for this model.
    pub calibration: Option<PathBuf>,
    /// The mode to begin in.
    pub mode: String,
    /// A file with modes, priorities and limits of one's own.
    pub settings: Option<PathBuf>,
    /// Keep the chosen mode under resource pressure.
    pub fixed_mode: bool,
    /// Add events to this file.
    pub events: Option<PathBuf>,
    /// How the log is written.
    pub log: FileSettings,
    /// How long packets wait in memory before they are truncated; not at all if none.
    #[serde(deserialize_with = "written::duration_if_any")]
    pub hindsight: Option<Span>,
    /// Bytes of waiting packets at most.
    #[serde(deserialize_with = "written::bytes")]
    pub hindsight_bytes: u64,
    /// What is stored like a packet that is classified as anomalous.
    #[serde(deserialize_with = "written::choice")]
    pub hindsight_reach: Reach,
    /// Who classifies and truncates packets, if not user space.
    #[serde(deserialize_with = "written::choice_if_any")]
    pub offload: Option<Means>,
    /// The interfaces receive mirrored traffic alone.
    pub mirror: bool,
}

impl Default for RecordSettings {
    fn default() -> Self {
        Self {
            output: PathBuf::from(FOLDER),
            model: PathBuf::from("packetlog"),
            calibration: None,
            mode: String::from("default"),
            settings: None,
            fixed_mode: false,
            events: None,
            log: FileSettings::default(),
            hindsight: None,
            hindsight_bytes: HINDSIGHT_BYTES,
            hindsight_reach: Reach::Flow,
            offload: None,
            mirror: false,
        }
    }
}

/// Packets kept as their class deserves.
pub struct Packetlog {
    ask: Ask,
    /// As [`Closing::key`].
    key: &'static str,
}

impl Packetlog {
    /// For a front door that has this application alone: its own lines account for every packet.
    #[must_use]
    pub fn of(ask: Ask) -> Self {
        Self { ask, key: "" }
    }
}

impl Application for Packetlog {
    const NAME: &'static str = "packetlog";
    const ABOUT: &'static str = "Selective packet recording by class, in a searchable log";
    const EXAMPLE: &'static str = "\
# Folder of the log; created if it does not exist, otherwise continued.
# output = \"packetlog\"
# Folder of a model of `wirelens train packetlog`, or the name of a shipped model.
# model = \"packetlog\"
# Thresholds for this site, a file of `wirelens packetlog calibrate` with the same model.
# calibration = \"calibration.json\"
# Initial mode: default, log-all, log-partial, log-sampled, log-minimum, or one of your own.
# mode = \"default\"
# A file with your own modes, priorities and limits, in TOML.
# settings = \"log.toml\"
# Keep the mode under resource pressure.
# fixed-mode = false
# Another file for events than events.jsonl in the log's folder.
# events = \"events.jsonl\"
# How the log is written: file-bytes, file-time, keep-bytes, keep-time, when-full, direct,
# block-bytes, blocks, flush, sync, group-readable, notes, encoding, compress, anchor.
# log = { keep-bytes = \"500G\", when-full = \"overwrite\" }
# How long packets wait in memory, so that a flow is stored like its first anomalous packet.
# hindsight = \"2s\"
# Memory for waiting packets.
# hindsight-bytes = \"256M\"
# flow, or host: then also all waiting packets of the host that sent the packet.
# hindsight-reach = \"flow\"
# Classify and truncate packets in the kernel, on interfaces that receive mirrored traffic alone.
# offload = \"xdp\"
# mirror = true
";
    const HAS_ROWS: bool = false;

    type Settings = RecordSettings;

    fn ready(settings: RecordSettings, site: &Site<'_>) -> Result<Self, Refusal> {
        let offload = offload(&settings, site)?;
        let RecordSettings { hindsight, hindsight_bytes, hindsight_reach, .. } = settings;
        let calibration = settings.calibration.clone();
        let hindsight =
            HindsightSettings { time: hindsight, bytes: hindsight_bytes, reach: hindsight_reach };
        hindsight.options().map_err(|(key, wanted)| Refusal::of(key, wanted))?;
        let RecordSettings { output, model, mode, settings, fixed_mode, events, log, .. } =
            settings;
        let model = Offload::model(offload.as_ref(), &model);
        let model_name = model.display().to_string();
        let model = read_model(model).map_err(|error| Refusal::of("model", error))?;
        let calibration = calibration.map(|path| read_calibration(&path, &model)).transpose();
        let calibration = calibration.map_err(|why| Refusal::of("calibration", why))?;
        let own = Settings::read(settings.as_deref());
        let own = own.map_err(|error| Refusal::of("settings", error))?;
        if !(2..=4096).contains(&log.blocks) {
            return Err(Refusal::of("log", "blocks: wanted 2 to 4096"));
        }
        if log.compress.is_some_and(|level| !(1..=19).contains(&level)) {
            return Err(Refusal::of("log", "compress: wanted 1 to 19"));
        }
        let ask = Ask {
            folder: output,
            model,
            model_name,
            calibration,
            mode,
            settings: own,
            files: log,
            hindsight,
            is_fixed: fixed_mode,
            offload,
            events,
            place: RecorderPlace::default(),
        };
        Offload::check(&ask).map_err(|why| Refusal::of("offload", why))?;
        ask.check_modes().map_err(|error| {
            let message = error.to_string();
            Refusal::of("mode", message.strip_prefix("--mode: ").unwrap_or(&message))
        })?;
        Ok(Self { ask, key: "a class" })
    }

    fn log_folder(&self) -> Option<&Path> {
        Some(&self.ask.folder)
    }

    fn log_search(&self) -> Option<Arc<dyn PacketLog>> {
        let log = LogSearch::new(self.ask.folder.clone());
        Some(Arc::new(log.with_recorder(self.ask.place.clone())))
    }

    fn wants(&self) -> Wants {
        Wants::frames(NEEDS)
    }

    fn schema(&self, _: bool) -> Schema {
        &[]
    }

    fn gives(&self) -> Vec<(LabelKind, Vec<String>)> {
        vec![(LabelKind::Anomaly, self.ask.model.model.classes().to_vec())]
    }

    fn replacement(&self) -> Option<Replacement> {
        self.ask.offload.as_ref().map(|_| Arc::new(self.ask.model.clone()) as Replacement)
    }

    fn cut_frames(&self) -> Option<CutFrames> {
        self.ask.offload.as_ref().map(Offload::frames)
    }

    fn open(self, opening: Opening) -> Result<Watchers, Refusal> {
        let Opening { seed, progress, control, clock, is_live, rules, read_labels, .. } = opening;
        let is_told = opening.tell.filter(|_| is_live);
        let run = RunOf {
            seed,
            progress,
            control: Arc::clone(&control),
            clock,
            is_live,
            tell: is_told,
            tell_recovered: opening.tell,
            tell_drift: opening.tell,
            drills: opening.drills,
        };
        let recording = Recording::begin(self.ask, run, opening.interfaces);
        let recording = recording.map_err(Refusal::new)?;
        let replace = recording.replacing();
        let desk = recording.desk();
        let counting: Counting = Box::new(move || metrics::counts(&desk.status()));
        let gives = read_labels.contains(&LabelKind::Anomaly);
        let rules = Following::new(&rules);
        let (key, steered) = (self.key, Vec::new());
        let watching = Watching { recording, rules, gives, steered, control, key };
        Ok(Watchers { counting: Some(counting), replace, ..watching.into() })
    }
}

/// Who classifies and truncates, if not user space.
fn offload(settings: &RecordSettings, site: &Site<'_>) -> Result<Option<Offload>, Refusal> {
    let Some(means) = settings.offload else {
        let why = "has no effect without offload = \"xdp\" or \"af-xdp\"; leave it out";
        return if settings.mirror { Err(Refusal::of("mirror", why)) } else { Ok(None) };
    };
    if !site.is_live {
        return Err(Refusal::of("offload", "needs packets of an interface; leave it out"));
    }
    Offload::new(means, settings.mirror).map(Some).map_err(|why| Refusal::of("offload", why))
}

/// Says that frames of several packets will come, and what becomes of them.
#[must_use]
pub fn offloads_line(opened: &OpenSources) -> Option<String> {
    let OpenSources::Live(sources) = opened else { return None };
    let name = sources.first()?.name();
    let offloads = capture::sys::interfaces::offloads(name).unwrap_or_default();
    (!offloads.is_empty()).then(|| {
        format!(
            "{name}: offloads are on ({}), so one frame may hold many packets; it is classified as \
             those packets, and stored as one",
            offloads.join(", ")
        )
    })
}

/// The lens: packets are judged with their flows at hand, and kept as rules say.
struct Watching {
    recording: Recording,
    rules: Following,
    /// Whether somebody reads which flows are out of the ordinary.
    gives: bool,
    /// Of each packet of the piece at hand, where its flow is in the piece.
    steered: Vec<usize>,
    control: Arc<engine::run::Control>,
    key: &'static str,
}

/// The place of a packet without a flow.
const NO_FLOW: usize = usize::MAX;

impl Lens for Watching {
    fn labels(&self) -> LabelUse {
        let mut reads = self.rules.rules().reads(|act| matches!(act, Act::Keep(_)));
        // What it says itself it need not wait for.
        reads.retain(|kind| *kind != LabelKind::Anomaly);
        let gives = if self.gives { vec![LabelKind::Anomaly] } else { Vec::new() };
        LabelUse { reads, gives }
    }

    fn on_piece(&mut self, piece: &Piece<'_>, labels: &mut Labels) {
        self.rules.look();
        let batch = piece.as_batch();
        if !self.gives && !self.rules.rules().steers_keeping() {
            return self.recording.take_in(&batch);
        }
        let judged = self.recording.judge(&batch);
        if self.gives {
            for (place, (&record, &slot)) in piece.places.iter().zip(piece.slots).enumerate() {
                let judged = must(judged.get(record - piece.records.start), "a packet is judged");
                // Once out of the ordinary, a flow stays so.
                if let Some(judged) = judged.filter(|judged| judged.class > 0)
                    && labels.of(LabelKind::Anomaly, slot, place) != Some(judged.class)
                {
                    labels.give(LabelKind::Anomaly, slot, place, judged.class);
                }
            }
        }
        let rules = self.rules.rules();
        if !rules.steers_keeping() {
            return self.recording.keep(&batch, |_| None);
        }
        self.steered.clear();
        self.steered.resize(batch.records.len(), NO_FLOW);
        for (place, &record) in piece.places.iter().enumerate() {
            if let Some(steered) = self.steered.get_mut(record - piece.records.start) {
                *steered = place;
            }
        }
        let steered = &self.steered;
        self.recording.keep(&batch, |at| {
            let place = *steered.get(at).filter(|&&place| place != NO_FLOW)?;
            rules.keep(labels, *must(piece.slots.get(place), "a steered packet has a slot")?, place)
        });
    }

    fn on_tick(&mut self, time: Timestamp) {
        self.recording.take_in(&Batch { bytes: &[], records: &[], tick: Some(time) });
    }

    /// What is recorded stays so. What the classifier keeps of hosts and flows is bounded and grows
    /// old by itself, and the account at the end says whether a packet was lost on its way.
    fn on_fault(&mut self, _: &FaultScope<'_>) -> bool {
        true
    }

    fn outcome(&self) -> Option<Outcome> {
        Some(Outcome { keyed: self.recording.seen(), ..Outcome::default() })
    }
}

impl Watcher for Watching {
    fn name(&self) -> &'static str {
        Packetlog::NAME
    }

    fn close(self: Box<Self>, _: &RunTotals) -> Result<Closing, Refusal> {
        let was_cut = self.control.is_stopped();
        let recorded = self.recording.finish(was_cut).map_err(Refusal::new)?;
        let loss = recorded.check_losses().err().map(|error| error.to_string());
        recorded.check_account().map_err(Refusal::new)?;
        let outcome = Outcome { keyed: recorded.tally.seen, ..Outcome::default() };
        let (key, lines) = (self.key, recorded.lines());
        Ok(Closing { outcome, key, lines, loss, ..Closing::default() })
    }
}
