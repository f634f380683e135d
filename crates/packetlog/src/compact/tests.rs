use proptest::prelude::*;

use super::*;

/// A block as the recorder writes it.
fn put_block(
    out: &mut Vec<u8>,
    interface: u32,
    ticks: u64,
    wire_len: u32,
    frame: &[u8],
    options: &[u8],
) {
    let padding = frame.len().wrapping_neg() & 3;
    let total = (32 + frame.len() + padding + options.len()) as u32;
    let (high, low) = ((ticks >> 32) as u32, ticks as u32);
    for word in [6, total, interface, high, low, frame.len() as u32, wire_len] {
        out.extend(word.to_le_bytes());
    }
    out.extend(frame);
    out.extend(&[0; 3][..padding]);
    out.extend(options);
    out.extend(total.to_le_bytes());
}

/// Compacts and expands a chunk; returns its length between.
fn there_and_back(plain: &[u8]) -> usize {
    let mut encoder = Encoder::new(1).unwrap();
    let mut chunk = plain.to_vec();
    let end = compact(&mut chunk, plain.len(), &mut encoder);
    chunk.truncate(end);
    // What is behind its blocks is none of it.
    chunk.extend([0xee; 64]);
    let expanded = expand(&mut chunk, end).unwrap();
    assert_eq!(chunk.get(..expanded).unwrap(), plain);
    end
}

/// A section header, as long as it need be.
fn head() -> Vec<u8> {
    let mut head = Vec::new();
    packet::file::PcapngEncoder::new().section(&mut head, &packet::file::Section::default());
    head
}

/// Ethernet, IPv4 or IPv6, TCP or UDP, from a few numbers, with right checksums.
fn conversation(number: u64, salt: u64) -> Vec<u8> {
    let is_tcp = !salt.is_multiple_of(5);
    let payload_len = if number.is_multiple_of(3) { 0 } else { (number % 7 * 200) as usize };
    let transport_len = if is_tcp { 32 } else { 8 };
    let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, (number % 2) as u8, 8, 0];
    frame.extend([0x45, 0]);
    frame.extend(((20 + transport_len + payload_len) as u16).to_be_bytes());
    frame.extend((number as u16).to_be_bytes());
    frame.extend([
        0x40,
        0,
        64,
        if is_tcp { 6 } else { 17 },
        0,
        0,
        10,
        0,
        0,
        (salt % 9) as u8,
        192,
        0,
        2,
        1,
    ]);
    let sum: u32 = frame[14..34].chunks(2).map(|w| u32::from(w[0]) << 8 | u32::from(w[1])).sum();
    let sum = !((sum & 0xffff) + (sum >> 16)) as u16;
    frame[24..26].copy_from_slice(&sum.to_be_bytes());
    frame.extend([4, (salt % 250) as u8, 1, 187]);
    if is_tcp {
        frame.extend((number as u32).wrapping_mul(1448).to_be_bytes());
        frame.extend((number as u32).to_be_bytes());
        frame.extend([0x80, 0x10, 1, 0, number as u8, salt as u8, 0, 0, 1, 1, 8, 10]);
        frame.extend(((number / 4) as u32).to_be_bytes());
        frame.extend(((number / 5) as u32).to_be_bytes());
    } else {
        frame.extend(((8 + payload_len) as u16).to_be_bytes());
        frame.extend([number as u8, 1]);
    }
    frame.extend((0..payload_len).map(|at| (at as u64 * number) as u8));
    frame
}

fn numbers_of(plain: &[u8]) -> usize {
    let mut count = 0;
    block_of(plain, plain.len(), |kind, _| {
        count += usize::from(kind == 6);
        false
    });
    count
}

#[test]
fn headers_of_conversations_become_a_sixth_and_come_back() {
    let mut plain = head();
    let start = plain.len();
    for number in 0..5_000_u64 {
        let frame = conversation(number, number % 11);
        let kept = frame.get(..66.min(frame.len())).unwrap();
        put_block(
            &mut plain,
            0,
            1_795_253_400_000_000_000 + number * 1_000,
            frame.len() as u32,
            kept,
            &[],
        );
    }
    let end = there_and_back(&plain);
    assert!((end - start) * 6 < plain.len() - start, "{end} of {}", plain.len());
}

#[test]
fn what_stands_behind_the_packets_stays_behind_them() {
    let mut plain = head();
    put_block(&mut plain, 0, 7, 1_000, &[1; 900], &[]);
    plain.extend([5, 0, 0, 0, 12, 0, 0, 0, 12, 0, 0, 0]);
    put_block(&mut plain, 1, 3, 60, &[2; 60], &[1, 0, 0, 0]);
    assert!(there_and_back(&plain) < plain.len());
    // Nothing to compact, and nothing that would become shorter.
    assert_eq!(there_and_back(&head()), head().len());
    let mut short = head();
    put_block(&mut short, 0, 1, 1, &[1], &[]);
    assert_eq!(there_and_back(&short), short.len());
}

#[test]
fn more_flows_than_are_known_at_a_time_come_back() {
    let mut plain = head();
    for number in 0..FLOW_COUNT_MAX as u32 + 500 {
        let [a, b, c, d] = (number % (FLOW_COUNT_MAX as u32 + 100)).to_be_bytes();
        let frame = [1, 1, 1, 1, 1, 1, 2, 2, a, b, c, d, 9, 9, 7, 7, 7, 7, 7, 7];
        put_block(&mut plain, 0, number.into(), 20, &frame, &[]);
    }
    assert!(there_and_back(&plain) < plain.len());
}

#[test]
fn a_block_that_is_none_of_ours_is_a_fault_and_no_panic() {
    let mut chunk = head();
    let start = chunk.len();
    for number in 0..200 {
        let frame = conversation(number, number % 11);
        put_block(&mut chunk, 0, number, frame.len() as u32, &frame, &[]);
    }
    let (plain, end) = (chunk.clone(), chunk.len());
    let end = compact(&mut chunk, end, &mut Encoder::new(1).unwrap());
    chunk.truncate(end);
    let mut refused = 0;
    for at in start + 8..end - 4 {
        let mut spoilt = chunk.clone();
        spoilt[at] ^= 1 << (at % 8);
        // Its enterprise number or magic: then it is another's.
        let is_other = at < start + 20;
        let expanded = expand(&mut spoilt, end);
        // Some bits of zstd say nothing: then the packets are those that were put in.
        let is_whole = expanded.is_ok() && spoilt == plain;
        assert!(expanded.is_err() || is_other || is_whole, "{at}");
        refused += usize::from(expanded.is_err());
    }
    assert!(refused > 1_000);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    /// Whatever the packets are: conversations, some of whose bytes are others, and nonsense.
    #[test]
    fn every_packet_comes_back_byte_by_byte(
        packets in prop::collection::vec(
            (
                0..400_u64, 0..30_u64, any::<u64>(), 0..3_u32, 0..200_usize,
                prop::collection::vec((0..90_usize, any::<u8>()), 0..4),
                prop::collection::vec(any::<u8>(), 0..3), any::<i32>(),
            ),
            0..120,
        ),
        nonsense in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..160), 0..20),
    ) {
        let mut plain = head();
        let mut ticks = 0_u64;
        for (number, salt, tick, interface, kept, changes, options, wire) in &packets {
            let mut frame = conversation(*number, *salt);
            for (at, byte) in changes {
                if let Some(place) = frame.get_mut(*at) {
                    *place = *byte;
                }
            }
            ticks = if tick.is_multiple_of(9) { *tick } else { ticks.wrapping_add(tick % 100_000) };
            let wire_len = if wire % 4 == 0 { wire.cast_unsigned() } else { frame.len() as u32 };
            let options: Vec<u8> = options.iter().flat_map(|byte| [*byte; 4]).collect();
            let kept = frame.get(..54 + kept).unwrap_or(&frame);
            put_block(&mut plain, *interface, ticks, wire_len, kept, &options);
        }
        for frame in &nonsense {
            put_block(&mut plain, 0, ticks, frame.len() as u32, frame, &[]);
        }
        prop_assert_eq!(numbers_of(&plain), packets.len() + nonsense.len());
        there_and_back(&plain);
    }
}
