//! What is asked of `l4s`.

use std::path::PathBuf;

use l4s::{MarkerSettings, TuningSettings};
use packet::Span;
use serde::Deserialize;

use super::Target;
use crate::application::Refusal;
use crate::written;

/// Settings of `l4s`.
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct L4sSettings {
    /// Folder of a latency model.
    pub model: Option<PathBuf>,
    /// Destinations of the flows to track; no other flow is touched.
    pub to: Vec<Target>,
    /// A row for each flow and period of this length; none for one row of all of a capture.
    #[serde(deserialize_with = "written::duration_if_any")]
    pub every: Option<Span>,
    /// A packet leaves the L4S queue if the classic queue is predicted to be faster by this.
    #[serde(deserialize_with = "written::duration")]
    pub margin: Span,
    /// Share of L4S packets that are re-marked at most.
    pub max_share: f64,
    /// Without an acknowledgement for this long, packets keep their marking.
    #[serde(deserialize_with = "written::duration")]
    pub silence: Span,
    /// A prediction is not followed if it comes this long after the packet left.
    #[serde(deserialize_with = "written::duration")]
    pub late: Span,
    /// The model is fine-tuned this often; never, if not given.
    #[serde(deserialize_with = "written::duration_if_any")]
    pub tune: Option<Span>,
}

impl Default for L4sSettings {
    fn default() -> Self {
        let MarkerSettings { margin_ns, share_max, silence_ns, .. } = MarkerSettings::default();
        let span = |ns: u64| Span::from_ns(i64::try_from(ns).unwrap_or(i64::MAX));
        Self {
            model: None,
            to: Vec::new(),
            every: None,
            margin: span(margin_ns),
            max_share: share_max,
            silence: span(silence_ns),
            late: Span::from_ns(5_000_000),
            tune: None,
        }
    }
}

impl L4sSettings {
    /// Refuses what cannot be meant.
    ///
    /// # Errors
    /// [`Refusal`], which names the setting.
    pub fn check(&self) -> Result<(), Refusal> {
        if self.model.is_none() {
            return Err(Refusal::of(
                "model",
                "missing; wanted: l4s, the shipped model, or a folder of `wirelens train l4s`",
            ));
        }
        if self.to.is_empty() {
            return Err(Refusal::of(
                "to",
                "no flows are named; wanted: their destinations, such as 192.0.2.1:443",
            ));
        }
        if !(0.0..=1.0).contains(&self.max_share) {
            return Err(Refusal::of("max-share", "wanted 0 to 1"));
        }
        if let Some(tuning) = self.tuning(true) {
            tuning.check().map_err(|error| Refusal::of("tune", error))?;
        }
        Ok(())
    }

    pub(super) fn marker(&self) -> MarkerSettings {
        MarkerSettings {
            margin_ns: ns(self.margin),
            share_max: self.max_share,
            silence_ns: ns(self.silence),
            ..MarkerSettings::default()
        }
    }

    /// How the model is fine-tuned, if it is. From captures packets wait for it, so that a capture
    /// always has the same predictions.
    pub(super) fn tuning(&self, is_live: bool) -> Option<TuningSettings> {
        let interval_ns = ns(self.tune?);
        Some(TuningSettings { interval_ns, is_blocking: !is_live, ..TuningSettings::default() })
    }
}

pub(super) fn ns(span: Span) -> u64 {
    u64::try_from(span.as_ns()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_meant_is_refused_with_what_is_wanted() {
        let full = L4sSettings {
            model: Some(PathBuf::from("m")),
            to: vec!["*:443".parse().unwrap()],
            ..L4sSettings::default()
        };
        full.check().unwrap();
        let refused = |settings: L4sSettings| settings.check().unwrap_err().to_string();
        let none = refused(L4sSettings { model: None, ..full.clone() });
        assert!(none.starts_with("model: ") && none.contains("wirelens train l4s"), "{none}");
        let unnamed = refused(L4sSettings { to: Vec::new(), ..full.clone() });
        assert!(unnamed.contains("no flows are named; wanted"), "{unnamed}");
        for max_share in [-0.1, 1.1, f64::NAN] {
            let text = refused(L4sSettings { max_share, ..full.clone() });
            assert_eq!(text, "max-share: wanted 0 to 1");
        }
    }

    #[test]
    fn settings_are_read_as_a_file_has_them() {
        let text = "model = \"m\"\nto = [\"192.0.2.1:443\"]\nevery = \"1s\"\nmargin = \"2ms\"\n\
                    max-share = 0.2\ntune = \"5m\"\n";
        let settings: L4sSettings = toml::from_str(text).unwrap();
        assert_eq!(settings.marker().margin_ns, 2_000_000);
        assert_eq!(settings.tuning(true).unwrap().interval_ns, 300_000_000_000);
        assert!(settings.tuning(false).unwrap().is_blocking);
        let error = toml::from_str::<L4sSettings>("to = [\"x\"]").unwrap_err().to_string();
        assert!(error.contains("wanted ADDRESS"), "{error}");
    }
}
