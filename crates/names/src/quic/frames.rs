//! The frames of an Initial packet (RFC 9000 §19), of which CRYPTO carries the handshake.

use super::Fault;
use super::packet::Rest;

/// Types of the frames that Initial packets may carry (RFC 9000 §12.4).
mod kind {
    pub(super) const PADDING: u8 = 0x00;
    pub(super) const PING: u64 = 0x01;
    pub(super) const ACK: u64 = 0x02;
    pub(super) const ACK_ECN: u64 = 0x03;
    pub(super) const CRYPTO: u64 = 0x06;
    pub(super) const CONNECTION_CLOSE: u64 = 0x1c;
}

/// The largest offset that a stream can have.
const OFFSET_MAX: u64 = (1 << 62) - 1;

/// A piece of the handshake.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Piece<'a> {
    /// Where it belongs, in bytes from the beginning of the handshake.
    pub offset: u64,
    /// Its bytes.
    pub bytes: &'a [u8],
}

/// The pieces of the handshake in one packet's frames, in the packet's order, which need not be
/// the handshake's. Other frames are read over; ends after the first fault.
#[derive(Clone, Debug)]
pub struct Pieces<'a> {
    rest: &'a [u8],
}

impl<'a> Pieces<'a> {
    /// Reads the frames in a decrypted payload.
    #[inline]
    #[must_use]
    pub fn new(payload: &'a [u8]) -> Self {
        Self { rest: payload }
    }

    fn read(&mut self) -> Result<Option<Piece<'a>>, Fault> {
        loop {
            self.rest = skip_padding(self.rest);
            if self.rest.is_empty() {
                return Ok(None);
            }
            let mut rest = Rest(self.rest);
            match rest.varint().ok_or(Fault::FrameShort)? {
                kind::PING => {}
                kind::ACK => skip_ack(&mut rest, 0).ok_or(Fault::FrameShort)?,
                kind::ACK_ECN => skip_ack(&mut rest, 3).ok_or(Fault::FrameShort)?,
                kind::CONNECTION_CLOSE => skip_close(&mut rest).ok_or(Fault::FrameShort)?,
                kind::CRYPTO => {
                    let offset = rest.varint().ok_or(Fault::FrameShort)?;
                    let bytes = vector(&mut rest).ok_or(Fault::FrameShort)?;
                    if bytes.len() as u64 > OFFSET_MAX - offset {
                        return Err(Fault::OffsetLarge);
                    }
                    self.rest = rest.0;
                    return Ok(Some(Piece { offset, bytes }));
                }
                _ => return Err(Fault::FrameUnexpected),
            }
            self.rest = rest.0;
        }
    }
}

impl<'a> Iterator for Pieces<'a> {
    type Item = Result<Piece<'a>, Fault>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let read = self.read();
        if read.is_err() {
            self.rest = &[];
        }
        read.transpose()
    }
}

impl std::iter::FusedIterator for Pieces<'_> {}

/// What follows the padding at the start. A client pads its packets to 1,200 bytes, so that this
/// is mostly the longest part: blocks are compared at a time.
#[inline]
fn skip_padding(mut bytes: &[u8]) -> &[u8] {
    const BLOCK: [u8; 32] = [kind::PADDING; 32];
    while let Some(behind) = bytes.strip_prefix(&BLOCK) {
        bytes = behind;
    }
    while let Some((&kind::PADDING, behind)) = bytes.split_first() {
        bytes = behind;
    }
    bytes
}

/// Bytes behind their length.
#[inline]
fn vector<'a>(rest: &mut Rest<'a>) -> Option<&'a [u8]> {
    let len = usize::try_from(rest.varint()?).ok()?;
    let (bytes, behind) = rest.0.split_at_checked(len)?;
    rest.0 = behind;
    Some(bytes)
}

/// An ACK frame with so many counts at its end. Each range takes two bytes at least, so that a
/// count of ranges that is not true ends with the packet.
fn skip_ack(rest: &mut Rest<'_>, count: u64) -> Option<()> {
    rest.varint()?;
    rest.varint()?;
    let range_count = rest.varint()?;
    let more = range_count.checked_mul(2)?.checked_add(1 + count)?;
    for _ in 0..more {
        rest.varint()?;
    }
    Some(())
}

fn skip_close(rest: &mut Rest<'_>) -> Option<()> {
    rest.varint()?;
    rest.varint()?;
    vector(rest).map(|_| ())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(payload: &[u8]) -> Vec<Result<(u64, &[u8]), Fault>> {
        Pieces::new(payload).map(|piece| piece.map(|piece| (piece.offset, piece.bytes))).collect()
    }

    #[test]
    fn pieces_are_found_among_other_frames() {
        let frames = [
            &[0, 0, 1][..],
            &[6, 0x40, 0x05, 2, b'a', b'b'],
            &[2, 7, 0, 1, 0, 0, 3],
            &[3, 7, 0, 0, 0, 9, 9, 9],
            &[6, 0, 1, b'c', 0, 0, 0],
            &[0x1c, 1, 6, 2, b'n', b'o', 1],
        ];
        let payload = frames.concat();
        assert_eq!(read(&payload), [Ok((5, &b"ab"[..])), Ok((0, &b"c"[..]))]);
        assert_eq!(read(&[0; 1200]), []);
        assert_eq!(read(&[]), []);
    }

    #[test]
    fn faults_end_a_packet_and_have_names() {
        let cases: [(&[u8], Fault); 8] = [
            (&[6], Fault::FrameShort),
            (&[6, 0, 3, 1, 2], Fault::FrameShort),
            (&[0x40], Fault::FrameShort),
            (&[2, 0, 0, 0xff, 255, 255, 255, 255, 255, 255, 255, 0], Fault::FrameShort),
            (&[0x1c, 0, 0, 9], Fault::FrameShort),
            (&[8, 0, 0], Fault::FrameUnexpected),
            (&[0x1d, 0, 0], Fault::FrameUnexpected),
            (&[6, 255, 255, 255, 255, 255, 255, 255, 255, 1, 7], Fault::OffsetLarge),
        ];
        for (payload, fault) in cases {
            assert_eq!(read(payload), [Err(fault)], "{payload:?}");
            let before = [&[6, 1, 1, b'x'][..], payload].concat();
            assert_eq!(read(&before), [Ok((1, &b"x"[..])), Err(fault)]);
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(payload in prop::collection::vec(any::<u8>(), 0..100)) {
            let pieces = read(&payload);
            prop_assert!(pieces.iter().rev().skip(1).all(Result::is_ok));
            let len: usize = pieces.iter().flatten().map(|(_, bytes)| bytes.len()).sum();
            prop_assert!(len <= payload.len());
        }
    }
}
