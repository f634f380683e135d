//! Columns of a model's input, found by their names in a row.

use std::collections::HashMap;

use super::OnnxError;
use crate::layout::Layout;

/// Where a column's value comes from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Source {
    /// A header bit: the bit itself, and the bit that says whether its byte is there, both counted
    /// from the first record's first.
    Bit { value: u32, presence: u32 },
    /// A number beside the records.
    Number(u32),
}

/// What each column of the input is.
#[derive(Clone, Debug)]
pub(super) struct Columns {
    sources: Vec<Source>,
    number_count: usize,
    records_len: usize,
}

impl Columns {
    pub(super) fn find(
        layout: Layout,
        packet_count: usize,
        numbers: &[String],
        names: &[String],
    ) -> Result<Self, OnnxError> {
        let bits: HashMap<String, usize> =
            layout.columns().enumerate().map(|(column, name)| (name, column)).collect();
        let numbers_at: HashMap<&str, usize> =
            numbers.iter().enumerate().map(|(index, name)| (name.as_str(), index)).collect();
        let find = |name: &String| {
            if let Some(&index) = numbers_at.get(name.as_str()) {
                return u32::try_from(index).ok().map(Source::Number);
            }
            let (packet, column) = name.strip_prefix("pkt")?.split_once('_')?;
            let packet = packet.parse().ok().filter(|&packet: &usize| packet < packet_count)?;
            let column = *bits.get(column)?;
            let first = packet.checked_mul(layout.record_len())?.checked_mul(8)?;
            Some(Source::Bit {
                value: u32::try_from(first + column).ok()?,
                presence: u32::try_from(first + layout.presence_bit(column)).ok()?,
            })
        };
        let found = |name: &String| {
            find(name).ok_or_else(|| OnnxError::Column { name: name.clone(), packet_count })
        };
        Ok(Self {
            sources: names.iter().map(found).collect::<Result<_, _>>()?,
            number_count: numbers.len(),
            records_len: layout.record_len() * packet_count,
        })
    }

    pub(super) const fn len(&self) -> usize {
        self.sources.len()
    }

    pub(super) const fn number_count(&self) -> usize {
        self.number_count
    }

    /// Appends the values of a row: −1 for a bit that is not there. Numbers are rounded to 32 bits.
    pub(super) fn append(
        &self,
        records: &[u8],
        numbers: &[f64],
        to: &mut Vec<f32>,
    ) -> Result<(), OnnxError> {
        if records.len() > self.records_len {
            return Err(OnnxError::RecordsLen { seen: records.len(), wanted: self.records_len });
        }
        if numbers.len() != self.number_count {
            return Err(OnnxError::NumberCount { seen: numbers.len(), wanted: self.number_count });
        }
        let bit = |index: u32| {
            let byte = records.get(index as usize / 8).copied().unwrap_or(0);
            i8::from(byte & (0x80 >> (index % 8)) != 0)
        };
        to.extend(self.sources.iter().map(|source| match *source {
            // A bit whose byte is not there is 0.
            Source::Bit { value, presence } => f32::from(bit(value) + bit(presence) - 1),
            #[expect(clippy::cast_possible_truncation, reason = "models read 32-bit numbers")]
            Source::Number(index) => {
                numbers.get(index as usize).copied().unwrap_or_default() as f32
            }
        }));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|&name| name.to_owned()).collect()
    }

    #[test]
    fn a_row_is_what_its_columns_name() {
        let layout = Layout::default();
        let numbers = names(&["protocol", "pkt0_size_bytes"]);
        let wanted = names(&[
            "pkt0_size_bytes",
            "pkt0_ipv4_ver_1",
            "pkt0_ipv4_ver_0",
            "pkt1_ipv4_ver_1",
            "pkt0_udp_len_0",
            "protocol",
        ]);
        let columns = Columns::find(layout, 2, &numbers, &wanted).unwrap();
        let mut record = [0; 144];
        record[0] = 0x45;
        record[128] = 0x80;
        let mut row = Vec::new();
        columns.append(&record, &[17.0, 1500.0], &mut row).unwrap();
        assert_eq!(row, [1500.0, 1.0, 0.0, -1.0, -1.0, 17.0]);
        let twice: Vec<u8> = [record, record].concat();
        columns.append(&twice, &[17.0, 1500.0], &mut row).unwrap();
        assert_eq!(row[6..], [1500.0, 1.0, 0.0, 1.0, -1.0, 17.0]);
    }

    #[test]
    fn what_is_not_there_is_refused_by_name() {
        let refused = |name: &str| {
            Columns::find(Layout::default(), 2, &[], &names(&[name])).unwrap_err().to_string()
        };
        for name in ["pkt2_ipv4_ver_0", "ipv4_ver_0", "pkt0_ipv6_ver_0", "pkt_ipv4_ver_0", "size"] {
            assert!(refused(name).starts_with(&format!("column {name:?}")), "{}", refused(name));
        }
        let columns = Columns::find(Layout::default(), 1, &[], &names(&["pkt0_udp_len_0"]));
        let columns = columns.unwrap();
        let mut row = Vec::new();
        assert_eq!(
            columns.append(&[0; 145], &[], &mut row),
            Err(OnnxError::RecordsLen { seen: 145, wanted: 144 })
        );
        assert_eq!(
            columns.append(&[], &[1.0], &mut row),
            Err(OnnxError::NumberCount { seen: 1, wanted: 0 })
        );
        assert!(row.is_empty());
    }
}
