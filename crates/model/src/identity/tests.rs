use packet::dissect::{DissectOptions, dissect};
use packet::{Frame, LinkType, Record};
use proptest::prelude::*;

use super::*;
use crate::block::Block;
use crate::layout::Layout;

const PAYLOAD_LEN: u16 = 96;

fn layout() -> Layout {
    Layout::new(&Block::ALL, PAYLOAD_LEN).with_identity(Identity::Masked)
}

fn record(frame: &[u8]) -> Vec<u8> {
    let len = u32::try_from(frame.len()).unwrap();
    let layers = dissect(LinkType::ETHERNET, frame, len, DissectOptions::default());
    let record = Record { captured_len: len, layers, ..Record::default() };
    let mut bits = vec![0xff; layout().record_len()];
    assert!(layout().fill(&Frame::new(frame, &record), &mut bits));
    bits
}

/// What names a unit or a network in headers.
#[derive(Clone, Debug)]
struct Unit {
    mac: [u8; 6],
    ip: [u8; 16],
    id: u16,
    port: u16,
    sequence: [u8; 8],
    sums: [u8; 2],
    stamps: [u8; 8],
    label: [u8; 3],
}

prop_compose! {
    fn any_unit()(
        mac: [u8; 6], ip: [u8; 16], id: u16, port in 32_768_u16.., sequence: [u8; 8],
        sums: [u8; 2], stamps: [u8; 8], label: [u8; 3],
    ) -> Unit {
        Unit { mac, ip, id, port, sequence, sums, stamps, label }
    }
}

impl Unit {
    fn frame(&self, is_v6: bool, protocol: u8, hops: u8, transport: &[u8]) -> Vec<u8> {
        let len = u16::try_from(transport.len()).unwrap();
        let link = |kind: [u8; 2]| [&[2, 0, 0, 0, 0, 9][..], &self.mac, &kind].concat();
        if is_v6 {
            let head = [0x60, self.label[0] & 15, self.label[1], self.label[2]];
            let rest = [&len.to_be_bytes()[..], &[protocol, hops]].concat();
            return [&link([0x86, 0xdd])[..], &head, &rest, &self.ip, &[0x30; 16], transport]
                .concat();
        }
        let total = (len + 20).to_be_bytes();
        let id = self.id.to_be_bytes();
        let head = [0x45, 0, total[0], total[1], id[0], id[1], 0x40, 0, hops, protocol];
        [&link([8, 0])[..], &head, &self.sums, &self.ip[..4], &[203, 0, 113, 1], transport].concat()
    }

    fn tcp(&self, port: u16, payload: &[u8]) -> Vec<u8> {
        let ports = [self.port.to_be_bytes(), port.to_be_bytes()].concat();
        let head = [0x80, 0x18, 2, 0, self.sums[0], self.sums[1], 0, 0];
        let options = [&[1, 1, 8, 10][..], &self.stamps].concat();
        [&ports[..], &self.sequence, &head, &options, payload].concat()
    }

    fn udp(&self, from: u16, port: u16, payload: &[u8]) -> Vec<u8> {
        let len = u16::try_from(payload.len() + 8).unwrap();
        let fields = [from, port, len].map(u16::to_be_bytes).concat();
        [&fields[..], &self.sums, payload].concat()
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

    /// Two units that send the same cannot be distinguished, whatever they are called.
    #[test]
    fn headers_tell_no_unit(
        one in any_unit(), other in any_unit(), is_v6: bool, ways in 0..8_u8, more in 0..8_u8,
        bytes in prop::collection::vec(any::<u8>(), 0..40),
    ) {
        let echo = if is_v6 { 58 } else { 1 };
        let of = |unit: &Unit, hops, bytes: &[u8]| [
            unit.frame(is_v6, 6, hops, &unit.tcp(4_000, bytes)),
            unit.frame(is_v6, 17, hops, &unit.udp(unit.port, 20_002, bytes)),
            unit.frame(is_v6, echo, hops, &[&[8, 0][..], &unit.sums, bytes].concat()),
        ].map(|frame| record(&frame));
        // Ciphertext and whatever else is not known: other bytes, the same record.
        let others: Vec<_> = bytes.iter().map(|byte| byte ^ 0x80).collect();
        prop_assert_eq!(of(&one, 64 - ways, &bytes), of(&other, 64 - more, &others));
    }

    /// No payload of any port makes it read outside, and what it writes is within the block.
    #[test]
    fn any_payload_is_safe(
        port in prop::sample::select(
            vec![53_u16, 67, 123, 137, 443, 546, 1883, 1900, 3478, 5353, 5355, 5683]
        ),
        start in prop::sample::select(vec![
            &b""[..], b"GET /", b"NOTIFY * ", b"HTTP/1.1 ", &[22, 3, 1, 0, 60, 1, 0, 0, 56, 3, 3],
            &[0x10, 14, 0, 4, b'M', b'Q', b'T', b'T'],
        ]),
        bytes in prop::collection::vec(any::<u8>(), 0..300), is_tcp: bool, unit in any_unit(),
    ) {
        let payload = [start, &bytes].concat();
        let transport =
            if is_tcp { unit.tcp(port, &payload) } else { unit.udp(unit.port, port, &payload) };
        let frame = unit.frame(false, if is_tcp { 6 } else { 17 }, 64, &transport);
        for len in [frame.len(), frame.len() - payload.len() / 2] {
            let bits = record(&frame[..len]);
            let (data, presence) = bits.split_at(layout().data_len());
            for (index, byte) in data.iter().enumerate() {
                prop_assert!(*byte == 0 || presence[index / 8] << (index % 8) & 0x80 != 0);
            }
        }
    }
}

/// The bytes of the payload that are features; a dot for those that are not.
fn listed(is_tcp: bool, port: u16, payload: &[u8]) -> String {
    let unit = Unit {
        mac: [2; 6],
        ip: [10; 16],
        id: 1,
        port: 40_000,
        sequence: [1; 8],
        sums: [0; 2],
        stamps: [3; 8],
        label: [0; 3],
    };
    let transport =
        if is_tcp { unit.tcp(port, payload) } else { unit.udp(unit.port, port, payload) };
    let bits = record(&unit.frame(false, if is_tcp { 6 } else { 17 }, 64, &transport));
    let (start, len) = (layout().offset(Block::Payload), usize::from(PAYLOAD_LEN));
    let presence = &bits[layout().data_len()..];
    let shown = (start..start + len).map(|at| {
        let is_there = presence[at / 8] << (at % 8) & 0x80 != 0;
        match bits[at] {
            _ if !is_there => '.',
            byte if byte.is_ascii_graphic() || byte == b' ' => char::from(byte),
            _ => '~',
        }
    });
    shown.collect::<String>().trim_end_matches('.').to_owned()
}

#[test]
fn text_stays_without_serial_numbers_tokens_and_addresses() {
    let scale = b"GET /scale/register?serialNumber=20F85ECA9152&token=6Ge1Y1 HTTP/1.1\r\n";
    assert_eq!(
        listed(true, 80, scale),
        format!("GET /scale/register{} HTTP/1.1~~", ".".repeat(39))
    );
    let user = b"PUT /api/1028d66426293e821ecfd9ef1a0731df/lights HTTP/1.1\r\n";
    assert_eq!(listed(true, 80, user), format!("PUT /api/{}/lights HTTP/1.1~~", ".".repeat(32)));
    let host = b"GET / HTTP/1.1\r\nHost: 192.168.0.17\r\nServer: IpBridge/0.1\r\nX-Id: bob\r\n";
    let shown = listed(true, 80, host);
    assert_eq!(shown, "GET / HTTP/1.1~~Host:...............Server: IpBridge/0.1~~X-Id:");
    let public = b"GET / HTTP/1.1\r\nHost: api.fitbit.com\r\nCookie: a=b\r\n\r\nsecret";
    let shown = listed(true, 80, public);
    assert_eq!(shown, "GET / HTTP/1.1~~Host: api.fitbit.com~~Cookie:");
    let ssdp =
        b"NOTIFY * HTTP/1.1\r\nHOST: 239.255.255.250:1900\r\nNT: uuid:2f402f80-da50-11e1\r\n";
    let shown = listed(false, 1900, ssdp);
    assert_eq!(
        shown,
        "NOTIFY * HTTP/1.1~~HOST: 239.255.255.250:....~~NT: uuid:..................~~"
    );
    let sip = b"INVITE sip:bob@example.org SIP/2.0\r\n";
    assert_eq!(listed(false, 5060, sip), format!("INVITE {} SIP/2.0~~", ".".repeat(19)));
}

#[test]
fn names_of_hosts_are_absent_however_long_they_are() {
    let question = |name: &[&[u8]]| {
        let labels: Vec<u8> =
            name.iter().flat_map(|l| [&[l.len() as u8][..], l].concat()).collect();
        [&[7, 7, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0][..], &labels, &[0, 0, 1, 0, 1]].concat()
    };
    let header = "..~~~~~~~~~~";
    let public = question(&[b"time", b"example", b"org"]);
    assert_eq!(listed(false, 53, &public), format!("{header}~time~example~org~~~~~"));
    let own = question(&[b"printer", b"lan"]);
    assert_eq!(listed(false, 53, &own), format!("{header}..~~~~~"));
    assert_eq!(listed(false, 53, &own), listed(false, 53, &question(&[b"nas", b"home"])));
    let service = question(&[b"Kitchen lamp 1A2B3C", b"_hap", b"_tcp", b"local"]);
    assert_eq!(listed(false, 5353, &service), format!("{header}.~_hap~_tcp~local~~~~~"));
    assert_eq!(listed(false, 5355, &own), format!("{header}..~~~~~"));
}

#[test]
fn dhcp_shows_what_a_client_asks_for_and_not_who_it_is() {
    let message = |mac: u8, name: &[u8]| {
        let mut bytes = vec![0; 240];
        (bytes[0], bytes[1], bytes[2]) = (1, 1, 6);
        bytes[4..8].fill(mac);
        bytes[28..34].fill(mac);
        bytes[236..].copy_from_slice(&[99, 130, 83, 99]);
        bytes.extend([53, 1, 1, 61, 7, 1]);
        bytes.extend([mac; 6]);
        bytes.extend([12, name.len() as u8]);
        bytes.extend(name);
        bytes.extend([60, 12]);
        bytes.extend(b"udhcp 1.19.4");
        bytes.extend([55, 3, b'A', b'B', b'C', 255]);
        bytes
    };
    let shown = listed(false, 67, &message(7, b"lamp"));
    assert_eq!(shown, "~~~~5~~=~<~udhcp 1.19.47~ABC");
    assert_eq!(shown, listed(false, 67, &message(99, b"Living room")));
}

#[test]
fn tls_shows_suites_and_a_public_name() {
    let hello = |random: u8, session: usize, name: &[u8]| {
        let mut body = vec![3, 3];
        body.extend([random; 32]);
        body.push(session as u8);
        body.extend(vec![random; session]);
        body.extend([0, 6, 0x2a, 0x2a, b'a', b'b', b'c', b'd', 1, 0]);
        let len = name.len() as u8;
        let server = [&[0, 0, 0, len + 5, 0, len + 3, 0, 0, len][..], name].concat();
        body.extend([0, server.len() as u8 + 8]);
        body.extend(server);
        body.extend([0, 35, 0, 4, random, random, random, random]);
        let message = [&[1, 0, 0, body.len() as u8][..], &body].concat();
        [&[22, 3, 1, 0, message.len() as u8][..], &message].concat()
    };
    let shown = listed(true, 443, &hello(7, 32, b"api.example.org"));
    assert_eq!(shown, "~~~~~~.........api.example.org~~..abcd~~~#");
    assert_eq!(shown, listed(true, 443, &hello(9, 0, b"api.example.org")));
    assert_eq!(listed(true, 443, &[23, 3, 3, 0, 4, 1, 2, 3, 4]), "~~~");
}

#[test]
fn ports_that_are_given_out_are_one() {
    assert_eq!(
        [443, 32_767, 32_768, 49_153, 65_535].map(|port| Identity::Masked.port(port)),
        [443, 32_767, 32_768, 32_768, 32_768]
    );
    assert_eq!(Identity::Kept.port(49_153), 49_153);
    assert_eq!(
        [1, 4, 5, 47, 64, 110, 200, 255].map(headers::hop_limit),
        [1, 4, 32, 64, 64, 128, 255, 255]
    );
    for identity in Identity::ALL {
        assert_eq!(Identity::named(identity.name()), Some(identity));
    }
}
