//! A trained cascade, as the artifact has it: models, thresholds, classes, and what flows are.

mod calibration;
mod card;
mod names;
mod object;
#[cfg(feature = "onnx")]
mod onnx;
mod read;
mod reason;
mod remembers;

pub use card::Card;
pub use model::sums::SUMS_FILE;
pub use names::StageNames;
pub use read::{CASCADE_FILE, CASCADE_LEN_MAX};
pub use reason::CascadeError;

use std::fmt;
use std::sync::Arc;

use model::{Device, FlowFeatures, Forest, WindowFeatures};
use packet::Span;

use crate::evidence::{Evidence, NameList};
use crate::memory::MemoryRule;
use crate::uncertainty::{Answer, Uncertainty};
use crate::verdict::{Label, UNKNOWN};
use calibration::Calibration;

/// The place of a model in a cascade.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
pub enum StageName {
    /// Asked of every flow.
    Fastest,
    /// Asked where the first was unsure, mostly of the same packet.
    Fast,
    /// Asked last, of more packets.
    Slow,
}

impl StageName {
    /// All, in order.
    pub const ALL: [Self; 3] = [Self::Fastest, Self::Fast, Self::Slow];

    /// The word in the artifact and in the output.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Fastest => "fastest",
            Self::Fast => "fast",
            Self::Slow => "slow",
        }
    }
}

impl fmt::Display for StageName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What a flow was in training; one that is cut otherwise is another flow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FlowTimeouts {
    /// A flow ends after so long without a packet.
    pub idle: Span,
    /// One this old is cut.
    pub active: Span,
}

/// Whether packets of the training were as they are on the wire.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Segmentation {
    /// Every packet was one segment.
    Single,
    /// Some were several that an offload had merged.
    Merged,
}

/// One kind of model; other kinds than trees can be added.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Model {
    /// Trees on header bits and numbers.
    Trees(Box<Forest>),
    /// Anything that ONNX Runtime runs on them.
    #[cfg(feature = "onnx")]
    Onnx(model::onnx::OnnxFile),
}

/// A model and when its answer is enough.
#[derive(Clone, Debug)]
pub struct Stage {
    pub(crate) name: StageName,
    pub(crate) family: String,
    pub(crate) features: FlowFeatures,
    /// Of a cascade for windows.
    pub(crate) window: Option<WindowFeatures>,
    pub(crate) model: Model,
    pub(crate) uncertainty: Uncertainty,
    /// By class; none of the last stage, whose answer stands.
    pub(crate) thresholds: Vec<f64>,
    /// By class; none where the model's probabilities are reported as they are.
    pub(crate) calibrations: Vec<Calibration>,
    /// What it makes of names, where the cascade has a list of them.
    pub(crate) names: Option<StageNames>,
    /// The class of flows of no other, if there is one.
    pub(crate) unknown: Option<u16>,
}

/// A cascade, checked.
#[derive(Clone, Debug)]
pub struct Cascade {
    pub(crate) name: String,
    pub(crate) id: String,
    pub(crate) classes: Vec<String>,
    pub(crate) flows: FlowTimeouts,
    pub(crate) wait: Span,
    pub(crate) segmentation: Segmentation,
    /// By class: answers with a lower confidence are not reported.
    pub(crate) unknown_below: Vec<f64>,
    /// Whether protocols without ports name their flows.
    pub(crate) names_protocols: bool,
    pub(crate) features: FlowFeatures,
    /// How long windows are, where it is asked about windows.
    pub(crate) every: Option<Span>,
    /// Then what has to be kept of a flow for all stages.
    pub(crate) window: Option<WindowFeatures>,
    /// Of which class names are, where they are evidence.
    pub(crate) names: Option<Arc<NameList>>,
    /// How hosts are in memory, if they are.
    pub(crate) memory: Option<MemoryRule>,
    /// What it was trained and judged on.
    pub(crate) card: Card,
    pub(crate) stages: Vec<Stage>,
}

impl Model {
    /// Whether it is computed on the device from here on.
    #[cfg_attr(not(feature = "onnx"), allow(clippy::unnecessary_wraps, unused_variables))]
    fn moves_to(&mut self, device: Device) -> Result<bool, String> {
        match self {
            Self::Trees(_) => Ok(false),
            #[cfg(feature = "onnx")]
            Self::Onnx(file) => {
                *file = file.clone().on(device).map_err(|error| error.to_string())?;
                Ok(true)
            }
        }
    }

    /// How many classes it distinguishes.
    pub(crate) fn class_count(&self) -> usize {
        match self {
            Self::Trees(forest) => forest.classes().len(),
            #[cfg(feature = "onnx")]
            Self::Onnx(file) => file.wiring().class_count,
        }
    }
}

impl Stage {
    /// Its place.
    #[must_use]
    pub const fn name(&self) -> StageName {
        self.name
    }

    /// What kind of model it is, for people.
    #[must_use]
    pub fn family(&self) -> &str {
        &self.family
    }

    /// What it is shown of a flow.
    #[must_use]
    pub const fn features(&self) -> &FlowFeatures {
        &self.features
    }

    /// What it is shown of a window, where it is asked about windows; then
    /// [`features`](Self::features) are those of the window's packets.
    #[must_use]
    pub const fn window(&self) -> Option<&WindowFeatures> {
        self.window.as_ref()
    }

    /// The model.
    #[must_use]
    pub const fn model(&self) -> &Model {
        &self.model
    }

    /// Whether a library computes it, which may fail: trees do not.
    #[must_use]
    pub const fn may_fail(&self) -> bool {
        match &self.model {
            Model::Trees(_) => false,
            #[cfg(feature = "onnx")]
            Model::Onnx(_) => true,
        }
    }

    /// How its uncertainty is measured.
    #[must_use]
    pub const fn uncertainty(&self) -> Uncertainty {
        self.uncertainty
    }

    /// What it makes of names, where the cascade has a list of them.
    #[must_use]
    pub const fn names(&self) -> Option<&StageNames> {
        self.names.as_ref()
    }

    /// Adds what names say to these probabilities, one a class.
    pub(crate) fn mix_names(&self, probabilities: &mut [f64], evidence: &Evidence) {
        if let Some(names) = &self.names {
            names.weights.mix(probabilities, evidence);
        }
    }

    /// What these probabilities, one a class, come to: the confidence is calibrated, the
    /// uncertainty is the model's own.
    #[must_use]
    pub fn answer(&self, probabilities: &[f64]) -> Answer {
        let mut answer = self.uncertainty.answer(probabilities);
        if self.unknown == Some(answer.label) {
            let names = (0..).zip(probabilities).filter(|&(class, _)| class != answer.label);
            (answer.guess, answer.confidence) = names.fold((0, f64::NEG_INFINITY), |best, one| {
                if *one.1 > best.1 { (one.0, *one.1) } else { best }
            });
        }
        let calibration = self.calibrations.get(usize::from(answer.guess));
        let confidence = calibration.map_or(answer.confidence, |one| one.of(answer.confidence));
        Answer { confidence, ..answer }
    }

    /// Whether this answer of it is enough: always that of the last stage, else one that is no more
    /// uncertain than the threshold of its class.
    #[must_use]
    pub fn is_enough(&self, answer: &Answer) -> bool {
        let threshold = self.thresholds.get(usize::from(answer.label));
        threshold.is_none_or(|&threshold| answer.uncertainty <= threshold)
    }
}

impl Cascade {
    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its name and the beginning of a hash of every file that answers depend on.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Names of the classes, by label.
    #[must_use]
    pub fn classes(&self) -> &[String] {
        &self.classes
    }

    /// The name of a class.
    #[must_use]
    pub fn class(&self, label: u16) -> &str {
        self.classes.get(usize::from(label)).map_or("", String::as_str)
    }

    /// What a flow is called of which this was answered: a class, unless the answer is less
    /// confident than the class has to be, or the class is that of flows of no other.
    #[must_use]
    pub fn label(&self, answer: &Answer) -> Label {
        let guess = answer.guess;
        let below = self.unknown_below.get(usize::from(guess)).copied().unwrap_or(0.0);
        // A model that failed has no answer, whatever the threshold: not that of the first class.
        let is_unknown =
            answer.is_none() || answer.confidence < below || self.class(answer.label) == UNKNOWN;
        if is_unknown { Label::Unknown(guess) } else { Label::Class(guess) }
    }

    /// Calls flows unknown whose answer is less confident than this, of whatever class, in place
    /// of what the artifact says; 0 gives every flow a class.
    #[must_use]
    pub fn with_unknown_below(mut self, below: f64) -> Self {
        self.unknown_below.fill(below);
        self
    }

    /// The number of the class `unknown`, which flows of no other class had in training.
    pub(crate) fn unknown_class(&self) -> Option<u16> {
        let place = self.classes.iter().position(|class| class == UNKNOWN)?;
        u16::try_from(place).ok()
    }

    /// Whether some answers are not confident enough to be reported.
    #[must_use]
    pub fn tells_unknown(&self) -> bool {
        self.unknown_below.iter().any(|&below| below > 0.0) || self.unknown_class().is_some()
    }

    /// Whether protocols without ports, all but TCP and UDP, name their flows, so that no model is
    /// asked about these.
    #[must_use]
    pub const fn names_protocols(&self) -> bool {
        self.names_protocols
    }

    /// What it was trained and judged on, as far as it says so.
    #[must_use]
    pub const fn card(&self) -> &Card {
        &self.card
    }

    /// When flows end.
    #[must_use]
    pub const fn flows(&self) -> FlowTimeouts {
        self.flows
    }

    /// How long an undecided flow waits for packets.
    #[must_use]
    pub const fn wait(&self) -> Span {
        self.wait
    }

    /// Whether packets of the training were merged.
    #[must_use]
    pub const fn segmentation(&self) -> Segmentation {
        self.segmentation
    }

    /// What has to be kept of a flow for all stages.
    #[must_use]
    pub const fn features(&self) -> &FlowFeatures {
        &self.features
    }

    /// How long windows are, where the cascade is asked about flows in windows, again and again;
    /// else it is asked once about each flow.
    #[must_use]
    pub const fn every(&self) -> Option<Span> {
        self.every
    }

    /// What has to be kept of a flow for all stages, where these are asked about windows.
    #[must_use]
    pub const fn window(&self) -> Option<&WindowFeatures> {
        self.window.as_ref()
    }

    /// Of which class names are, where it takes them for evidence.
    #[must_use]
    pub fn names(&self) -> Option<&NameList> {
        self.names.as_deref()
    }

    /// Whether a verdict depends on its flow alone: not on what DNS answered on another, nor on
    /// the flows of its host before.
    #[must_use]
    pub const fn is_by_flow(&self) -> bool {
        self.names.is_none() && self.memory.is_none()
    }

    /// How hosts are in memory, if they are.
    #[must_use]
    pub const fn memory(&self) -> Option<&MemoryRule> {
        self.memory.as_ref()
    }

    /// Packets of a flow that are examined, at most.
    #[must_use]
    pub fn packets(&self) -> usize {
        let names = self.stages.iter().filter_map(|stage| stage.names.as_ref());
        names.map(|names| names.packets).fold(self.features.packets(), usize::max)
    }

    /// The stages, in the order in which they are asked; at least one.
    #[must_use]
    pub fn stages(&self) -> &[Stage] {
        &self.stages
    }

    /// The same, with its stages in ONNX computed on a device; trees stay on processors.
    ///
    /// # Errors
    /// What was wanted, where it has no such stage or the device does not answer.
    pub fn on(mut self, device: Device) -> Result<Self, String> {
        let mut is_used = false;
        for stage in &mut self.stages {
            is_used |= stage.model.moves_to(device)?;
        }
        match (is_used, device) {
            (false, Device::Cuda { .. }) => Err(format!(
                "{}: {device}: no stage is in ONNX, and trees are computed on processors; wanted: \
                 a model with a network",
                self.name
            )),
            _ => Ok(self),
        }
    }
}
