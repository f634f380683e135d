//! TLS records (RFC 8446 §5.1): what carries handshake messages over TCP.

use super::Fault;
use super::hello::{CLIENT_HELLO, MESSAGE_HEADER_LEN};

mod field {
    pub(super) const HEADER_LEN: usize = 5;
}

/// Content type of handshake messages.
const HANDSHAKE: u8 = 22;
/// Major version: SSL 3.0 is 3.0, and every TLS after it 3.1 to 3.4.
const MAJOR: u8 = 3;
const MINOR_MAX: u8 = 4;
/// The longest record that is believed: 2^14 bytes and what protection may add (RFC 8446 §5.2).
pub const RECORD_LEN_MAX: usize = (1 << 14) + 256;

/// How far a stream is with its first handshake message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Progress {
    /// The stream does not begin with a handshake record.
    NotTls,
    /// It does, and cannot hold a ClientHello.
    Wrong(Fault),
    /// The message has so many bytes in all, header included, of which some are not yet there; 4
    /// until its length is known.
    NeedMore(usize),
    /// The message is whole.
    Complete,
}

/// The handshake bytes of a stream, without record headers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Handshake<'a> {
    /// The first handshake message as far as it is there, and never more than the message.
    pub bytes: &'a [u8],
    /// What is missing.
    pub progress: Progress,
}

/// Whether a stream that begins with `bytes` may begin with a ClientHello: a handshake record of
/// a version that exists, of a length that is allowed, and in it a ClientHello. Six bytes decide;
/// of fewer, one at least, those that are there must fit.
#[inline]
#[must_use]
pub fn begins_like_hello(bytes: &[u8]) -> bool {
    match *bytes {
        [HANDSHAKE, MAJOR, minor, a, b, CLIENT_HELLO, ..] => {
            let len = usize::from(u16::from_be_bytes([a, b]));
            minor <= MINOR_MAX && (1..=RECORD_LEN_MAX).contains(&len)
        }
        [HANDSHAKE] | [HANDSHAKE, MAJOR] => true,
        [HANDSHAKE, MAJOR, minor] | [HANDSHAKE, MAJOR, minor, _] => minor <= MINOR_MAX,
        [HANDSHAKE, MAJOR, minor, a, b] => {
            let len = usize::from(u16::from_be_bytes([a, b]));
            minor <= MINOR_MAX && (1..=RECORD_LEN_MAX).contains(&len)
        }
        _ => false,
    }
}

/// The first handshake message of a TCP stream, of which `stream` is the beginning without gaps.
///
/// Where one record holds the whole message or all that is there of it, as nearly always, the
/// answer borrows it from `stream`. Otherwise the parts are copied to `buffer`, which suffices if
/// it is as long as `stream`; what does not fit is left out as if it had not arrived.
#[must_use]
pub fn handshake<'a>(stream: &'a [u8], buffer: &'a mut [u8]) -> Handshake<'a> {
    let (mut rest, mut len, mut wanted) = (stream, 0, MESSAGE_HEADER_LEN);
    let progress = loop {
        let (part, behind, is_whole) = match record(rest, len == 0) {
            Ok(record) => record,
            Err(progress) => break progress.unwrap_or(Progress::NeedMore(wanted)),
        };
        if len == 0 && (!is_whole || message_len(part).is_some_and(|len| len <= part.len())) {
            return in_one_record(part);
        }
        let room = buffer.get_mut(len..).unwrap_or_default();
        let count = part.len().min(room.len());
        if let (Some(room), Some(part)) = (room.get_mut(..count), part.get(..count)) {
            room.copy_from_slice(part);
        }
        len += count;
        let gathered = buffer.get(..len).unwrap_or_default();
        wanted = message_len(gathered).unwrap_or(wanted);
        if let Some(fault) = first_fault(gathered) {
            break Progress::Wrong(fault);
        }
        if len >= wanted {
            break Progress::Complete;
        }
        if !is_whole || count < part.len() {
            break Progress::NeedMore(wanted);
        }
        rest = behind;
    };
    let bytes = buffer.get(..len.min(wanted)).unwrap_or_default();
    Handshake { bytes, progress }
}

/// A record: its content as far as it is there, what follows it, and whether it is whole.
type Record<'a> = (&'a [u8], &'a [u8], bool);

/// The record at the start of `bytes`. `None` in the error asks for more.
#[inline]
fn record(bytes: &[u8], is_first: bool) -> Result<Record<'_>, Option<Progress>> {
    let fault = |fault| Some(if is_first { Progress::NotTls } else { Progress::Wrong(fault) });
    let is_version_fine = bytes.get(1).is_none_or(|&major| major == MAJOR)
        && bytes.get(2).is_none_or(|&minor| minor <= MINOR_MAX);
    if bytes.first().is_some_and(|&kind| kind != HANDSHAKE) || !is_version_fine {
        return Err(fault(Fault::RecordBetween));
    }
    let (header, rest) = bytes.split_first_chunk::<{ field::HEADER_LEN }>().ok_or(None)?;
    let [_, _, _, a, b] = *header;
    let len = usize::from(u16::from_be_bytes([a, b]));
    if len == 0 {
        return Err(Some(Progress::Wrong(Fault::RecordEmpty)));
    }
    if len > RECORD_LEN_MAX {
        return Err(Some(Progress::Wrong(Fault::RecordTooLong)));
    }
    let (part, behind) = rest.split_at(len.min(rest.len()));
    Ok((part, behind, part.len() == len))
}

/// Bytes of the message that begins here, its header included.
#[inline]
fn message_len(bytes: &[u8]) -> Option<usize> {
    let &[_, a, b, c] = bytes.first_chunk::<MESSAGE_HEADER_LEN>()?;
    Some(MESSAGE_HEADER_LEN + u32::from_be_bytes([0, a, b, c]) as usize)
}

/// Whether a handshake message, without records around it, is all there.
#[inline]
#[must_use]
pub fn is_complete(message: &[u8]) -> bool {
    message_len(message).is_some_and(|len| message.len() >= len)
}

/// The answer where all bytes at hand lie in the first record.
#[inline]
fn in_one_record(part: &[u8]) -> Handshake<'_> {
    let wanted = message_len(part).unwrap_or(MESSAGE_HEADER_LEN);
    let bytes = part.get(..wanted).unwrap_or(part);
    let progress = match first_fault(bytes) {
        Some(fault) => Progress::Wrong(fault),
        None if message_len(bytes) == Some(bytes.len()) => Progress::Complete,
        None => Progress::NeedMore(wanted),
    };
    Handshake { bytes, progress }
}

#[inline]
fn first_fault(message: &[u8]) -> Option<Fault> {
    message.first().is_some_and(|&kind| kind != CLIENT_HELLO).then_some(Fault::NotAHello)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::tls::made::HelloSpec;

    /// `message` in records of at most `size` bytes.
    fn in_records(message: &[u8], size: usize) -> Vec<u8> {
        let record = |part: &[u8]| {
            let len = u16::try_from(part.len()).unwrap().to_be_bytes();
            [&[HANDSHAKE, 3, 1][..], &len, part].concat()
        };
        message.chunks(size).flat_map(record).collect()
    }

    #[test]
    fn six_bytes_decide_whether_a_stream_may_begin_with_a_hello() {
        let hello = [22, 3, 1, 2, 0, 1];
        for len in 1..=6 {
            assert!(begins_like_hello(&hello[..len]), "{len}");
        }
        let others: [&[u8]; 9] = [
            &[],
            b"GET / HTTP/1.1",
            b"SSH-2.0-x",
            &[22, 3, 5],
            &[22, 2],
            &[22, 3, 1, 0, 0],
            &[22, 3, 1, 0x41, 1, 1],
            &[22, 3, 3, 0, 80, 2],
            &[23, 3, 3, 0, 80, 1],
        ];
        for bytes in others {
            assert!(!begins_like_hello(bytes), "{bytes:?}");
        }
    }

    #[test]
    fn a_message_in_one_record_is_borrowed() {
        let message = HelloSpec::default().message();
        let mut stream = in_records(&message, 1 << 14);
        stream.extend([23, 3, 3, 0, 1, 9]);
        let read = handshake(&stream, &mut []);
        assert_eq!((read.bytes, read.progress), (&message[..], Progress::Complete));
    }

    #[test]
    fn a_stream_of_something_else_is_not_tls() {
        for stream in [b"GET / HTTP/1.1\r\n".as_slice(), &[22, 9], &[22, 3, 9, 0, 1]] {
            assert_eq!(handshake(stream, &mut [0; 64]).progress, Progress::NotTls);
        }
    }

    #[test]
    fn what_stands_between_two_parts_is_named() {
        let message = HelloSpec::default().message();
        let first = in_records(&message[..40], 40);
        let cases = [
            (&[21, 3, 3, 0, 2, 1, 0][..], Fault::RecordBetween),
            (&[22, 3, 3, 0, 0], Fault::RecordEmpty),
            (&[22, 3, 3, 0xff, 0], Fault::RecordTooLong),
        ];
        for (second, fault) in cases {
            let stream = [&first[..], second].concat();
            let read = handshake(&stream, &mut [0; 99]).progress;
            assert_eq!(read, Progress::Wrong(fault));
        }
        let server = handshake(&[22, 3, 3, 0, 4, 2, 0, 0, 0], &mut []).progress;
        assert_eq!(server, Progress::Wrong(Fault::NotAHello));
        let early = handshake(&[22, 3, 3, 0, 4, 2], &mut [0; 9]).progress;
        assert_eq!(early, Progress::Wrong(Fault::NotAHello));
    }

    proptest! {
        #[test]
        fn a_split_message_is_put_together_from_any_prefix(
            size in 1_usize..300, cut in 0_usize..2000,
        ) {
            let message = HelloSpec::default().message();
            let stream = in_records(&message, size);
            let prefix = &stream[..cut.min(stream.len())];
            let mut buffer = vec![0; prefix.len()];
            let read = handshake(prefix, &mut buffer);
            prop_assert!(message.starts_with(read.bytes));
            let wanted = if read.bytes.len() < 4 { 4 } else { message.len() };
            let is_whole = prefix.len() == stream.len();
            let progress =
                if is_whole { Progress::Complete } else { Progress::NeedMore(wanted) };
            prop_assert_eq!(read.progress, progress);
        }

        #[test]
        fn any_bytes_are_read_or_refused(
            stream in prop::collection::vec(any::<u8>(), 0..64), room in 0_usize..64,
        ) {
            let mut buffer = vec![0; room];
            let read = handshake(&stream, &mut buffer);
            prop_assert!(read.bytes.len() <= stream.len());
            if !begins_like_hello(&stream) && !stream.is_empty() {
                prop_assert_ne!(read.progress, Progress::Complete);
            }
        }
    }
}
