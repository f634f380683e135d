//! Hashes by which a chunk is found: of hosts and of flows.

use std::net::IpAddr;

use packet::community_id::{DIGEST_LEN, community_digest};
use packet::{FlowKey, HashSeed, KeyHash};

/// Hash of a host's address. The same in every log, as it lies in files: the seed is no secret,
/// and a sender who chooses addresses that share a hash makes queries read more, no less.
#[must_use]
pub fn host_hash(address: IpAddr) -> u32 {
    let (low, high) = match address {
        IpAddr::V4(address) => (u64::from(address.to_bits()), u64::MAX),
        IpAddr::V6(address) => (address.to_bits() as u64, (address.to_bits() >> 64) as u64),
    };
    (mix(low ^ mix(high)) >> 32) as u32
}

/// Mixing of splitmix64 (Steele, Lea, Flood, 2014).
const fn mix(state: u64) -> u64 {
    let mut z = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Hash of a flow: the first four bytes of its Community ID's, so that a flow is found by its
/// name as well as by its addresses and ports.
#[must_use]
pub fn flow_hash(key: &FlowKey) -> u32 {
    flow_hash_of_digest(&community_digest(key, 0))
}

/// The same from what [`packet::community_id::parse_community_id`] reads.
#[must_use]
pub fn flow_hash_of_digest(digest: &[u8; DIGEST_LEN]) -> u32 {
    let [a, b, c, d, ..] = *digest;
    u32::from_be_bytes([a, b, c, d])
}

/// Sorted hashes of the hosts and the flows of `keys`, each once.
pub(crate) fn key_lists(keys: &[FlowKey], hosts: &mut Vec<u32>, flows: &mut Vec<u32>) {
    hosts.clear();
    flows.clear();
    for key in keys {
        hosts.push(host_hash(key.low().address));
        hosts.push(host_hash(key.high().address));
        flows.push(flow_hash(key));
    }
    for list in [hosts, flows] {
        list.sort_unstable();
        list.dedup();
    }
}

/// Whether a hash is in a list.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Found {
    Yes,
    No,
}

/// Whether `hash` is among the sorted little-endian hashes of `bytes`.
pub(crate) fn contains(bytes: &[u8], hash: u32) -> Found {
    let (words, _) = bytes.as_chunks::<4>();
    match words.binary_search_by_key(&hash, |word| u32::from_le_bytes(*word)) {
        Ok(_) => Found::Yes,
        Err(_) => Found::No,
    }
}

/// Slots of a [`FlowSet`].
const SLOT_COUNT: usize = 1 << 15;
/// Flows it takes: three quarters.
pub(crate) const FLOW_COUNT_MAX: usize = SLOT_COUNT / 4 * 3;
/// Slots looked at for one flow. Chance needs far fewer; a sender who made flows collide would
/// have the chunk say that its index is not whole, and no more.
const PROBE_COUNT_MAX: usize = 128;

/// Which flows a chunk has already: 128 KiB, open addressing, exact.
///
/// A slot holds 16 bits of the hash and the flow's place in the chunk's list, plus one.
#[derive(Debug)]
pub(crate) struct FlowSet {
    slots: Vec<u32>,
    seed: HashSeed,
    last: Option<FlowKey>,
}

impl FlowSet {
    pub(crate) fn new(seed: HashSeed) -> Self {
        Self { slots: vec![0; SLOT_COUNT], seed, last: None }
    }

    /// For another chunk.
    pub(crate) fn clear(&mut self) {
        self.slots.fill(0);
        self.last = None;
    }

    /// Adds `key` to `flows` where it is not there yet; false where there is no room.
    #[inline]
    pub(crate) fn insert(&mut self, key: &FlowKey, flows: &mut Vec<FlowKey>) -> bool {
        if self.last.as_ref() == Some(key) {
            return true;
        }
        self.last = Some(*key);
        let hash = key.key_hash(self.seed);
        let tag = (hash as u32) << 16;
        let start = (hash >> (64 - SLOT_COUNT.trailing_zeros())) as usize;
        for step in 0..PROBE_COUNT_MAX {
            let Some(slot) = self.slots.get_mut((start + step) % SLOT_COUNT) else { return false };
            if *slot == 0 {
                if flows.len() >= FLOW_COUNT_MAX {
                    return false;
                }
                flows.push(*key);
                *slot = tag | flows.len() as u32;
                return true;
            }
            let place = (*slot & 0xffff) as usize;
            if *slot & 0xffff_0000 == tag && flows.get(place - 1) == Some(key) {
                return true;
            }
        }
        false
    }
}

const _: () = assert!(FLOW_COUNT_MAX < u16::MAX as usize, "a place has 16 bits");

#[cfg(test)]
mod tests {
    use packet::Protocol;

    use super::*;

    fn key(number: u32) -> FlowKey {
        let [a, b, c, d] = number.to_be_bytes();
        let port = u16::from_be_bytes([c, d]);
        let (host, peer) = ([10, a, b, c].into(), [192, 168, 0, d].into());
        FlowKey::from_tuple(host, peer, port, 443, Protocol::TCP).0
    }

    /// Files hold these numbers: they must never change.
    #[test]
    fn hashes_stay_what_they_are() {
        assert_eq!(host_hash([10, 0, 0, 1].into()), 0xeedf_df08);
        assert_eq!(host_hash("2001:db8::1".parse().unwrap()), 0x4de8_97d9);
        let low = "128.232.110.120".parse().unwrap();
        let high = "66.35.250.204".parse().unwrap();
        let key = FlowKey::from_tuple(low, high, 34_855, 80, Protocol::TCP).0;
        // 1:LQU9qZlK+B5F3KDmev6m5PMibrg=
        assert_eq!(flow_hash(&key), 0x2d05_3da9);
    }

    #[test]
    fn every_flow_is_in_the_set_once_until_it_is_full() {
        let mut set = FlowSet::new(HashSeed::new(1));
        let mut flows = Vec::new();
        for round in 0..2 {
            for number in 0..FLOW_COUNT_MAX as u32 {
                assert!(set.insert(&key(number * 7), &mut flows), "{round} {number}");
            }
        }
        assert_eq!(flows.len(), FLOW_COUNT_MAX);
        assert!(!set.insert(&key(1), &mut flows), "one more");
        let unique: std::collections::HashSet<_> = flows.iter().collect();
        assert_eq!(unique.len(), FLOW_COUNT_MAX);
        set.clear();
        flows.clear();
        assert!(set.insert(&key(1), &mut flows) && flows.len() == 1);
    }

    #[test]
    fn lists_are_sorted_and_searched() {
        let keys: Vec<_> = (0..100).map(key).collect();
        let (mut hosts, mut flows) = (vec![7], vec![7]);
        key_lists(&keys, &mut hosts, &mut flows);
        let bytes: Vec<u8> = hosts.iter().flat_map(|hash| hash.to_le_bytes()).collect();
        assert_eq!(hosts.len(), 101, "one host with a hundred peers");
        assert_eq!(contains(&bytes, host_hash([192, 168, 0, 99].into())), Found::Yes);
        assert_eq!(contains(&bytes, host_hash([192, 168, 0, 100].into())), Found::No);
        assert_eq!(contains(&[], 1), Found::No);
    }
}
