//! What a router was asked and what it decided, call by call, so that another world can ask
//! the same again.
//!
//! An entry is 24 bytes, little-endian: instant (u64), length (u32), call (u8: 0 arrive,
//! 1 leave), ECN field (u8), queue (u8), decision (u8), the packet's tag (u64).

use dualq::{Arrival, Departure, DropCause, Ecn, EnqueueOutcome, Fate, MarkCause, Packet, Router};

/// Bytes of an entry.
pub const ENTRY_LEN: usize = 24;

const ARRIVE: u8 = 0;
const LEAVE: u8 = 1;
/// The decision where nothing waited.
const NOTHING: u8 = 255;

/// An arrival and its fate.
#[must_use]
pub fn arrived(arrival: &Arrival, entered: EnqueueOutcome) -> [u8; ENTRY_LEN] {
    let Arrival { packet, at_ns } = *arrival;
    let decision = entered.dropped.map_or(0, drop_number);
    let small = [ARRIVE, packet.ecn.bits(), entered.queue as u8, decision];
    entry(at_ns, packet.len, small, packet.tag)
}

/// An instant at which the link was free, and what left.
#[must_use]
pub fn left(now_ns: u64, left: Option<&Departure>) -> [u8; ENTRY_LEN] {
    let Some(Departure { packet, queue, fate, .. }) = left else {
        return entry(now_ns, 0, [LEAVE, 0, 0, NOTHING], 0);
    };
    let decision = match fate {
        Fate::Sent(None) => 0,
        Fate::Sent(Some(MarkCause::Pi)) => 16,
        Fate::Sent(Some(MarkCause::Threshold)) => 17,
        Fate::Dropped(cause) => drop_number(*cause),
    };
    entry(now_ns, packet.len, [LEAVE, packet.ecn.bits(), *queue as u8, decision], packet.tag)
}

const fn drop_number(cause: DropCause) -> u8 {
    match cause {
        DropCause::Full => 1,
        DropCause::Early => 2,
        DropCause::Late => 3,
    }
}

fn entry(at_ns: u64, len: u32, small: [u8; 4], tag: u64) -> [u8; ENTRY_LEN] {
    let mut bytes = [0; ENTRY_LEN];
    let all = at_ns.to_le_bytes().into_iter().chain(len.to_le_bytes()).chain(small);
    bytes.iter_mut().zip(all.chain(tag.to_le_bytes())).for_each(|(to, from)| *to = from);
    bytes
}

/// How a router answers a journal.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ReplayOutcome {
    /// Calls that were made again.
    pub calls: u64,
    /// The first call that was decided otherwise, from 0.
    pub first_difference: Option<u64>,
}

/// Asks a new router what a journal's was asked, and compares.
pub fn replay(mut router: Router, journal: &[u8]) -> ReplayOutcome {
    let mut replayed = ReplayOutcome::default();
    for bytes in journal.as_chunks::<ENTRY_LEN>().0 {
        let again = ask(&mut router, bytes);
        if again != *bytes && replayed.first_difference.is_none() {
            replayed.first_difference = Some(replayed.calls);
        }
        replayed.calls += 1;
    }
    replayed
}

fn ask(router: &mut Router, bytes: &[u8; ENTRY_LEN]) -> [u8; ENTRY_LEN] {
    let [a, b, c, d, e, f, g, h, l0, l1, l2, l3, call, ecn, _, _, tag @ ..] = *bytes;
    let at_ns = u64::from_le_bytes([a, b, c, d, e, f, g, h]);
    if call == LEAVE {
        return left(at_ns, router.leave(at_ns).as_ref());
    }
    let len = u32::from_le_bytes([l0, l1, l2, l3]);
    let packet = Packet { len, ecn: Ecn::from_bits(ecn), tag: u64::from_le_bytes(tag) };
    let arrival = Arrival { packet, at_ns };
    arrived(&arrival, router.arrive(arrival))
}

#[cfg(test)]
mod tests {
    use super::*;
    use dualq::{Draws, Settings};

    fn router(seed: u64) -> Router {
        Router::new(Settings::default(), seed, 0).unwrap()
    }

    /// A journal of an overloaded link.
    fn journal() -> Vec<u8> {
        let (mut router, mut draws, mut journal) = (router(1), Draws::new(2), Vec::new());
        for at_us in 0..200_000_u64 {
            let at_ns = at_us * 1_000;
            if at_us % 110 == 0 {
                let ecn = Ecn::from_bits((draws.bits() % 4) as u8);
                let packet = Packet { len: 1_500, ecn, tag: at_us };
                let arrival = Arrival { packet, at_ns };
                journal.extend(arrived(&arrival, router.arrive(arrival)));
            }
            if at_us % 120 == 0 {
                journal.extend(left(at_ns, router.leave(at_ns).as_ref()));
            }
        }
        journal
    }

    #[test]
    fn the_same_questions_have_the_same_answers_and_another_seed_has_others() {
        let journal = journal();
        let calls = (journal.len() / ENTRY_LEN) as u64;
        assert_eq!(replay(router(1), &journal), ReplayOutcome { calls, first_difference: None });
        assert!(replay(router(3), &journal).first_difference.is_some());
    }
}
