//! Headers of the transport layer and of ICMP: views, options, chunks, texts,
//! values, and checksums over what is emitted.
//!
//! Input: bytes that every parser of the family takes for its own header.
#![no_main]

use fuzz::promises::{appended, assert_one_line, assert_survives, pseudo_headers};
use libfuzzer_sys::fuzz_target;
use packet::Protocol;
use packet::wire::accurate_ecn::AccurateEcnRepr;
use packet::wire::checksum::{self, Checksum, checksum};
use packet::wire::dns::Dns;
use packet::wire::icmp::{self, Icmp, IcmpRepr};
use packet::wire::icmpv6::{self, Icmpv6, Icmpv6Repr};
use packet::wire::quic::Quic;
use packet::wire::sctp::{self, Sctp, SctpRepr};
use packet::wire::tcp::{self, SeqNumber, Tcp, TcpFlags, TcpRepr};
use packet::wire::tcp_options::{self, TcpOption, TcpOptionIter, TcpOptions};
use packet::wire::udp::{Udp, UdpRepr};

fuzz_target!(|bytes: &[u8]| {
    sums(bytes);
    tcp(bytes);
    tcp_options(bytes);
    udp(bytes);
    sctp(bytes);
    icmp(bytes);
    icmpv6(bytes);
    carried(bytes);
});

/// The sum as RFC 1071 §4.1 writes it down, one word after another.
fn sums(bytes: &[u8]) {
    let word = |pair: &[u8]| u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0));
    let mut sum: u32 = 0;
    for pair in bytes.chunks(2) {
        sum += word(pair);
        sum = (sum & 0xffff) + (sum >> 16);
    }
    assert_eq!(checksum(bytes), !(sum as u16));
    let (first, second) = bytes.split_at(bytes.len() / 4 * 2);
    assert_eq!(Checksum::default().with(first).with(second).finish(), checksum(bytes));
}

fn tcp(bytes: &[u8]) {
    let Ok(view) = Tcp::new(bytes) else { return };
    assert_one_line(&view);
    assert_one_line(&view.flags());
    assert!((tcp::HEADER_LEN..=tcp::HEADER_LEN_MAX).contains(&view.header_len()));
    assert_eq!(view.header_len() + view.payload().len(), bytes.len());
    assert_eq!(view.flags(), TcpFlags::from_bits(view.flags().bits()));
    sequence_numbers(view.sequence_number(), view.acknowledgment_number());
    let parse = |bytes: &[u8]| TcpRepr::parse(&Tcp::new(bytes).ok()?).ok();
    let emitted = assert_survives(parse(bytes), TcpRepr::header_len, TcpRepr::emit, parse);
    assert_eq!(emitted.is_some(), view.check_options().is_ok());
    let Some(value) = parse(bytes) else { return };
    for pseudo in pseudo_headers() {
        let segment = appended(|out| value.emit_segment(&pseudo, view.payload(), out));
        assert_eq!(pseudo.checksum(Protocol::TCP, &segment), 0);
        assert_eq!(Tcp::new(&segment).map(|view| view.payload()), Ok(view.payload()));
    }
}

fn sequence_numbers(one: SeqNumber, other: SeqNumber) {
    assert_eq!(one.is_before(other), other.is_after(one) && one.compare(other).is_some());
    assert!(!(one.is_before(other) && one.is_after(other)));
    assert_eq!(one.compare(other).map(|order| order.reverse()), other.compare(one));
    assert_eq!(one.plus(other.0).since(one), other.0.cast_signed());
}

fn tcp_options(bytes: &[u8]) {
    let iter = TcpOptionIter::new(bytes);
    let options: Result<Vec<_>, _> = iter.clone().collect();
    assert_eq!(options.is_ok(), tcp_options::check(bytes).is_ok());
    let _ = iter.to_string();
    let owned = TcpOptions::parse(bytes);
    assert_eq!(owned.is_ok(), options.is_ok() && bytes.len() <= tcp_options::OPTIONS_LEN_MAX);
    for option in options.iter().flatten() {
        assert_one_line(option);
        if let Some(counters) = AccurateEcnRepr::parse(option) {
            let data = appended(|out| counters.emit(out));
            assert!(data.len() <= 9 && counters.to_string().lines().count() <= 1);
        }
        if let TcpOption::Sack(blocks) = option {
            assert_eq!(blocks.iter().count(), blocks.count());
            assert!((1..=tcp_options::SACK_BLOCKS_MAX).contains(&blocks.count()));
        }
    }
    // What follows the end of the list is kept by one and not told by the other.
    if let (Ok(owned), Ok(options)) = (owned, options)
        && !options.contains(&TcpOption::EndOfList)
    {
        assert_eq!(TcpOptions::new(&options), Some(owned));
    }
}

fn udp(bytes: &[u8]) {
    let Ok(view) = Udp::new(bytes) else { return };
    assert_one_line(&view);
    assert!(view.payload().len() <= bytes.len() - 8);
    let parse = |bytes: &[u8]| UdpRepr::parse(&Udp::new(bytes).ok()?).ok();
    assert_survives(parse(bytes), UdpRepr::header_len, UdpRepr::emit, parse);
    if view.check_length(bytes.len()).is_ok() {
        assert_eq!(view.payload().len() + 8, usize::from(view.length()));
    }
    let value = UdpRepr { source_port: 53, ..UdpRepr::default() };
    for pseudo in pseudo_headers() {
        let datagram = appended(|out| value.emit_datagram(&pseudo, bytes, out));
        assert_eq!(pseudo.checksum(Protocol::UDP, &datagram), 0);
        let read = Udp::new(&datagram).expect("a header of our own");
        assert!(read.check_length(datagram.len()).is_ok() || bytes.len() > 65_527);
        assert!(read.checksum() != 0 && bytes.starts_with(read.payload()));
    }
}

fn sctp(bytes: &[u8]) {
    let Ok(view) = Sctp::new(bytes) else { return };
    assert_one_line(&view);
    let mut chunks = view.chunks();
    let found: Vec<_> = chunks.by_ref().collect();
    assert!(chunks.rest().len() <= view.payload().len());
    let parse = |bytes: &[u8]| SctpRepr::parse(&Sctp::new(bytes).ok()?).ok();
    assert_survives(parse(bytes), SctpRepr::header_len, SctpRepr::emit, parse);
    let Some(value) = parse(bytes) else { return };
    let mut packet = appended(|out| value.emit_packet(&found, out));
    let read = Sctp::new(&packet).expect("a header of our own");
    assert_eq!(read.chunks().collect::<Vec<_>>(), found);
    let sum = read.checksum();
    packet[8..12].fill(0);
    assert_eq!(sctp::crc32c(&packet), sum);
}

fn icmp(bytes: &[u8]) {
    let Ok(view) = Icmp::new(bytes) else { return };
    assert_one_line(&view);
    let kind = view.message_type();
    assert!(icmp::counterpart(kind).is_none_or(|back| icmp::counterpart(back) == Some(kind)));
    assert_eq!(view.identifier().is_some(), view.sequence_number().is_some());
    assert!(view.original_packet().is_none_or(|packet| packet == view.payload()));
    let _ = (view.gateway(), view.next_hop_mtu());
    let parse = |bytes: &[u8]| IcmpRepr::parse(&Icmp::new(bytes).ok()?).ok();
    assert_survives(parse(bytes), IcmpRepr::header_len, IcmpRepr::emit, parse);
    let value = parse(bytes).expect("every view is a value");
    let message = appended(|out| value.emit_message(view.payload(), out));
    assert_eq!(checksum::checksum(&message), 0);
}

fn icmpv6(bytes: &[u8]) {
    let Ok(view) = Icmpv6::new(bytes) else { return };
    assert_one_line(&view);
    let kind = view.message_type();
    assert!(icmpv6::counterpart(kind).is_none_or(|back| icmpv6::counterpart(back) == Some(kind)));
    assert!(view.original_packet().is_none() || view.is_error());
    let _ = (view.echo(), view.mtu(), view.target());
    let parse = |bytes: &[u8]| Icmpv6Repr::parse(&Icmpv6::new(bytes).ok()?).ok();
    assert_survives(parse(bytes), Icmpv6Repr::header_len, Icmpv6Repr::emit, parse);
    let value = parse(bytes).expect("every view is a value");
    for pseudo in pseudo_headers() {
        let message = appended(|out| value.emit_message(&pseudo, view.body(), out));
        assert_eq!(pseudo.checksum(Protocol::ICMPV6, &message), 0);
    }
}

/// What is read of DNS and of QUIC.
fn carried(bytes: &[u8]) {
    if let Some(view) = Dns::new(bytes) {
        assert_one_line(&view);
        assert!(view.opcode() <= 6);
        let _ = (view.is_response(), view.question_count());
    }
    if let Some(view) = Quic::new(bytes) {
        assert_one_line(&view);
        assert!(view.version().is_some() != view.spin().is_some());
        assert!(!view.has_known_version() || view.version().is_some());
    }
}
