//! Which class a protocol, a label or a domain is of.

use std::collections::HashMap;
use std::fmt;

use names::found::FlowInfo;
use names::greeting::Protocol;

use super::host::{host, suffixes, words};
use super::{CLASS_COUNT_MAX, Evidence, Kind};

/// Lines of a list at most.
const LINES_MAX: usize = 1 << 20;
/// What its first line says.
const HEAD: &str = "kind\tvalue\tclass";
/// Protocols that carry others.
const CARRIERS: [Protocol; 5] =
    [Protocol::Tls, Protocol::Quic, Protocol::Http, Protocol::Http2, Protocol::Dtls];

/// Classes by value, of one kind of line.
type ByValue = HashMap<Box<str>, u8>;

/// A list, checked.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct NameList {
    /// By the number of the protocol.
    protocols: Vec<Option<u8>>,
    labels: ByValue,
    suffixes: ByValue,
    /// Labels of names that DNS is asked for.
    queries: ByValue,
}

/// Why a list is refused.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ListError {
    /// A line is not as lines are.
    Line {
        /// Which, counted from 1.
        number: usize,
        /// What was seen and what was wanted.
        cause: String,
    },
    /// More classes than evidence distinguishes.
    Classes(usize),
}

impl fmt::Display for ListError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Line { number, cause } => write!(f, "line {number}: {cause}"),
            Self::Classes(count) => {
                write!(f, "{count} classes; wanted: {CLASS_COUNT_MAX} or fewer with names")
            }
        }
    }
}

impl std::error::Error for ListError {}

impl NameList {
    /// Reads a list: a line `kind value class` under that head, separated by tabs. A protocol that
    /// is not read here is ignored, as a later version may read it.
    ///
    /// # Errors
    /// [`ListError`], with the line at fault.
    pub fn parse(text: &[u8], classes: &[String]) -> Result<Self, ListError> {
        if classes.len() > CLASS_COUNT_MAX {
            return Err(ListError::Classes(classes.len()));
        }
        let wrong = |number, cause: String| ListError::Line { number, cause };
        let text = str::from_utf8(text).map_err(|error| wrong(1, error.to_string()))?;
        let mut lines = text.lines();
        let head = lines.next().unwrap_or_default();
        if head != HEAD {
            return Err(wrong(1, format!("{head:?}; wanted: {HEAD:?}")));
        }
        let mut list = Self { protocols: vec![None; Protocol::ALL.len()], ..Self::default() };
        for (number, line) in (2..).zip(lines) {
            if number > LINES_MAX {
                return Err(wrong(number, format!("wanted: {LINES_MAX} lines or fewer")));
            }
            list.add(line, classes).map_err(|cause| wrong(number, cause))?;
        }
        Ok(list)
    }

    fn add(&mut self, line: &str, classes: &[String]) -> Result<(), String> {
        let mut cells = line.split('\t');
        let (Some(kind), Some(value), Some(class), None) =
            (cells.next(), cells.next(), cells.next(), cells.next())
        else {
            return Err(format!("{line:?}; wanted: kind, value and class, separated by tabs"));
        };
        let place = classes.iter().position(|known| known == class);
        let Some(class) = place.and_then(|place| u8::try_from(place).ok()) else {
            return Err(format!("class {class:?}; wanted: {}", classes.join(", ")));
        };
        let by_value = match kind {
            "protocol" => {
                let known = Protocol::ALL.iter().position(|protocol| protocol.name() == value);
                if let Some(place) = known.and_then(|place| self.protocols.get_mut(place)) {
                    *place = Some(class);
                }
                return Ok(());
            }
            "label" => &mut self.labels,
            "suffix" => &mut self.suffixes,
            "query" => &mut self.queries,
            _ => return Err(format!("kind {kind:?}; wanted: protocol, label, suffix or query")),
        };
        by_value.insert(value.into(), class);
        Ok(())
    }

    /// What the names of a flow are evidence of.
    #[must_use]
    pub fn evidence(&self, seen: &FlowInfo) -> Evidence {
        let mut evidence = Evidence::default();
        let found = seen.found.as_deref();
        if seen.protocol == Some(Protocol::Dns)
            && let Some((query, _)) = found.and_then(|found| found.query.as_ref())
            && let Some(class) = self.of_query(query)
        {
            evidence.add(Kind::Suffix, class);
            return evidence;
        }
        let server = found.and_then(|found| found.server_name.as_deref());
        let resolved = || found.and_then(|found| found.resolved.as_deref());
        if let Some(host) = server.or_else(resolved).and_then(host) {
            self.add_host(&mut evidence, &host);
        }
        let is_named = evidence != Evidence::default();
        let Some(protocol) = seen.protocol else { return evidence };
        let is_carrier = CARRIERS.contains(&protocol);
        match self.of_protocol(protocol) {
            // What is carried says more.
            Some(_) if is_carrier && is_named => {}
            Some(class) if is_carrier => evidence.add(Kind::Carrier, class),
            Some(class) => evidence.add(Kind::Protocol, class),
            None => evidence.is_unlisted = !is_named,
        }
        evidence
    }

    fn of_protocol(&self, protocol: Protocol) -> Option<u8> {
        self.protocols.get(protocol as usize).copied().flatten()
    }

    fn of_query(&self, query: &str) -> Option<u8> {
        if self.queries.is_empty() {
            return None;
        }
        query.to_lowercase().split('.').find_map(|label| self.queries.get(label).copied())
    }

    fn add_host(&self, evidence: &mut Evidence, host: &str) {
        let suffix = suffixes(host).find_map(|suffix| self.suffixes.get(suffix).copied());
        let kind = match suffix {
            Some(class) => {
                evidence.add(Kind::Suffix, class);
                Kind::LabelBesideSuffix
            }
            None => Kind::Label,
        };
        for word in words(host) {
            if let Some(&class) = self.labels.get(word) {
                evidence.add(kind, class);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use names::dns::RecordType;
    use names::found::FlowNames;

    use super::super::State;
    use super::*;

    const LIST: &str = "kind\tvalue\tclass\nprotocol\tssh\tremote\nprotocol\ttls\tweb\n\
                        protocol\tdns\tdns\nprotocol\tlater\tweb\nlabel\tvpn\tremote\n\
                        suffix\texample.org\tweb\nsuffix\tmail.example.org\tmail\n\
                        query\tresolver-check\tremote\n";

    fn list() -> NameList {
        NameList::parse(LIST.as_bytes(), &classes()).unwrap()
    }

    fn classes() -> Vec<String> {
        ["dns", "mail", "remote", "web"].map(String::from).to_vec()
    }

    fn seen(protocol: Option<Protocol>, server: &str, resolved: &str, query: &str) -> FlowInfo {
        let given = |text: &str| (!text.is_empty()).then_some(()).map(|()| text.to_owned());
        let found = FlowNames {
            server_name: given(server).map(Into::into),
            resolved: given(resolved).map(Into::into),
            hello: None,
            query: given(query).map(|name| (name.into_boxed_str(), RecordType(1))),
        };
        FlowInfo { protocol, found: Some(Arc::new(found)) }
    }

    fn told(seen: &FlowInfo) -> (State, [u64; 5], bool) {
        let evidence = list().evidence(seen);
        (evidence.state(), *evidence.classes(), evidence.is_unlisted)
    }

    #[test]
    fn the_longest_suffix_counts_and_the_carrier_does_not() {
        let tls = Some(Protocol::Tls);
        let named = seen(tls, "vpn2.Mail.example.org:443", "", "");
        assert_eq!(told(&named), (State::Suffix, [0, 0, 2, 0, 4], false));
        let by_dns = seen(tls, "", "www.example.org", "");
        assert_eq!(told(&by_dns), (State::Suffix, [0, 0, 8, 0, 0], false));
        assert_eq!(told(&seen(tls, "vpn.example.com", "", "")).1, [0, 0, 0, 4, 0]);
        assert_eq!(told(&seen(tls, "192.0.2.1", "", "")), (State::Carrier, [0, 8, 0, 0, 0], false));
    }

    #[test]
    fn a_protocol_counts_beside_a_name_and_alone() {
        let ssh = Some(Protocol::Ssh);
        assert_eq!(told(&seen(ssh, "", "", "")), (State::Protocol, [4, 0, 0, 0, 0], false));
        assert_eq!(told(&seen(ssh, "", "a.example.org", "")).1, [4, 0, 8, 0, 0]);
        assert_eq!(told(&seen(Some(Protocol::Rtsp), "", "", "")), (State::None, [0; 5], true));
        assert!(!told(&seen(Some(Protocol::Rtsp), "", "a.example.org", "")).2);
        assert_eq!(told(&seen(None, "", "", "")), (State::None, [0; 5], false));
    }

    #[test]
    fn a_query_counts_as_a_suffix() {
        let asked = seen(Some(Protocol::Dns), "", "", "x.Resolver-Check.example.net");
        assert_eq!(told(&asked), (State::Suffix, [0, 0, 4, 0, 0], false));
        assert_eq!(told(&seen(Some(Protocol::Dns), "", "", "example.org")).0, State::Protocol);
    }

    #[test]
    fn a_list_that_is_none_is_refused_by_its_line() {
        let parse = |text: &str| NameList::parse(text.as_bytes(), &classes());
        for (bad, wanted) in [
            ("", "line 1: \"\"; wanted: \"kind\\tvalue\\tclass\""),
            ("kind\tvalue\tclass\nsuffix\ta.b", "line 2: \"suffix\\ta.b\"; wanted: kind, value"),
            ("kind\tvalue\tclass\nsuffix\ta.b\tgame", "line 2: class \"game\"; wanted: dns"),
            ("kind\tvalue\tclass\nword\ta\tweb", "line 2: kind \"word\"; wanted: protocol"),
        ] {
            let error = parse(bad).unwrap_err().to_string();
            assert!(error.starts_with(wanted), "{error}");
        }
        assert_eq!(NameList::parse(b"", &vec![String::new(); 65]), Err(ListError::Classes(65)));
    }
}
