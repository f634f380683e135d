//! Settings of alerts as a file has them: `[[alert]]`, `[[notify]]`, `[[indicators]]`.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use packet::Span;
use packet::duration::parse_duration;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};

/// All that concerns alerts.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Settings {
    /// Rules.
    pub alert: Vec<AlertSettings>,
    /// Where alerts go.
    pub notify: Vec<NotifySettings>,
    /// Lists of addresses, names and fingerprints.
    pub indicators: Vec<IndicatorSettings>,
}

/// A rule: `[[alert]]`.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct AlertSettings {
    /// Its name, `alertname` for Alertmanager.
    pub name: String,
    /// The table whose rows it reads; `counts` is the counters of the run, sampled each second.
    pub table: String,
    /// Which rows match, as in a filter of the page; without it all.
    #[serde(default)]
    pub when: String,
    /// Event time during which rows of a key match before the alert fires. A row of the key that
    /// does not match starts it again, as in Prometheus.
    #[serde(default, rename = "for", deserialize_with = "span_if_any")]
    pub hold: Option<Span>,
    /// Columns that distinguish alerts of this rule.
    #[serde(default)]
    pub key: Option<Vec<String>>,
    /// Fires for each combination of these columns that was not seen before.
    #[serde(default)]
    pub new: Vec<String>,
    /// Event time in which combinations are only learned; 1 h.
    #[serde(default, deserialize_with = "span_if_any")]
    pub learn: Option<Span>,
    /// Combinations that are remembered; 100,000.
    #[serde(default)]
    pub new_max: Option<usize>,
    /// Fires where more than this share of the rows in a sliding window match, 0 to 1.
    #[serde(default)]
    pub share_above: Option<f64>,
    /// Fires where more than so many rows in a sliding window match, or their weight is more.
    #[serde(default)]
    pub above: Option<f64>,
    /// Length of the sliding window, event time.
    #[serde(default, deserialize_with = "span_if_any")]
    pub over: Option<Span>,
    /// Columns of `key` within which a share is taken; without them, of the whole table.
    #[serde(default)]
    pub among: Vec<String>,
    /// Columns whose sum is a row's weight in the window, instead of 1.
    #[serde(default)]
    pub weight: Vec<String>,
    /// Rows that a window needs before a share is taken; 10.
    #[serde(default)]
    pub least_rows: Option<u64>,
    /// Groups of a window that are distinguished in a twentieth of it; 4,096.
    #[serde(default)]
    pub groups_max: Option<usize>,
    /// The column that is the alert's value; windows have a value of their own.
    #[serde(default)]
    pub value: Option<String>,
    /// Event time without a matching row after which the alert is resolved; 60 s.
    #[serde(default, deserialize_with = "span_if_any")]
    pub resolve_after: Option<Span>,
    /// Whether rows that are not final match too, such as open flows; true.
    #[serde(default)]
    pub open: Option<bool>,
    /// Labels; `severity` is `warning` unless it is given.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    /// Further texts with placeholders, such as `runbook_url`.
    #[serde(default)]
    pub annotations: BTreeMap<String, String>,
    /// What the alert says, with `{column}` as placeholder.
    #[serde(default)]
    pub text: Option<String>,
}

/// Kinds of destinations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NotifyKind {
    /// JSON lines appended to a file.
    Jsonl,
    /// Events of Suricata (EVE) appended to a file.
    Eve,
    /// Syslog (RFC 5424).
    Syslog,
    /// JSON by HTTP POST, in the form of Alertmanager's own webhooks.
    Webhook,
    /// Alertmanager, API v2.
    Alertmanager,
}

impl NotifyKind {
    /// Its name in settings.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Jsonl => "jsonl",
            Self::Eve => "eve",
            Self::Syslog => "syslog",
            Self::Webhook => "webhook",
            Self::Alertmanager => "alertmanager",
        }
    }
}

/// A destination: `[[notify]]`.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct NotifySettings {
    /// What it is.
    pub kind: NotifyKind,
    /// A path for `jsonl` and `eve`; `udp://HOST:PORT`, `tcp://HOST:PORT` or `unix:PATH` for `syslog`
    /// (`unix:/dev/log` unless given); a URL for the others.
    #[serde(default)]
    pub to: String,
    /// Its name in counters; its kind unless given.
    #[serde(default)]
    pub name: Option<String>,
    /// Only alerts with these labels: a value, or a list of them. `alertname` is the rule's name.
    #[serde(default, deserialize_with = "matchers")]
    pub only: BTreeMap<String, Vec<String>>,
    /// Firing alerts that are let through at most; 60 a minute for `webhook`, else no limit.
    #[serde(default)]
    pub rate: Option<Rate>,
    /// How long one delivery may take; 5 s.
    #[serde(default, deserialize_with = "span_if_any")]
    pub timeout: Option<Span>,
    /// Deliveries that are tried before an alert is given up; 5.
    #[serde(default)]
    pub attempts: Option<u32>,
    /// Alerts that wait for delivery at most; the oldest goes for a new one; 1,024.
    #[serde(default)]
    pub queue: Option<usize>,
    /// How often Alertmanager is sent what is active; 60 s.
    #[serde(default, deserialize_with = "span_if_any")]
    pub resend: Option<Span>,
    /// A file with a token for `Authorization: Bearer`, its first line.
    #[serde(default)]
    pub token_file: Option<PathBuf>,
    /// A user for HTTP basic authentication.
    #[serde(default)]
    pub user: Option<String>,
    /// A file with the user's password, its first line.
    #[serde(default)]
    pub password_file: Option<PathBuf>,
    /// Certificates (PEM) that are trusted, instead of those of the public web.
    #[serde(default)]
    pub ca_file: Option<PathBuf>,
    /// A proxy, such as `http://proxy.example:3128`.
    #[serde(default)]
    pub proxy: Option<String>,
    /// Facility of syslog; `daemon`.
    #[serde(default)]
    pub facility: Option<Facility>,
    /// Private enterprise number of the structured data; 32473, which RFC 5612 reserves for
    /// documentation.
    #[serde(default)]
    pub enterprise: Option<u32>,
}

/// Kinds of indicators.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum IndicatorKind {
    /// IP addresses and prefixes.
    Ip,
    /// Domain names, with all names below them.
    Domain,
    /// JA4 fingerprints.
    Ja4,
}

impl IndicatorKind {
    /// Its name in settings.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ip => "ip",
            Self::Domain => "domain",
            Self::Ja4 => "ja4",
        }
    }

    /// The columns that are looked up unless others are given.
    #[must_use]
    pub const fn columns(self) -> &'static [&'static str] {
        match self {
            Self::Ip => &["src_ip", "dst_ip", "host"],
            Self::Domain => &["server_name", "resolved_name", "dns_query", "name"],
            Self::Ja4 => &["ja4"],
        }
    }
}

/// A list: `[[indicators]]`.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct IndicatorSettings {
    /// Its name, `alertname` for Alertmanager.
    pub name: String,
    /// The file: an entry a line, `#` begins a comment, the first column counts.
    pub file: PathBuf,
    /// What its entries are.
    pub kind: IndicatorKind,
    /// Columns that are looked up, unless those of the kind.
    #[serde(default)]
    pub columns: Option<Vec<String>>,
    /// Tables that are examined; all with such a column unless given.
    #[serde(default)]
    pub tables: Option<Vec<String>>,
    /// Entries that are loaded at most; 2,000,000.
    #[serde(default)]
    pub entries_max: Option<usize>,
    /// Event time without a hit after which the alert is resolved; 10 min.
    #[serde(default, deserialize_with = "span_if_any")]
    pub resolve_after: Option<Span>,
    /// Labels; `severity` is `critical` unless it is given.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
}

/// How many are let through in a time, such as `"60/min"`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rate {
    /// So many in a burst, and again within each period.
    pub count: u32,
    /// The period.
    pub period: Duration,
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}s", self.count, self.period.as_secs())
    }
}

impl Rate {
    /// Reads `60/min`, `5/s`, `1000/h`.
    ///
    /// # Errors
    /// What was wanted.
    pub fn parse(text: &str) -> Result<Self, String> {
        let wanted = || format!("{text:?}; wanted: a rate such as 60/min, 5/s or 1000/h");
        let (count, unit) = text.split_once('/').ok_or_else(wanted)?;
        let seconds = match unit.trim() {
            "s" | "sec" => 1,
            "m" | "min" => 60,
            "h" => 3_600,
            "d" => 86_400,
            _ => return Err(wanted()),
        };
        let count: u32 = count.trim().parse().map_err(|_| wanted())?;
        if count == 0 {
            return Err(wanted());
        }
        Ok(Self { count, period: Duration::from_secs(seconds) })
    }
}

impl<'de> Deserialize<'de> for Rate {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        Self::parse(&String::deserialize(from)?).map_err(D::Error::custom)
    }
}

/// Facility of syslog (RFC 5424, 6.2.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Facility(u8);

/// By their codes.
const FACILITIES: [&str; 24] = [
    "kern", "user", "mail", "daemon", "auth", "syslog", "lpr", "news", "uucp", "cron", "authpriv",
    "ftp", "ntp", "audit", "alert", "clock", "local0", "local1", "local2", "local3", "local4",
    "local5", "local6", "local7",
];

impl Facility {
    /// Unless another is given.
    pub const DAEMON: Self = Self(3);

    /// Its code, 0 to 23.
    #[must_use]
    pub const fn code(self) -> u8 {
        self.0
    }

    /// Reads a name.
    ///
    /// # Errors
    /// The names that there are.
    pub fn parse(text: &str) -> Result<Self, String> {
        let code = (0..).zip(FACILITIES).find(|(_, name)| *name == text).map(|(code, _)| code);
        let wanted = || format!("{text:?}; wanted: one of {}", FACILITIES.join(", "));
        code.map(Self).ok_or_else(wanted)
    }
}

impl<'de> Deserialize<'de> for Facility {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        Self::parse(&String::deserialize(from)?).map_err(D::Error::custom)
    }
}

fn span_if_any<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Span>, D::Error> {
    let text = String::deserialize(from)?;
    parse_duration(&text).map(Some).map_err(D::Error::custom)
}

fn matchers<'de, D: Deserializer<'de>>(from: D) -> Result<BTreeMap<String, Vec<String>>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged, expecting = "wanted a label's value, or a list of values")]
    enum OneOrMore {
        One(String),
        More(Vec<String>),
    }
    let read = BTreeMap::<String, OneOrMore>::deserialize(from)?;
    let listed = |values| match values {
        OneOrMore::One(value) => vec![value],
        OneOrMore::More(values) => values,
    };
    Ok(read.into_iter().map(|(label, values)| (label, listed(values))).collect())
}

/// A length of time, or so many seconds.
pub(crate) fn span_or(span: Option<Span>, seconds: i64) -> Span {
    span.unwrap_or(Span::from_seconds(seconds))
}

/// The same, for waiting.
pub(crate) fn duration_or(span: Option<Span>, seconds: i64) -> Duration {
    Duration::from_nanos(span_or(span, seconds).as_ns().unsigned_abs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_read_and_what_is_unknown_is_refused() {
        let text = r#"
            [[alert]]
            name = "drops"
            table = "traffic"
            when = "dropped_packets > 0"
            for = "10s"
            labels = { severity = "critical" }
            [[notify]]
            kind = "webhook"
            to = "https://hooks.example/x"
            only = { severity = "critical", alertname = ["drops", "disk"] }
            rate = "5/min"
            [[notify]]
            kind = "syslog"
            facility = "local5"
            [[indicators]]
            name = "c2"
            file = "c2.txt"
            kind = "ip"
        "#;
        let read: Settings = toml::from_str(text).unwrap();
        assert_eq!(read.alert[0].hold, Some(Span::from_seconds(10)));
        assert_eq!(read.notify[0].only["alertname"], ["drops", "disk"]);
        let minute = Duration::from_secs(60);
        assert_eq!(read.notify[0].rate, Some(Rate { count: 5, period: minute }));
        assert_eq!(read.notify[1].facility.unwrap().code(), 21);
        for (bad, wanted) in [
            ("[[alert]]\nname='a'\ntable='t'\nwhenn=''", "unknown field"),
            ("[[alert]]\nname='a'", "missing field `table`"),
            ("[[alert]]\nname='a'\ntable='t'\nfor='5'", "a number with a unit"),
            ("[[notify]]\nkind='mail'", "unknown variant"),
            ("[[notify]]\nkind='syslog'\nrate='5'", "60/min"),
            ("[[notify]]\nkind='syslog'\nrate='0/s'", "60/min"),
            ("[[notify]]\nkind='syslog'\nfacility='l'", "local7"),
            ("[[notify]]\nkind='syslog'\nonly={a=1}", "a list of values"),
        ] {
            let told = toml::from_str::<Settings>(bad).unwrap_err().to_string();
            assert!(told.contains(wanted), "{bad}: {told}");
        }
    }
}
