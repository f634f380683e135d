//! Pieces in any order: a gather holds what a plain list of bytes would, and a pool of few of them
//! finds those that were used last and nothing else.
//!
//! Input: a byte that says how many gathers there may be, then steps of four bytes: what to do
//! with which handshake, where, and how much; the piece follows.
#![no_main]

use fuzz::input::Input;
use libfuzzer_sys::fuzz_target;
use names::gather::{Handle, LEN_MAX, Pool};

/// A handshake as it should be.
struct Plain {
    handle: Handle,
    bytes: Vec<Option<u8>>,
    contradictions: u32,
    is_cut: bool,
}

impl Plain {
    fn insert(&mut self, offset: usize, piece: &[u8]) {
        let mut contradicts = false;
        let kept = piece.len().min(LEN_MAX.saturating_sub(offset));
        self.is_cut |= kept < piece.len();
        let end = if kept == 0 { 0 } else { offset + kept };
        if self.bytes.len() < end {
            self.bytes.resize(end, None);
        }
        for (place, &byte) in self.bytes.iter_mut().skip(offset).zip(&piece[..kept]) {
            contradicts |= *place.get_or_insert(byte) != byte;
        }
        self.contradictions += u32::from(contradicts);
    }

    fn prefix(&self) -> Vec<u8> {
        self.bytes.iter().map_while(|&byte| byte).collect()
    }
}

fuzz_target!(|bytes: &[u8]| {
    let mut input = Input::new(bytes);
    let count_max = usize::from(input.u8() % 5) + 1;
    let mut pool = Pool::new(count_max * Pool::SLOT_BYTES);
    assert_eq!(pool.count_max(), count_max);
    // In the order of use, the most recent one last.
    let mut lent: Vec<Plain> = Vec::new();
    let (mut gone, mut evicted) = (Vec::new(), 0);
    while !input.is_empty() {
        let (what, offset, len) = (input.u8(), input.u16(), input.u8());
        let which = usize::from(what >> 2);
        match what & 3 {
            0 => {
                if lent.len() == count_max {
                    gone.push(lent.remove(0).handle);
                    evicted += 1;
                }
                let handle = pool.lend();
                lent.push(Plain { handle, bytes: Vec::new(), contradictions: 0, is_cut: false });
            }
            1 if which < lent.len() => {
                let plain = lent.remove(which);
                pool.give_back(plain.handle);
                gone.push(plain.handle);
            }
            _ if which < lent.len() => {
                let mut plain = lent.remove(which);
                let gather = pool.get_mut(plain.handle).expect("what is lent is there");
                let piece = input.bytes(usize::from(len) * 16);
                gather.insert(u64::from(offset), piece);
                plain.insert(usize::from(offset), piece);
                lent.push(plain);
            }
            _ => {}
        }
        assert_eq!((pool.in_use(), pool.evicted()), (lent.len(), evicted));
        assert!(gone.iter().all(|handle| pool.get(*handle).is_none()));
    }
    for plain in &lent {
        let gather = pool.get(plain.handle).expect("what is lent is there");
        assert_eq!(gather.bytes(), plain.prefix());
        let said = (gather.contradictions(), gather.is_cut());
        assert_eq!(said, (plain.contradictions, plain.is_cut));
    }
    assert!(pool.size_bytes() <= count_max * Pool::SLOT_BYTES);
});
