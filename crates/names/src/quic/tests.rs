use proptest::prelude::*;
use ring::aead::quic::{AES_128, HeaderProtectionKey};
use ring::aead::{AES_128_GCM, Aad, LessSafeKey, Nonce, UnboundKey};

use super::vectors::{self, DCID, SERVER_ID, hex};
use super::*;
use crate::gather::Gather;
use crate::tls::{Hello, Ja4, Transport};

const VERSIONS: [Version; 2] = [Version::V1, Version::V2];

/// Protects a packet; `header` ends with the packet number.
fn seal(keys: &Keys, header: &[u8], payload: &[u8]) -> Vec<u8> {
    let number_len = usize::from(header[0] & 3) + 1;
    let number_start = header.len() - number_len;
    let mut nonce = keys.iv;
    for (place, byte) in nonce.iter_mut().rev().zip(header[number_start..].iter().rev()) {
        *place ^= byte;
    }
    let mut sealed = payload.to_vec();
    let key = LessSafeKey::new(UnboundKey::new(&AES_128_GCM, &keys.key).unwrap());
    let nonce = Nonce::assume_unique_for_key(nonce);
    key.seal_in_place_append_tag(nonce, Aad::from(header), &mut sealed).unwrap();
    let mut packet = [header, &sealed].concat();
    let sample = &packet[number_start + 4..number_start + 20];
    let mask = HeaderProtectionKey::new(&AES_128, &keys.header).unwrap().new_mask(sample).unwrap();
    packet[0] ^= mask[0] & 0x0f;
    for index in 0..number_len {
        packet[number_start + index] ^= mask[1 + index];
    }
    packet
}

/// An Initial packet of a client.
fn initial(version: u32, key_id: &[u8], dcid: &[u8], number: u8, payload: &[u8]) -> Vec<u8> {
    let known = Version::of(version).unwrap();
    let first = if known == Version::V2 { 0xd0 } else { 0xc0 };
    let mut header = vec![first];
    header.extend(version.to_be_bytes());
    header.push(u8::try_from(dcid.len()).unwrap());
    header.extend(dcid);
    header.extend([0, 2, 7, 7]);
    let len = u16::try_from(payload.len() + 17).unwrap();
    header.extend((0x4000 | len).to_be_bytes());
    header.push(number);
    seal(&Keys::client(known, key_id), &header, payload)
}

fn crypto(offset: u16, bytes: &[u8]) -> Vec<u8> {
    let len = u16::try_from(bytes.len()).unwrap();
    let head = [&[6][..], &(0x4000 | offset).to_be_bytes(), &(0x4000 | len).to_be_bytes()];
    [&head.concat(), bytes].concat()
}

fn first_initial(datagram: &[u8]) -> Initial<'_> {
    match Datagram::new(datagram).next() {
        Some(Ok(Packet::Initial(initial))) => initial,
        other => panic!("an Initial packet is wanted: {other:?}"),
    }
}

#[test]
fn keys_are_those_of_the_appendices() {
    let cases = [
        (
            Keys::client(Version::V1, &DCID),
            "1f369613dd76d5467730efcbe3b1a22d",
            "fa044b2f42a3fd3b46fb255c",
            "9f50449e04a0e810283a1e9933adedd2",
        ),
        (
            Keys::server(Version::V1, &DCID),
            "cf3a5331653c364c88f0f379b6067e37",
            "0ac1493ca1905853b0bba03e",
            "c206b8d9b9f0f37644430b490eeaa314",
        ),
        (
            Keys::client(Version::V2, &DCID),
            "8b1a0bc121284290a29e0971b5cd045d",
            "91f73e2351d8fa91660e909f",
            "45b95e15235d6f45a6b19cbcb0294ba9",
        ),
        (
            Keys::server(Version::V2, &DCID),
            "82db637861d55e1d011f19ea71d5d2a7",
            "dd13c276499c0249d3310652",
            "edf6d05c83121201b436e16877593c3a",
        ),
    ];
    for (keys, key, iv, header) in cases {
        let derived = (keys.key.to_vec(), keys.iv.to_vec(), keys.header.to_vec());
        assert_eq!(derived, (hex(key), hex(iv), hex(header)));
    }
}

#[test]
fn packets_of_the_clients_open_to_the_appendices_frames() {
    for (packet, version) in vectors::clients().iter().zip(VERSIONS) {
        assert_eq!(packet.len(), 1200);
        let initial = first_initial(packet);
        assert_eq!(
            (initial.version(), initial.dcid(), initial.scid()),
            (version, &DCID[..], &[][..])
        );
        assert_eq!(initial.to_string(), "quic initial, 1200 bytes to 8394c8f03e515708");
        assert!(initial.token().is_empty());
        let mut keys = ClientKeys::new();
        let mut scratch = [0; 1200];
        let opened = keys.open(&initial, &mut scratch).unwrap();
        assert_eq!(opened.number(), 2);
        assert_eq!(opened.payload(), vectors::client_payload());
        assert!(opened.is_fresh());
        let pieces: Vec<_> = opened.pieces().map(Result::unwrap).collect();
        let frame = vectors::client_crypto_frame();
        assert_eq!(pieces, [Piece { offset: 0, bytes: &frame[4..] }]);
        let hello = Hello::new(pieces[0].bytes).unwrap();
        let ja4 = Ja4::of(&hello, Transport::Quic).unwrap();
        assert!(ja4.as_str().starts_with("q13d0211an_"), "{ja4}");
        assert!(!keys.open(&initial, &mut [0; 1200]).unwrap().is_fresh());
    }
}

#[test]
fn packets_of_the_servers_open_with_the_keys_of_their_client() {
    for (packet, client) in vectors::servers().iter().zip(vectors::clients()) {
        let initial = first_initial(packet);
        assert_eq!((initial.dcid(), initial.scid()), (&[][..], &SERVER_ID[..]));
        let mut keys = ClientKeys::new();
        let mut scratch = [0; 2000];
        assert_eq!(keys.open_server(&initial, &mut scratch).unwrap_err(), Fault::NotDecrypted);
        keys.open(&first_initial(&client), &mut scratch).unwrap();
        let opened = keys.open_server(&initial, &mut scratch).unwrap();
        assert_eq!((opened.number(), opened.payload()), (1, &vectors::server_payload()[..]));
        assert_eq!(opened.pieces().map(|piece| piece.unwrap().bytes[0]).collect::<Vec<_>>(), [2]);
        // As a client's it is refused, and what was kept is kept.
        assert_eq!(keys.open(&initial, &mut scratch).unwrap_err(), Fault::NotDecrypted);
        assert!(!keys.open(&first_initial(&client), &mut scratch).unwrap().is_fresh());
    }
}

/// The other way round: what the appendices protect is byte for byte what the tests seal.
#[test]
fn packets_sealed_here_are_those_of_the_appendices() {
    let headers = [
        (
            "c300000001088394c8f03e5157080000449e00000002",
            "c1000000010008f067a5502a4262b50040750001",
        ),
        (
            "d36b3343cf088394c8f03e5157080000449e00000002",
            "d16b3343cf0008f067a5502a4262b50040750001",
        ),
    ];
    for (index, (client, server)) in headers.into_iter().enumerate() {
        let keys = Keys::client(VERSIONS[index], &DCID);
        let sealed = seal(&keys, &hex(client), &vectors::client_payload());
        assert_eq!(sealed, vectors::clients()[index]);
        let keys = Keys::server(VERSIONS[index], &DCID);
        let sealed = seal(&keys, &hex(server), &vectors::server_payload());
        assert_eq!(sealed, vectors::servers()[index]);
    }
}

#[test]
fn a_retry_gives_the_client_another_identifier_and_other_keys() {
    for (index, retry) in vectors::retries().iter().enumerate() {
        let Some(Ok(Packet::Retry { scid })) = Datagram::new(retry).next() else {
            panic!("a Retry packet is wanted");
        };
        assert_eq!(scid, SERVER_ID);
        let (mut keys, mut scratch) = (ClientKeys::new(), [0; 1200]);
        keys.open(&first_initial(&vectors::clients()[index]), &mut scratch).unwrap();
        let version = [1, 0x6b33_43cf][index];
        let again = initial(version, scid, scid, 1, &crypto(0, &[1; 30]));
        assert!(keys.open(&first_initial(&again), &mut scratch).unwrap().is_fresh());
        // From now on the server's identifier may be another one, the keys are the same.
        let more = initial(version, scid, b"chosen", 2, &crypto(30, &[2; 30]));
        let opened = keys.open(&first_initial(&more), &mut scratch).unwrap();
        assert_eq!((opened.number(), opened.is_fresh()), (2, false));
    }
}

#[test]
fn a_client_goes_on_in_the_version_that_the_server_chose() {
    let (mut keys, mut scratch) = (ClientKeys::new(), [0; 1200]);
    keys.open(&first_initial(&vectors::clients()[0]), &mut scratch).unwrap();
    let more = initial(0x6b33_43cf, &DCID, &SERVER_ID, 3, &crypto(0, &[1; 30]));
    let opened = keys.open(&first_initial(&more), &mut scratch).unwrap();
    assert!(!opened.is_fresh());
    let more = initial(0x6b33_43cf, &DCID, &SERVER_ID, 4, &crypto(0, &[1; 30]));
    assert!(!keys.open(&first_initial(&more), &mut scratch).unwrap().is_fresh());
}

#[test]
fn a_changed_bit_anywhere_is_noticed() {
    for packet in vectors::clients() {
        for place in [0, 6, 20, 40, 700, 1199] {
            let mut packet = packet.clone();
            packet[place] ^= 1;
            let opened = ClientKeys::new().open(&first_initial(&packet), &mut [0; 1200]).err();
            assert_eq!(opened, Some(Fault::NotDecrypted), "{place}");
        }
    }
}

#[test]
fn coalesced_packets_are_found_one_after_the_other() {
    let [client, _] = vectors::clients();
    let zero_rtt = [&[0xd0, 0, 0, 0, 1, 1, 5, 0, 30][..], &[7; 30]].concat();
    let handshake = [&[0xe0, 0, 0, 0, 1, 1, 5, 0, 25][..], &[7; 25]].concat();
    let payload = [&client[..], &zero_rtt, &handshake, &[0x41; 30]].concat();
    let kinds: Vec<_> = Datagram::new(&payload).map(Result::unwrap).collect();
    assert!(matches!(kinds[..], [Packet::Initial(_), Packet::Other, Packet::Other, Packet::Short]));
    // Zeros behind the last packet, as some clients pad.
    let padded = [&client[..], &[0; 100]].concat();
    assert_eq!(Datagram::new(&padded).count(), 1);
    assert!(Datagram::new(&[]).next().is_none());
}

#[test]
fn other_versions_are_named_and_drafts_have_their_own_salt() {
    let negotiation = [0xca, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];
    let mut packets = Datagram::new(&negotiation);
    assert!(matches!(packets.next(), Some(Ok(Packet::VersionNegotiation))));
    let google = [0xc3, b'Q', b'0', b'5', b'0', 8, 1, 2, 3, 4, 5, 6, 7, 8];
    let mut packets = Datagram::new(&google);
    assert!(matches!(packets.next(), Some(Ok(Packet::VersionUnknown(0x5130_3530)))));
    assert!(packets.next().is_none());
    for (version, known) in [(29, Version::Draft29), (32, Version::Draft29), (34, Version::V1)] {
        assert_eq!(Version::of(0xff00_0000 | version), Some(known));
    }
    assert_eq!(Version::of(0xff00_001c), Some(Version::Draft23));
    assert_eq!(Version::of(0x1a2a_3a4a), Some(Version::Draft29), "reserved");
    assert_eq!(Version::of(0xff00_0014), None);
    // RFC 9001 in its draft 29, §A.1.
    let draft = Keys::client(Version::Draft29, &DCID);
    assert_eq!(draft.key.to_vec(), hex("175257a31eb09dea9366d8bb79ad80ba"));
}

#[test]
fn faults_of_packets_have_names() {
    let cases: [(&[u8], Fault); 8] = [
        (&[0xc0, 0, 0], Fault::HeaderShort),
        (&[0xc0, 0, 0, 0, 1], Fault::HeaderShort),
        (&[0xc0, 0, 0, 0, 1, 21], Fault::ConnectionIdLong),
        (&[0xc0, 0, 0, 0, 1, 4, 1, 2], Fault::HeaderShort),
        (&[0xc0, 0, 0, 0, 1, 0, 0, 9, 1], Fault::HeaderShort),
        (&[0xc0, 0, 0, 0, 1, 0, 0, 0, 5, 1, 2], Fault::LengthPastEnd),
        (&[0xc0, 0, 0, 0, 1, 0, 0, 0, 5, 1, 2, 3, 4, 5], Fault::PacketShort),
        (&[0xf0, 0, 0, 0, 1, 0, 0, 9, 9], Fault::HeaderShort),
    ];
    for (payload, fault) in cases {
        let read: Vec<_> = Datagram::new(payload).collect();
        assert!(matches!(read[..], [Err(seen)] if seen == fault), "{payload:?}: {read:?}");
    }
    let [client, _] = vectors::clients();
    let opened = ClientKeys::new().open(&first_initial(&client), &mut [0; 1199]).err();
    assert_eq!(opened, Some(Fault::PacketLong));
    let names: std::collections::BTreeSet<_> =
        Fault::ALL.iter().map(|fault| fault.name()).collect();
    assert_eq!(names.len(), Fault::COUNT);
    assert!(Fault::PacketLong.to_string().ends_with("buffer for decryption."));
}

proptest! {
    /// Chrome splits a hello into pieces that it sends in random order, over several packets.
    #[test]
    fn a_hello_in_pieces_over_packets_comes_out_whole(
        cuts in prop::collection::vec(1_u16..1500, 0..12), seed: u64, per_packet in 1_usize..5,
    ) {
        let message: Vec<u8> = (0..1500_u32).map(|index| index.to_le_bytes()[0]).collect();
        let mut cuts = [vec![0, 1500], cuts].concat();
        cuts.sort_unstable();
        let mut pieces: Vec<_> = cuts.windows(2).map(|pair| (pair[0], pair[1])).collect();
        pieces.sort_by_key(|&(start, _)| (u64::from(start) + 1).wrapping_mul(seed | 1));
        let (mut keys, mut gather) = (ClientKeys::new(), Gather::new());
        for (number, pieces) in pieces.chunks(per_packet).enumerate() {
            let mut payload = vec![1, 0, 0];
            for &(start, end) in pieces {
                payload.extend(crypto(start, &message[usize::from(start)..usize::from(end)]));
                payload.extend([0, 1]);
            }
            let dcid = if number == 0 { &DCID } else { &SERVER_ID };
            let packet = initial(1, &DCID, dcid, u8::try_from(number).unwrap(), &payload);
            let mut scratch = vec![0; packet.len()];
            let opened = keys.open(&first_initial(&packet), &mut scratch).unwrap();
            for piece in opened.pieces() {
                let piece = piece.unwrap();
                gather.insert(piece.offset, piece.bytes);
            }
        }
        prop_assert_eq!(gather.bytes(), &message[..]);
    }

    #[test]
    fn any_datagram_is_read_or_refused(
        place in 0_usize..1200, byte: u8, cut in 0_usize..1201,
        bytes in prop::collection::vec(any::<u8>(), 0..60),
    ) {
        let mut changed = vectors::clients()[usize::from(byte & 1)].clone();
        changed[place] = byte;
        changed.truncate(cut);
        for payload in [&changed[..], &bytes[..]] {
            let mut len = 0;
            for packet in Datagram::new(payload) {
                if let Ok(Packet::Initial(initial)) = packet {
                    len += initial.size_bytes();
                    let mut scratch = [0; 1200];
                    if let Ok(opened) = ClientKeys::new().open(&initial, &mut scratch) {
                        prop_assert_eq!(opened.pieces().count(), 1);
                    }
                }
            }
            prop_assert!(len <= payload.len());
        }
    }
}
