//! Counts of applications, as the metrics page has them.

use std::collections::BTreeMap;
use std::ops::Range;

/// What a number says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CountKind {
    /// It only grows: `_total` is added to its name.
    Counter,
    /// It goes up and down.
    Gauge,
    /// How values are spread; the number is how many there are.
    Histogram,
}

/// Values by buckets.
#[derive(Clone, PartialEq, Debug)]
pub struct Spread {
    /// Upper ends of the buckets, included in them; there is one more bucket, without an end.
    pub bounds: &'static [f64],
    /// How many values each bucket has, those of smaller ones not included.
    pub counts: Vec<u64>,
    /// Sum of the values.
    pub sum: f64,
}

/// A number with a name. Labels are of a fixed set: causes, stages, reasons.
#[derive(Clone, PartialEq, Debug)]
pub struct Count {
    /// Name without the application's prefix and `_total`, unit last.
    pub name: &'static str,
    /// One sentence on what is counted.
    pub about: &'static str,
    /// Counter, gauge or histogram.
    pub kind: CountKind,
    /// Name and value of each label.
    pub labels: Vec<(&'static str, String)>,
    /// The number.
    pub value: f64,
    /// Of a histogram its buckets.
    pub spread: Option<Spread>,
}

impl Count {
    /// A counter without labels. Numbers up to 2^53 are exact.
    #[must_use]
    #[allow(clippy::cast_precision_loss)]
    pub const fn total(name: &'static str, about: &'static str, value: u64) -> Self {
        let kind = CountKind::Counter;
        Self { name, about, kind, labels: Vec::new(), value: value as f64, spread: None }
    }

    /// A gauge without labels.
    #[must_use]
    pub const fn gauge(name: &'static str, about: &'static str, value: f64) -> Self {
        let kind = CountKind::Gauge;
        Self { name, about, kind, labels: Vec::new(), value, spread: None }
    }

    /// A histogram without labels.
    #[must_use]
    #[allow(clippy::cast_precision_loss)]
    pub fn histogram(name: &'static str, about: &'static str, spread: Spread) -> Self {
        let (kind, value) = (CountKind::Histogram, spread.counts.iter().sum::<u64>() as f64);
        Self { name, about, kind, labels: Vec::new(), value, spread: Some(spread) }
    }

    /// The same with a label.
    #[must_use]
    pub fn with(mut self, label: &'static str, value: impl Into<String>) -> Self {
        self.labels.push((label, value.into()));
        self
    }

    fn add(&mut self, other: &Self) {
        self.value += other.value;
        if let (Some(mine), Some(theirs)) = (&mut self.spread, &other.spread) {
            mine.sum += theirs.sum;
            mine.counts.iter_mut().zip(&theirs.counts).for_each(|(mine, theirs)| *mine += theirs);
        }
    }
}

/// Counts by application and part.
#[derive(Default)]
pub(crate) struct AllCounts(BTreeMap<(&'static str, usize), Vec<Count>>);

impl AllCounts {
    pub(crate) fn put(&mut self, application: &'static str, part: usize, counts: Vec<Count>) {
        self.0.insert((application, part), counts);
    }

    /// In place of those of all these parts.
    pub(crate) fn put_last(
        &mut self,
        application: &'static str,
        parts: Range<usize>,
        counts: Vec<Count>,
    ) {
        self.0.retain(|(name, part), _| *name != application || !parts.contains(part));
        self.put(application, parts.start, counts);
    }

    pub(crate) fn summed(&self) -> Sums {
        let mut sums = Sums::default();
        for ((application, _), counts) in &self.0 {
            sums.add(application, counts);
        }
        sums
    }
}

/// Counts by application; those of one name and labels are added up.
#[derive(Default)]
pub(crate) struct Sums(Vec<(&'static str, Vec<Count>)>);

impl Sums {
    pub(crate) fn add(&mut self, application: &'static str, counts: &[Count]) {
        let place = match self.0.iter().position(|(name, _)| *name == application) {
            Some(place) => place,
            None => {
                self.0.push((application, Vec::new()));
                self.0.len() - 1
            }
        };
        let Some((_, into)) = self.0.get_mut(place) else { return };
        for count in counts {
            let same = |one: &&mut Count| one.name == count.name && one.labels == count.labels;
            match into.iter_mut().find(same) {
                Some(sum) => sum.add(count),
                None => into.push(count.clone()),
            }
        }
    }

    pub(crate) fn into_list(self) -> Vec<(&'static str, Vec<Count>)> {
        self.0
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
        let summed = all.summed().into_list();
        let [(name, counts)] = summed.as_slice() else { panic!("one application: {summed:?}") };
        assert_eq!(*name, "flows");
        let values: Vec<_> = counts.iter().map(|count| count.value).collect();
        assert_eq!(values, [8.0, 8.0, 2.0]);
        let fin = |all: &AllCounts| all.summed().into_list()[0].1[0].value;
        all.put("flows", 7, of(100));
        all.put_last("flows", 1..7, of(1));
        assert_eq!(fin(&all), 104.0, "part 1 is replaced");
        all.put_last("flows", 0..7, of(1));
        assert_eq!(fin(&all), 101.0, "and is gone with part 0");
    }

    #[test]
    fn histograms_of_parts_add_up_by_bucket() {
        let mut all = AllCounts::default();
        let of = |counts: [u64; 3], sum| {
            let spread = Spread { bounds: &[0.1, 1.0], counts: counts.to_vec(), sum };
            vec![Count::histogram("seconds", "", spread)]
        };
        all.put("flows", 0, of([1, 2, 3], 4.0));
        all.put("flows", 1, of([10, 0, 1], 0.5));
        let summed = all.summed().into_list();
        let count = &summed[0].1[0];
        let spread = count.spread.as_ref().unwrap();
        assert_eq!((count.value, spread.sum), (17.0, 4.5));
        assert_eq!(spread.counts, [11, 2, 4]);
    }
}
