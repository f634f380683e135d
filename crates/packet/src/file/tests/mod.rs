//! Tests of decoder and encoder together; bytes are written out by hand where
//! the encoder cannot write them.

mod classic;
mod next_generation;
mod property;

use super::{Decoder, FileFault, FrameHeader, Item, Magic, Stop};

/// Decodes a whole file: frames with their bytes, blocks, and why it ended.
pub(super) struct DecodedFile {
    pub(super) decoder: Decoder,
    pub(super) frames: Vec<(FrameHeader, Vec<u8>)>,
    pub(super) comments: Vec<Vec<String>>,
    pub(super) boundaries: Vec<usize>,
    pub(super) fault: Option<FileFault>,
}

pub(super) fn decode(bytes: &[u8]) -> DecodedFile {
    let (decoder, start) = Decoder::new(bytes).unwrap();
    decode_from(decoder, bytes, start)
}

pub(super) fn decode_from(decoder: Decoder, bytes: &[u8], start: usize) -> DecodedFile {
    let (mut at, frames, comments, boundaries) = (start, Vec::new(), Vec::new(), Vec::new());
    let mut decoded = DecodedFile { decoder, frames, comments, boundaries, fault: None };
    while at < bytes.len() {
        decoded.boundaries.push(at);
        let rest = &bytes[at..];
        match decoded.decoder.next(rest) {
            Ok((item, consumed)) => {
                assert!((8..=rest.len()).contains(&consumed));
                if let Item::Frame(frame) = item {
                    let data = frame.data_offset as usize;
                    let data = &rest[..consumed][data..data + frame.captured_len as usize];
                    decoded.frames.push((frame, data.to_vec()));
                    let options = decoded.decoder.frame_options(rest, &frame);
                    decoded.comments.push(options.comments().map(String::from).collect());
                }
                at += consumed;
            }
            Err(Stop::NeedMore(wanted)) => {
                assert!(wanted > rest.len());
                decoded.fault = Some(FileFault::truncated(wanted, rest.len()));
                break;
            }
            Err(Stop::Fault(fault)) => {
                decoded.fault = Some(fault);
                break;
            }
        }
    }
    decoded
}

/// Numbers as bytes, one after another.
pub(super) fn words(big: bool, words: &[u32]) -> Vec<u8> {
    words
        .iter()
        .flat_map(|word| if big { word.to_be_bytes() } else { word.to_le_bytes() })
        .collect()
}

#[test]
fn files_are_told_apart_by_their_first_bytes() {
    let cases: [(&[u8], Option<Magic>); 12] = [
        (&[0xd4, 0xc3, 0xb2, 0xa1, 2, 0], Some(Magic::Pcap)),
        (&[0xa1, 0xb2, 0x3c, 0x4d], Some(Magic::Pcap)),
        (&[0x34, 0xcd, 0xb2, 0xa1], Some(Magic::Pcap)),
        (&[0x0a, 0x0d, 0x0d, 0x0a], Some(Magic::Pcapng)),
        (&[0x1f, 0x8b, 8], Some(Magic::Gzip)),
        (&[0x28, 0xb5, 0x2f, 0xfd], Some(Magic::Zstd)),
        (b"snoop\0\0\0\0\0\0\x02", Some(Magic::Snoop)),
        (b"GMBU", Some(Magic::NetMon)),
        (b"TRSNIFF data    \x1a", Some(Magic::Sniffer)),
        (&[0xa1, 0xb2, 0x34, 0xcd], Some(Magic::PatchedPcap)),
        (b"file", None),
        (b"", None),
    ];
    for (prefix, magic) in cases {
        assert_eq!(Decoder::detect(prefix), magic, "{prefix:02x?}");
    }
}

#[test]
fn no_magic_is_the_start_of_another() {
    let prefixes = Magic::PREFIXES;
    for (index, (one, _)) in prefixes.iter().enumerate() {
        for (other, _) in prefixes.iter().skip(index + 1) {
            assert!(!one.starts_with(other) && !other.starts_with(one), "{one:02x?} {other:02x?}");
        }
        assert!(one.len() <= Magic::PREFIX_LEN);
    }
}

#[test]
fn what_is_no_capture_is_named() {
    let fault = |prefix: &[u8]| Decoder::new(prefix).unwrap_err();
    assert_eq!(fault(b"text"), FileFault::MagicUnknown { magic: *b"text" });
    assert_eq!(fault(b"").name(), "header_short");
    assert_eq!(fault(&[0xd4, 0xc3, 0xb2, 0xa1]), FileFault::HeaderShort { wanted: 24, got: 4 });
    assert_eq!(fault(&[0x0a, 0x0d, 0x0d, 0x0a]), FileFault::HeaderShort { wanted: 12, got: 4 });
    assert_eq!(
        fault(&[0x1f, 0x8b, 8, 0]).to_string(),
        "file is compressed with gzip; wanted pcap or pcapng"
    );
    let mut section = words(false, &[0x0a0d_0d0a, 28]);
    section.extend(*b"\x01\x02\x03\x04");
    assert_eq!(fault(&section), FileFault::ByteOrderMagicWrong { magic: [1, 2, 3, 4] });
}
