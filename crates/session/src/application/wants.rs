//! What applications want of the pass that they share, united.

use std::fmt;

use engine::flow::FlowOptions;
use packet::Span;

use crate::reading::Needs;

/// What an application wants of a pass. What it leaves open is as others want it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Wants {
    /// What is looked at of each frame.
    pub needs: Needs,
    /// Whether payload is read, or names that are made of it.
    pub reads_payload: bool,
    /// Whether flows are looked for: their slots, labels, marks and ends.
    pub has_flows: bool,
    /// Whether frames are looked at, besides what flows are made of. Only who looks at flows can do
    /// without.
    pub has_frames: bool,
    /// Whether headers inside tunnels are used.
    pub inner: Option<bool>,
    /// The idle time after which flows end.
    pub idle_timeout: Option<Span>,
    /// When flows are cut for their age.
    pub active_timeout: Option<Span>,
    /// Whether, and where, flows are cut at the borders of windows.
    pub window: Option<Option<Span>>,
    /// Flows kept at most.
    pub flow_count_max: Option<usize>,
}

impl Wants {
    /// Of who looks at flows, however they are cut.
    #[must_use]
    pub const fn flows(needs: Needs) -> Self {
        Self { has_flows: true, ..Self::frames(needs) }
    }

    /// Of who looks at frames alone, and is told of no flow.
    #[must_use]
    pub const fn frames(needs: Needs) -> Self {
        Self {
            needs,
            reads_payload: needs.takes_all,
            has_flows: false,
            has_frames: true,
            inner: None,
            idle_timeout: None,
            active_timeout: None,
            window: None,
            flow_count_max: None,
        }
    }
}

/// Two applications want what cannot be had in one pass.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Clash {
    what: &'static str,
    one: (&'static str, String),
    other: (&'static str, String),
}

impl fmt::Display for Clash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { what, one, other } = self;
        write!(
            f,
            "[{}] wants {what} {}, [{}] wants {}: a run has one set of flow timeouts; give both \
             the same, or use one run each",
            one.0, one.1, other.0, other.1
        )
    }
}

impl std::error::Error for Clash {}

/// What all of them want.
#[derive(Clone, Debug)]
pub struct CombinedWants {
    /// What is looked at of each frame.
    pub needs: Needs,
    inner: Want<bool>,
    idle_timeout: Want<Span>,
    active_timeout: Want<Span>,
    window: Want<Option<Span>>,
    flow_count_max: Option<usize>,
}

/// What is wanted, and who was the first to want it.
type Want<T> = Option<(&'static str, T)>;

impl Default for CombinedWants {
    fn default() -> Self {
        let needs = Needs { stage: "run", len: Needs::NETWORK_LEN, takes_all: false };
        Self {
            needs,
            inner: None,
            idle_timeout: None,
            active_timeout: None,
            window: None,
            flow_count_max: None,
        }
    }
}

impl CombinedWants {
    /// Adds what one more wants.
    ///
    /// # Errors
    /// [`Clash`] where another wants otherwise.
    pub fn add(&mut self, name: &'static str, wants: &Wants) -> Result<(), Clash> {
        let Wants { needs, inner, idle_timeout, active_timeout, window, flow_count_max, .. } =
            *wants;
        if needs.len > self.needs.len {
            (self.needs.len, self.needs.stage) = (needs.len, needs.stage);
        }
        self.needs.takes_all |= needs.takes_all;
        let seconds = |span: &Span| format!("{} s", span.as_seconds_f64());
        let side = |inner: &bool| String::from(if *inner { "inside" } else { "outside" });
        let cut = |window: &Option<Span>| match window {
            Some(window) => format!("of {}", seconds(window)),
            None => String::from("of no length, so whole flows"),
        };
        unite(&mut self.inner, name, inner, "the headers of tunnels", side)?;
        unite(&mut self.idle_timeout, name, idle_timeout, "an idle timeout of", seconds)?;
        unite(&mut self.active_timeout, name, active_timeout, "an active timeout of", seconds)?;
        unite(&mut self.window, name, window, "windows", cut)?;
        self.flow_count_max = self.flow_count_max.max(flow_count_max);
        Ok(())
    }

    /// How flows are cut.
    #[must_use]
    pub fn flow_options(&self) -> FlowOptions {
        let usual = FlowOptions::default();
        FlowOptions {
            idle_timeout: self.idle_timeout.map_or(usual.idle_timeout, |wanted| wanted.1),
            active_timeout: self.active_timeout.map_or(usual.active_timeout, |wanted| wanted.1),
            window: self.window.and_then(|wanted| wanted.1),
            flow_count_max: self.flow_count_max.unwrap_or(usual.flow_count_max),
            ..usual
        }
    }

    /// Whether tunnels are opened.
    #[must_use]
    pub fn inner(&self) -> bool {
        self.inner.is_none_or(|wanted| wanted.1)
    }
}

fn unite<T: Copy + PartialEq>(
    known: &mut Want<T>,
    name: &'static str,
    wanted: Option<T>,
    what: &'static str,
    show: impl Fn(&T) -> String,
) -> Result<(), Clash> {
    let Some(wanted) = wanted else { return Ok(()) };
    match known {
        Some((first, value)) if *value != wanted => {
            Err(Clash { what, one: (first, show(value)), other: (name, show(&wanted)) })
        }
        Some(_) => Ok(()),
        None => {
            *known = Some((name, wanted));
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clash_names_both() {
        let mut united = CombinedWants::default();
        let needs = Needs { stage: "flows", len: 78, takes_all: false };
        let flows = Wants { idle_timeout: Some(Span::from_seconds(60)), ..Wants::flows(needs) };
        let other = Wants { idle_timeout: Some(Span::from_seconds(120)), ..Wants::flows(needs) };
        united.add("flows", &flows).unwrap();
        united.add("top", &Wants::frames(Needs { len: 1000, ..needs })).unwrap();
        let told = united.add("classify", &other).unwrap_err().to_string();
        assert!(told.starts_with("[flows] wants an idle timeout of 60 s, [classify] wants 120 s"));
        assert_eq!(united.needs.len, 1000);
        assert_eq!(united.flow_options().idle_timeout, Span::from_seconds(60));
    }
}
