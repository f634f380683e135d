//! Why packets of a log were marked: of each host or flow the first verdict and the strongest.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::net::IpAddr;

use engine::columns::{Columns, Field, Kind, RowMismatch, Schema, Value};
use packet::community_id::CommunityId;
use packet::{FlowKey, Protocol, Span, Timestamp};
use packetlog::judged::Basis;
use packetlog::log::{Query, StoredReason};
use packetlog::reasons::{EVIDENCE_MAX, Ends};

use crate::choice::choice;

choice! {
    /// What reasons are shown of.
    Why: "why" {
        Hosts = "hosts", "Each address that sent marked packets";
        Flows = "flows", "Each marked flow";
    }
}

/// Hosts or flows that are distinguished; reasons of others are counted together.
const ENTRIES_MAX: usize = 1 << 16;

const fn number(name: &'static str, about: &'static str) -> Field {
    Field::new(name, Kind::F64, about).nullable()
}

const fn name(name: &'static str, about: &'static str) -> Field {
    Field::new(name, Kind::Text, about).nullable()
}

/// Columns of reasons.
pub const REASONS: Schema = &[
    Field::new("time_ns", Kind::TimestampNs, "Timestamp of the packet.").nullable(),
    name("community_id", "Community ID v1, seed 0."),
    name("protocol", "IP protocol, or `arp`."),
    name("src_ip", "Sender of the packet; for ARP the sender in its header."),
    Field::new("src_port", Kind::U16, "Its port; the message type for ICMP."),
    name("dst_ip", "Receiver; for ARP the target in its header."),
    Field::new("dst_port", Kind::U16, "Its port; the counterpart's type or the code for ICMP."),
    Field::new("verdict", Kind::Text, "`first` or `strongest` of its host or flow, or `both`."),
    Field::new("class", Kind::Text, "Class of the model."),
    Field::new("confidence", Kind::F64, "Probability of the class."),
    Field::new("forest", Kind::Text, "Which forest decided: `flow` or `packet`."),
    Field::new("why", Kind::Text, "The columns that decided, in words."),
    name("column_1", "The column that raised the probability most."),
    number("value_1", "Its value; -1 if missing."),
    number("threshold_1", "The nearest threshold passed: above it, or at most that."),
    number("contribution_1", "By how much the column raised the probability."),
    name("column_2", "The second column."),
    number("value_2", "Its value."),
    number("threshold_2", "Its threshold."),
    number("contribution_2", "Its contribution."),
    name("column_3", "The third column."),
    number("value_3", "Its value."),
    number("threshold_3", "Its threshold."),
    number("contribution_3", "Its contribution."),
];

/// The same for reading.
const SHOWN: Schema = &[
    Field::new("time", Kind::Text, ""),
    Field::new("source", Kind::Text, ""),
    Field::new("destination", Kind::Text, ""),
    Field::new("class", Kind::Text, ""),
    Field::new("confidence", Kind::Text, ""),
    Field::new("verdict", Kind::Text, ""),
    Field::new("why", Kind::Text, ""),
];

/// Whose verdict it is.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Subject {
    Host(IpAddr),
    Flow(FlowKey),
    /// Frames without addresses.
    Neither,
}

/// The first verdict and the strongest; of equal ones the earlier.
struct Verdicts {
    first: StoredReason,
    strongest: StoredReason,
}

impl Verdicts {
    fn add(&mut self, found: StoredReason) {
        let (new, strongest) = (&found.reason, &self.strongest.reason);
        let is_stronger = new.confidence > strongest.confidence
            || (new.confidence == strongest.confidence && new.time < strongest.time);
        if is_stronger {
            self.strongest = found.clone();
        }
        if new.time < self.first.reason.time {
            self.first = found;
        }
    }
}

/// The reasons that are shown.
pub struct ReasonListing {
    what: Why,
    found: HashMap<Subject, Verdicts>,
    /// What sums of flows and hosts cover, as the log says it.
    pub window: Option<Span>,
    /// Reasons of hosts or flows beyond [`ENTRIES_MAX`].
    pub beyond: u64,
}

impl ReasonListing {
    /// Of hosts or of flows.
    #[must_use]
    pub fn new(what: Why) -> Self {
        Self { what, found: HashMap::new(), window: None, beyond: 0 }
    }

    /// Takes in a reason.
    pub fn add(&mut self, found: StoredReason) {
        let scope = found.reason.scope;
        let subject = match (self.what, found.reason.ends, found.reason.flow()) {
            (Why::Hosts, Some(ends), _) if scope.is_of_source() => Subject::Host(ends.source),
            (Why::Hosts, None, _) if scope.is_of_source() => Subject::Neither,
            (Why::Flows, _, Some(flow)) if scope.is_of_flow() => Subject::Flow(flow),
            _ => return,
        };
        self.window = self.window.or(found.window);
        let is_full = self.found.len() >= ENTRIES_MAX;
        match self.found.entry(subject) {
            Entry::Occupied(mut known) => known.get_mut().add(found),
            Entry::Vacant(_) if is_full => self.beyond += 1,
            Entry::Vacant(place) => {
                place.insert(Verdicts { first: found.clone(), strongest: found });
            }
        }
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.found.is_empty()
    }

    /// Lines about what is shown, or why it is nothing; `file_count` of the log have reasons.
    #[must_use]
    pub fn notes(&self, file_count: u64, query: &Query) -> String {
        if self.is_empty() {
            let why = match (file_count, query.flow.is_some(), query.hosts.is_empty()) {
                (0, ..) => {
                    "no reasons in this log: nothing was marked, or a version before \
                            reasons recorded it"
                }
                (_, true, _) => {
                    "no reason of this flow; its sender may have one: --why --host \
                                 ADDRESS"
                }
                (_, _, false) => "no reason of this host",
                _ => "no reasons of flows in this log; --why hosts shows those of senders",
            };
            return format!("{why}\n");
        }
        let mut text = String::new();
        if let Some(window) = self.window {
            text += &format!(
                "sums of flows and sources are over windows of {} s\n",
                window.as_seconds_f64()
            );
        }
        if self.beyond > 0 {
            text += &format!(
                "{} reasons of further {}, beyond {ENTRIES_MAX}\n",
                self.beyond,
                if self.what == Why::Hosts { "hosts" } else { "flows" }
            );
        }
        text
    }

    /// Each verdict that is shown, those of the strongest hosts or flows first.
    fn rows(&self) -> Vec<(&'static str, &StoredReason)> {
        let mut all: Vec<_> = self.found.values().collect();
        all.sort_by(|a, b| {
            let confidence =
                b.strongest.reason.confidence.total_cmp(&a.strongest.reason.confidence);
            let (a, b) = (&a.first.reason, &b.first.reason);
            confidence.then(a.time.cmp(&b.time)).then(a.ends.cmp(&b.ends))
        });
        let rows = all.into_iter().flat_map(|verdicts| {
            let Verdicts { first, strongest } = verdicts;
            match first == strongest {
                true => vec![("both", strongest)],
                false => vec![("strongest", strongest), ("first", first)],
            }
        });
        rows.collect()
    }

    /// As rows of [`REASONS`].
    ///
    /// # Errors
    /// A row that does not fit them, a fault of ours.
    pub fn columns(&self) -> Result<Columns, RowMismatch> {
        let mut columns = Columns::new(REASONS);
        for (verdict, found) in self.rows() {
            put(&mut columns, verdict, found)?;
        }
        Ok(columns)
    }

    /// For reading. No value has a comma.
    ///
    /// # Errors
    /// As [`columns`](Self::columns).
    pub fn shown(&self) -> Result<Columns, RowMismatch> {
        let mut columns = Columns::new(SHOWN);
        for (verdict, found) in self.rows() {
            let reason = &found.reason;
            let (source, destination) = reason.ends.map_or_else(Default::default, shown_ends);
            let (time, confidence) = (reason.time.to_string(), format!("{:.2}", reason.confidence));
            let class = found.class.replace(',', " ");
            columns.push_row(&[
                Value::Str(&time),
                Value::Str(&source),
                Value::Str(&destination),
                Value::Str(&class),
                Value::Str(&confidence),
                Value::Str(verdict),
                Value::Str(&sentence(found).replace(',', " ")),
            ])?;
        }
        Ok(columns)
    }
}

/// The columns that decided, in words.
fn sentence(found: &StoredReason) -> String {
    let words: Vec<_> = found.evidence.iter().map(|evidence| evidence.words()).collect();
    if words.is_empty() { String::from("no column raised it") } else { words.join("; ") }
}

/// An address with its port, and the protocol with the second; of ICMP the type.
fn shown_ends(ends: Ends) -> (String, String) {
    let Ends { source, destination, source_port, destination_port, protocol } = ends;
    let Some(protocol) = protocol else {
        return (source.to_string(), format!("{destination}/arp"));
    };
    let has_ports = source_port > 0 || destination_port > 0;
    let of = |address: IpAddr, port: u16| match (has_ports, address) {
        (false, address) => address.to_string(),
        (true, IpAddr::V4(address)) => format!("{address}:{port}"),
        (true, IpAddr::V6(address)) => format!("[{address}]:{port}"),
    };
    let name = protocol.to_string();
    if matches!(protocol, Protocol::ICMP | Protocol::ICMPV6) {
        return (source.to_string(), format!("{destination}/{name} type {source_port}"));
    }
    (of(source, source_port), format!("{}/{name}", of(destination, destination_port)))
}

fn put(columns: &mut Columns, verdict: &str, found: &StoredReason) -> Result<(), RowMismatch> {
    let reason = &found.reason;
    let time = Some(reason.time).filter(|time| *time != Timestamp::UNKNOWN);
    let ends = reason.ends;
    let ports = ends.map_or((0, 0), |ends| (ends.source_port, ends.destination_port));
    let protocol = ends.map(|ends| match ends.protocol {
        Some(protocol) => protocol.to_string(),
        None => String::from("arp"),
    });
    let id = reason.flow().map(CommunityId);
    let why = sentence(found);
    let mut row = vec![
        time.map(|time| Value::TimestampNs(time.as_ns())).into(),
        id.as_ref().map(|id| Value::Text(id)).into(),
        protocol.as_deref().map(Value::Str).into(),
        ends.map(|ends| Value::Address(ends.source)).into(),
        Value::U16(ports.0),
        ends.map(|ends| Value::Address(ends.destination)).into(),
        Value::U16(ports.1),
        Value::Str(verdict),
        Value::Str(&found.class),
        Value::F64(reason.confidence.into()),
        Value::Str(if reason.basis == Basis::Flow { "flow" } else { "packet" }),
        Value::Str(&why),
    ];
    for place in 0..EVIDENCE_MAX {
        let known = found.evidence.get(place);
        let number = |of: fn(&packetlog::reasons::Evidence) -> f32| {
            known.map(|known| Value::F64(of(&known.evidence).into())).into()
        };
        row.push(known.map(|known| Value::Str(&known.name)).into());
        row.push(number(|evidence| evidence.value));
        row.push(number(|evidence| evidence.threshold));
        row.push(number(|evidence| evidence.contribution));
    }
    columns.push_row(&row)
}
