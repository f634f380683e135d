//! What every header promises: one line of text, and a value that survives
//! being written and read.

use std::fmt::{Debug, Display};

use packet::wire::checksum::PseudoHeader;

/// What stands in a buffer before something is appended to it.
const EARLIER: [u8; 5] = [0xe7; 5];

/// Pseudo headers of both versions, to compute checksums with.
#[must_use]
pub fn pseudo_headers() -> [PseudoHeader; 2] {
    let v4 = |last| std::net::Ipv4Addr::new(198, 51, 100, last);
    let v6 = |last| std::net::Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0xffff, 0, last);
    [PseudoHeader::Ipv4(v4(1), v4(255)), PseudoHeader::Ipv6(v6(1), v6(0xffff))]
}

/// The text of something is one line, and there is one.
pub fn assert_one_line(shown: &impl Display) {
    let text = shown.to_string();
    assert!(!text.is_empty() && !text.contains(['\n', '\r']), "{text:?} is not one line");
}

/// What `emit` appends: what stood there stays as it was.
pub fn appended(emit: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut out = EARLIER.to_vec();
    emit(&mut out);
    assert!(out.starts_with(&EARLIER), "emitting changed what stood before");
    out.split_off(EARLIER.len())
}

/// A value, if there is one, is as long as it says when it is emitted, and is
/// what the emitted bytes are read as. Gives those bytes.
pub fn assert_survives<R: PartialEq + Debug>(
    value: Option<R>,
    header_len: impl Fn(&R) -> usize,
    emit: impl Fn(&R, &mut Vec<u8>),
    parse: impl Fn(&[u8]) -> Option<R>,
) -> Option<Vec<u8>> {
    let value = value?;
    let bytes = appended(|out| emit(&value, out));
    assert_eq!(bytes.len(), header_len(&value), "{value:?} tells another length");
    assert_eq!(parse(&bytes).as_ref(), Some(&value), "emitted as {bytes:02x?}");
    Some(bytes)
}
