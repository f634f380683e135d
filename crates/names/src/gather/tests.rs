use proptest::prelude::*;

use super::*;

fn ordered(gather: &mut Gather, pieces: &[(u64, &[u8])]) -> usize {
    pieces.iter().map(|(offset, piece)| gather.insert(*offset, piece)).last().unwrap_or(0)
}

#[test]
fn pieces_are_put_in_order() {
    let mut gather = Gather::new();
    assert_eq!(gather.insert(3, b"def"), 0);
    assert_eq!(gather.bytes(), b"");
    assert_eq!(gather.insert(0, b"ab"), 2);
    assert_eq!(gather.insert(1, b"bcd"), 6);
    assert_eq!(gather.bytes(), b"abcdef");
    assert_eq!((gather.contradictions(), gather.is_cut()), (0, false));
    gather.clear();
    assert_eq!(gather.bytes(), b"");
    assert_eq!(gather.insert(1, b"x"), 0);
}

#[test]
fn of_two_bytes_at_one_place_the_first_one_holds() {
    let mut gather = Gather::new();
    gather.insert(2, b"good");
    gather.insert(0, b"a evil");
    gather.insert(0, b"A");
    gather.insert(0, b"a ");
    assert_eq!((gather.bytes(), gather.contradictions()), (&b"a good"[..], 2));
    assert_eq!(format!("{gather:?}"), "Gather(6 bytes, 2 contradictions, is_cut false)");
}

#[test]
fn what_is_beyond_the_limit_is_dropped_and_said() {
    let mut gather = Gather::new();
    assert_eq!(gather.insert(0, &[7; LEN_MAX + 1]), LEN_MAX);
    assert!(gather.is_cut());
    let mut gather = Gather::new();
    assert_eq!(gather.insert(0, &[7; LEN_MAX]), LEN_MAX);
    assert!(!gather.is_cut());
    for offset in [LEN_MAX as u64, u64::from(u32::MAX) + 1, u64::MAX] {
        let mut gather = Gather::new();
        assert_eq!(gather.insert(offset, b"x"), 0);
        assert!(gather.is_cut());
        assert_eq!(gather.insert(offset, b""), 0);
    }
}

#[test]
fn a_handle_finds_its_own_gather_and_nothing_later() {
    let mut pool = Pool::new(2 * Pool::SLOT_BYTES);
    let (a, b) = (pool.lend(), pool.lend());
    pool.get_mut(a).unwrap().insert(0, b"a");
    pool.get_mut(b).unwrap().insert(0, b"b");
    assert_eq!(pool.get(a).unwrap().bytes(), b"a");
    pool.give_back(a);
    pool.give_back(a);
    assert!(pool.get(a).is_none() && pool.get_mut(a).is_none());
    let c = pool.lend();
    assert_eq!((c.index, pool.get(c).unwrap().bytes()), (a.index, &b""[..]));
    assert!(pool.get(a).is_none());
    assert_eq!((pool.in_use(), pool.evicted()), (2, 0));
    assert_eq!(format!("{pool:?}"), "Pool(2 of 2 in use, 0 evicted)");
}

#[test]
fn the_one_used_least_recently_is_evicted() {
    let mut pool = Pool::new(3 * Pool::SLOT_BYTES);
    let [a, b, c] = [(); 3].map(|()| pool.lend());
    pool.get_mut(a).unwrap().insert(0, b"a");
    // Looking without a change is no use.
    assert!(pool.get(b).is_some());
    let d = pool.lend();
    assert!(pool.get(b).is_none() && pool.evicted() == 1);
    pool.give_back(b);
    let e = pool.lend();
    assert!(pool.get(c).is_none() && pool.evicted() == 2);
    assert_eq!(pool.get(a).unwrap().bytes(), b"a");
    assert_eq!(pool.in_use(), 3);
    [a, d, e].into_iter().for_each(|handle| pool.give_back(handle));
    assert_eq!((pool.in_use(), pool.newest, pool.oldest), (0, NONE, NONE));
}

#[test]
fn memory_is_flat_under_a_flood_of_half_open_handshakes() {
    let mut pool = Pool::new(1 << 20);
    assert_eq!(pool.size_bytes(), 0, "allocated on demand");
    let count_max = pool.count_max();
    let mut sizes = Vec::new();
    for round in 0..20 {
        for _ in 0..count_max {
            let handle = pool.lend();
            pool.get_mut(handle).unwrap().insert(0, &[1; 600]);
            assert!(pool.size_bytes() <= 1 << 20);
        }
        sizes.push(pool.size_bytes());
        assert_eq!(pool.in_use(), count_max);
        assert_eq!(pool.evicted(), (round * count_max) as u64);
    }
    assert!(sizes.iter().all(|&size| size == sizes[0]), "{sizes:?}");
    assert!(sizes[0] > (1 << 20) * 9 / 10, "the budget is there to be used");
    assert_eq!(Pool::default().count_max(), BYTES_MAX / Pool::SLOT_BYTES);
}

#[test]
fn a_pool_of_no_memory_has_one_gather() {
    let mut pool = Pool::new(0);
    let (a, b) = (pool.lend(), pool.lend());
    assert!(pool.get(a).is_none() && pool.get(b).is_some());
    assert_eq!((pool.in_use(), pool.evicted()), (1, 1));
}

/// What a gather holds, byte by byte.
fn model(pieces: &[(usize, Vec<u8>)]) -> (Vec<Option<u8>>, u32) {
    let (mut bytes, mut contradictions) = (vec![None; LEN_MAX], 0);
    for (offset, piece) in pieces {
        let mut contradicts = false;
        for (place, &byte) in bytes.iter_mut().skip(*offset).zip(piece) {
            contradicts |= *place.get_or_insert(byte) != byte;
        }
        contradictions += u32::from(contradicts);
    }
    (bytes, contradictions)
}

proptest! {
    #[test]
    fn any_split_order_and_repetition_gathers_the_same_bytes(
        message in prop::collection::vec(any::<u8>(), 1..LEN_MAX),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..20),
        more in prop::collection::vec(
            (any::<prop::sample::Index>(), any::<prop::sample::Index>()), 0..8),
        seed: u64,
    ) {
        let mut cuts: Vec<_> = cuts.iter().map(|cut| cut.index(message.len())).collect();
        cuts.extend([0, message.len()]);
        cuts.sort_unstable();
        let mut spans: Vec<_> = cuts.windows(2).map(|pair| (pair[0], pair[1])).collect();
        spans.extend(more.iter().map(|(a, b)| {
            let (a, b) = (a.index(message.len()), b.index(message.len()));
            (a.min(b), a.max(b))
        }));
        spans.sort_by_key(|&(a, b)| ((a + 7 * b + 1) as u64).wrapping_mul(seed | 1));
        let mut gather = Gather::new();
        let pieces: Vec<_> = spans.iter().map(|&(a, b)| (a as u64, &message[a..b])).collect();
        prop_assert_eq!(ordered(&mut gather, &pieces), message.len());
        prop_assert_eq!(gather.bytes(), &message[..]);
        prop_assert_eq!((gather.contradictions(), gather.is_cut()), (0, false));
    }

    #[test]
    fn pieces_that_contradict_each_other_end_as_in_a_plain_model(
        pieces in prop::collection::vec(
            (0_usize..300, prop::collection::vec(0_u8..3, 0..200)), 0..12),
    ) {
        let mut gather = Gather::new();
        for (offset, piece) in &pieces {
            gather.insert(*offset as u64, piece);
        }
        let (bytes, contradictions) = model(&pieces);
        let prefix: Vec<u8> = bytes.into_iter().map_while(|byte| byte).collect();
        prop_assert_eq!(gather.bytes(), &prefix[..]);
        prop_assert_eq!(gather.contradictions(), contradictions);
    }

    #[test]
    fn a_pool_keeps_the_most_recently_used(
        steps in prop::collection::vec((0_u8..4, any::<prop::sample::Index>()), 0..200),
        count_max in 1_usize..6,
    ) {
        let mut pool = Pool::new(count_max * Pool::SLOT_BYTES);
        // Handles in the order of use, the most recent one last; and all there ever were.
        let (mut lent, mut all): (Vec<Handle>, Vec<Handle>) = (Vec::new(), Vec::new());
        let mut evicted = 0;
        for (step, choice) in steps {
            let chosen = (!all.is_empty()).then(|| all[choice.index(all.len())]);
            match (step, chosen) {
                (1, Some(handle)) => {
                    pool.give_back(handle);
                    lent.retain(|&other| other != handle);
                }
                (2, Some(handle)) => {
                    let is_there = lent.contains(&handle);
                    prop_assert_eq!(pool.get_mut(handle).is_some(), is_there);
                    if is_there {
                        lent.retain(|&other| other != handle);
                        lent.push(handle);
                    }
                }
                _ => {
                    if lent.len() == count_max {
                        lent.remove(0);
                        evicted += 1;
                    }
                    let handle = pool.lend();
                    lent.push(handle);
                    all.push(handle);
                }
            }
            prop_assert_eq!(pool.in_use(), lent.len());
            prop_assert_eq!(pool.evicted(), evicted);
            let found: Vec<_> = all.iter().filter(|one| pool.get(**one).is_some()).collect();
            prop_assert_eq!(found.len(), lent.len());
        }
    }
}
