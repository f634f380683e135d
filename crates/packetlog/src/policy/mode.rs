//! Modes: which class is kept at which granularity.

use std::fmt;
use std::num::NonZeroU32;

use super::granularity::{Granularity, Keep, Sample, SampleBy};

/// Payload bytes of partial logging, unless a mode says otherwise.
pub const PARTIAL_LEN: u32 = 128;
/// One header in so many is kept where headers are sampled, unless a mode says otherwise.
pub const HEADERS_ONE_IN: NonZeroU32 = NonZeroU32::new(8).unwrap();

/// A name for a table from classes to granularities.
///
/// The first class of a model is traffic that is known and unimportant, "benign" in the
/// paper's words; a mode says what is kept of it, of all other classes, and of some by name.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Mode {
    /// Its name.
    pub name: String,
    /// What it is for, in a line.
    pub purpose: String,
    /// Of the first class.
    pub benign: Granularity,
    /// Of every other class that is not named.
    pub anomalous: Granularity,
    /// Of classes by name.
    pub classes: Vec<(String, Granularity)>,
    /// How little it keeps: what a mode of a lower level would not relieve, one of a higher level
    /// does.
    pub level: u8,
}

/// A mode that names what a model does not have.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ModeError {
    mode: String,
    class: String,
    classes: Vec<String>,
}

impl fmt::Display for ModeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { mode, class, classes } = self;
        let known = classes.join(", ");
        write!(f, "mode {mode}: the model has no class {class:?}; wanted: one of {known}")
    }
}

impl std::error::Error for ModeError {}

impl Mode {
    /// The five of the paper's Table II, in its order.
    #[must_use]
    pub fn recommended() -> Vec<Self> {
        let sampled = Granularity {
            keep: Keep::Header,
            sample: Some(Sample { one_in: HEADERS_ONE_IN, by: SampleBy::Packet }),
        };
        let partial = Granularity { keep: Keep::Partial(PARTIAL_LEN), sample: None };
        let mode = |name: &str, purpose: &str, anomalous, benign, level| Self {
            name: name.to_owned(),
            purpose: purpose.to_owned(),
            benign,
            anomalous,
            classes: Vec::new(),
            level,
        };
        let (full, header) = (Granularity::FULL, Granularity::HEADER);
        vec![
            mode("default", "anomalous packets in full, headers of all others", full, header, 0),
            mode("log-all", "everything, during a serious incident", full, full, 0),
            mode("log-partial", "truncates large packets", partial, header, 1),
            mode("log-sampled", "fewer packets and bytes are written", full, sampled, 2),
            mode("log-minimum", "minimum that still shows every flow", partial, sampled, 3),
        ]
    }

    /// What is kept of each of `classes`.
    ///
    /// # Errors
    /// [`ModeError`] where it names a class that is not among them.
    pub fn table(&self, classes: &[String]) -> Result<Vec<Granularity>, ModeError> {
        let mut table = vec![self.anomalous; classes.len()];
        if let Some(first) = table.first_mut() {
            *first = self.benign;
        }
        for (class, granularity) in &self.classes {
            let index = classes.iter().position(|name| name == class);
            let Some(entry) = index.and_then(|index| table.get_mut(index)) else {
                let (mode, class) = (self.name.clone(), class.clone());
                return Err(ModeError { mode, class, classes: classes.to_vec() });
            };
            *entry = *granularity;
        }
        Ok(table)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn classes() -> Vec<String> {
        ["benign", "scan", "flood"].map(str::to_owned).to_vec()
    }

    #[test]
    fn the_modes_are_those_of_table_ii() {
        let table: Vec<_> = Mode::recommended()
            .iter()
            .map(|mode| (mode.name.clone(), mode.anomalous.to_string(), mode.benign.to_string()))
            .collect();
        let wanted = [
            ("default", "full", "header"),
            ("log-all", "full", "full"),
            ("log-partial", "partial:128", "header"),
            ("log-sampled", "full", "header,1/8"),
            ("log-minimum", "partial:128", "header,1/8"),
        ];
        assert_eq!(table, wanted.map(|(a, b, c)| (a.into(), b.into(), c.into())).to_vec());
    }

    #[test]
    fn a_class_by_name_goes_before_the_rest() {
        let mut mode = Mode::recommended().remove(0);
        mode.classes.push(("scan".into(), "header".parse().unwrap()));
        let kept: Vec<_> =
            mode.table(&classes()).unwrap().iter().map(Granularity::to_string).collect();
        assert_eq!(kept, ["header", "header", "full"]);
        mode.classes.push(("tunnel".into(), Granularity::FULL));
        let error = mode.table(&classes()).unwrap_err().to_string();
        assert!(error.contains("tunnel") && error.contains("benign, scan, flood"), "{error}");
    }
}
