//! What is kept of flows and hosts, for how long, and at most how many.

use std::fmt;

use engine::flow::FlowOptions;
use packet::Span;

use super::columns::Column;

/// By what packets are put together.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
pub enum Key {
    /// Both directions of a 5-tuple: the [`FlowKey`](packet::FlowKey).
    Flow = 0,
    /// Who sent the packet, by address.
    Source = 1,
    /// To whom it goes, by address.
    Destination = 2,
}

impl Key {
    /// How many there are.
    pub const COUNT: usize = 3;
    /// Every one, in their order.
    pub const ALL: [Self; Self::COUNT] = [Self::Flow, Self::Source, Self::Destination];

    /// The word for it, with which names of columns begin.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Flow => "flow",
            Self::Source => "source",
            Self::Destination => "destination",
        }
    }

    /// The key of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|key| key.name() == name)
    }
}

/// Where sums of packets are kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CounterStore {
    /// In a [`Sketch`](engine::sketch::Sketch): a fixed memory, in which a key may find no place.
    Sketch,
    /// In a table of flows, where each key has its own.
    Exact,
}

impl CounterStore {
    /// The word for it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sketch => "sketch",
            Self::Exact => "exact",
        }
    }
}

/// How features are made.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FeatureOptions {
    /// Where sums are kept.
    pub source: CounterStore,
    /// Sums begin again in each window of this length, aligned to the epoch; zero: they continue
    /// for as long as a flow does, which only [`CounterStore::Exact`] can.
    pub window: Span,
    /// Layers of each sketch.
    pub layers: usize,
    /// Buckets of each layer, a power of two.
    pub buckets: usize,
    /// What is kept of whom; each costs a sketch, or a table, of its own.
    pub keys: Vec<Key>,
    /// Without a packet for so long a flow has ended, and a host is forgotten; of tables only.
    pub idle_timeout: Span,
    /// Flows, and hosts, kept at most in each table.
    pub flow_count_max: usize,
    /// Places for states of flows, and as many of pairs, of clients and of servers; a power of two.
    /// 0: no states are kept.
    pub states: usize,
}

impl Default for FeatureOptions {
    fn default() -> Self {
        Self {
            source: CounterStore::Sketch,
            window: Span::from_ns(10_000_000),
            layers: 2,
            buckets: 1 << 16,
            keys: vec![Key::Flow],
            idle_timeout: FlowOptions::default().idle_timeout,
            flow_count_max: 1 << 20,
            states: 0,
        }
    }
}

/// Why there can be no such features.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OptionsError {
    /// The setting at fault.
    pub name: &'static str,
    /// What was seen and what was wanted.
    pub cause: String,
}

impl fmt::Display for OptionsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.name, self.cause)
    }
}

impl std::error::Error for OptionsError {}

/// Layers of a sketch at most: each is examined for every packet of a flow that is not there.
pub const LAYERS_MAX: usize = 8;
/// Buckets of all layers of a sketch at most: 4 GiB.
pub const BUCKETS_MAX: usize = 1 << 26;
/// Flows of a table at most.
pub const FLOWS_MAX: usize = 1 << 26;
/// States of each kind at least, where there are any, and at most.
pub const STATES_MIN: usize = 1 << 10;
/// See [`STATES_MIN`].
pub const STATES_MAX: usize = 1 << 24;
/// The longest window and idle time-out, in nanoseconds: a day.
const SPAN_MAX_NS: i64 = 86_400_000_000_000;

impl FeatureOptions {
    /// The key that decides which forest judges a packet: the flow, unless only hosts are kept.
    #[must_use]
    pub fn main_key(&self) -> Option<Key> {
        self.keys.iter().copied().min()
    }

    /// Why a column is not among those of these options.
    pub(super) fn without(&self, column: Column) -> OptionsError {
        if column.state().is_some() {
            let cause = format!("0; wanted: places, since column `{column}` is made of states");
            return OptionsError { name: "states", cause };
        }
        let keys = self.keys.iter().map(|key| key.name()).collect::<Vec<_>>();
        let cause = format!("{keys:?}; wanted: those that column `{column}` is made of");
        OptionsError { name: "keys", cause }
    }

    /// Refuses what cannot be.
    ///
    /// # Errors
    /// [`OptionsError`], for the first setting that cannot mean what it says.
    pub fn check(&self) -> Result<(), OptionsError> {
        let refused = |name, cause: String| Err(OptionsError { name, cause });
        let window_ns = self.window.as_ns();
        if !(0..=SPAN_MAX_NS).contains(&window_ns) {
            return refused("window", format!("{window_ns} ns; wanted: 0 to a day"));
        }
        let idle_ns = self.idle_timeout.as_ns();
        if !(1..=SPAN_MAX_NS).contains(&idle_ns) {
            return refused("idle_timeout", format!("{idle_ns} ns; wanted: 1 ns to a day"));
        }
        if self.keys.iter().enumerate().any(|(at, key)| self.keys[..at].contains(key)) {
            return refused("keys", String::from("one of them twice; wanted: each once"));
        }
        if !(1..=FLOWS_MAX).contains(&self.flow_count_max) {
            let seen = self.flow_count_max;
            return refused("flow_count_max", format!("{seen}; wanted: 1 to {FLOWS_MAX}"));
        }
        let is_range = (STATES_MIN..=STATES_MAX).contains(&self.states);
        if self.states != 0 && !(is_range && self.states.is_power_of_two()) {
            let cause = format!(
                "{}; wanted: 0, or a power of two from {STATES_MIN} to {STATES_MAX}",
                self.states
            );
            return refused("states", cause);
        }
        if self.source == CounterStore::Exact {
            return Ok(());
        }
        if !(1..=i64::from(u32::MAX)).contains(&window_ns) {
            let cause = format!(
                "{window_ns} ns; wanted: 1 ns to 4.29 s, or source `exact`, which has longer ones"
            );
            return refused("window", cause);
        }
        if !(1..=LAYERS_MAX).contains(&self.layers) {
            return refused("layers", format!("{}; wanted: 1 to {LAYERS_MAX}", self.layers));
        }
        let fits = self.buckets.checked_mul(self.layers).is_some_and(|all| all <= BUCKETS_MAX);
        if !fits || self.buckets < 8 || !self.buckets.is_power_of_two() {
            let cause = format!(
                "{}; wanted: a power of two from 8 on, {BUCKETS_MAX} at most in all layers",
                self.buckets
            );
            return refused("buckets", cause);
        }
        Ok(())
    }
}
