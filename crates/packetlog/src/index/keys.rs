//! Hashes by which a chunk is found: of hosts and of flows.

use std::net::IpAddr;

use engine::prefetch::prefetch;
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
        hosts.extend([key.low(), key.high()].map(|end| host_hash(end.address)));
        flows.push(flow_hash(key));
    }
    let mut scratch = Vec::new();
    for list in [hosts, flows] {
        sort_once(list, &mut scratch);
    }
}

/// Bits of a digit by which hashes are sorted.
const DIGIT_BITS: u32 = 11;
/// Below so many comparing costs less than counting.
const COUNTED_FROM: usize = 512;

/// Sorts hashes, each once: digit by digit, since they are as good as random.
pub(crate) fn sort_once(list: &mut Vec<u32>, scratch: &mut Vec<u32>) {
    if list.len() < COUNTED_FROM {
        list.sort_unstable();
        list.dedup();
        return;
    }
    scratch.clear();
    // The lists change places.
    scratch.reserve(list.capacity());
    scratch.resize(list.len(), 0);
    for shift in (0..u32::BITS).step_by(DIGIT_BITS as usize) {
        let digit = |hash: u32| (hash >> shift) as usize % (1 << DIGIT_BITS);
        let mut places = [0_u32; 1 << DIGIT_BITS];
        for &hash in list.iter() {
            places[digit(hash)] += 1;
        }
        let mut sum = 0;
        for place in &mut places {
            sum += std::mem::replace(place, sum);
        }
        for &hash in list.iter() {
            let place = &mut places[digit(hash)];
            if let Some(to) = scratch.get_mut(*place as usize) {
                *to = hash;
            }
            *place += 1;
        }
        std::mem::swap(list, scratch);
    }
    list.dedup();
}

/// Whether a hash is in a list.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Membership {
    Yes,
    No,
}

/// Whether `hash` is among the sorted little-endian hashes of `bytes`.
pub(crate) fn contains(bytes: &[u8], hash: u32) -> Membership {
    let (words, _) = bytes.as_chunks::<4>();
    match words.binary_search_by_key(&hash, |word| u32::from_le_bytes(*word)) {
        Ok(_) => Membership::Yes,
        Err(_) => Membership::No,
    }
}

/// Flows that a [`FlowBook`] knows at a time.
const FLOW_COUNT: usize = 1 << 16;
/// Flows of which a chunk lists the hashes.
pub(crate) const FLOW_COUNT_MAX: usize = 3 << 15;
/// Hosts of which a chunk remembers that it has listed them already.
const HOST_COUNT: usize = 1 << 10;

/// Hashes of the hosts and flows of a chunk, in no order; few of them twice.
#[derive(Debug)]
pub(crate) struct KeyLists {
    pub(crate) hosts: Vec<u32>,
    pub(crate) flows: Vec<u32>,
    /// Whether there were more than [`FLOW_COUNT_MAX`].
    pub(crate) are_incomplete: bool,
}

impl KeyLists {
    pub(crate) fn new() -> Self {
        Self {
            hosts: Vec::with_capacity(2 * FLOW_COUNT_MAX),
            flows: Vec::with_capacity(FLOW_COUNT_MAX),
            are_incomplete: false,
        }
    }

    pub(crate) fn clear(&mut self) {
        self.hosts.clear();
        self.flows.clear();
        self.are_incomplete = false;
    }
}

/// What is known of a flow.
#[derive(Clone, Copy, Debug, Default)]
struct KnownFlow {
    /// The hash of its key, under a secret seed.
    key: u64,
    /// Its hash in lists.
    flow: u32,
    /// The chunk that has listed it; 0: there is no flow here.
    chunk: u32,
}

/// Flows that share a cache line.
#[derive(Clone, Copy, Debug, Default)]
#[repr(align(64))]
struct KnownFlows([KnownFlow; WAYS]);

const WAYS: usize = 4;

const _: () = assert!(size_of::<KnownFlows>() == 64, "a line");

/// The flows of a stream's packets with their hashes, over many chunks, so that SHA-1 is asked
/// once for a flow and not for each of its packets or chunks: 1 MiB, small enough for a cache.
///
/// A flow is distinguished from others by 64 bits of a hash under a secret seed, as in a sketch. It
/// lies in one of four neighbouring places. Where all are taken, the one that was listed longest
/// ago is forgotten: its flow is listed again when it comes again, and each list is rid of what
/// stands in it twice when it is sorted.
#[derive(Debug)]
pub(crate) struct FlowBook {
    sets: Vec<KnownFlows>,
    seed: HashSeed,
    chunk: u32,
    /// The hash of the latest flow.
    last: Option<u64>,
    /// By their first bits, the hosts that the chunk has listed last.
    hosts: Vec<u32>,
}

impl FlowBook {
    pub(crate) fn new(seed: HashSeed) -> Self {
        let sets = vec![KnownFlows::default(); FLOW_COUNT / WAYS];
        let mut book = Self { sets, seed, chunk: 0, last: None, hosts: vec![0; HOST_COUNT] };
        book.begin();
        book
    }

    /// For another chunk, which has listed nothing yet.
    pub(crate) fn begin(&mut self) {
        self.chunk = self.chunk.wrapping_add(1);
        if self.chunk == 0 {
            self.sets.fill(KnownFlows::default());
            self.chunk = 1;
        }
        self.last = None;
        for (place, host) in (0..).zip(&mut self.hosts) {
            // A hash that lies elsewhere.
            *host = (place ^ 1) << Self::HOST_SHIFT;
        }
    }

    const HOST_SHIFT: u32 = u32::BITS - HOST_COUNT.trailing_zeros();

    #[inline(always)]
    fn set_of(hash: u64) -> usize {
        (hash >> (u64::BITS - (FLOW_COUNT / WAYS).trailing_zeros())) as usize
    }

    /// Asks for what [`FlowBook::list`] looks at, some packets ahead.
    #[inline(always)]
    pub(crate) fn prefetch(&self, key: &FlowKey) {
        if let Some(set) = self.sets.get(Self::set_of(key.key_hash(self.seed))) {
            prefetch(set);
        }
    }

    /// Lists the hashes of a flow and its hosts, unless the chunk has them.
    #[inline(always)]
    pub(crate) fn list(&mut self, key: &FlowKey, lists: &mut KeyLists) {
        let hash = key.key_hash(self.seed);
        if self.last == Some(hash) {
            return;
        }
        self.last = Some(hash);
        let Some(set) = self.sets.get_mut(Self::set_of(hash)) else { return };
        if let Some(known) = set.0.iter_mut().find(|known| known.key == hash && known.chunk != 0) {
            if known.chunk != self.chunk {
                known.chunk = self.chunk;
                let flow = known.flow;
                self.put(key, flow, lists);
            }
            return;
        }
        self.learn(key, hash, lists);
    }

    #[inline(never)]
    fn learn(&mut self, key: &FlowKey, hash: u64, lists: &mut KeyLists) {
        let flow = flow_hash(key);
        if let Some(set) = self.sets.get_mut(Self::set_of(hash))
            && let Some(oldest) = set.0.iter_mut().min_by_key(|known| known.chunk)
        {
            *oldest = KnownFlow { key: hash, flow, chunk: self.chunk };
        }
        self.put(key, flow, lists);
    }

    #[inline(always)]
    fn put(&mut self, key: &FlowKey, flow: u32, lists: &mut KeyLists) {
        if lists.flows.len() >= FLOW_COUNT_MAX {
            lists.are_incomplete = true;
            return;
        }
        lists.flows.push(flow);
        for end in [key.low(), key.high()] {
            let host = host_hash(end.address);
            let listed = self.hosts.get_mut((host >> Self::HOST_SHIFT) as usize);
            if let Some(listed) = listed.filter(|listed| **listed != host) {
                *listed = host;
                lists.hosts.push(host);
            }
        }
    }
}

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
    fn a_chunk_lists_every_flow_of_its_packets_whatever_the_book_has_forgotten() {
        let mut book = FlowBook::new(HashSeed::new(1));
        let mut lists = KeyLists::new();
        let mut scratch = Vec::new();
        // More flows than the book knows, so that chunks meet known and forgotten ones.
        for chunk in 0..12 {
            book.begin();
            lists.clear();
            let keys: Vec<_> = (0..8_000).map(|at| key((chunk % 10) * 7_500 + at)).collect();
            for key in keys.iter().chain(&keys) {
                book.prefetch(key);
                book.list(key, &mut lists);
            }
            assert!(lists.flows.len() < 9_000, "hardly any twice: {}", lists.flows.len());
            assert!(lists.hosts.len() < 4_000, "few hosts twice: {}", lists.hosts.len());
            let (mut hosts, mut flows) = (Vec::new(), Vec::new());
            key_lists(&keys, &mut hosts, &mut flows);
            for (list, wanted) in [(&mut lists.hosts, hosts), (&mut lists.flows, flows)] {
                sort_once(list, &mut scratch);
                assert_eq!(*list, wanted, "chunk {chunk}");
            }
            assert!(!lists.are_incomplete);
        }
    }

    #[test]
    fn a_list_that_is_full_says_that_more_came() {
        let mut book = FlowBook::new(HashSeed::new(1));
        let mut lists = KeyLists::new();
        (0..FLOW_COUNT_MAX as u32).for_each(|number| book.list(&key(number * 7), &mut lists));
        assert_eq!((lists.flows.len(), lists.are_incomplete), (FLOW_COUNT_MAX, false));
        book.list(&key(1), &mut lists);
        assert_eq!((lists.flows.len(), lists.are_incomplete), (FLOW_COUNT_MAX, true));
        lists.clear();
        book.begin();
        book.list(&key(1), &mut lists);
        assert_eq!((lists.flows.len(), lists.are_incomplete), (1, false));
    }

    #[test]
    fn a_book_that_has_counted_all_chunks_begins_anew() {
        let mut book = FlowBook::new(HashSeed::new(1));
        let mut lists = KeyLists::new();
        book.list(&key(1), &mut lists);
        book.chunk = u32::MAX;
        book.begin();
        lists.clear();
        book.list(&key(1), &mut lists);
        assert_eq!((book.chunk, lists.flows.len(), lists.hosts.len()), (1, 1, 2));
    }

    #[test]
    fn counting_sorts_as_comparing_does() {
        let mut scratch = Vec::new();
        for len in [0, 1, COUNTED_FROM - 1, COUNTED_FROM, 5_000] {
            let mut list: Vec<u32> = (0..len as u64).map(|at| (mix(at / 2) >> 32) as u32).collect();
            list.extend([0, u32::MAX, 0]);
            let mut wanted = list.clone();
            wanted.sort_unstable();
            wanted.dedup();
            sort_once(&mut list, &mut scratch);
            assert_eq!(list, wanted, "{len}");
        }
    }

    #[test]
    fn lists_are_sorted_and_searched() {
        let keys: Vec<_> = (0..100).map(key).collect();
        let (mut hosts, mut flows) = (vec![7], vec![7]);
        key_lists(&keys, &mut hosts, &mut flows);
        let bytes: Vec<u8> = hosts.iter().flat_map(|hash| hash.to_le_bytes()).collect();
        assert_eq!(hosts.len(), 101, "one host with a hundred peers");
        assert_eq!(contains(&bytes, host_hash([192, 168, 0, 99].into())), Membership::Yes);
        assert_eq!(contains(&bytes, host_hash([192, 168, 0, 100].into())), Membership::No);
        assert_eq!(contains(&[], 1), Membership::No);
    }
}
