//! What a split asks, as a file writes it.

use std::collections::{BTreeMap, HashMap};

use super::nodes::bit_in_words;
use super::reason::shown;
use crate::layout::Layout;

/// Comparisons of numbers in addition to the records, each a bit of a row behind them. Those of one
/// number stand side by side in the order of their thresholds, so that the ones that are true are
/// the first of them, and one search finds how many.
#[derive(Clone, PartialEq, Debug, Default)]
pub(super) struct NumberTests {
    groups: Vec<Group>,
    /// The number goes right where it is greater. Of each group in ascending order, each once.
    thresholds: Vec<f64>,
    /// The first bit of a row that they have.
    first_bit: usize,
}

/// The comparisons of one number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Group {
    number: usize,
    /// Its thresholds.
    start: usize,
    end: usize,
}

impl NumberTests {
    /// Those of a file, as numbers and thresholds.
    fn new(tests: impl Iterator<Item = (usize, f64)>, first_bit: usize) -> Self {
        let mut of_number: BTreeMap<usize, Vec<f64>> = BTreeMap::new();
        for (number, threshold) in tests {
            of_number.entry(number).or_default().push(threshold);
        }
        let (mut groups, mut thresholds) = (Vec::new(), Vec::new());
        for (number, mut of_number) in of_number {
            of_number.sort_unstable_by(f64::total_cmp);
            of_number.dedup_by_key(|threshold| threshold.to_bits());
            let start = thresholds.len();
            thresholds.extend(of_number);
            groups.push(Group { number, start, end: thresholds.len() });
        }
        Self { groups, thresholds, first_bit }
    }

    /// How many bits they take.
    pub(super) const fn len(&self) -> usize {
        self.thresholds.len()
    }

    /// The bit of a comparison, as bits of records count.
    fn bit(&self, number: usize, threshold: f64) -> Option<usize> {
        let group = self.groups.binary_search_by_key(&number, |group| group.number).ok()?;
        let Group { start, end, .. } = *self.groups.get(group)?;
        let thresholds = self.thresholds.get(start..end)?;
        let index = thresholds.binary_search_by(|other| other.total_cmp(&threshold)).ok()?;
        // Within words these bits count upwards: so a run of them is a run in a word.
        Some(bit_in_words(self.first_bit + start + index))
    }

    /// Sets in a row, which has zeros there, the bits of all comparisons that are true. A number
    /// that is none is greater than nothing.
    #[inline]
    pub(super) fn put(&self, numbers: &[f64], row: &mut [u32]) {
        for &Group { number, start, end } in &self.groups {
            let (Some(thresholds), Some(&number)) =
                (self.thresholds.get(start..end), numbers.get(number))
            else {
                continue;
            };
            let count = thresholds.partition_point(|&threshold| number > threshold);
            set_bits(row, self.first_bit + start, count);
        }
    }
}

/// Sets `count` bits from `start` on, counted from each word's lowest.
#[inline]
fn set_bits(words: &mut [u32], start: usize, count: usize) {
    let (mut at, end) = (start, start + count);
    while at < end {
        let (word, shift) = (at / 32, at % 32);
        let len = (end - at).min(32 - shift);
        if let Some(word) = words.get_mut(word) {
            *word |= u32::MAX >> (32 - len) << shift;
        }
        at += len;
    }
}

/// What a test asks for.
enum Asked {
    /// This bit of a row.
    Bit(usize),
    /// Whether this number is greater.
    Number(usize, f64),
}

/// Where the tests of a file lie in a row.
pub(super) struct Names {
    columns: HashMap<String, usize>,
    numbers: HashMap<String, usize>,
    layout: Layout,
    packet_count: usize,
}

impl Names {
    pub(super) fn new(layout: Layout, packet_count: usize, numbers: &[String]) -> Self {
        let columns = layout.columns().enumerate().map(|(column, name)| (name, column)).collect();
        let numbers = numbers.iter().enumerate().map(|(index, name)| (name.clone(), index));
        Self { columns, numbers: numbers.collect(), layout, packet_count }
    }

    /// For each test the bit of a row that answers it, and those of them that compare numbers.
    pub(super) fn bits(&self, tests: &[String]) -> Result<(Vec<usize>, NumberTests), String> {
        let asked = tests.iter().map(|test| self.asked(test)).collect::<Result<Vec<_>, _>>()?;
        let of_numbers = asked.iter().filter_map(|asked| match *asked {
            Asked::Number(number, threshold) => Some((number, threshold)),
            Asked::Bit(_) => None,
        });
        let numbers =
            NumberTests::new(of_numbers, self.layout.record_len() * self.packet_count * 8);
        let bit = |asked: &Asked| match *asked {
            Asked::Bit(bit) => Some(bit),
            Asked::Number(number, threshold) => numbers.bit(number, threshold),
        };
        // Each was put there a moment ago.
        let bits = asked.iter().map(|asked| bit(asked).unwrap_or_default()).collect();
        Ok((bits, numbers))
    }

    fn asked(&self, test: &str) -> Result<Asked, String> {
        if let Some(name) = test.strip_suffix(" is 1") {
            let (packet, column) = self.column(name)?;
            return Ok(Asked::Bit(packet * self.layout.record_len() * 8 + column));
        }
        if let Some(name) = test.strip_suffix(" is there") {
            let (packet, column) = self.column(name)?;
            let presence = self.layout.presence_bit(column);
            return Ok(Asked::Bit(packet * self.layout.record_len() * 8 + presence));
        }
        let mut words = test.split(' ');
        if let (Some(name), Some(sign @ (">" | ">=")), Some(threshold), None) =
            (words.next(), words.next(), words.next(), words.next())
        {
            let known = self.numbers.get(name);
            let &number = known.ok_or_else(|| {
                format!("{} is none of `numbers`; wanted: one of those", shown(name))
            })?;
            let threshold: f64 =
                threshold.parse().ok().filter(|t: &f64| t.is_finite()).ok_or_else(|| {
                    format!("{} is not a threshold; wanted: a finite number", shown(threshold))
                })?;
            // What is as large as the threshold or larger is greater than the number before it.
            let is_greater = sign == ">";
            let threshold = if is_greater { threshold } else { threshold.next_down() };
            return Ok(Asked::Number(number, threshold));
        }
        Err(format!(
            "{} is not a test; wanted: `COLUMN is 1`, `COLUMN is there`, `NUMBER > 5`, \
             or `NUMBER >= 5`",
            shown(test)
        ))
    }

    /// `pkt3_tcp_syn_0` as the packet and the column in its record.
    fn column(&self, name: &str) -> Result<(usize, usize), String> {
        let unknown = || {
            format!(
                "{} is not a column of these blocks; wanted: such as `pkt0_{}`",
                shown(name),
                self.layout.columns().next().unwrap_or_default()
            )
        };
        let rest = name.strip_prefix("pkt").ok_or_else(unknown)?;
        let (packet, column) = rest.split_once('_').ok_or_else(unknown)?;
        let &column = self.columns.get(column).ok_or_else(unknown)?;
        let packet: usize = packet.parse().map_err(|_| unknown())?;
        if packet >= self.packet_count {
            return Err(format!(
                "{} is of packet {packet}; wanted: below {}, the packets of a row",
                shown(name),
                self.packet_count
            ));
        }
        Ok((packet, column))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Thresholds that lie close to each other and numbers that hit them.
    fn number() -> impl Strategy<Value = f64> {
        prop_oneof![
            (-40_i32..40).prop_map(|half| f64::from(half) / 2.0),
            prop::sample::select(vec![
                0.0,
                -0.0,
                5e-324,
                -5e-324,
                f64::MAX,
                f64::MIN,
                f64::from(f32::MAX),
                16_777_216.0,
                16_777_216.000_000_004,
            ]),
            any::<f64>().prop_filter("finite", |number| number.is_finite()),
        ]
    }

    proptest! {
        #[test]
        fn each_bit_is_what_its_comparison_says(
            tests in prop::collection::vec((0_usize..4, any::<bool>(), number()), 0..150),
            numbers in prop::collection::vec(
                prop_oneof![
                    number(),
                    prop::sample::select(vec![f64::NAN, f64::INFINITY, f64::NEG_INFINITY]),
                ],
                4,
            ),
            hit in any::<prop::sample::Index>(),
        ) {
            let names: Vec<_> = (0..4).map(|index| format!("n{index}")).collect();
            let layout = Layout::default();
            let texts: Vec<_> = tests
                .iter()
                .map(|(index, takes_equal, threshold)| {
                    let sign = if *takes_equal { ">=" } else { ">" };
                    format!("n{index} {sign} {threshold:?}")
                })
                .collect();
            let (bits, number_tests) = Names::new(layout, 1, &names).bits(&texts).unwrap();
            let mut numbers = numbers;
            if !tests.is_empty() {
                let (index, _, threshold) = tests[hit.index(tests.len())];
                numbers[index] = threshold;
            }
            let records_len = layout.record_len() * 8;
            let mut row = vec![0; (records_len + number_tests.len()).div_ceil(32)];
            number_tests.put(&numbers, &mut row);
            prop_assert!(number_tests.len() <= tests.len());
            for (&bit, (index, takes_equal, threshold)) in bits.iter().zip(&tests) {
                let (number, bit) = (numbers[*index], bit_in_words(bit));
                let wanted = if *takes_equal { number >= *threshold } else { number > *threshold };
                prop_assert!(bit >= records_len && bit < records_len + number_tests.len());
                let seen = row[bit / 32] >> (bit % 32) & 1 == 1;
                prop_assert_eq!(seen, wanted, "{} {} {}", number, takes_equal, threshold);
            }
            prop_assert!(row[..records_len / 32].iter().all(|&word| word == 0));
        }
    }
}
