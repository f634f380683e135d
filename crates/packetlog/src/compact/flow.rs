//! What is predicted of a packet's headers from the packet before it in its flow.
//!
//! Both sides predict with the same code from the same state, and differences are stored: so what
//! is read is what was written, whatever the bytes are. A wrong guess of what they are costs room.

/// Bytes of a packet that are predicted; what is behind them is payload.
pub(super) const HEADER_LEN_MAX: usize = 128;

/// Where the fields of a header are.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub(super) struct Layout {
    /// Where IP begins.
    ip: u8,
    /// Where the transport header begins; 0 without IP.
    transport: u8,
    /// Bytes of all headers.
    pub(super) len: u8,
    network: Network,
    transport_kind: Transport,
    /// Whether TCP's options begin with timestamps, as most systems send them.
    has_times: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
enum Network {
    #[default]
    Other,
    Ipv4,
    Ipv6,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
enum Transport {
    #[default]
    Other,
    Tcp,
    Udp,
}

/// What differs from the prediction.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Steps {
    /// The length that IP gives, if it is not the one before.
    pub(super) total: Option<u16>,
    pub(super) identification: u16,
    pub(super) sequence: u32,
    pub(super) acknowledgement: u32,
    pub(super) window: u16,
    pub(super) times: [u32; 2],
    /// The checksum of the transport, if it is not computed.
    pub(super) checksum: Option<u16>,
}

const fn u16_at(bytes: &[u8; HEADER_LEN_MAX], at: usize) -> u16 {
    // Layouts lie within the header.
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

const fn u32_at(bytes: &[u8; HEADER_LEN_MAX], at: usize) -> u32 {
    u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

fn put_u16(bytes: &mut [u8; HEADER_LEN_MAX], at: usize, value: u16) {
    bytes[at..at + 2].copy_from_slice(&value.to_be_bytes());
}

fn put_u32(bytes: &mut [u8; HEADER_LEN_MAX], at: usize, value: u32) {
    bytes[at..at + 4].copy_from_slice(&value.to_be_bytes());
}

/// Ones' complement sum of `bytes` (RFC 1071), with the last byte padded.
fn sum(bytes: &[u8]) -> u32 {
    let (words, rest) = bytes.as_chunks::<2>();
    let sum: u32 = words.iter().map(|word| u32::from(u16::from_be_bytes(*word))).sum();
    sum + rest.first().map_or(0, |last| u32::from(*last) << 8)
}

const fn folded(mut sum: u32) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

impl Layout {
    /// Finds the headers of a frame whose first bytes are `bytes`.
    pub(super) fn of(bytes: &[u8]) -> Self {
        let other = Self { len: bytes.len().min(HEADER_LEN_MAX) as u8, ..Self::default() };
        let Some((ip, network)) = network_of(bytes) else { return other };
        let at = |offset: usize| bytes.get(ip + offset).copied();
        let (transport, protocol) = match network {
            Network::Ipv6 => (ip + 40, at(6)),
            _ => {
                let len = usize::from(at(0).unwrap_or(0) & 0xf) * 4;
                if len < 20 {
                    return other;
                }
                let is_fragment = at(6).is_none_or(|high| high & 0x1f != 0) || at(7) != Some(0);
                (ip + len, at(9).filter(|_| !is_fragment))
            }
        };
        let offset = || bytes.get(transport + 12).map_or(0, |high| usize::from(high >> 4) * 4);
        let (kind, len) = match protocol {
            Some(6) if offset() >= 20 => (Transport::Tcp, offset()),
            Some(17) => (Transport::Udp, 8),
            _ => (Transport::Other, 8),
        };
        let mut end = transport + len;
        let is_within = end <= bytes.len().min(HEADER_LEN_MAX);
        if !is_within && (kind != Transport::Other || bytes.len() < transport) {
            return other;
        }
        end = end.min(bytes.len()).min(HEADER_LEN_MAX);
        let times = bytes.get(transport + 20..transport + 24);
        Self {
            ip: ip as u8,
            transport: transport as u8,
            len: end as u8,
            network,
            transport_kind: kind,
            has_times: kind == Transport::Tcp && len >= 32 && times == Some(&[1, 1, 8, 10]),
        }
    }

    /// A hash of what packets of a flow have in common, in one direction.
    #[inline]
    pub(super) fn key(&self, header: &[u8; HEADER_LEN_MAX], interface: u32) -> u64 {
        let (ip, transport) = (usize::from(self.ip), usize::from(self.transport));
        let mut hash = u64::from(interface) << 32 | u64::from(self.len) << 8 | u64::from(self.ip);
        let mut mix = |bytes: &[u8]| {
            let (words, rest) = bytes.as_chunks::<4>();
            for word in words {
                hash = (hash ^ u64::from(u32::from_le_bytes(*word))).wrapping_mul(MULTIPLIER);
                hash ^= hash >> 29;
            }
            for byte in rest {
                hash = (hash ^ u64::from(*byte)).wrapping_mul(MULTIPLIER);
            }
        };
        match self.network {
            Network::Other => mix(&header[..usize::from(self.len).min(16)]),
            Network::Ipv4 => {
                mix(&header[..ip]);
                mix(&header[ip + 12..ip + 20]);
                mix(&header[ip + 9..ip + 10]);
            }
            Network::Ipv6 => {
                mix(&header[..ip]);
                mix(&header[ip + 6..ip + 7]);
                mix(&header[ip + 8..ip + 40]);
            }
        }
        if self.transport_kind != Transport::Other {
            mix(&header[transport..transport + 4]);
        }
        hash ^ hash >> 32
    }

    /// The length that IP gives of itself and what is behind it.
    fn total(&self, header: &[u8; HEADER_LEN_MAX]) -> u32 {
        let ip = usize::from(self.ip);
        match self.network {
            Network::Other => 0,
            Network::Ipv4 => u16_at(header, ip + 2).into(),
            Network::Ipv6 => u32::from(u16_at(header, ip + 4)) + 40,
        }
    }

    fn total_at(&self) -> usize {
        usize::from(self.ip) + if self.network == Network::Ipv6 { 4 } else { 2 }
    }

    /// Bytes behind the headers, as IP has it.
    fn segment_len(&self, header: &[u8; HEADER_LEN_MAX]) -> u32 {
        self.total(header).saturating_sub(u32::from(self.len - self.ip))
    }

    /// The checksum of a transport header with nothing behind it.
    fn transport_checksum(&self, header: &[u8; HEADER_LEN_MAX]) -> u16 {
        let (ip, transport) = (usize::from(self.ip), usize::from(self.transport));
        let (addresses, protocol) = match self.network {
            Network::Ipv6 => (ip + 8..ip + 40, 6),
            _ => (ip + 12..ip + 20, 9),
        };
        let len = usize::from(self.len) - transport;
        let before = sum(&header[transport..transport + 16]);
        let behind = sum(&header[transport + 18..transport + len]);
        let pseudo = sum(&header[addresses]) + u32::from(header[ip + protocol]) + len as u32;
        folded(before + behind + pseudo)
    }
}

/// An odd number whose multiples are well mixed.
const MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;

/// Where IP begins: behind Ethernet with tags, behind a header of Linux or of BSD, or at the start.
fn network_of(bytes: &[u8]) -> Option<(usize, Network)> {
    let word = |at: usize| Some(u16::from_be_bytes([*bytes.get(at)?, *bytes.get(at + 1)?]));
    let version = |at: usize| bytes.get(at).map(|first| first >> 4);
    let mut at = 12;
    while at < 24 && matches!(word(at)?, 0x8100 | 0x88a8) {
        at += 4;
    }
    let ends = |ip: usize, len: usize| bytes.len() >= ip + len;
    match word(at)? {
        0x0800 if version(at + 2)? == 4 && ends(at + 2, 20) => {
            return Some((at + 2, Network::Ipv4));
        }
        0x86dd if version(at + 2)? == 6 && ends(at + 2, 40) => {
            return Some((at + 2, Network::Ipv6));
        }
        _ => {}
    }
    for (ip, is_announced) in [(0, true), (4, true), (16, matches!(word(14)?, 0x0800 | 0x86dd))] {
        let total = word(ip + 2).map_or(0, usize::from);
        match version(ip) {
            Some(4) if is_announced && total >= 20 && ends(ip, 20) => {
                return Some((ip, Network::Ipv4));
            }
            Some(6) if is_announced && ends(ip, 40) => return Some((ip, Network::Ipv6)),
            _ => {}
        }
    }
    None
}

/// What is known of a flow in one direction.
#[derive(Clone, Debug)]
pub(super) struct FlowState {
    pub(super) layout: Layout,
    /// The headers of its last packet.
    pub(super) header: [u8; HEADER_LEN_MAX],
    /// The flow whose packet came next, when this one's came last.
    pub(super) successor: u32,
    /// TCP's next sequence number, if nothing is lost.
    sequence: u32,
    /// The last step of the identification.
    identification_step: u16,
    /// Bytes on the wire that a short packet is filled up to.
    filled_len: u32,
    /// Bytes stored of the last packet behind its headers, and whether those were all.
    kept_len: u32,
    keeps_all: bool,
    /// Where the options of its last block are in their stream, and their bytes.
    pub(super) options: (usize, usize),
}

impl FlowState {
    /// A flow whose first packet has these headers.
    pub(super) fn new(layout: Layout, header: &[u8; HEADER_LEN_MAX], successor: u32) -> Self {
        let mut state = Self {
            layout,
            header: *header,
            successor,
            sequence: 0,
            identification_step: 0,
            filled_len: 0,
            kept_len: 0,
            keeps_all: false,
            options: (0, 0),
        };
        state.learn(header);
        // Of a first packet nothing is known before it.
        state.identification_step = 1;
        state
    }

    /// What is known after a packet with these headers.
    #[inline]
    pub(super) fn learn(&mut self, header: &[u8; HEADER_LEN_MAX]) {
        let layout = self.layout;
        let (ip, transport) = (usize::from(layout.ip), usize::from(layout.transport));
        if layout.network == Network::Ipv4 {
            let step = u16_at(header, ip + 4).wrapping_sub(u16_at(&self.header, ip + 4));
            self.identification_step = step;
        }
        if layout.transport_kind == Transport::Tcp {
            let flags = header[transport + 13];
            let marks = u32::from(flags & 1) + u32::from(flags >> 1 & 1);
            let next = u32_at(header, transport + 4).wrapping_add(layout.segment_len(header));
            self.sequence = next.wrapping_add(marks);
        }
        self.header = *header;
    }

    /// The difference between a packet's headers and what is predicted of the fields that change.
    #[inline]
    pub(super) fn steps(&self, header: &[u8; HEADER_LEN_MAX]) -> Steps {
        let (layout, before) = (self.layout, &self.header);
        let (ip, transport) = (usize::from(layout.ip), usize::from(layout.transport));
        let mut steps = Steps::default();
        if layout.network != Network::Other {
            let total = u16_at(header, layout.total_at());
            steps.total = (total != u16_at(before, layout.total_at())).then_some(total);
        }
        if layout.network == Network::Ipv4 {
            let wanted = u16_at(before, ip + 4).wrapping_add(self.identification_step);
            steps.identification = u16_at(header, ip + 4).wrapping_sub(wanted);
        }
        match layout.transport_kind {
            Transport::Other => {}
            Transport::Udp => {
                let checksum = u16_at(header, transport + 6);
                steps.checksum = (checksum != 0).then_some(checksum);
            }
            Transport::Tcp => {
                let step = |at| u32_at(header, at).wrapping_sub(u32_at(before, at));
                steps.sequence = u32_at(header, transport + 4).wrapping_sub(self.sequence);
                steps.acknowledgement = step(transport + 8);
                let window = transport + 14;
                steps.window = u16_at(header, window).wrapping_sub(u16_at(before, window));
                if layout.has_times {
                    steps.times = [step(transport + 24), step(transport + 28)];
                }
                let checksum = u16_at(header, transport + 16);
                let is_computed = layout.segment_len(header) == 0
                    && layout.transport_checksum(header) == checksum;
                steps.checksum = (!is_computed).then_some(checksum);
            }
        }
        steps
    }

    /// The headers that these steps lead to.
    #[inline]
    pub(super) fn predict(&self, steps: &Steps) -> [u8; HEADER_LEN_MAX] {
        let (layout, mut header) = (self.layout, self.header);
        let (ip, transport) = (usize::from(layout.ip), usize::from(layout.transport));
        if let (Some(total), true) = (steps.total, layout.network != Network::Other) {
            put_u16(&mut header, layout.total_at(), total);
        }
        if layout.network == Network::Ipv4 {
            let step = self.identification_step.wrapping_add(steps.identification);
            let identification = u16_at(&header, ip + 4).wrapping_add(step);
            put_u16(&mut header, ip + 4, identification);
            let before = sum(&header[ip..ip + 10]);
            let behind = sum(&header[ip + 12..transport.max(ip + 12)]);
            put_u16(&mut header, ip + 10, folded(before + behind));
        }
        match layout.transport_kind {
            Transport::Other => {}
            Transport::Udp => {
                let len = layout.total(&header).saturating_sub((transport - ip) as u32);
                put_u16(&mut header, transport + 4, len as u16);
                put_u16(&mut header, transport + 6, steps.checksum.unwrap_or(0));
            }
            Transport::Tcp => {
                put_u32(&mut header, transport + 4, self.sequence.wrapping_add(steps.sequence));
                let mut add = |at, step| {
                    let value = u32_at(&header, at).wrapping_add(step);
                    put_u32(&mut header, at, value);
                };
                add(transport + 8, steps.acknowledgement);
                if layout.has_times {
                    add(transport + 24, steps.times[0]);
                    add(transport + 28, steps.times[1]);
                }
                let window = u16_at(&header, transport + 14).wrapping_add(steps.window);
                put_u16(&mut header, transport + 14, window);
                let computed = || layout.transport_checksum(&header);
                let checksum = steps.checksum.unwrap_or_else(computed);
                put_u16(&mut header, transport + 16, checksum);
            }
        }
        header
    }

    /// Bytes on the wire that are predicted of a packet with these headers.
    pub(super) fn wire_len(&self, header: &[u8; HEADER_LEN_MAX]) -> u32 {
        match self.layout.network {
            Network::Other => self.filled_len.max(self.layout.len.into()),
            _ => (u32::from(self.layout.ip) + self.layout.total(header)).max(self.filled_len),
        }
    }

    /// Bytes behind the headers that are predicted to be stored, of `payload_len` on the wire.
    pub(super) fn kept_len(&self, payload_len: u32) -> u32 {
        if self.keeps_all { payload_len } else { self.kept_len.min(payload_len) }
    }

    /// What is known after a packet of these lengths.
    pub(super) fn learn_lengths(
        &mut self,
        header: &[u8; HEADER_LEN_MAX],
        wire_len: u32,
        payload_len: u32,
        kept_len: u32,
    ) {
        if kept_len > 0 || payload_len > 0 {
            self.kept_len = kept_len;
            self.keeps_all = kept_len == payload_len;
        }
        let is_filled = self.layout.network == Network::Other
            || u32::from(self.layout.ip) + self.layout.total(header) < wire_len;
        if is_filled {
            self.filled_len = wire_len;
        }
    }
}
