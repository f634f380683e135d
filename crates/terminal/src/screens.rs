//! The screens, and the columns that each can show.

use engine::columns::{Field, Kind as FieldKind, Schema};
use store::query;

use crate::value::Kind;

/// A screen.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Screen {
    Overview,
    Flows,
    Hosts,
    Services,
    Queues,
    Latency,
    L4s,
    Health,
    Tables,
}

impl Screen {
    /// In the order of their number keys.
    pub(crate) const ALL: [Self; 9] = [
        Self::Overview,
        Self::Flows,
        Self::Hosts,
        Self::Services,
        Self::Queues,
        Self::Latency,
        Self::L4s,
        Self::Health,
        Self::Tables,
    ];

    pub(crate) const fn index(self) -> usize {
        self as usize
    }

    pub(crate) const fn title(self) -> &'static str {
        match self {
            Self::Overview => "Overview",
            Self::Flows => "Flows",
            Self::Hosts => "Hosts",
            Self::Services => "Services",
            Self::Queues => "Queues",
            Self::Latency => "Latency",
            Self::L4s => "L4S",
            Self::Health => "Health",
            Self::Tables => "Tables",
        }
    }

    /// The table of wirelens.toml that it shows.
    pub(crate) const fn table(self) -> &'static str {
        match self {
            Self::Overview => "traffic",
            Self::Flows | Self::Hosts => "flows",
            Self::Services => "classify",
            Self::Queues => "cca",
            Self::Latency => "latency",
            Self::L4s => "l4s",
            Self::Health | Self::Tables => "",
        }
    }

    /// Whether it is a list of one table's rows, or of what they add up to.
    pub(crate) const fn is_of_table(self) -> bool {
        !matches!(self, Self::Overview | Self::Health)
    }
}

/// Where a value of a row is from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Source {
    /// A column of the table, or the sum of some.
    Measure(&'static str),
    /// Columns added up, where all are there.
    Sum(&'static [&'static str]),
    /// The largest of several columns.
    Largest(&'static [&'static str]),
    /// The name of the flow's service: what the client named, or the class of the model.
    Service,
    /// Both ends of a flow, or the host.
    Ends,
    /// Growth per second since the refresh before.
    Growth,
    /// A column over the length of the period.
    PerPeriod(&'static str),
    /// A column over the length of the window.
    PerWindow(&'static str),
    /// A column over the last periods.
    Chart(&'static str),
    /// Congestion control with its confidence, or why there is none.
    Control,
    /// From the first packet to the last.
    Length,
    /// Made by the screen itself.
    Own,
}

impl Source {
    /// The columns whose values it shows, where those are named.
    pub(crate) const fn names(&self) -> &[&'static str] {
        match self {
            Self::Measure(name) => std::slice::from_ref(name),
            Self::Sum(names) | Self::Largest(names) => names,
            _ => &[],
        }
    }
}

/// A column of a screen.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Column {
    pub(crate) title: &'static str,
    pub(crate) source: Source,
    pub(crate) kind: Kind,
    /// Columns of the terminal; of the one that takes what is left, the least.
    pub(crate) width: u16,
    /// The order in which columns get their place: 0 comes first.
    pub(crate) rank: u8,
}

const fn column(title: &'static str, source: Source, kind: Kind, width: u16, rank: u8) -> Column {
    Column { title, source, kind, width, rank }
}

use Source::{
    Chart, Control, Ends, Growth, Largest, Length, Measure as Of, Own, PerPeriod, PerWindow,
    Service, Sum,
};

/// Of the table `top`, by whatever it adds up.
pub(crate) const TOP: &[Column] = &[
    column("Protocol", Of("protocol"), Kind::Text, 9, 4),
    column("Port", Of("port"), Kind::Text, 6, 1),
    column("Name", Of("name"), Kind::Text, 30, 0),
    column("Address", Ends, Kind::Text, 30, 0),
    column("Rate", PerWindow("bytes"), Kind::Rate, 11, 3),
    column("Packets", Of("packets"), Kind::Count, 9, 2),
    column("Bytes", Of("bytes"), Kind::Bytes, 8, 1),
];

/// Of the table `flows`. The first three and state are what 80 columns hold.
pub(crate) const FLOWS: &[Column] = &[
    column("Flow", Ends, Kind::Text, 34, 0),
    column("Proto", Of("protocol"), Kind::Text, 6, 5),
    column("Service", Service, Kind::Text, 14, 4),
    column("Rate", Growth, Kind::Rate, 11, 1),
    column("Bytes", Of("bytes"), Kind::Bytes, 7, 2),
    column("Packets", Of("packets"), Kind::Count, 8, 6),
    column("Sent", Of("src_bytes"), Kind::Bytes, 7, 8),
    column("Received", Of("dst_bytes"), Kind::Bytes, 9, 9),
    column("Length", Length, Kind::Nanoseconds, 8, 7),
    column("VLAN", Of("vlan"), Kind::Text, 5, 10),
    column("State", Of("end_reason"), Kind::Text, 7, 3),
];

/// Of hosts: flows added up.
pub(crate) const HOSTS: &[Column] = &[
    column("Host", Ends, Kind::Text, 18, 0),
    column("Rate", Growth, Kind::Rate, 11, 1),
    column("Bytes", Own, Kind::Bytes, 7, 2),
    column("Sent", Own, Kind::Bytes, 7, 3),
    column("Received", Own, Kind::Bytes, 9, 4),
    column("Flows", Own, Kind::Count, 7, 5),
    column("Peers", Own, Kind::Count, 6, 6),
    column("Packets", Own, Kind::Count, 9, 7),
];

/// Of services: flows by their class.
pub(crate) const SERVICES: &[Column] = &[
    column("Service", Ends, Kind::Text, 18, 0),
    column("Rate", Growth, Kind::Rate, 11, 1),
    column("Bytes", Own, Kind::Bytes, 7, 2),
    column("Flows", Own, Kind::Count, 7, 3),
    column("Share", Own, Kind::Share, 6, 4),
    column("Confidence", Own, Kind::Share, 11, 5),
];

/// Of the table `classify` by host.
pub(crate) const DEVICES: &[Column] = &[
    column("Host", Ends, Kind::Text, 18, 0),
    column("Label", Of("label"), Kind::Text, 20, 1),
    column("Confidence", Of("confidence"), Kind::Share, 11, 2),
    column("Flows", Of("flow_count"), Kind::Count, 7, 3),
    column("Likeliest", Of("guess"), Kind::Text, 20, 4),
    column("Model", Of("model"), Kind::Text, 20, 5),
];

/// Of the table `cca`, with two taps or one.
pub(crate) const QUEUES: &[Column] = &[
    column("Flow", Ends, Kind::Text, 28, 0),
    column("Control", Control, Kind::Text, 10, 3),
    column("Rate", PerPeriod("ingress_bytes"), Kind::Rate, 11, 4),
    column("Rate", PerPeriod("sent_bytes"), Kind::Rate, 11, 4),
    column("CBIQ", Of("cbiq_bytes"), Kind::Bytes, 7, 1),
    column("Flight", Of("flight_bytes"), Kind::Bytes, 7, 1),
    column("Share", Of("queue_share"), Kind::Share, 6, 2),
    column("Share", Of("sent_share"), Kind::Share, 6, 2),
    column("RTT", Of("rtt_s"), Kind::Seconds, 8, 2),
    column("Drops", Of("drops"), Kind::Count, 6, 6),
    column("Delay max", Of("delay_max_s"), Kind::Seconds, 10, 7),
    column("RTT infl.", Of("rtt_inflation_s"), Kind::Seconds, 10, 3),
    column("RTT min", Of("rtt_min_s"), Kind::Seconds, 8, 7),
    column("Retrans.", Of("resent_packets"), Kind::Count, 9, 8),
    column("Missing", Of("missing"), Kind::Text, 8, 9),
    column("Likeliest", Of("likeliest"), Kind::Text, 36, 9),
    column("Chart", Chart("cbiq_bytes"), Kind::Chart, 8, 5),
    column("Chart", Chart("flight_bytes"), Kind::Chart, 8, 5),
];

/// Of the table `latency`: by flow, by destination, or between two taps.
pub(crate) const LATENCY: &[Column] = &[
    column("Flow", Ends, Kind::Text, 30, 0),
    column("To dst", Of("dst_rtt_p50_ns"), Kind::Nanoseconds, 8, 1),
    column("To src", Of("src_rtt_p50_ns"), Kind::Nanoseconds, 8, 2),
    column("RTT min", Of("rtt_min_ns"), Kind::Nanoseconds, 8, 3),
    column("RTT p50", Of("rtt_p50_ns"), Kind::Nanoseconds, 8, 1),
    column("RTT p99", Of("rtt_p99_ns"), Kind::Nanoseconds, 8, 2),
    column("Delay p50", Of("delay_p50_ns"), Kind::Nanoseconds, 10, 1),
    column("Delay p99", Of("delay_p99_ns"), Kind::Nanoseconds, 10, 2),
    column("Server", Of("server_p50_ns"), Kind::Nanoseconds, 8, 5),
    column("Slow end", Of("slow_end"), Kind::Text, 11, 4),
    column("dst p99", Of("dst_rtt_p99_ns"), Kind::Nanoseconds, 8, 6),
    column("src p99", Of("src_rtt_p99_ns"), Kind::Nanoseconds, 8, 7),
    column("Queue p99", Of("queue_p99_ns"), Kind::Nanoseconds, 10, 4),
    column("Jitter", Of("jitter_ns"), Kind::Nanoseconds, 8, 5),
    column("Samples", Sum(&["dst_rtt_count", "src_rtt_count"]), Kind::Count, 8, 8),
    column("Retrans.", Sum(&["src_retransmissions", "dst_retransmissions"]), Kind::Count, 9, 7),
    column("Either p50", Largest(&["dst_rtt_p50_ns", "src_rtt_p50_ns"]), Kind::Nanoseconds, 11, 11),
    column("Either p99", Largest(&["dst_rtt_p99_ns", "src_rtt_p99_ns"]), Kind::Nanoseconds, 11, 12),
    column("Samples", Of("rtt_count"), Kind::Count, 8, 6),
    column("Lost", Of("lost"), Kind::Count, 6, 5),
    column("Retrans.", Of("retransmissions"), Kind::Count, 9, 7),
    column("Src retr.", Of("src_retransmissions"), Kind::Count, 10, 8),
    column("Dst retr.", Of("dst_retransmissions"), Kind::Count, 10, 9),
    column("ECN", Of("ecn_echo"), Kind::Text, 8, 10),
    column("Latency", Of("latency_ns"), Kind::Nanoseconds, 8, 1),
    column("Method", Of("method"), Kind::Text, 13, 2),
    column("p50 chart", Chart("rtt_p50_ns"), Kind::Chart, 12, 8),
];

/// Of the table `l4s`.
pub(crate) const L4S: &[Column] = &[
    column("Flow", Ends, Kind::Text, 28, 0),
    column("Packets", Of("packets"), Kind::Count, 8, 4),
    column("L4S", Of("l4s_packets"), Kind::Count, 8, 3),
    column("Remarked", Of("remark_share"), Kind::Share, 9, 1),
    column("L4S p50", Of("l4s_p50_ns"), Kind::Nanoseconds, 8, 2),
    column("Cl. p50", Of("classic_p50_ns"), Kind::Nanoseconds, 8, 5),
    column("L4S p99", Of("l4s_p99_ns"), Kind::Nanoseconds, 8, 6),
    column("Cl. p99", Of("classic_p99_ns"), Kind::Nanoseconds, 8, 7),
    column("Kept", Of("kept"), Kind::Count, 7, 9),
    column("Unknown", Of("unknown"), Kind::Count, 8, 10),
    column("Error", Of("error_mean_ns"), Kind::Nanoseconds, 8, 11),
    column("Share chart", Chart("remark_share"), Kind::Chart, 12, 8),
];

/// Of a table that has no screen of its own: all that it has, the first columns first.
pub(crate) fn columns_of(schema: Schema) -> Vec<Column> {
    let of = |(field, rank): (&Field, u8)| {
        let is_named = |end: &str| field.name.ends_with(end);
        let (kind, width) = match field.kind {
            FieldKind::Text | FieldKind::Bytes => (Kind::Text, 18),
            FieldKind::TimestampNs => (Kind::Time, 12),
            FieldKind::U16 | FieldKind::I8 => (Kind::Count, 7),
            _ if is_named("_ns") => (Kind::Nanoseconds, 9),
            _ if is_named("bytes") => (Kind::Bytes, 8),
            FieldKind::F64 if is_named("_s") => (Kind::Seconds, 9),
            _ => (Kind::Count, 10),
        };
        let title_len = u16::try_from(field.name.len()).unwrap_or(u16::MAX);
        // A long name in the head may widen its column, not rule it.
        let width = width.max(title_len.saturating_add(1).min(16));
        column(field.name, Of(field.name), kind, width, rank)
    };
    schema.iter().zip(0..).map(of).collect()
}

/// Of counts.
pub(crate) const HEALTH: &[Column] = &[
    column("Part", Own, Kind::Text, 12, 1),
    column("Count", Ends, Kind::Text, 24, 0),
    column("Value", Own, Kind::Count, 12, 2),
];

impl Column {
    /// Whether the column takes what others leave.
    pub(crate) fn is_flexible(&self) -> bool {
        self.source == Source::Ends
    }

    /// Whether rows of these columns can have a value of it.
    pub(crate) fn is_of(&self, schema: Schema) -> bool {
        let has = |name: &str| query::Measure::find(schema, name).is_ok();
        match self.source {
            Source::Measure(name) | Source::Chart(name) => has(name),
            Source::Sum(names) => names.iter().all(|name| has(name)),
            Source::Largest(names) => names.iter().any(|name| has(name)),
            Source::PerPeriod(name) => has(name) && has("period_ns"),
            Source::PerWindow(name) => has(name) && has("window_start_ns"),
            Source::Growth => has("bytes"),
            Source::Control => has("control"),
            Source::Length => has("first_ns") && has("last_ns"),
            Source::Ends => !schema.iter().all(|field| !ENDS.contains(&field.name)),
            Source::Service | Source::Own => true,
        }
    }
}

/// The columns that fit, of those that there are, by their rank: places in `columns`, and widths.
/// One is always there.
pub(crate) fn fitting(columns: &[Column], room: u16) -> Vec<(usize, u16)> {
    let mut by_rank: Vec<usize> = (0..columns.len()).collect();
    by_rank.sort_by_key(|&place| columns.get(place).map_or(u8::MAX, |column| column.rank));
    let mut taken: u16 = 0;
    let mut chosen = Vec::new();
    for place in by_rank {
        let Some(column) = columns.get(place) else { continue };
        let wanted = column.width + u16::from(!chosen.is_empty());
        if taken.saturating_add(wanted) > room {
            if chosen.is_empty() {
                return vec![(place, room)];
            }
            // What ranks lower waits: columns would come and go in no order people can learn.
            break;
        }
        taken += wanted;
        chosen.push((place, column.width));
    }
    chosen.sort_unstable();
    let mut spare = room - taken;
    let mut give = |wanted: &dyn Fn(&Column) -> bool, width_max: u16| {
        let is_it = |place: usize| columns.get(place).is_some_and(wanted);
        if let Some((_, width)) = chosen.iter_mut().find(|(place, _)| is_it(*place)) {
            let given = spare.min(width_max.saturating_sub(*width));
            *width += given;
            spare -= given;
        }
    };
    give(&Column::is_flexible, ENDS_LEN);
    give(&|column| column.kind == Kind::Chart, CHART_LEN_MAX);
    give(&Column::is_flexible, u16::MAX);
    give(&|column| column.kind == Kind::Text, u16::MAX);
    give(&|_| true, u16::MAX);
    chosen
}

/// Columns of which any makes an end.
const ENDS: [&str; 3] = ["src_ip", "dst_ip", "host"];

/// Both ends of a flow over IPv4, with ports.
const ENDS_LEN: u16 = 45;

/// Periods of a chart, a terminal's column each.
const CHART_LEN_MAX: u16 = 60;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_fill_their_room_and_never_more() {
        for columns in [FLOWS, HOSTS, SERVICES, DEVICES, QUEUES, LATENCY, L4S, HEALTH, TOP] {
            for column in columns {
                let len = u16::try_from(column.title.chars().count()).unwrap();
                let sign = u16::from(column.kind != Kind::Chart);
                assert!(len + sign <= column.width, "{}: no room for its order", column.title);
            }
            for room in 0..300 {
                let chosen = fitting(columns, room);
                let gaps = u16::try_from(chosen.len() - 1).unwrap();
                let sum: u16 = chosen.iter().map(|(_, width)| width).sum();
                assert_eq!(sum + gaps, room);
            }
        }
    }
}
