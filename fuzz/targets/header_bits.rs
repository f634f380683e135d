//! Header bits: whatever a frame is and whatever its layers say, a record holds the frame's own
//! bytes and nothing from elsewhere; the plain layout is filled as any other; text and values
//! agree.
//!
//! Input: blocks (6 bits), bytes of payload, which columns are left out (below 16; else text is not
//! looked at, which takes a thousand times as long), fill, link type (255: layers that are made up,
//! from the 13 bytes that follow), then the frame.
#![no_main]

use fuzz::input::Input;
use libfuzzer_sys::fuzz_target;
use model::{BitText, Block, Layout, Subscription, SubscriptionRequest};
use packet::dissect::{DissectOptions, dissect};
use packet::{Frame, Layers, LinkType, Network, Protocol, Record};

const DROPS: [&str; 4] = ["_opt_", "^udp_", "_[0-9]*[13579]$", "src"];

/// What lies around the frame: if it shows in a record, something was read outside.
const OUTSIDE: u8 = 0xa5;

fuzz_target!(|bytes: &[u8]| {
    let mut input = Input::new(bytes);
    let (blocks, payload_len, drops) = (input.u8(), input.u8(), input.u8());
    let (missing, link) = (input.u8().cast_signed(), input.u8());
    let made_up = (link == u8::MAX).then(|| layers(&mut input));
    let frame = input.rest();
    let len = frame.len() as u32;
    let link = LinkType(u16::from(link));
    let layers = made_up.unwrap_or_else(|| dissect(link, frame, len, DissectOptions::default()));
    let around = [&[OUTSIDE; 64][..], frame, &[OUTSIDE; 64]].concat();
    let record = Record { offset: 64, captured_len: len, layers, ..Record::default() };
    let seen = Frame::new(&around, &record);
    let asked = Block::ALL.into_iter().filter(|&block| blocks >> block as u8 & 1 == 1);
    let layout = Layout::new(&asked.collect::<Vec<_>>(), payload_len.into());
    check(layout, &seen);
    check_plain(&seen);
    if drops >= 16 {
        return;
    }
    let exclude = DROPS.iter().enumerate().filter(|(bit, _)| drops >> bit & 1 == 1);
    let exclude: Vec<_> = exclude.map(|(_, &drop)| drop.to_owned()).collect();
    let wanted = SubscriptionRequest {
        layout,
        exclude: &exclude,
        missing,
        ..SubscriptionRequest::default()
    };
    if let Ok(subscription) = Subscription::new(&wanted) {
        check_text(&subscription, &seen);
    }
});

fn layers(input: &mut Input<'_>) -> Layers {
    Layers {
        network_offset: input.u16(),
        transport_offset: input.u16(),
        payload_offset: input.u16(),
        payload_len: input.u32(),
        network: [Network::None, Network::Arp, Network::Ipv4, Network::Ipv6]
            [usize::from(input.u8() % 4)],
        protocol: Protocol([1, 6, 17, 58][usize::from(input.u8() % 4)]),
        flags: input.u8(),
        ..Layers::default()
    }
}

fn filled(layout: Layout, frame: &Frame<'_>) -> (bool, Vec<u8>) {
    let mut record = vec![0xff; layout.record_len()];
    let is_filled = layout.fill(frame, &mut record);
    (is_filled, record)
}

/// The bytes of a block that are there: uninterrupted, and zero behind.
fn block<'a>(layout: Layout, record: &'a [u8], block: Block) -> &'a [u8] {
    let (data, presence) = record.split_at(layout.data_len());
    let start = layout.offset(block);
    let end = start + usize::from(layout.len(block));
    let is_there = |at: usize| presence[at / 8] >> (7 - at % 8) & 1 == 1;
    let there = (start..end).take_while(|&at| is_there(at)).count();
    assert!((start + there..end).all(|at| !is_there(at) && data[at] == 0));
    &data[start..start + there]
}

fn check(layout: Layout, frame: &Frame<'_>) {
    let layers = frame.record.layers;
    let (is_filled, record) = filled(layout, frame);
    assert_eq!(is_filled, layers.is_ip());
    assert!(is_filled || record.iter().all(|&byte| byte == 0));
    for (which, offset) in [
        (Block::Ipv4, layers.network_offset),
        (Block::Ipv6, layers.network_offset),
        (Block::Tcp, layers.transport_offset),
        (Block::Udp, layers.transport_offset),
        (Block::Icmp, layers.transport_offset),
        (Block::Payload, layers.payload_offset),
    ] {
        let there = block(layout, &record, which);
        assert!(frame.from_offset(offset).starts_with(there), "{which:?}: {there:x?}");
    }
}

/// The layout that has a way of its own gives what the others give of its blocks.
fn check_plain(frame: &Frame<'_>) {
    let (plain, all) = (Layout::default(), Layout::new(&Block::ALL, 1));
    let (of_plain, of_all) = (filled(plain, frame), filled(all, frame));
    assert_eq!(of_plain.0, of_all.0);
    for which in plain.blocks() {
        assert_eq!(block(plain, &of_plain.1, which), block(all, &of_all.1, which));
    }
}

fn check_text(subscription: &Subscription, frame: &Frame<'_>) {
    let (_, record) = filled(subscription.layout(), frame);
    let (mut values, mut text) = (Vec::new(), Vec::new());
    subscription.values(&record, &mut values);
    assert_eq!(values.len(), subscription.column_count());
    BitText::new(subscription).push(&record, &mut text);
    let expected: String = values.iter().map(|value| format!("{value},")).collect();
    assert_eq!(text, expected.as_bytes());
}
