//! `classify` on a pass that others share.

use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::sync::Arc;

use bus::Escalations;
use classify::{
    Cascade, Cause, Counts, HostVerdict, Label, Options, UNKNOWN, WindowClassifier, drift,
};
use engine::columns::Schema;
use engine::flow::pass::{LabelKind, Now};
use engine::run::Control;
use names::counts::Counts as NameCounts;
use packet::{Protocol, Span};
use serde::Deserialize;

use super::counted::counts;
use super::drift::DriftWatch;
use super::escalated::{DEADLINE, UNDER_WAY_MAX, WorkerStages};
use super::failing::FailureWatch;
use super::lens::Flows;
use super::naming::NamedClassifier;
use super::out::{By, Part, VerdictView, Ways, no_memory, schema};
use super::serving::{MakeClassifier, MarkVerdicts, ModelVerdicts, Serving};
use super::versions::ModelVersions;
use super::{account_for, lines, of_model, read};
use crate::application::{
    Application, Closing, Count, Counting, Framing, FramingLens, Opening, Refusal, Replacement,
    Site, Wants, Watcher, Watchers,
};
use crate::choice::{Choice, choice};
use crate::done::RunTotals;
use crate::names_read;
use crate::outside::Outside;
use crate::published::duration;
use crate::rules::Following;
use crate::{KEY_COUNTS, worker, written};

choice! {
    /// What a model's classes are.
    Classes: "kind of class" {
        Service = "service", "Services";
        Device = "device", "Devices, by what they are";
    }
}

/// Settings of `classify`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Settings {
    /// Folder of a trained cascade, or the name of a shipped model.
    pub model: Option<PathBuf>,
    /// What its classes are, for rules; by the model's name where it is left out.
    #[serde(deserialize_with = "choice_if_any")]
    pub classes: Option<Classes>,
    /// Label a flow unknown below this probability, whatever the model says.
    pub unknown_below: Option<f64>,
    /// Flows that wait for more packets at most.
    pub waiting_max: Option<usize>,
    /// Flows kept at most.
    pub max_flows: Option<usize>,
    /// What each row describes; a flow where it is left out.
    #[serde(deserialize_with = "choice_if_any")]
    pub by: Option<By>,
    /// Hosts that a model with a memory of them remembers at most.
    pub hosts_max: Option<usize>,
    /// Whether workers over NATS compute the stages after the first.
    pub workers: bool,
    /// They have to answer within this time, or the last answer before stands.
    #[serde(deserialize_with = "written::duration_if_any")]
    pub deadline: Option<Span>,
    /// Rows under way to them at most.
    pub under_way_max: Option<usize>,
    /// Flows of a window that is compared with the first ones of the run; 0 compares none.
    pub drift_flows: Option<u64>,
}

fn choice_if_any<'de, D, T>(from: D) -> Result<Option<T>, D::Error>
where
    D: serde::Deserializer<'de>,
    T: Choice,
{
    written::choice(from).map(Some)
}

/// What flows are, from their first packets.
pub struct Classify {
    cascade: Arc<Cascade>,
    kind: LabelKind,
    options: Options,
    flow_count_max: Option<usize>,
    by: By,
    shown: VerdictView,
    /// How workers compute the stages after the first, if they do.
    workers: Option<Workers>,
    /// Flows of a window that is compared with the first ones; none where none is.
    drift_flows: Option<u64>,
    /// Whether its closing lines say of flows how they ended, which else `flows` does.
    tells_flows: bool,
}

/// How workers are asked.
#[derive(Clone, Copy)]
struct Workers {
    deadline: Span,
    under_way_max: usize,
}

impl Workers {
    /// As the settings have it, if they do.
    fn of(settings: &Settings, cascade: &Cascade) -> Result<Option<Self>, Refusal> {
        let Settings { workers, deadline, under_way_max, .. } = settings;
        if !workers {
            return match (deadline, under_way_max) {
                (None, None) => Ok(None),
                (Some(_), _) => Err(Refusal::of("deadline", WITHOUT_WORKERS)),
                (_, Some(_)) => Err(Refusal::of("under-way-max", WITHOUT_WORKERS)),
            };
        }
        if let Some(why) = worker::refusal(cascade) {
            return Err(Refusal::of("workers", why));
        }
        let deadline = deadline.unwrap_or(DEADLINE);
        if !(Span::from_ns(1_000_000)..=Span::from_seconds(60)).contains(&deadline) {
            return Err(Refusal::of("deadline", "wanted 1ms to 1min"));
        }
        let under_way_max = under_way_max.unwrap_or(UNDER_WAY_MAX);
        if !(1..=1 << 20).contains(&under_way_max) {
            return Err(Refusal::of("under-way-max", "wanted 1 to 1048576"));
        }
        Ok(Some(Self { deadline, under_way_max }))
    }

    /// The later stages of a model, for one of so many threads that share the flows.
    fn stages(
        self,
        to: &Arc<Escalations>,
        cascade: &Cascade,
        part_count: usize,
        control: &Control,
    ) -> WorkerStages {
        let rows_max = self.under_way_max.div_ceil(part_count);
        let model = (cascade.id(), cascade.classes().len());
        WorkerStages::new(to.asker(model, duration(self.deadline), rows_max, control.flag()))
    }
}

/// Fewer flows differ by chance.
const DRIFT_FLOWS: RangeInclusive<u64> = 100..=10_000_000;

const WITHOUT_WORKERS: &str = "has no effect without workers = true";

impl Classify {
    /// For a front door, which may show verdicts as they come: those that rows are of, by a model
    /// that has a memory of hosts where rows are of these. What is found as a whole is [`Totals`].
    #[must_use]
    pub const fn shown_by(
        cascade: Arc<Cascade>,
        options: Options,
        flow_count_max: usize,
        by: By,
        shown: VerdictView,
    ) -> Self {
        let (kind, flow_count_max) = (LabelKind::Service, Some(flow_count_max));
        let (workers, drift_flows, tells_flows) = (None, Some(drift::FLOWS_DEFAULT), true);
        Self {
            cascade,
            kind,
            options,
            flow_count_max,
            by,
            shown,
            workers,
            drift_flows,
            tells_flows,
        }
    }
}

/// What is found as a whole.
pub struct Totals {
    /// How flows were decided.
    pub counts: Counts,
    /// The hosts that are remembered in the end, most flows first, where rows are of hosts.
    pub hosts: Vec<HostVerdict>,
}

impl Application for Classify {
    const NAME: &'static str = "classify";
    const ABOUT: &'static str = "Service or device of each flow, from its first packets";
    const EXAMPLE: &'static str = "\
# Folder of a model of `wirelens train classify`, or the name of a shipped one: services,
# categories, devices.
model = \"services\"
# Kind of its classes, for rules: service or device.
# classes = \"service\"
# Label a flow unknown below this probability [default: the model's threshold].
# unknown-below = 0.5
# waiting-max = 65536
# max-flows = 4194304
# A row for each flow, or for each host when its label changes and at the end: flow or host. The
# second needs a model that remembers hosts.
# by = \"flow\"
# hosts-max = 65536
# Have the stages after the first computed by `wirelens worker` over [nats]. What is not answered
# within the deadline keeps the last answer.
# workers = false
# deadline = \"200ms\"
# under-way-max = 4096
# Warn when labels or confidences of so many flows differ from those of the first flows; 0: never.
# drift-flows = 2000
";

    const BY_FLOW: bool = true;

    type Settings = Settings;

    fn ready(settings: Settings, site: &Site<'_>) -> Result<Self, Refusal> {
        let Settings { classes, unknown_below, waiting_max, max_flows, by, hosts_max, .. } =
            settings;
        let Some(folder) = settings.model.clone() else {
            return Err(Refusal::new("no model; give model = \"services\", or the folder of one"));
        };
        let cascade = read(&folder, site.host, site.environment)
            .map_err(|error| Refusal::of("model", error))?;
        let cascade = match unknown_below {
            Some(below) if !(0.0..=1.0).contains(&below) => {
                return Err(Refusal::of("unknown-below", "wanted a probability from 0 to 1"));
            }
            Some(below) => cascade.with_unknown_below(below),
            None => cascade,
        };
        let workers = Workers::of(&settings, &cascade)?;
        let drift_flows = drift_flows(settings.drift_flows, &cascade)?;
        let by = by.unwrap_or(By::Flow);
        if by == By::Host && cascade.memory().is_none() {
            return Err(Refusal::of("by", no_memory(&cascade)));
        }
        let hosts_max = hosts_max.unwrap_or(Options::HOSTS_MAX_DEFAULT);
        if !KEY_COUNTS.contains(&hosts_max) {
            let (least, most) = KEY_COUNTS.into_inner();
            return Err(Refusal::of("hosts-max", format_args!("wanted {least} to {most}")));
        }
        let kind = match classes {
            Some(Classes::Device) => LabelKind::Device,
            None if cascade.name().contains("device") => LabelKind::Device,
            _ => LabelKind::Service,
        };
        let options = Options {
            waiting_max: waiting_max.unwrap_or(Options::WAITING_MAX_DEFAULT),
            consumer_count: 1,
            hosts_max,
            is_live: site.is_live,
            version: 0,
        };
        Ok(Self {
            cascade: Arc::new(cascade),
            kind,
            options,
            flow_count_max: max_flows,
            by,
            shown: VerdictView::Nothing,
            workers,
            drift_flows,
            tells_flows: false,
        })
    }

    fn is_by_flow(&self) -> bool {
        self.cascade.is_by_flow()
    }

    fn wants(&self) -> Wants {
        of_model(&self.cascade, self.flow_count_max)
    }

    fn schema(&self, has_capture: bool) -> Schema {
        schema(self.by, &self.cascade, has_capture)
    }

    fn gives(&self) -> Vec<(LabelKind, Vec<String>)> {
        let words = self.cascade.window().is_none().then(|| (self.kind, words(&self.cascade)));
        words.into_iter().collect()
    }

    fn classifies_again(&self) -> bool {
        self.cascade.window().is_none() && self.cascade.stages().len() > 1
    }

    fn escalates(&self) -> bool {
        self.workers.is_some()
    }

    fn replacement(&self) -> Option<Replacement> {
        Some(Arc::clone(&self.cascade) as Replacement)
    }

    fn open(self, opening: Opening) -> Result<Watchers, Refusal> {
        let Self { cascade, kind, options, by, shown, workers, drift_flows, tells_flows, .. } =
            self;
        let outside = match opening.pace {
            Some(pace) => Outside::Paced(pace),
            None if opening.is_live => Outside::Live(opening.clock),
            None => Outside::None,
        };
        let models = ModelVersions::new(Arc::clone(&cascade));
        let ways = Ways {
            cascade: &cascade,
            models: &models,
            captures: &opening.captures,
            outlet: opening.outlet.as_ref(),
            sharing: opening.sharing,
        };
        let (parts, merge) = ways.parts(by, shown);
        let gives = opening.read_labels.contains(&kind).then_some(kind);
        // Who shares the flows shares the room for those that wait.
        let part_count = parts.len();
        let options = Options { waiting_max: options.waiting_max.div_ceil(part_count), ..options };
        let escalations = opening.escalations.zip(workers);
        let is_watched = cascade.window().is_none();
        let drift = drift_flows.filter(|_| is_watched).map(|flows_min| {
            DriftWatch::new(models.clone(), flows_min, opening.sharing, opening.tell)
        });
        let failing = FailureWatch::new(opening.warn);
        let lenses = parts.into_iter().map(|part| -> Box<dyn Watcher> {
            let (cascade, outside) = (Arc::clone(&cascade), outside.clone());
            let found = ClassifySummary {
                cascade: Arc::clone(&cascade),
                folded: Counts::default(),
                by_model: ModelVerdicts::default(),
                failing: failing.clone(),
                tells_flows,
            };
            if let Some(features) = cascade.window().cloned() {
                let keep = Windows::new(cascade, features, options, outside, part);
                return Box::new(FramingLens::new(keep, (), found));
            }
            let reach = escalations.clone().map(|(to, workers)| {
                let control = Arc::clone(&opening.control);
                move |cascade: &Cascade| workers.stages(&to, cascade, part_count, &control)
            });
            let make = making(outside, by, gives.is_some(), reach);
            let newest = Serving::new(&make, cascade, options, 0);
            let (rules, followed) = (Following::new(&opening.rules), Vec::new());
            let (models, older) = (models.clone(), Vec::new());
            let mut flows = Flows {
                found,
                models,
                make,
                options,
                newest,
                older,
                part,
                kind,
                rules,
                gives,
                followed,
                drift: drift.as_ref().map(DriftWatch::part),
            };
            flows.take_up_rules();
            Box::new(flows)
        });
        let lenses = lenses.collect();
        let counting = drift.map(|drift| Box::new(move || drift.counts()) as Counting);
        let replace = Some(models.taking());
        Ok(Watchers { lenses, merge, counting, replace, ..Watchers::default() })
    }
}

/// Flows of a window, as the settings have it.
fn drift_flows(wanted: Option<u64>, cascade: &Cascade) -> Result<Option<u64>, Refusal> {
    match wanted {
        Some(0) => Ok(None),
        Some(_) if cascade.window().is_some() => {
            let why = "has no effect with a model of windows of time: only flows are compared";
            Err(Refusal::of("drift-flows", why))
        }
        Some(flows) if !DRIFT_FLOWS.contains(&flows) => {
            Err(Refusal::of("drift-flows", "wanted 0, or 100 to 10000000"))
        }
        wanted => Ok(Some(wanted.unwrap_or(drift::FLOWS_DEFAULT))),
    }
}

/// How the classifier of a model is made: of the first, and of those that replace it.
fn making(
    outside: Outside,
    by: By,
    notes_decided: bool,
    reach: Option<impl Fn(&Cascade) -> WorkerStages + Send + 'static>,
) -> MakeClassifier {
    Box::new(move |cascade, options| {
        let stages = reach.as_ref().map(|reach| reach(&cascade));
        let made = MarkVerdicts::default();
        let mut made = NamedClassifier::new(cascade, options, outside.clone(), made);
        if let Some(stages) = stages {
            made.by_packets.ask_elsewhere(Box::new(stages));
        }
        if notes_decided {
            made.by_packets.note_decided();
        }
        if by == By::Host {
            made.by_packets.note_hosts();
        }
        made
    })
}

/// The words of labels, by their numbers: classes, that there is none, protocols.
fn words(cascade: &Cascade) -> Vec<String> {
    let unknown = std::iter::once(String::from(UNKNOWN));
    let protocols = (0..=u8::MAX).map(|number| {
        let name = Protocol(number).name();
        name.map_or_else(|| format!("protocol-{number}"), str::to_owned)
    });
    cascade.classes().iter().cloned().chain(unknown).chain(protocols).collect()
}

/// The number of a label, by [`words`].
pub(super) fn number(cascade: &Cascade, label: Label) -> u16 {
    let class_count = u16::try_from(cascade.classes().len()).unwrap_or(u16::MAX);
    match label {
        Label::Class(class) => class,
        Label::Unknown(_) => class_count,
        Label::Protocol(protocol) => class_count.saturating_add(1 + u16::from(protocol.0)),
    }
}

/// The label of a number, by [`words`]; of `unknown` with any guess.
pub(super) fn label(cascade: &Cascade, number: u16) -> Label {
    let is_class = usize::from(number) < cascade.classes().len();
    if is_class { Label::Class(number) } else { Label::Unknown(0) }
}

/// Verdicts on each window of each flow.
type Windows = WindowClassifier<Outside, Part>;

impl Framing<Windows, ()> for ClassifySummary {
    const NAME: &'static str = Classify::NAME;

    fn fold(&mut self, keep: Windows) {
        self.folded.fold(&keep.finish().0);
    }

    fn counts(&self, keep: &Windows, _: &Now<'_>) -> Vec<Count> {
        self.failing.look(&self.cascade, &keep.counts().failures);
        counts(&self.cascade, keep.counts(), keep.followed_count(), None)
    }

    fn close(self, keep: Windows, (): (), flows: &RunTotals) -> Result<Closing, Refusal> {
        let (counts, out) = keep.finish();
        self.closing(counts, out, flows, Vec::new(), None)
    }
}

/// What is said at the end.
pub(super) struct ClassifySummary {
    pub(super) cascade: Arc<Cascade>,
    /// What other passes found.
    pub(super) folded: Counts,
    /// Verdicts of each model, by its number, where models were replaced.
    pub(super) by_model: ModelVerdicts,
    pub(super) failing: FailureWatch,
    tells_flows: bool,
}

impl ClassifySummary {
    /// Takes in what a model found whose flows are over.
    pub(super) fn take_in(&mut self, serving: Serving) {
        self.by_model.add(&serving);
        self.folded.fold(&serving.classifier.finish().counts);
    }

    pub(super) fn closing(
        self,
        counts: Counts,
        out: Part,
        flows: &RunTotals,
        hosts: Vec<HostVerdict>,
        names: Option<NameCounts>,
    ) -> Result<Closing, Refusal> {
        let Self { cascade, folded, by_model, failing, tells_flows } = self;
        if let Some(refusal) = out.into_refusal() {
            return Err(refusal);
        }
        let mut counts = counts;
        counts.fold(&folded);
        account_for(&cascade, flows, &counts).map_err(Refusal::new)?;
        let of_flows = if tells_flows { flows.lines() } else { String::new() };
        let mut closing = flows.closing();
        closing.counts.extend(odd(&counts));
        failing.look(&cascade, &counts.failures);
        let failed = Some(counts.failures.total()).filter(|&rows| rows > 0);
        closing.counts.extend(failed.map(|rows| ("failed_rows", rows)));
        if cascade.memory().is_some() {
            let remembered = [("hosts", counts.hosts), ("hosts_forgotten", counts.hosts_forgotten)];
            closing.counts.extend(remembered);
        }
        closing.lines = of_flows + &lines(&cascade, &counts) + &by_model.line();
        if let Some(names) = &names {
            closing.lines.push_str(&names_read::lines(names));
            closing.counts.extend(names_read::counts(names));
        }
        Ok(Closing { found: Some(Box::new(Totals { counts, hosts })), ..closing })
    }
}

/// Flows that are unlike what most models are made for, and those that a limit touched.
fn odd(counts: &Counts) -> [(&'static str, u64); 8] {
    [
        ("verdicts", counts.decided()),
        ("unknown", counts.unknown.total()),
        ("neither_tcp_nor_udp", counts.other_protocols),
        ("cut_headers", counts.cut_headers),
        ("other_segmentation", counts.other_segmentation),
        ("no_room_to_wait", counts.of(Cause::Full)),
        ("unanswered", counts.of(Cause::Unanswered)),
        ("no_room_to_follow", counts.unfollowed),
    ]
}
