//! The columns of a model's input: header bits and numbers, in any order.

use std::collections::HashMap;

use crate::first::{BitColumns, FeaturesError, FlowFeatures};

/// Where in the input each bit and each number goes.
#[derive(Clone, Debug)]
pub(super) struct InputColumns {
    bits: BitColumns,
    bit_places: Vec<usize>,
    /// Place, and which of the numbers.
    numbers: Vec<(usize, usize)>,
}

impl InputColumns {
    pub(super) fn new(features: &FlowFeatures, names: &[String]) -> Result<Self, FeaturesError> {
        let known: HashMap<_, _> = features.names().iter().zip(0..).collect();
        let (mut bits, mut bit_places, mut numbers) = (Vec::new(), Vec::new(), Vec::new());
        for (place, name) in names.iter().enumerate() {
            if let Some(&index) = known.get(name) {
                numbers.push((place, index));
            } else {
                bits.push(name);
                bit_places.push(place);
            }
        }
        Ok(Self { bits: BitColumns::new(features, bits)?, bit_places, numbers })
    }

    pub(super) fn len(&self) -> usize {
        self.bit_places.len() + self.numbers.len()
    }

    /// Writes the values of a row, one a column; `bits` is room that is used again.
    pub(super) fn put(&self, records: &[u8], numbers: &[f64], bits: &mut Vec<i8>, out: &mut [f32]) {
        bits.resize(self.bits.len(), 0);
        self.bits.put(records, bits);
        for (&place, &bit) in self.bit_places.iter().zip(bits.iter()) {
            if let Some(out) = out.get_mut(place) {
                *out = bit.into();
            }
        }
        for &(place, index) in &self.numbers {
            if let (Some(out), Some(&number)) = (out.get_mut(place), numbers.get(index)) {
                // Numbers of flows are rounded to 32 bits where they are made.
                *out = number as f32;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::Layout;
    use crate::schema::Headers;

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|&name| name.to_owned()).collect()
    }

    #[test]
    fn a_row_is_what_its_columns_name() {
        let numbers = names(&["protocol", "pkt0_size_bytes"]);
        let layout = Layout::default();
        let features = FlowFeatures::of_layout(Headers::Innermost, layout, 2, &numbers).unwrap();
        let wanted = [
            "pkt0_size_bytes",
            "pkt0_ipv4_ver_1",
            "pkt0_ipv4_ver_0",
            "protocol",
            "pkt1_ipv4_ver_1",
            "pkt0_udp_len_0",
        ];
        let columns = InputColumns::new(&features, &names(&wanted)).unwrap();
        let mut record = [0; 144];
        record[0] = 0x45;
        record[128] = 0x80;
        let (mut bits, mut row) = (Vec::new(), [0.0; 6]);
        columns.put(&record, &[17.0, 1500.0], &mut bits, &mut row);
        assert_eq!(row, [1500.0, 1.0, 0.0, 17.0, -1.0, -1.0]);
        columns.put(&[record, record].concat(), &[17.0, 1500.0], &mut bits, &mut row);
        assert_eq!(row, [1500.0, 1.0, 0.0, 17.0, 1.0, -1.0]);
        let refused = InputColumns::new(&features, &names(&["pkt2_ipv4_ver_1"])).unwrap_err();
        assert!(refused.to_string().starts_with("pkt2_ipv4_ver_1: no column"), "{refused}");
    }
}
