//! Verdicts steer verdicts: what becomes of a flow's packets once it has a label.
//!
//! Rules are asked in the order in which they are written, for each thing that can be steered; the
//! first that fits counts. A label holds from the flow's packet after the deciding one, so what a
//! rule does begins there, and does not depend on how packets are batched.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use alerts::LISTS_OF_RULES_MAX;
use engine::flow::FlowSlot;
use engine::flow::pass::{LabelKind, Labels};
use packetlog::policy::Granularity;
use serde::Deserialize;
use toml::Spanned;
use toml::de::DeTable;

use crate::toml_text::{Mistakes, read_table, suggestion};
use crate::written;

/// What rules may steer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Act {
    /// Keep so much of the flow's packets.
    Keep(Granularity),
    /// Look at its congestion control, or do not.
    Follow(bool),
    /// Classify it again at a later stage, whose verdict counts.
    Again,
}

/// A rule that is in force.
#[derive(Clone, PartialEq, Debug)]
pub struct Rule {
    kind: LabelKind,
    fits: Fits,
    acts: Vec<Act>,
}

#[derive(Clone, PartialEq, Debug)]
enum Fits {
    /// One of these labels.
    One(Vec<u16>),
    /// This one, or one of a higher number.
    From(u16),
    /// A label with any of these bits.
    AnyOf(u16),
}

/// All rules of a run at a moment.
#[derive(Clone, PartialEq, Default, Debug)]
pub struct Rules {
    rules: Vec<Rule>,
    thresholds: Vec<u64>,
}

/// The words that there are for labels of a kind, by their numbers.
pub struct Words {
    /// What the labels are about.
    pub kind: LabelKind,
    /// The application that gives them.
    pub giver: &'static str,
    /// A word may stand for several numbers.
    pub words: Vec<String>,
    /// Whether flows of some labels may be classified again.
    pub can_be_again: bool,
}

/// What may stand in a `[[rule]]`.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
struct RuleSettings {
    service: Option<OneOrMore>,
    device: Option<OneOrMore>,
    anomaly: Option<OneOrMore>,
    #[serde(deserialize_with = "written::bytes_if_any")]
    bytes: Option<u64>,
    indicator: Option<OneOrMore>,
    keep: Option<String>,
    cca: Option<bool>,
    classify_again: bool,
}

/// A word, or several.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum OneOrMore {
    One(String),
    More(Vec<String>),
}

impl OneOrMore {
    fn words(&self) -> &[String] {
        match self {
            Self::One(word) => std::slice::from_ref(word),
            Self::More(words) => words,
        }
    }
}

/// The parts of a run in addition to its rules.
pub struct RuleContext<'a> {
    /// The words of labels.
    pub words: &'a [Words],
    /// The names of lists of indicators, by their numbers.
    pub indicators: &'a [String],
    /// Applications of the run by name.
    pub applications: &'a [&'static str],
    /// Those of which no rule may choose what they look at, and why.
    pub unsteered: &'a [(&'static str, &'static str)],
}

impl Rules {
    /// Reads the rules of a file.
    #[must_use]
    pub fn read(
        tables: &[Spanned<DeTable<'_>>],
        known: &RuleContext<'_>,
        mistakes: &mut Mistakes,
    ) -> Self {
        let written: Vec<_> = tables
            .iter()
            .filter_map(|table| Some((table, read_table::<RuleSettings>("rule", table, mistakes)?)))
            .collect();
        let mut thresholds: Vec<u64> =
            written.iter().filter_map(|(_, written)| written.bytes).collect();
        thresholds.sort_unstable();
        thresholds.dedup();
        let rules = written.iter().filter_map(|(table, written)| {
            let rule = rule(written, known, &thresholds);
            rule.map_err(|(key, message)| {
                let place = table.get_ref().get_key_value(key);
                let at = place.map_or_else(|| table.span(), |(key, _)| key.span());
                mistakes.add(at, format_args!("[[rule]] {message}"));
            })
            .ok()
        });
        let rules = rules.collect();
        Self { rules, thresholds }
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.rules.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// The sizes by which flows are labelled, in bytes, smallest first. The label of a flow is
    /// the number of the largest that it has reached.
    #[must_use]
    pub fn thresholds(&self) -> &[u64] {
        &self.thresholds
    }

    /// The kinds of labels that they ask for, of which this is steered. Who classifies again knows
    /// its own labels, and asks for none.
    #[must_use]
    pub fn reads(&self, steers: impl Fn(Act) -> bool) -> Vec<LabelKind> {
        let reading = |act| act != Act::Again && steers(act);
        let steering = |rule: &&Rule| rule.acts.iter().any(|&act| reading(act));
        let mut kinds: Vec<_> = self.rules.iter().filter(steering).map(|rule| rule.kind).collect();
        kinds.sort_by_key(|kind| *kind as u8);
        kinds.dedup();
        kinds
    }

    /// How much is kept of a flow's packet at this place of a piece, where a rule says it.
    #[inline]
    #[must_use]
    pub fn keep(&self, labels: &Labels, slot: FlowSlot, place: usize) -> Option<Granularity> {
        self.first(labels, slot, place, |act| match act {
            Act::Keep(granularity) => Some(granularity),
            Act::Follow(_) | Act::Again => None,
        })
    }

    /// Whether the congestion control of a flow is identified. If a rule selects some flows,
    /// others are not.
    #[inline]
    #[must_use]
    pub fn follows(&self, labels: &Labels, slot: FlowSlot, place: usize) -> bool {
        let said = self.first(labels, slot, place, |act| match act {
            Act::Follow(follows) => Some(follows),
            Act::Keep(_) | Act::Again => None,
        });
        said.unwrap_or_else(|| self.follows_others())
    }

    /// The labels of this kind whose flows are classified again.
    #[must_use]
    pub fn again(&self, kind: LabelKind) -> Vec<u16> {
        let about = self.rules.iter().filter(|rule| rule.kind == kind);
        let again = about.filter(|rule| rule.acts.contains(&Act::Again));
        let labels = again.filter_map(|rule| match &rule.fits {
            Fits::One(labels) => Some(labels.clone()),
            Fits::From(_) | Fits::AnyOf(_) => None,
        });
        labels.flatten().collect()
    }

    /// Whether any rule is about how much is kept.
    #[must_use]
    pub fn steers_keeping(&self) -> bool {
        self.rules.iter().any(|rule| rule.acts.iter().any(|act| matches!(act, Act::Keep(_))))
    }

    /// Whether any rule selects flows whose congestion control is identified.
    #[must_use]
    pub fn steers_follows(&self) -> bool {
        self.rules.iter().any(|rule| rule.acts.iter().any(|act| matches!(act, Act::Follow(_))))
    }

    /// Whether the congestion control is identified of flows that match no rule.
    #[must_use]
    pub fn follows_others(&self) -> bool {
        !self.chooses_follows()
    }

    /// Whether a rule selects flows whose congestion control is identified, and excludes others.
    fn chooses_follows(&self) -> bool {
        self.rules.iter().any(|rule| rule.acts.contains(&Act::Follow(true)))
    }

    fn first<T>(
        &self,
        labels: &Labels,
        slot: FlowSlot,
        place: usize,
        act: impl Fn(Act) -> Option<T>,
    ) -> Option<T> {
        self.rules.iter().find_map(|rule| {
            let said = rule.acts.iter().find_map(|&one| act(one))?;
            let label = labels.of(rule.kind, slot, place)?;
            let fits = match &rule.fits {
                Fits::One(labels) => labels.contains(&label),
                Fits::From(least) => label >= *least,
                Fits::AnyOf(bits) => label & bits != 0,
            };
            fits.then_some(said)
        })
    }
}

/// The key that is wrong, and why.
type Wrong = (&'static str, String);

fn rule(
    written: &RuleSettings,
    known: &RuleContext<'_>,
    thresholds: &[u64],
) -> Result<Rule, Wrong> {
    let words = [
        (LabelKind::Service, "service", &written.service),
        (LabelKind::Device, "device", &written.device),
        (LabelKind::Anomaly, "anomaly", &written.anomaly),
    ];
    let given = words.iter().filter(|(.., words)| words.is_some()).count();
    let others = [written.bytes.is_some(), written.indicator.is_some()];
    if given + others.into_iter().filter(|&is_given| is_given).count() > 1 {
        let wanted = "wanted: one condition a rule; two rules are two conditions";
        let seen = "more than one of service, device, anomaly, bytes and indicator";
        return Err(("", format!("{seen}; {wanted}")));
    }
    let mut conditions: Vec<(LabelKind, Fits)> = Vec::new();
    for (kind, key, words) in words {
        if let Some(words) = words {
            conditions.push((kind, fits(kind, key, words.words(), known)?));
        }
    }
    if let Some(bytes) = written.bytes {
        let least = thresholds.iter().position(|&known| known == bytes).unwrap_or_default();
        conditions
            .push((LabelKind::Weight, Fits::From(u16::try_from(least).unwrap_or(u16::MAX - 1))));
    }
    if let Some(lists) = &written.indicator {
        conditions.push((LabelKind::Indicator, of_lists(lists.words(), known.indicators)?));
    }
    let Some((kind, fits)) = conditions.pop() else {
        let wanted = "wanted: service, device, anomaly, bytes or indicator";
        return Err(("", format!("has no condition; {wanted}")));
    };
    let mut acts = Vec::new();
    let has = |name| known.applications.contains(&name);
    if let Some(text) = &written.keep {
        if !has("packetlog") {
            return Err(("keep", String::from("keep: needs a [packetlog] table")));
        }
        let granularity = text.parse().map_err(|error| ("keep", format!("keep: {error}")))?;
        acts.push(Act::Keep(granularity));
    }
    if let Some(follows) = written.cca {
        if !has("cca") {
            return Err(("cca", String::from("cca: needs a [cca] table")));
        }
        if let Some((_, why)) = known.unsteered.iter().find(|(name, _)| *name == "cca") {
            return Err(("cca", format!("cca: {why}; leave it out, or leave egress out of [cca]")));
        }
        acts.push(Act::Follow(follows));
    }
    if written.classify_again {
        let of_kind = known.words.iter().find(|words| words.kind == kind);
        if let Err(why) = can_be_again(of_kind, &fits) {
            return Err(("classify-again", format!("classify-again: {why}")));
        }
        acts.push(Act::Again);
    }
    if acts.is_empty() {
        let wanted = "wanted: keep = \"full\" (or header, partial:128, none), cca = true, or \
                      classify-again = true";
        return Err(("", format!("has no action; {wanted}")));
    }
    Ok(Rule { kind, fits, acts })
}

/// Flows that are on one of these lists, or on any.
fn of_lists(wanted: &[String], lists: &[String]) -> Result<Fits, Wrong> {
    if lists.is_empty() {
        let message = "indicator: the settings have no [[indicators]]";
        return Err(("indicator", String::from(message)));
    }
    let mut bits = 0;
    for name in wanted {
        if name == "any" {
            return Ok(Fits::AnyOf(u16::MAX));
        }
        let Some(list) = lists.iter().position(|list| list == name) else {
            let told = suggestion(name, &lists.iter().map(String::as_str).collect::<Vec<_>>());
            return Err(("indicator", format!("indicator: there is no list `{name}`; {told}")));
        };
        if list >= LISTS_OF_RULES_MAX {
            let wanted = format!("wanted: one of the first {LISTS_OF_RULES_MAX} lists");
            return Err((
                "indicator",
                format!("indicator: list `{name}` is too far down; {wanted}"),
            ));
        }
        bits |= 1 << list;
    }
    Ok(Fits::AnyOf(bits))
}

/// Whether flows of these labels can be classified again, and why not.
fn can_be_again(words: Option<&Words>, fits: &Fits) -> Result<(), &'static str> {
    match words {
        Some(Words {
            kind: LabelKind::Service | LabelKind::Device, can_be_again: true, ..
        }) => {}
        Some(Words { kind: LabelKind::Service | LabelKind::Device, .. }) => {
            return Err("the model has only one stage; leave it out");
        }
        _ => return Err("wanted: a rule about service or device, which [classify] finds"),
    }
    let Fits::One(labels) = fits else { return Ok(()) };
    let words = words.map(|words| words.words.as_slice()).unwrap_or_default();
    // Behind the classes, and that there is none, stand protocols by number.
    let class_count = words.len().saturating_sub(usize::from(u8::MAX) + 1);
    if labels.iter().any(|&label| usize::from(label) >= class_count) {
        return Err("flows of a protocol without ports are labelled by it, without a model");
    }
    Ok(())
}

fn fits(
    kind: LabelKind,
    key: &'static str,
    wanted: &[String],
    known: &RuleContext<'_>,
) -> Result<Fits, Wrong> {
    let Some(Words { giver, words, .. }) = known.words.iter().find(|words| words.kind == kind)
    else {
        let name = if kind == LabelKind::Anomaly { "packetlog" } else { "classify" };
        return Err((
            key,
            format!(
                "{key}: no application of this run provides it; wanted: a [{name}] table that does"
            ),
        ));
    };
    let mut labels = Vec::new();
    for word in wanted {
        // Anything but the first class, which is traffic that is known and unimportant.
        if kind == LabelKind::Anomaly && word == "any" {
            labels.extend((1..).take(words.len().saturating_sub(1)));
            continue;
        }
        // A model may have a class of its own for what it does not know.
        let of_word = words.iter().enumerate().filter(|(_, known)| *known == word);
        let before = labels.len();
        labels.extend(of_word.map(|(label, _)| u16::try_from(label).unwrap_or(u16::MAX - 1)));
        if labels.len() == before {
            // Protocols by number are no words that anybody means.
            let words = words.iter().map(String::as_str);
            let words: Vec<_> = words.filter(|word| !word.starts_with("protocol-")).collect();
            let told = suggestion(word, &words);
            return Err((key, format!("{key}: the model of [{giver}] has no `{word}`; {told}")));
        }
    }
    Ok(Fits::One(labels))
}

/// The rules in force, shared by their readers and the code that changes them.
#[derive(Clone, Default)]
pub struct InForce(Arc<Shared>);

#[derive(Default)]
struct Shared {
    rules: Mutex<Arc<Rules>>,
    generation: AtomicU64,
}

impl InForce {
    /// Puts rules in force.
    pub fn change(&self, rules: Rules) {
        *self.lock() = Arc::new(rules);
        self.0.generation.fetch_add(1, Ordering::Release);
    }

    /// The rules in force.
    #[must_use]
    pub fn now(&self) -> Arc<Rules> {
        Arc::clone(&self.lock())
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Arc<Rules>> {
        // Rules are replaced whole: what a thread left that fell is rules all the same.
        self.0.rules.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// For who goes by rules: asked once a piece.
pub struct Following {
    shared: InForce,
    generation: u64,
    rules: Arc<Rules>,
}

impl Following {
    /// From what is in force.
    #[must_use]
    pub fn new(shared: &InForce) -> Self {
        let generation = shared.0.generation.load(Ordering::Acquire);
        Self { shared: shared.clone(), generation, rules: shared.now() }
    }

    /// Takes up rules that were changed; whether they were.
    #[inline]
    pub fn look(&mut self) -> bool {
        let generation = self.shared.0.generation.load(Ordering::Acquire);
        let is_new = generation != self.generation;
        if is_new {
            (self.generation, self.rules) = (generation, self.shared.now());
        }
        is_new
    }

    /// The rules to go by until the next look.
    #[inline]
    #[must_use]
    pub fn rules(&self) -> &Rules {
        &self.rules
    }
}
