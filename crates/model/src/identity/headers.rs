//! Headers without what identifies units and networks.

use super::{View, part};

/// Kinds of TCP options whose data is of the product: maximum segment size, window scale and
/// permission of selective acknowledgements. Others hold stamps, cookies, keys, sequence numbers.
const TCP_OPTIONS_KEPT: [u8; 3] = [2, 3, 4];
/// Options of one byte, in IPv4 and TCP: end of the list, and padding.
const LONE_OPTIONS: [u8; 2] = [0, 1];

/// What hosts begin to count hops with, at or above this. Up to 4 a sender means it so: multicast
/// that stays in the link or the site.
pub(crate) const fn hop_limit(hops: u8) -> u8 {
    match hops {
        0..=4 => hops,
        5..=32 => 32,
        33..=64 => 64,
        65..=128 => 128,
        129.. => 255,
    }
}

/// Without identification, checksum and addresses; of options the kinds.
pub(crate) fn ipv4(view: &mut View<'_>, bytes: &[u8]) {
    view.keep(part(bytes, 0, 4));
    view.hide(2);
    view.keep(part(bytes, 6, 2));
    if let Some(&hops) = bytes.get(8) {
        view.keep(&[hop_limit(hops)]);
    }
    view.keep(part(bytes, 9, 1));
    view.hide(10);
    options(view, part(bytes, 20, 40), &[]);
}

/// Without flow label and addresses.
pub(crate) fn ipv6(view: &mut View<'_>, bytes: &[u8]) {
    view.keep(part(bytes, 0, 1));
    if let Some(byte) = bytes.get(1) {
        view.keep(&[byte & 0xf0]);
    }
    view.hide(2);
    view.keep(part(bytes, 4, 3));
    if let Some(&hops) = bytes.get(7) {
        view.keep(&[hop_limit(hops)]);
    }
}

/// Without ports, sequence numbers and checksum; of most options kind and length.
pub(crate) fn tcp(view: &mut View<'_>, bytes: &[u8]) {
    view.hide(12);
    view.keep(part(bytes, 12, 4));
    view.hide(2);
    view.keep(part(bytes, 18, 2));
    options(view, part(bytes, 20, 40), &TCP_OPTIONS_KEPT);
}

/// The length alone.
pub(crate) fn udp(view: &mut View<'_>, bytes: &[u8]) {
    view.hide(4);
    view.keep(part(bytes, 4, 2));
}

/// Type and code.
pub(crate) fn icmp(view: &mut View<'_>, bytes: &[u8]) {
    view.keep(part(bytes, 0, 2));
}

/// Kind and length of each option, and the data of some.
fn options(view: &mut View<'_>, bytes: &[u8], kept: &[u8]) {
    let mut at = 0;
    while let Some(&kind) = bytes.get(at) {
        if LONE_OPTIONS.contains(&kind) {
            view.keep(&[kind]);
            at += 1;
            continue;
        }
        let Some(&len) = bytes.get(at + 1).filter(|&&len| len >= 2) else {
            // What it says next may be anything.
            view.keep(&[kind]);
            return;
        };
        view.keep(&[kind, len]);
        let data = part(bytes, at + 2, usize::from(len) - 2);
        if kept.contains(&kind) {
            view.keep(data);
        } else {
            view.hide(data.len());
        }
        at += usize::from(len);
    }
}
