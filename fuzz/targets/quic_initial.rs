//! Initial packets: whatever a datagram says, its packets lie within it, those that open do so
//! again and to the same, and frames hand out pieces of what is there.
//!
//! Input: zero and frames in the clear, which no fuzzer could encrypt; or anything else and the
//! datagrams of one client, each behind two bytes of length.
#![no_main]

use fuzz::input::Input;
use fuzz::promises::assert_one_line;
use libfuzzer_sys::fuzz_target;
use names::gather::{Gather, LEN_MAX};
use names::quic::{ClientKeys, Datagram, Packet, Pieces};

const SCRATCH_LEN: usize = 1500;

fuzz_target!(|bytes: &[u8]| {
    let mut input = Input::new(bytes);
    if input.u8() == 0 {
        return take(Pieces::new(input.rest()), input.rest().len(), &mut Gather::new());
    }
    let (mut keys, mut gather) = (ClientKeys::new(), Gather::new());
    while !input.is_empty() {
        let len = usize::from(input.u16());
        datagram(input.bytes(len), &mut keys, &mut gather);
    }
});

fn datagram(payload: &[u8], keys: &mut ClientKeys, gather: &mut Gather) {
    let mut len = 0;
    for packet in Datagram::new(payload) {
        let Ok(Packet::Initial(initial)) = packet else { continue };
        assert_one_line(&initial);
        len += initial.size_bytes();
        assert!(len <= payload.len() && initial.dcid().len() <= 20 && initial.scid().len() <= 20);
        let (mut scratch, mut again) = ([0; SCRATCH_LEN], [0xff; SCRATCH_LEN]);
        let Ok(opened) = keys.open(&initial, &mut scratch) else { continue };
        assert!(keys.is_known() && opened.payload().len() < initial.size_bytes());
        let second = keys.open(&initial, &mut again).expect("the same keys open it again");
        assert_eq!(second.payload(), opened.payload());
        assert!(!second.is_fresh());
        assert!(keys.open_server(&initial, &mut again).is_err(), "a server has other keys");
        take(opened.pieces(), opened.payload().len(), gather);
    }
}

fn take(pieces: Pieces<'_>, len_max: usize, gather: &mut Gather) {
    let mut len = 0;
    let mut is_over = false;
    for piece in pieces {
        assert!(!is_over, "a fault ends a packet");
        let Ok(piece) = piece else {
            is_over = true;
            continue;
        };
        len += piece.bytes.len();
        assert!(gather.insert(piece.offset, piece.bytes) <= LEN_MAX);
    }
    assert!(len <= len_max);
}
