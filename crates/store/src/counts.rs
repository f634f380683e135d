//! Counts of applications, as the metrics page has them.

use std::collections::BTreeMap;

/// What a number says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CountKind {
    /// It only grows: `_total` is added to its name.
    Counter,
    /// It goes up and down.
    Gauge,
}

/// A number with a name. Labels are of a fixed set: causes, stages, reasons.
#[derive(Clone, PartialEq, Debug)]
pub struct Count {
    /// Name without the application's prefix and `_total`, unit last.
    pub name: &'static str,
    /// One sentence on what is counted.
    pub about: &'static str,
    /// What it says.
    pub kind: CountKind,
    /// Name and value of each label.
    pub labels: Vec<(&'static str, String)>,
    /// The number.
    pub value: f64,
}

impl Count {
    /// A counter without labels. Numbers up to 2^53 are exact.
    #[must_use]
    #[allow(clippy::cast_precision_loss)]
    pub const fn total(name: &'static str, about: &'static str, value: u64) -> Self {
        let kind = CountKind::Counter;
        Self { name, about, kind, labels: Vec::new(), value: value as f64 }
    }

    /// A gauge without labels.
    #[must_use]
    pub const fn gauge(name: &'static str, about: &'static str, value: f64) -> Self {
        Self { name, about, kind: CountKind::Gauge, labels: Vec::new(), value }
    }

    /// The same with a label.
    #[must_use]
    pub fn with(mut self, label: &'static str, value: impl Into<String>) -> Self {
        self.labels.push((label, value.into()));
        self
    }
}

/// Counts by application and part.
#[derive(Default)]
pub(crate) struct AllCounts(BTreeMap<(&'static str, usize), Vec<Count>>);

impl AllCounts {
    pub(crate) fn put(&mut self, application: &'static str, part: usize, counts: Vec<Count>) {
        self.0.insert((application, part), counts);
    }

    pub(crate) fn summed(&self) -> Vec<(&'static str, Vec<Count>)> {
        let mut summed: Vec<(&'static str, Vec<Count>)> = Vec::new();
        for ((application, _), counts) in &self.0 {
            let place = match summed.iter().position(|(name, _)| name == application) {
                Some(place) => place,
                None => {
                    summed.push((application, Vec::new()));
                    summed.len() - 1
                }
            };
            let Some((_, into)) = summed.get_mut(place) else { continue };
            for count in counts {
                let same = |one: &&mut Count| one.name == count.name && one.labels == count.labels;
                match into.iter_mut().find(same) {
                    Some(sum) => sum.value += count.value,
                    None => into.push(count.clone()),
                }
            }
        }
        summed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_of_parts_add_up_by_name_and_label() {
        let mut all = AllCounts::default();
        let of = |value| {
            let ended = |reason: &str| Count::total("ended", "", value).with("reason", reason);
            vec![ended("fin"), ended("rst"), Count::total("late", "", 1)]
        };
        all.put("flows", 0, of(2));
        all.put("flows", 1, of(5));
        all.put("flows", 0, of(3));
        let summed = all.summed();
        let [(name, counts)] = summed.as_slice() else { panic!("one application: {summed:?}") };
        assert_eq!(*name, "flows");
        let values: Vec<_> = counts.iter().map(|count| count.value).collect();
        assert_eq!(values, [8.0, 8.0, 2.0]);
    }
}
