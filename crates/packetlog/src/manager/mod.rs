//! Which mode is right for what resources there are.
//!
//! Pure: signals go in with their time, decisions come out with their cause. Who reads signals and
//! carries decisions out is a door's business.
//!
//! An operator chooses a mode. While a resource is under pressure, a mode that relieves it is in
//! force instead, unless the chosen one keeps as little already. Each shortage begins at one value
//! and ends at another, and only when it has been over for a while: a mode that relieves a shortage
//! would otherwise end it, and itself, immediately.

mod signals;

use std::time::Duration;

pub use signals::{Limit, LimitError, Limits, Shortage, Signals};

/// Why a mode is in force.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cause {
    /// A user asked for it.
    Operator,
    /// A resource is under pressure.
    Shortage(Shortage),
    /// One that was under pressure no longer is.
    Recovered(Shortage),
}

/// What is to be done, and why.
#[derive(Clone, PartialEq, Debug)]
pub enum Decision {
    /// To be reported: a resource is under pressure, or no longer is.
    Warn {
        /// Which, and whether it begins or ends.
        cause: Cause,
        /// What was seen of it.
        seen: f64,
        /// The value that it passed.
        limit: f64,
    },
    /// Another mode is to be in force.
    Switch {
        /// Why.
        cause: Cause,
        /// The mode before.
        from: String,
        /// The mode from now on.
        to: String,
    },
    /// Unimportant data is to be overwritten from now on, or no longer.
    Overwrite {
        /// Whether.
        begins: bool,
    },
}

/// How one resource stands.
#[derive(Clone, Copy, Default, Debug)]
struct Watch {
    is_short: bool,
    /// Since when it has been fine again.
    fine_since: Option<Duration>,
    /// Losses at the last look.
    counted: u64,
}

/// A mode and how little it keeps.
pub type ModeLevel = (String, u8);

/// Decides which mode is in force.
#[derive(Clone, Debug)]
pub struct Manager {
    limits: Limits,
    modes: Vec<ModeLevel>,
    chosen: String,
    in_force: String,
    watches: [Watch; 6],
    switch_count: u64,
}

impl Manager {
    /// Begins in a mode; `modes` are all that there are, with their levels.
    #[must_use]
    pub fn new(limits: Limits, modes: Vec<ModeLevel>, chosen: &str) -> Self {
        let (chosen, in_force) = (chosen.to_owned(), chosen.to_owned());
        Self { limits, modes, chosen, in_force, watches: Default::default(), switch_count: 0 }
    }

    /// The mode in force.
    #[must_use]
    pub fn in_force(&self) -> &str {
        &self.in_force
    }

    /// The mode that the operator chose.
    #[must_use]
    pub fn chosen(&self) -> &str {
        &self.chosen
    }

    /// Changes of mode so far.
    #[must_use]
    pub const fn switch_count(&self) -> u64 {
        self.switch_count
    }

    /// What is under pressure now.
    pub fn shortages(&self) -> impl Iterator<Item = Shortage> {
        Shortage::ALL.into_iter().filter(|&shortage| self.watches[shortage as usize].is_short)
    }

    /// The operator chooses a mode. While something is under pressure it waits for its turn, unless
    /// it keeps less than what is in force.
    pub fn choose(&mut self, mode: &str) -> Option<Decision> {
        mode.clone_into(&mut self.chosen);
        self.settle(Cause::Operator)
    }

    /// Looks at the resources and says what is to be done, in order.
    pub fn look(&mut self, signals: &Signals) -> Vec<Decision> {
        let mut decisions = Vec::new();
        for shortage in Shortage::ALL {
            let Some((cause, seen)) = self.watch(shortage, signals) else { continue };
            let of = self.limits.of(shortage);
            let limit = if matches!(cause, Cause::Shortage(_)) { of.on } else { of.off };
            decisions.push(Decision::Warn { cause, seen, limit });
            if shortage == Shortage::Disk && self.limits.overwrites {
                let begins = matches!(cause, Cause::Shortage(_));
                decisions.push(Decision::Overwrite { begins });
            }
            decisions.extend(self.settle(cause));
        }
        decisions
    }

    /// Whether a shortage begins or ends, and what was seen of it.
    fn watch(&mut self, shortage: Shortage, signals: &Signals) -> Option<(Cause, f64)> {
        let limit = self.limits.of(shortage);
        let watch = &mut self.watches[shortage as usize];
        let mut lost = |sum: u64| {
            // As many as there are; no loss comes near 2^52.
            let more = sum.saturating_sub(watch.counted) as f64;
            watch.counted = sum;
            more
        };
        let (seen, is_high) = match shortage {
            Shortage::Disk => (signals.disk_free, signals.disk_free < limit.on),
            Shortage::Copy => (signals.copy, signals.copy >= limit.on),
            Shortage::Queue => (signals.queue, signals.queue >= limit.on),
            Shortage::Busy => (signals.busy, signals.busy >= limit.on),
            Shortage::LogLoss => {
                let more = lost(signals.log_lost);
                (more, more >= limit.on)
            }
            Shortage::RingLoss => {
                let more = lost(signals.ring_lost);
                (more, more >= limit.on)
            }
        };
        let is_fine = match shortage {
            Shortage::Disk => seen >= limit.off,
            Shortage::LogLoss | Shortage::RingLoss => !is_high,
            _ => seen < limit.off || limit.off >= limit.on && !is_high,
        };
        if !watch.is_short {
            watch.is_short = is_high;
            watch.fine_since = None;
            return is_high.then_some((Cause::Shortage(shortage), seen));
        }
        if !is_fine {
            watch.fine_since = None;
            return None;
        }
        let since = *watch.fine_since.get_or_insert(signals.now);
        if signals.now.saturating_sub(since) < limit.hold {
            return None;
        }
        *watch = Watch { counted: watch.counted, ..Watch::default() };
        Some((Cause::Recovered(shortage), seen))
    }

    /// Puts the right mode in force, if it is another.
    fn settle(&mut self, cause: Cause) -> Option<Decision> {
        let to = self.wanted();
        if to == self.in_force {
            return None;
        }
        let from = std::mem::replace(&mut self.in_force, to.clone());
        self.switch_count += 1;
        Some(Decision::Switch { cause, from, to })
    }

    /// The mode that relieves all that is under pressure, if the chosen one does not.
    fn wanted(&self) -> String {
        let mut wanted: Vec<&str> = Vec::new();
        for shortage in self.shortages() {
            if shortage == Shortage::Disk && self.limits.overwrites {
                continue;
            }
            if let Some(mode) = self.limits.of(shortage).mode.as_deref()
                && !wanted.contains(&mode)
            {
                wanted.push(mode);
            }
        }
        let relief = match wanted.as_slice() {
            [] => return self.chosen.clone(),
            [one] => one,
            _ => self.limits.both.as_str(),
        };
        let keeps_less = self.level(relief) > self.level(&self.chosen);
        if keeps_less { relief.to_owned() } else { self.chosen.clone() }
    }

    fn level(&self, mode: &str) -> u8 {
        self.modes.iter().find(|(name, _)| name == mode).map_or(0, |&(_, level)| level)
    }
}

#[cfg(test)]
mod tests;
