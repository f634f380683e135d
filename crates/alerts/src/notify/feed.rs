//! The queue of a destination, and the outcome of what went into it.

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::alert::{Alert, State};
use crate::begin::Clocks;
use crate::settings::{NotifyKind, NotifySettings, Rate};

use super::rate::Bucket;

/// Alerts that wait, unless another maximum is given.
const QUEUE_LEN_MAX: usize = 1_024;

/// How long a full queue is waited for before it counts as stuck.
pub(super) const ROOM_WITHIN: Duration = Duration::from_secs(1);

/// Alerts that are active and were let through at most. Beyond them the resolution of one is
/// delivered without regard to whether its beginning was.
const LET_THROUGH_MAX: usize = 100_000;

/// How a destination is.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct NotifyState {
    /// Its name in the settings, else its kind.
    pub name: String,
    /// Alerts that were delivered.
    pub delivered: u64,
    /// Alerts that were given up.
    pub failed: u64,
    /// Those of them that arrived with a later delivery: Alertmanager is re-sent what it lacks.
    pub late: u64,
    /// Deliveries that were tried again.
    pub retried: u64,
    /// Alerts that went for newer ones, as the queue was full.
    pub dropped: u64,
    /// Alerts that the rate limit held back.
    pub held_back: u64,
    /// Alerts waiting.
    pub waiting: usize,
    /// From being found to being delivered, of the last delivery and the slowest.
    pub delay: Duration,
    /// The longest of them.
    pub delay_max: Duration,
    /// Why the last delivery failed, if none succeeded since.
    pub failure: Option<String>,
}

impl NotifyState {
    /// Alerts that were to arrive and did not, once no more come, in a line; nothing where all did.
    /// What the rate limit held back was not to arrive.
    #[must_use]
    pub fn loss(&self) -> Option<String> {
        let Self { name, failed, late, dropped, waiting, failure, .. } = self;
        let lost = (failed + *waiting as u64).saturating_sub(*late) + dropped;
        let of_queue = match dropped {
            0 => String::new(),
            _ => format!(", {dropped} of them as its queue was full"),
        };
        let why = failure.as_ref().map_or_else(String::new, |why| format!(": {why}"));
        let what = || format!("[[notify]] {name}: {lost} alerts were not delivered{of_queue}{why}");
        (lost > 0).then(what)
    }
}

/// The queue of one destination.
pub(crate) struct Feed {
    only: BTreeMap<String, Vec<String>>,
    len_max: usize,
    waits_for_room: bool,
    clocks: Clocks,
    inside: Mutex<Inside>,
    changed: Condvar,
}

struct Inside {
    queue: VecDeque<(Arc<Alert>, Duration)>,
    bucket: Option<Bucket>,
    let_through: HashSet<u64>,
    held_back_since: u64,
    is_reopened: bool,
    /// Nothing was taken out of the full queue while room was waited for.
    is_stuck: bool,
    /// When it has to be over, in monotonic time.
    ends: Option<Duration>,
    state: NotifyState,
}

impl Inside {
    /// Whether the rate lets an alert through, which takes its share of it.
    fn lets_through(&mut self, alert: &Alert, now: Duration) -> bool {
        match alert.state {
            State::Firing => {
                if self.bucket.as_mut().is_some_and(|bucket| !bucket.take(now)) {
                    self.state.held_back += 1;
                    self.held_back_since += 1;
                    return false;
                }
                if self.bucket.is_some() && self.let_through.len() < LET_THROUGH_MAX {
                    self.let_through.insert(alert.id);
                }
                true
            }
            State::Resolved => {
                let was_known = self.let_through.remove(&alert.id);
                let is_full = self.let_through.len() >= LET_THROUGH_MAX;
                self.bucket.is_none() || was_known || is_full
            }
        }
    }
}

/// What a destination delivers next.
pub(crate) struct DeliveryBatch {
    pub alerts: Vec<Arc<Alert>>,
    pub held_back: u64,
    pub is_reopened: bool,
    /// When the first of them was found.
    since: Option<Duration>,
}

impl Feed {
    pub(crate) fn new(settings: &NotifySettings, name: String, clocks: Clocks) -> Self {
        let per_minute = Rate { count: 60, period: Duration::from_secs(60) };
        let default = (settings.kind == NotifyKind::Webhook).then_some(per_minute);
        let rate = settings.rate.or(default);
        Self {
            only: settings.only.clone(),
            len_max: settings.queue.unwrap_or(QUEUE_LEN_MAX),
            waits_for_room: false,
            clocks,
            inside: Mutex::new(Inside {
                queue: VecDeque::new(),
                bucket: rate.map(|rate| Bucket::new(rate, (clocks.monotonic)())),
                let_through: HashSet::new(),
                held_back_since: 0,
                is_reopened: false,
                is_stuck: false,
                ends: None,
                state: NotifyState { name, ..NotifyState::default() },
            }),
            changed: Condvar::new(),
        }
    }

    /// The same, where a full queue is waited for as long as something is taken out of it.
    pub(crate) fn waiting_for_room(self, waits_for_room: bool) -> Self {
        Self { waits_for_room, ..self }
    }

    fn lock(&self) -> MutexGuard<'_, Inside> {
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes in an alert, where it is wanted here. Of one whose beginning was held back the end is
    /// not reported either; of one whose beginning was let through the end always is.
    pub(crate) fn push(&self, alert: &Arc<Alert>) {
        let is_wanted = self.only.iter().all(|(label, values)| {
            let seen = alert.labels.get(label).map_or("", String::as_str);
            values.iter().any(|value| value == seen)
        });
        if !is_wanted {
            return;
        }
        let now = (self.clocks.monotonic)();
        let mut inside = self.lock();
        if !inside.lets_through(alert, now) {
            return;
        }
        inside = self.with_room(inside);
        if inside.queue.len() >= self.len_max {
            inside.queue.pop_front();
            inside.state.dropped += 1;
        }
        inside.queue.push_back((Arc::clone(alert), now));
        self.changed.notify_all();
    }

    fn with_room<'a>(&self, mut inside: MutexGuard<'a, Inside>) -> MutexGuard<'a, Inside> {
        let until = (self.clocks.monotonic)() + ROOM_WITHIN;
        while self.waits_for_room && !inside.is_stuck && inside.queue.len() >= self.len_max {
            let left = until.saturating_sub((self.clocks.monotonic)());
            inside.is_stuck = left.is_zero();
            let waited = self.changed.wait_timeout(inside, left);
            inside = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        inside
    }

    /// The next alerts, once there are some, or `due` has passed, or a file is to be opened again.
    /// Nothing once it is over.
    pub(crate) fn take(&self, due: Option<Duration>, max: usize) -> Option<DeliveryBatch> {
        let until = due.map(|due| (self.clocks.monotonic)() + due);
        let mut inside = self.lock();
        loop {
            let now = (self.clocks.monotonic)();
            if inside.ends.is_some_and(|ends| now >= ends) {
                // A receiver that does not answer would hold up the end for each batch.
                let left = inside.queue.drain(..).count();
                inside.state.failed += left as u64;
                return None;
            }
            let is_due = until.is_some_and(|until| now >= until);
            if !inside.queue.is_empty() || inside.is_reopened || is_due {
                let len = inside.queue.len().min(max);
                let since = inside.queue.front().map(|(_, at)| *at);
                let alerts = inside.queue.drain(..len).map(|(alert, _)| alert).collect();
                inside.is_stuck = false;
                self.changed.notify_all();
                let held_back = if len == 0 { 0 } else { inside.held_back_since };
                inside.held_back_since -= held_back;
                let is_reopened = std::mem::take(&mut inside.is_reopened);
                return Some(DeliveryBatch { alerts, held_back, is_reopened, since });
            }
            if inside.ends.is_some() {
                return None;
            }
            let wait = until.map_or(Duration::MAX, |until| until.saturating_sub(now));
            // An hour, as some systems cannot wait for ever.
            let waited = self.changed.wait_timeout(inside, wait.min(Duration::from_secs(3_600)));
            inside = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Waits; false where it has to be over before that.
    pub(crate) fn pause(&self, wait: Duration) -> bool {
        let until = (self.clocks.monotonic)() + wait;
        let mut inside = self.lock();
        loop {
            let now = (self.clocks.monotonic)();
            let ends = inside.ends.unwrap_or(Duration::MAX);
            if ends <= until {
                return false;
            }
            if now >= until {
                return true;
            }
            let waited = self.changed.wait_timeout(inside, until - now);
            inside = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// These arrived, and with them so many that were given up before.
    pub(crate) fn note_delivered(&self, taken: &DeliveryBatch, late: u64) {
        let now = (self.clocks.monotonic)();
        let state = &mut self.lock().state;
        state.delivered += taken.alerts.len() as u64 + late;
        state.late += late;
        state.failure = None;
        if let Some(since) = taken.since {
            state.delay = now.saturating_sub(since);
            state.delay_max = state.delay_max.max(state.delay);
        }
    }

    pub(crate) fn note_failed(&self, taken: &DeliveryBatch, why: &str) {
        let mut inside = self.lock();
        inside.state.failed += taken.alerts.len() as u64;
        inside.state.failure = Some(why.to_owned());
        // The next delivery says so.
        inside.held_back_since += taken.held_back;
    }

    pub(crate) fn note_retry(&self, why: &str) {
        let state = &mut self.lock().state;
        state.retried += 1;
        state.failure = Some(why.to_owned());
    }

    pub(crate) fn reopen(&self) {
        self.lock().is_reopened = true;
        self.changed.notify_all();
    }

    /// No alert comes any more; what is not delivered within this time is given up.
    pub(crate) fn end(&self, within: Duration) {
        self.lock().ends = Some((self.clocks.monotonic)() + within);
        self.changed.notify_all();
    }

    pub(crate) fn state(&self) -> NotifyState {
        let inside = self.lock();
        NotifyState { waiting: inside.queue.len(), ..inside.state.clone() }
    }
}
