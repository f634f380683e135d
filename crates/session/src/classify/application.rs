//! `classify` on a pass that others share.

use std::any::Any;
use std::cmp::Ordering;
use std::path::PathBuf;
use std::sync::Arc;

use classify::{
    Cascade, Cause, Classifier, Counts, Decided, Label, Options, Progress, Standing, TakeVerdicts,
    UNKNOWN, Verdict, WindowClassifier,
};
use engine::columns::{Columns, Schema};
use engine::flow::pass::{LabelKind, LabelUse, Labels, Lens, Piece};
use engine::flow::{Ended, FlowMark, FlowSlot, FromFrames, Held, SideSlab, States};
use packet::Protocol;
use serde::Deserialize;

use super::rows::fill;
use super::{ROWS_PER_PIECE, account_for, lines, needs, read, wants_inner};
use crate::application::{Application, Closing, Opening, Refusal, Site, Wants, Watcher, Watchers};
use crate::captures::Captures;
use crate::choice::choice;
use crate::done::Done;
use crate::outlet::{Lay, PartOutlet};
use crate::outside::Outside;
use crate::rules::Following;
use crate::written;

choice! {
    /// What a model's classes are.
    Classes: "kind of class" {
        Service = "service", "Applications, by what they speak";
        Device = "device", "Devices, by what they are";
    }
}

/// Settings of `classify`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Settings {
    /// Folder of a trained cascade, or the name of one that ships.
    pub model: Option<PathBuf>,
    /// What its classes are, for rules; by the model's name where it is left out.
    #[serde(deserialize_with = "choice_if_any")]
    pub classes: Option<Classes>,
    /// Call a flow unknown below this confidence, whatever the model says.
    pub unknown_below: Option<f64>,
    /// Flows that wait for more packets at most.
    pub waiting_max: Option<usize>,
    /// Flows kept at most.
    pub max_flows: Option<usize>,
}

fn choice_if_any<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Option<Classes>, D::Error> {
    written::choice(from).map(Some)
}

/// What flows are, from their first packets.
pub struct Classify {
    cascade: Arc<Cascade>,
    kind: LabelKind,
    options: Options,
    flow_count_max: Option<usize>,
}

impl Application for Classify {
    const NAME: &'static str = "classify";
    const ABOUT: &'static str = "What each flow is, from its first packets";
    const EXAMPLE: &'static str = "\
# Folder of a model of `wirelens train classify`, or the name of one that ships: services, devices.
model = \"services\"
# What its classes are, for rules: service or device.
# classes = \"service\"
# Call a flow unknown below this confidence [default: as the model says].
# unknown-below = 0.5
# waiting-max = 65536
# max-flows = 4194304
";

    const BY_FLOW: bool = true;

    type Settings = Settings;

    fn ready(settings: Settings, site: &Site<'_>) -> Result<Self, Refusal> {
        let Settings { model, classes, unknown_below, waiting_max, max_flows } = settings;
        let Some(folder) = model else {
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
        let kind = match classes {
            Some(Classes::Device) => LabelKind::Device,
            None if cascade.name().contains("device") => LabelKind::Device,
            _ => LabelKind::Service,
        };
        let options = Options {
            waiting_max: waiting_max.unwrap_or(Options::WAITING_MAX_DEFAULT),
            consumer_count: 1,
            is_live: site.is_live,
        };
        Ok(Self { cascade: Arc::new(cascade), kind, options, flow_count_max: max_flows })
    }

    fn wants(&self) -> Wants {
        let timeouts = self.cascade.flows();
        Wants {
            inner: Some(wants_inner(&self.cascade)),
            idle_timeout: Some(timeouts.idle),
            active_timeout: Some(timeouts.active),
            window: Some(None),
            flow_count_max: self.flow_count_max,
            ..Wants::flows(needs(&self.cascade))
        }
    }

    fn schema(&self, has_capture: bool) -> Schema {
        self.cascade.schema(has_capture)
    }

    fn gives(&self) -> Vec<(LabelKind, Vec<String>)> {
        let words = self.cascade.window().is_none().then(|| (self.kind, words(&self.cascade)));
        words.into_iter().collect()
    }

    fn classifies_again(&self) -> bool {
        self.cascade.window().is_none() && self.cascade.stages().len() > 1
    }

    fn open(self, opening: Opening) -> Result<Watchers, Refusal> {
        let Self { cascade, kind, options, .. } = self;
        let Some(outlet) = opening.outlet else { return Err(Refusal::new("rows go nowhere")) };
        let outside = match opening.pace {
            Some(pace) => Outside::Paced(pace),
            None if opening.is_live => Outside::Live(opening.clock),
            None => Outside::None,
        };
        let has_capture = opening.captures.are_named();
        let cascade_of_rows = Arc::clone(&cascade);
        let out = Out { cascade: cascade_of_rows, captures: opening.captures, has_capture };
        let (parts, merge) = PartOutlet::for_passes(Some(&outlet), || out.clone(), opening.sharing);
        let gives = opening.read_labels.contains(&kind).then_some(kind);
        // Who shares the flows shares the room for those that wait.
        let waiting_max = options.waiting_max.div_ceil(parts.len());
        let options = Options { waiting_max, ..options };
        let lenses = parts.into_iter().map(|part| -> Box<dyn Watcher> {
            let (cascade, outside, part) = (Arc::clone(&cascade), outside.clone(), Part(part));
            let (states, folded) = (SideSlab::default(), Counts::default());
            if let Some(features) = cascade.window().cloned() {
                let of_windows = Arc::clone(&cascade);
                let classifier =
                    WindowClassifier::new(of_windows, features, options, outside, part);
                return Box::new(Windows {
                    cascade,
                    states: SideSlab::default(),
                    classifier,
                    folded,
                });
            }
            let mut classifier = Classifier::new(Arc::clone(&cascade), options, outside, part);
            if gives.is_some() {
                classifier.note_decided();
            }
            let (rules, followed) = (Following::new(&opening.rules), Vec::new());
            let mut flows =
                Flows { cascade, states, classifier, kind, rules, gives, followed, folded };
            flows.take_up_rules();
            Box::new(flows)
        });
        Ok(Watchers { lenses: lenses.collect(), merge, ..Watchers::default() })
    }
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
fn number(cascade: &Cascade, label: Label) -> u16 {
    let class_count = u16::try_from(cascade.classes().len()).unwrap_or(u16::MAX);
    match label {
        Label::Class(class) => class,
        Label::Unknown(_) => class_count,
        Label::Protocol(protocol) => class_count.saturating_add(1 + u16::from(protocol.0)),
    }
}

/// The label of a number, by [`words`]; of `unknown` with any guess.
fn label(cascade: &Cascade, number: u16) -> Label {
    let is_class = usize::from(number) < cascade.classes().len();
    if is_class { Label::Class(number) } else { Label::Unknown(0) }
}

/// Verdicts on their way out.
#[derive(Clone)]
struct Out {
    cascade: Arc<Cascade>,
    captures: Captures,
    has_capture: bool,
}

impl Lay for Out {
    type Row = Verdict;

    fn compare(one: &Verdict, other: &Verdict) -> Ordering {
        one.order().cmp(&other.order())
    }

    fn lay(&mut self, rows: &[Verdict], put: &mut dyn FnMut(Columns)) -> Result<(), Refusal> {
        let Self { cascade, captures, has_capture } = self;
        for piece in rows.chunks(ROWS_PER_PIECE) {
            let mut columns = Columns::new(cascade.schema(*has_capture));
            fill(&mut columns, cascade, captures, piece).map_err(Refusal::new)?;
            put(columns);
        }
        Ok(())
    }
}

/// Verdicts of one pass.
struct Part(PartOutlet<Out>);

impl TakeVerdicts for Part {
    fn take(&mut self, verdicts: &[Verdict]) {
        self.0.put(&mut verdicts.to_vec());
    }
}

/// A packet of a flow that was not decided before it.
struct Followed {
    slot: FlowSlot,
    place: usize,
    /// How far its flow is with it; nothing where it is the first and decided by its protocol.
    progress: Option<Progress>,
}

/// One verdict for each flow.
struct Flows {
    cascade: Arc<Cascade>,
    states: SideSlab<Held<Standing>>,
    classifier: Classifier<Outside, Part>,
    kind: LabelKind,
    rules: Following,
    /// The labels that are given, where somebody reads them.
    gives: Option<LabelKind>,
    followed: Vec<Followed>,
    /// What other passes found.
    folded: Counts,
}

impl Flows {
    /// Which flows are classified again.
    fn take_up_rules(&mut self) {
        let numbers = self.rules.rules().again(self.kind);
        let about = numbers.into_iter().map(|number| label(&self.cascade, number)).collect();
        self.classifier.ask_again(about);
    }

    fn pause(&mut self) {
        self.classifier.on_pause(&mut States::in_slab(&mut self.states));
    }

    /// Labels flows that were decided in the piece at hand, each from the packet on that comes
    /// after the deciding one.
    fn label(&mut self, kind: LabelKind, labels: &mut Labels) {
        for decided in self.classifier.take_decided() {
            let mut of_flow = self.followed.iter().filter(|followed| followed.slot == decided.slot);
            let deciding = of_flow.clone().find(|followed| has_decided(followed, &decided));
            let place =
                deciding.or_else(|| of_flow.next_back()).map_or(0, |followed| followed.place);
            labels.give(kind, decided.slot, place, number(&self.cascade, decided.label));
        }
        self.followed.clear();
    }

    /// Labels flows that were decided between pieces.
    fn label_now(&mut self, labels: &mut Labels) {
        let Some(kind) = self.gives else { return };
        for decided in self.classifier.take_decided() {
            labels.give_now(kind, decided.slot, number(&self.cascade, decided.label));
        }
    }
}

/// Whether a packet is the one that decided.
fn has_decided(followed: &Followed, decided: &Decided) -> bool {
    let Some(progress) = followed.progress else { return decided.cause == Cause::Protocol };
    match decided.cause {
        Cause::Waited | Cause::Ended => progress.is_closed,
        Cause::Confident | Cause::LastStage | Cause::Full | Cause::Protocol => {
            progress.packet_count >= usize::from(decided.packets_used)
        }
    }
}

impl Lens for Flows {
    fn labels(&self) -> LabelUse {
        LabelUse { reads: Vec::new(), gives: self.gives.into_iter().collect() }
    }

    fn on_piece(&mut self, piece: &Piece<'_>, labels: &mut Labels) {
        if self.rules.look() {
            self.take_up_rules();
        }
        for &slot in piece.slots {
            self.states.prefetch(slot);
        }
        let Self { states, classifier, followed, gives, .. } = self;
        for (place, frame, packet, slot) in piece.flows() {
            let Some(Held(state)) = states.state(slot) else { continue };
            let is_open = gives.is_some() && !matches!(state, Standing::Decided(_));
            classifier.on_frame(state, &frame, packet, slot);
            if is_open {
                followed.push(Followed { slot, place, progress: classifier.progress(*state) });
            }
        }
        if let Some(kind) = self.gives {
            // Others want to know by the next packet.
            self.pause();
            self.label(kind, labels);
        }
    }

    fn on_ended(&mut self, ended: &[Ended], labels: &mut Labels) {
        for ended in ended {
            if let Some(Held(state)) = self.states.state(ended.slot) {
                self.classifier.on_end(state, ended);
            }
        }
        self.pause();
        self.label_now(labels);
        for ended in ended {
            self.states.state(ended.slot).map(std::mem::take);
        }
    }

    fn on_batch_end(&mut self, labels: &mut Labels) {
        self.pause();
        self.label_now(labels);
    }

    fn on_mark(&mut self, mark: FlowMark, labels: &mut Labels) {
        self.classifier.on_mark(&mut States::in_slab(&mut self.states), mark);
        self.label_now(labels);
    }
}

impl Watcher for Flows {
    fn name(&self) -> &'static str {
        Classify::NAME
    }

    fn fold(&mut self, other: Box<dyn Any>) -> Result<(), Refusal> {
        let other = other.downcast::<Self>().map_err(|_| Refusal::new(OTHER_TYPE))?;
        self.folded.fold(&other.classifier.finish().0);
        Ok(())
    }

    fn close(self: Box<Self>, flows: &Done) -> Result<Closing, Refusal> {
        let (mut counts, out) = self.classifier.finish();
        counts.fold(&self.folded);
        closing(&self.cascade, &counts, out, flows)
    }
}

/// Verdicts on each window of each flow.
struct Windows {
    cascade: Arc<Cascade>,
    states: SideSlab<Held<<WindowClassifier<Outside, Part> as FromFrames>::State>>,
    classifier: WindowClassifier<Outside, Part>,
    /// What other passes found.
    folded: Counts,
}

impl Windows {
    fn pause(&mut self) {
        self.classifier.on_pause(&mut States::in_slab(&mut self.states));
    }
}

impl Lens for Windows {
    fn on_piece(&mut self, piece: &Piece<'_>, _: &mut Labels) {
        for &slot in piece.slots {
            self.states.prefetch(slot);
        }
        for (_, frame, packet, slot) in piece.flows() {
            if let Some(Held(state)) = self.states.state(slot) {
                self.classifier.on_frame(state, &frame, packet, slot);
            }
        }
    }

    fn on_ended(&mut self, ended: &[Ended], _: &mut Labels) {
        for ended in ended {
            if let Some(Held(state)) = self.states.state(ended.slot) {
                self.classifier.on_end(state, ended);
            }
        }
        self.pause();
        for ended in ended {
            self.states.state(ended.slot).map(std::mem::take);
        }
    }

    fn on_batch_end(&mut self, _: &mut Labels) {
        self.pause();
    }

    fn on_mark(&mut self, mark: FlowMark, _: &mut Labels) {
        self.classifier.on_mark(&mut States::in_slab(&mut self.states), mark);
    }
}

impl Watcher for Windows {
    fn name(&self) -> &'static str {
        Classify::NAME
    }

    fn fold(&mut self, other: Box<dyn Any>) -> Result<(), Refusal> {
        let other = other.downcast::<Self>().map_err(|_| Refusal::new(OTHER_TYPE))?;
        self.folded.fold(&other.classifier.finish().0);
        Ok(())
    }

    fn close(self: Box<Self>, flows: &Done) -> Result<Closing, Refusal> {
        let (mut counts, out) = self.classifier.finish();
        counts.fold(&self.folded);
        closing(&self.cascade, &counts, out, flows)
    }
}

/// A pass of this application has a lens of another kind.
const OTHER_TYPE: &str = "passes of one application have lenses of one kind";

fn closing(
    cascade: &Cascade,
    counts: &Counts,
    out: Part,
    flows: &Done,
) -> Result<Closing, Refusal> {
    if let Some(refusal) = out.0.into_refusal() {
        return Err(refusal);
    }
    account_for(cascade, flows, counts).map_err(Refusal::new)?;
    let (outcome, key) = (flows.outcome.clone(), Done::KEY);
    Ok(Closing { outcome, key, lines: lines(cascade, counts), ..Closing::default() })
}
