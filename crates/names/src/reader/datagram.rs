//! Datagrams: DNS, QUIC, and what else they show.

use std::net::IpAddr;
use std::sync::Arc;

use packet::wire::dns;
use packet::{FlowDirection, Timestamp};

use super::asked::PendingQuery;
use super::stream::Reading;
use super::{NameState, Payload, Reader, Stage};
use crate::dns::{Answer, DnsFault, LLMNR_PORT, Message, Name, Question};
use crate::gather;
use crate::greeting::{self, Protocol};
use crate::quic::{ClientKeys, Datagram, DecryptedPacket, Packet, Version};
use crate::tls::{self, Transport};

/// Datagrams of a flow that are examined, unless they are DNS.
const LOOKED_MAX: u8 = 4;
/// The name service of NetBIOS.
const NETBIOS_PORT: u16 = 137;
/// Ports below this are those of servers (RFC 6335 §6).
const SERVER_PORTS_END: u16 = 1024;
/// Datagrams that are examined while a client's hello is put together.
const INITIALS_MAX: u8 = 32;
/// What a packet of QUIC that no key opens counts of the datagrams that are examined.
const TRIAL: u8 = 2;
/// Names that a response may go through, from one alias to the next.
const ALIASES_MAX: usize = 16;

impl Reader {
    pub(super) fn on_datagram(&mut self, named: &mut NameState, payload: &Payload<'_>) {
        let protocol = match payload.ports {
            ports if ports.contains(&dns::PORT) => Some(Protocol::Dns),
            ports if is_with(ports, dns::MULTICAST_PORT) => Some(Protocol::Mdns),
            ports if is_with(ports, LLMNR_PORT) => Some(Protocol::Llmnr),
            _ if named.seen.protocol == Some(Protocol::Dns) => Some(Protocol::Dns),
            // Resolvers listen on other ports as well; NetBIOS has the same form for other names.
            ports if ports.contains(&NETBIOS_PORT) => None,
            _ if Message::new(payload.bytes).is_ok_and(|message| message.is_plain()) => {
                Some(Protocol::Dns)
            }
            _ => None,
        };
        if let Some(protocol) = protocol {
            match self.read_dns(named, payload.bytes, payload, protocol) {
                Ok(()) => named.seen.protocol = Some(protocol),
                // What was not captured, or is in other fragments, is no fault.
                Err(DnsFault::PastEnd) if !payload.is_whole => {}
                Err(fault) => self.counts.fault(fault.name()),
            }
            return;
        }
        named.looked = named.looked.saturating_add(1);
        if named.is_gathering() || begins_like_initial(payload.bytes) {
            self.read_initials(named, payload);
        } else if let Some(protocol) = greeting::of_datagram(payload.bytes, payload.ports) {
            named.seen.protocol = Some(protocol);
            named.stage = Stage::Done;
        }
        let looked_max = if named.is_gathering() { INITIALS_MAX } else { LOOKED_MAX };
        if named.looked >= looked_max && named.stage != Stage::Done {
            named.stage = Stage::Done;
            self.give_up(named);
        }
    }

    /// The packets of a client that begins a connection of QUIC.
    fn read_initials(&mut self, named: &mut NameState, payload: &Payload<'_>) {
        if named.page(payload.direction.opposite()).is_some() {
            return;
        }
        let known = named.page(payload.direction).and_then(|handle| {
            self.pool.get(handle)?;
            self.quic.get(handle.index()).copied()
        });
        let mut keys = known.unwrap_or_default();
        let mut scratch = std::mem::take(&mut self.scratch);
        scratch.resize(payload.bytes.len().max(scratch.len()), 0);
        for packet in Datagram::new(payload.bytes) {
            let initial = match packet {
                Ok(Packet::Initial(initial)) => initial,
                Ok(_) => continue,
                Err(fault) => {
                    // What was not captured is no fault.
                    if payload.is_whole {
                        self.counts.fault(fault.name());
                    }
                    break;
                }
            };
            let opened = match keys.open(&initial, &mut scratch) {
                Ok(opened) => opened,
                Err(fault) => {
                    // Each trial costs some 20 µs, and a datagram holds fifty: one is enough, and
                    // some of them end a flow.
                    self.counts.fault(fault.name());
                    named.looked = named.looked.saturating_add(TRIAL);
                    break;
                }
            };
            named.seen.protocol = Some(Protocol::Quic);
            self.take_pieces(named, payload.direction, &opened, keys);
            if named.stage == Stage::Done {
                break;
            }
        }
        self.scratch = scratch;
    }

    /// Puts the pieces of a packet in their place, and reads the hello when it is all there.
    fn take_pieces(
        &mut self,
        named: &mut NameState,
        direction: FlowDirection,
        opened: &DecryptedPacket<'_>,
        keys: ClientKeys,
    ) {
        let page = named.page(direction);
        let handle = page.filter(|&handle| self.pool.get(handle).is_some());
        let handle = handle.unwrap_or_else(|| self.pool.lend());
        *page = Some(handle);
        if self.quic.len() <= handle.index() {
            self.quic.resize_with(handle.index() + 1, ClientKeys::default);
        }
        if let Some(place) = self.quic.get_mut(handle.index()) {
            *place = keys;
        }
        let Some(gather) = self.pool.get_mut(handle) else { return };
        if opened.is_fresh() {
            gather.clear();
        }
        let before = gather.bytes().len();
        for piece in opened.pieces() {
            match piece {
                Ok(piece) => {
                    gather.insert(piece.offset, piece.bytes);
                }
                Err(fault) => {
                    self.counts.fault(fault.name());
                    break;
                }
            }
        }
        if gather.bytes().len() == before {
            return;
        }
        let mut gathered = std::mem::take(&mut self.gathered);
        gathered.clear();
        gathered.extend_from_slice(gather.bytes());
        let is_all = gathered.len() >= gather::LEN_MAX || tls::is_complete(&gathered);
        if !gathered.is_empty() {
            self.take_hello(&mut named.seen, &gathered, Transport::Quic);
        }
        self.gathered = gathered;
        if is_all {
            named.stage = Stage::Done;
            self.give_back(named.page(direction));
        }
    }

    /// The first message of DNS over TCP (RFC 1035 §4.2.2).
    pub(super) fn read_dns_stream(
        &mut self,
        named: &mut NameState,
        bytes: &[u8],
        payload: &Payload<'_>,
    ) -> Reading {
        let Some((len, rest)) = bytes.split_first_chunk() else { return Reading::NeedMore };
        let len = usize::from(u16::from_be_bytes(*len));
        let Some(message) = rest.get(..len) else { return Reading::NeedMore };
        match self.read_dns(named, message, payload, Protocol::Dns) {
            Ok(()) => Reading::Both(Protocol::Dns),
            Err(fault) => {
                self.counts.fault(fault.name());
                Reading::Unknown
            }
        }
    }

    fn read_dns(
        &mut self,
        named: &mut NameState,
        bytes: &[u8],
        payload: &Payload<'_>,
        protocol: Protocol,
    ) -> Result<(), DnsFault> {
        let message = Message::new(bytes)?;
        let question = message.question()?;
        if let Some(question) = question {
            self.note_question(named, &question)?;
        }
        if !message.header().is_response() {
            // Without a question it may be anything, such as a VPN on this port.
            if let Some(question) = question {
                self.counts.queries += 1;
                let asked =
                    PendingQuery::new(payload.key, payload.direction, &message, &question.name)?;
                self.asked.insert(asked, (), |()| {});
            }
            return Ok(());
        }
        let [source, destination] = payload.addresses;
        if protocol != Protocol::Dns {
            // Nobody need ask, and anybody may answer: what a host says of itself is believed.
            let is_multicast = destination.is_multicast();
            return self.note_own(&message, source, protocol, is_multicast, payload.time);
        }
        let Some(Question { name, .. }) = question else { return Ok(()) };
        let asked = PendingQuery::new(payload.key, payload.direction.opposite(), &message, &name)?;
        if self.asked.get(&asked, |()| {}).is_none() {
            self.counts.fault("dns_answer_unasked");
            return Ok(());
        }
        self.counts.responses += 1;
        self.note_answers(&message, &name, destination, payload.time)
    }

    /// Keeps the first name that a flow of DNS asks for.
    fn note_question(
        &mut self,
        named: &mut NameState,
        question: &Question<'_>,
    ) -> Result<(), DnsFault> {
        let known = named.seen.found.as_ref().is_some_and(|found| found.query.is_some());
        if !known {
            let name = question.name.text()?;
            self.find(&mut named.seen, |found| {
                found.query = Some((name.into_boxed_str(), question.kind));
            });
        }
        Ok(())
    }

    /// Keeps the addresses that a client was given for the name it asked for, or for what that is
    /// an alias of. Addresses of other names were not asked for, and are not believed.
    fn note_answers(
        &mut self,
        message: &Message<'_>,
        name: &Name<'_>,
        client: IpAddr,
        time: Timestamp,
    ) -> Result<(), DnsFault> {
        let mut names = [name.hash()?; ALIASES_MAX];
        let mut names_len = 1;
        let mut shown: Option<Arc<str>> = None;
        for answer in message.answers() {
            let answer: Answer<'_> = answer?;
            let owner = answer.name.hash()?;
            if !names.iter().take(names_len).any(|known| *known == owner) {
                self.counts.fault("dns_answer_of_another_name");
                continue;
            }
            if let Some(alias) = answer.alias() {
                if let Some(place) = names.get_mut(names_len) {
                    *place = alias.hash()?;
                    names_len += 1;
                }
                continue;
            }
            let Some(address) = answer.address() else { continue };
            let shown = match &shown {
                Some(shown) => shown,
                None => shown.insert(name.text()?.into()),
            };
            self.resolved.insert(client, address, shown, answer.ttl_s, time);
        }
        Ok(())
    }

    /// Keeps the name that a host gives to its own address by multicast; of others it knows no
    /// better than any other host. mDNS has names under `local` alone, announced to a group, and
    /// LLMNR names of one label: a host far away cannot take a server's name. The key is the
    /// address itself, as its client may be anyone.
    fn note_own(
        &mut self,
        message: &Message<'_>,
        source: IpAddr,
        protocol: Protocol,
        is_multicast: bool,
        time: Timestamp,
    ) -> Result<(), DnsFault> {
        for answer in message.answers() {
            let answer = answer?;
            if answer.address() != Some(source) {
                continue;
            }
            let name = answer.name.text()?;
            let is_own = match protocol {
                Protocol::Mdns => is_multicast && name.ends_with(".local"),
                _ => !name.contains('.'),
            };
            if is_own {
                self.counts.responses += 1;
                self.resolved.insert(source, source, &name.into(), answer.ttl_s, time);
            } else {
                self.counts.fault("dns_own_name_of_others");
            }
            // One is enough.
            break;
        }
        Ok(())
    }
}

/// Whether one of the ports is that of a service without servers. A client takes it by chance as
/// well, as address translators do: then the other one is a server's.
fn is_with(ports: [u16; 2], port: u16) -> bool {
    ports.contains(&port) && ports.iter().all(|&port| port >= SERVER_PORTS_END)
}

/// Whether a datagram begins with a long header of QUIC whose fixed bit is set.
fn begins_like_initial(bytes: &[u8]) -> bool {
    let quic = packet::wire::quic::Quic::new(bytes);
    let version = quic.and_then(|quic| quic.version());
    version.is_some_and(|version| Version::of(version).is_some())
}
