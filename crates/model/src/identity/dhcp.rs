//! DHCP: which options a client sends and asks for shows its system; addresses and names identify
//! it.

use super::{View, part, word};

/// Where options begin, behind the magic number.
const OPTIONS_START: usize = 240;
const MAGIC: [u8; 4] = [99, 130, 83, 99];
const PAD: u8 = 0;
const END: u8 = 255;
/// Options whose data is of the product: overload, type of message, parameters asked for, greatest
/// size, vendor class, rapid commit, and the client's system (RFC 4578).
const KEPT: [u8; 8] = [52, 53, 55, 57, 60, 80, 93, 94];
/// Version 6: options asked for, and rapid commit.
const KEPT_V6: [u16; 2] = [6, 14];
const VENDOR_CLASS: u8 = 60;
const LEN_SHOWN_MAX: usize = 32;

/// Operation, kind and length of hardware addresses and flags; then the options in their order, of
/// most of them the code alone, so that a name's length moves nothing.
pub(super) fn v4(view: &mut View<'_>, bytes: &[u8]) {
    view.keep(part(bytes, 0, 3));
    view.keep(part(bytes, 10, 1));
    if part(bytes, OPTIONS_START - 4, 4) != MAGIC {
        return;
    }
    let mut at = OPTIONS_START;
    while let Some(&code) = bytes.get(at) {
        if view.is_full() || code == END {
            return;
        }
        if code == PAD {
            at += 1;
            continue;
        }
        view.keep(&[code]);
        let Some(&len) = bytes.get(at + 1) else { return };
        if KEPT.contains(&code) {
            kept(view, code, part(bytes, at + 2, usize::from(len)));
        }
        at += 2 + usize::from(len);
    }
}

/// Length and data; a vendor's class without what looks like a serial number.
fn kept(view: &mut View<'_>, code: u8, data: &[u8]) {
    let data = part(data, 0, LEN_SHOWN_MAX);
    view.keep(&[data.len() as u8]);
    if code == VENDOR_CLASS {
        view.filter(super::http::without_ids(data));
    } else {
        view.keep(data);
    }
}

/// The kind of message, and the codes of its options.
pub(super) fn v6(view: &mut View<'_>, bytes: &[u8]) {
    view.keep(part(bytes, 0, 1));
    let mut at = 4;
    while let (Some(code), Some(len)) = (word(bytes, at), word(bytes, at + 2)) {
        if view.is_full() {
            return;
        }
        view.keep(&code.to_be_bytes());
        if KEPT_V6.contains(&code) {
            view.keep(part(bytes, at + 4, usize::from(len)));
        }
        at += 4 + usize::from(len);
    }
}
