//! What a split asks, as a file writes it.

use std::collections::HashMap;

use super::reason::shown;
use crate::layout::Layout;

/// A comparison of a number beside the records.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct NumberTest {
    /// Which number.
    pub(super) index: usize,
    /// What it is compared with.
    pub(super) threshold: f64,
    /// Whether the threshold itself goes right: `x < threshold` is the left, not `x <= threshold`.
    pub(super) takes_equal: bool,
}

impl NumberTest {
    /// Whether the number goes right. One that is none goes left.
    pub(super) fn is_right(self, numbers: &[f64]) -> bool {
        numbers.get(self.index).is_some_and(|&number| {
            number > self.threshold || (self.takes_equal && number == self.threshold)
        })
    }
}

/// Where the tests of a file lie in a row.
pub(super) struct Names {
    columns: HashMap<String, usize>,
    numbers: HashMap<String, usize>,
    layout: Layout,
    packet_count: usize,
    /// Those of them that compare numbers, in order: each a bit behind the records.
    pub(super) number_tests: Vec<NumberTest>,
}

impl Names {
    pub(super) fn new(layout: Layout, packet_count: usize, numbers: &[String]) -> Self {
        let columns = layout.columns().enumerate().map(|(column, name)| (name, column)).collect();
        let numbers = numbers.iter().enumerate().map(|(index, name)| (name.clone(), index));
        let numbers = numbers.collect();
        Self { columns, numbers, layout, packet_count, number_tests: Vec::new() }
    }

    /// The bit of a row that answers a test.
    pub(super) fn bit(&mut self, test: &str) -> Result<usize, String> {
        if let Some(name) = test.strip_suffix(" is 1") {
            let (packet, column) = self.column(name)?;
            return Ok(packet * self.layout.record_len() * 8 + column);
        }
        if let Some(name) = test.strip_suffix(" is there") {
            let (packet, column) = self.column(name)?;
            return Ok(packet * self.layout.record_len() * 8 + self.layout.presence_bit(column));
        }
        let mut words = test.split(' ');
        if let (Some(name), Some(sign @ (">" | ">=")), Some(threshold), None) =
            (words.next(), words.next(), words.next(), words.next())
        {
            let known = self.numbers.get(name);
            let &index = known.ok_or_else(|| {
                format!("{} is none of `numbers`; wanted: one of those", shown(name))
            })?;
            let threshold: f64 =
                threshold.parse().ok().filter(|t: &f64| t.is_finite()).ok_or_else(|| {
                    format!("{} is no threshold; wanted: a finite number", shown(threshold))
                })?;
            let takes_equal = sign == ">=";
            self.number_tests.push(NumberTest { index, threshold, takes_equal });
            let records_len = self.layout.record_len() * self.packet_count;
            return Ok(records_len * 8 + self.number_tests.len() - 1);
        }
        Err(format!(
            "{} is no test; wanted: `COLUMN is 1`, `COLUMN is there`, `NUMBER > 5`, \
             or `NUMBER >= 5`",
            shown(test)
        ))
    }

    /// `pkt3_tcp_syn_0` as the packet and the column in its record.
    fn column(&self, name: &str) -> Result<(usize, usize), String> {
        let unknown = || {
            format!(
                "{} is no column of these blocks; wanted: such as `pkt0_{}`",
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
