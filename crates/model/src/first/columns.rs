//! Header bits of a flow's row as values, one by one, as trainers want them.

use std::collections::HashMap;

use super::features::{FeaturesError, FlowFeatures};

/// What stands where there is no value.
const MISSING: i8 = -1;

/// Where a bit lies, and the bit that says whether it is there: the byte of each, counted through
/// all packets, and how far from its highest bit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Place {
    byte: u32,
    presence: u32,
    shift: u8,
    presence_shift: u8,
}

/// Header bits by name, in any order.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BitColumns {
    places: Vec<Place>,
}

impl BitColumns {
    /// The bits of these names, such as `pkt0_tcp_syn_0`.
    ///
    /// # Errors
    /// [`FeaturesError::NoColumn`] with the first that is none of the features.
    pub fn new<S: AsRef<str>>(
        features: &FlowFeatures,
        names: impl IntoIterator<Item = S>,
    ) -> Result<Self, FeaturesError> {
        let layout = features.layout();
        let columns: HashMap<_, _> =
            layout.columns().enumerate().map(|(index, name)| (name, index)).collect();
        let find = |name: &str| {
            let (packet, column) = name.strip_prefix("pkt")?.split_once('_')?;
            let &bit = columns.get(column)?;
            let index: usize = packet.parse().ok().filter(|&index| index < features.packets())?;
            // A name is written in one way only: not `pkt00_…`.
            (index.to_string() == packet).then_some(())?;
            let (start, presence) = (layout.record_len() * index, layout.presence_bit(bit));
            Some(Place {
                byte: u32::try_from(start + bit / 8).ok()?,
                presence: u32::try_from(start + presence / 8).ok()?,
                shift: (bit % 8) as u8,
                presence_shift: (presence % 8) as u8,
            })
        };
        let place = |name: S| {
            let name = name.as_ref();
            find(name).ok_or_else(|| FeaturesError::NoColumn {
                name: name.to_owned(),
                example: format!("pkt0_{}", layout.columns().next().unwrap_or_default()),
            })
        };
        Ok(Self { places: names.into_iter().map(place).collect::<Result<_, _>>()? })
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// Writes the values of a flow's records: 0, 1, and −1 for a bit that is not there. Packets
    /// that the flow does not have may be left out.
    pub fn put(&self, records: &[u8], out: &mut [i8]) {
        for (out, place) in out.iter_mut().zip(&self.places) {
            *out = place.value(records);
        }
    }
}

impl Place {
    #[inline]
    fn value(self, records: &[u8]) -> i8 {
        match (records.get(self.byte as usize), records.get(self.presence as usize)) {
            (Some(byte), Some(presence)) if presence << self.presence_shift & 0x80 != 0 => {
                ((byte << self.shift) >> 7).cast_signed()
            }
            _ => MISSING,
        }
    }
}

/// Which values the bits of rows have had, to find those that never change.
#[derive(Clone, Debug)]
pub struct SeenBits {
    features: FlowFeatures,
    /// Of each byte of each packet: bits that were 1, and that were 0.
    ones: Vec<u8>,
    zeros: Vec<u8>,
    /// Whether it was ever there, and ever not.
    there: Vec<bool>,
    absent: Vec<bool>,
}

impl SeenBits {
    /// No rows yet.
    #[must_use]
    pub fn new(features: FlowFeatures) -> Self {
        let len = features.layout().data_len() * features.packets();
        let (ones, zeros) = (vec![0; len], vec![0; len]);
        Self { features, ones, zeros, there: vec![false; len], absent: vec![false; len] }
    }

    /// Takes in the records of a flow; packets that it does not have may be left out.
    pub fn add(&mut self, records: &[u8]) {
        let layout = self.features.layout();
        let data_len = layout.data_len();
        let mut packets = records.chunks_exact(layout.record_len());
        let bits = self.ones.chunks_exact_mut(data_len).zip(self.zeros.chunks_exact_mut(data_len));
        let seen =
            self.there.chunks_exact_mut(data_len).zip(self.absent.chunks_exact_mut(data_len));
        for ((ones, zeros), (there, absent)) in bits.zip(seen) {
            let Some((data, presence)) =
                packets.next().and_then(|record| record.split_at_checked(data_len))
            else {
                absent.fill(true);
                continue;
            };
            let bits = ones.iter_mut().zip(zeros).zip(there.iter_mut().zip(absent));
            for (index, (&byte, ((ones, zeros), (there, absent)))) in
                data.iter().zip(bits).enumerate()
            {
                let presence = presence.get(index / 8).copied().unwrap_or_default();
                if presence << (index % 8) & 0x80 == 0 {
                    *absent = true;
                } else {
                    *there = true;
                    *ones |= byte;
                    *zeros |= !byte;
                }
            }
        }
    }

    /// Names of the columns that have had two values at least, in order.
    #[must_use]
    pub fn varying(&self) -> Vec<String> {
        let layout = self.features.layout();
        let names: Vec<_> = layout.columns().collect();
        let mut varying = Vec::new();
        for packet in 0..self.features.packets() {
            for (column, name) in names.iter().enumerate() {
                let byte = packet * layout.data_len() + column / 8;
                let both = self.ones[byte] & self.zeros[byte];
                let comes_and_goes = self.there[byte] && self.absent[byte];
                if comes_and_goes || both << (column % 8) & 0x80 != 0 {
                    varying.push(format!("pkt{packet}_{name}"));
                }
            }
        }
        varying
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::block::Block;
    use crate::schema::Headers;
    use crate::subscription::{Subscription, SubscriptionRequest};

    proptest! {
        #![proptest_config(ProptestConfig { cases: 32, ..ProptestConfig::default() })]

        #[test]
        fn columns_have_the_values_of_the_subscription(
            bytes in prop::collection::vec(any::<u8>(), 0..200),
            packets in 1_usize..4,
            payload_bytes in 0_u16..5,
            rows in 1_usize..5,
        ) {
            let blocks = [Block::Tcp, Block::Icmp];
            let headers = Headers::Innermost;
            let features = FlowFeatures::new(headers, &blocks, payload_bytes, packets, &[]);
            let features = features.unwrap();
            let layout = features.layout();
            let request = SubscriptionRequest { layout, ..SubscriptionRequest::default() };
            let some = Subscription::new(&request).unwrap();
            let all = (0..packets).flat_map(|packet| layout.columns().map(move |n| (packet, n)));
            let names: Vec<_> = all.map(|(packet, name)| format!("pkt{packet}_{name}")).collect();
            let all = BitColumns::new(&features, &names).unwrap();
            let mut seen = SeenBits::new(features.clone());
            let mut matrix = Vec::new();
            for row in 0..rows {
                let whole = bytes.len().saturating_sub(row * 40) / layout.record_len();
                let records = &bytes[..whole.min(packets) * layout.record_len()];
                let mut wanted = Vec::new();
                for record in records.chunks_exact(layout.record_len()) {
                    some.values(record, &mut wanted);
                }
                wanted.resize(names.len(), -1);
                let mut values = vec![9; names.len()];
                all.put(records, &mut values);
                prop_assert_eq!(&values, &wanted);
                seen.add(records);
                matrix.push(wanted);
            }
            let first = &matrix[0];
            let varies = |&column: &usize| matrix.iter().any(|row| row[column] != first[column]);
            let varying: Vec<_> =
                (0..names.len()).filter(varies).map(|column| names[column].clone()).collect();
            prop_assert_eq!(seen.varying(), varying);
        }
    }

    #[test]
    fn a_column_that_is_none_is_named() {
        let features = FlowFeatures::new(Headers::Innermost, &[Block::Udp], 0, 2, &[]).unwrap();
        for name in ["pkt2_udp_len_0", "pkt00_udp_len_0", "pkt+1_udp_len_0", "protocol", "pkt0_"] {
            let refusal = BitColumns::new(&features, [name]).unwrap_err().to_string();
            let wanted =
                format!("{name}: no column of the features; wanted: such as pkt0_udp_spor");
            assert!(refusal.starts_with(&wanted), "{refusal}");
        }
        assert_eq!(BitColumns::new(&features, ["pkt1_udp_len_0"]).unwrap().len(), 1);
    }
}
