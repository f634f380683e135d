//! Alertmanager: `POST /api/v2/alerts`, again and again while an alert is active.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use packet::{Span, Timestamp};
use serde_json::{Map, Value as Json};

use super::http::Poster;
use super::{Batch, Destination, Failure, Origin};
use crate::alert::{Alert, State, known, object};
use crate::begin::Clocks;
use crate::rules::Wrong;
use crate::settings::{NotifySettings, duration_or};

/// Alerts in one request.
const REQUEST_LEN_MAX: usize = 256;

/// Alerts that are active or were not yet reported as resolved; the oldest goes for a new one.
const KEPT_MAX: usize = 20_000;

/// An alert that is not re-sent ends after so many times the interval, as in Prometheus.
const ENDS_AFTER: i64 = 4;

/// After a failure what is active is re-sent this soon, unless the interval is shorter.
const OWED_AFTER: Duration = Duration::from_secs(10);

/// Of Alertmanager everything is state: what is active is re-sent, so that neither its restart
/// nor an outage between loses an alert.
pub(super) struct Alertmanager {
    poster: Poster,
    page: Option<String>,
    clocks: Clocks,
    resend: Duration,
    active: BTreeMap<u64, Arc<Alert>>,
    /// Resolved, which Alertmanager does not know yet.
    ended: BTreeMap<u64, Arc<Alert>>,
    /// Of these, alerts of deliveries that were given up, and how many of them have arrived since.
    owed: BTreeSet<u64>,
    late: u64,
    /// When all is re-sent, in monotonic time.
    next: Duration,
}

/// A time in RFC 3339; nothing where it is not known.
pub(super) fn time(time: Timestamp) -> Option<String> {
    known(time).map(|time| time.to_string())
}

/// A number of labels, as Alertmanager has it: FNV-1a of names and values.
pub(super) fn fingerprint(labels: &BTreeMap<String, String>) -> String {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    let mut add = |byte: u8| hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    for (name, value) in labels {
        name.bytes().for_each(&mut add);
        add(0xff);
        value.bytes().for_each(&mut add);
        add(0xff);
    }
    format!("{hash:016x}")
}

/// The address of the API below a base.
fn endpoint(base: &str) -> String {
    const PATH: &str = "/api/v2/alerts";
    let base = base.trim_end_matches('/');
    if base.ends_with(PATH) { base.to_owned() } else { format!("{base}{PATH}") }
}

impl Alertmanager {
    pub(super) fn open(settings: &NotifySettings, origin: &Origin) -> Result<Self, Wrong> {
        Ok(Self {
            poster: Poster::open(settings, endpoint(&settings.to))?,
            page: origin.page.clone(),
            clocks: origin.clocks,
            resend: duration_or(settings.resend, 60),
            active: BTreeMap::new(),
            ended: BTreeMap::new(),
            owed: BTreeSet::new(),
            late: 0,
            next: Duration::MAX,
        })
    }

    fn take(&mut self, alert: &Arc<Alert>) {
        match alert.state {
            State::Firing => self.active.insert(alert.id, Arc::clone(alert)),
            State::Resolved => {
                // That it was active will not be heard any more.
                self.active.remove(&alert.id);
                self.owed.remove(&alert.id);
                self.ended.insert(alert.id, Arc::clone(alert))
            }
        };
        for kept in [&mut self.active, &mut self.ended] {
            if kept.len() > KEPT_MAX
                && let Some((id, _)) = kept.pop_first()
            {
                self.owed.remove(&id);
            }
        }
    }

    fn json(&self, alert: &Alert) -> Json {
        // An empty value is to Alertmanager as no label.
        let mut labels = object(&alert.labels);
        labels.retain(|_, value| value.as_str() != Some(""));
        let mut json = Map::new();
        json.insert("labels".into(), labels.into());
        json.insert("annotations".into(), alert.annotations_json());
        let starts = time(alert.fired);
        json.extend(starts.map(|starts| ("startsAt".into(), starts.into())));
        let ends = match alert.state {
            State::Resolved => alert.time.max(alert.fired),
            State::Firing => {
                let resend = i64::try_from(self.resend.as_nanos()).unwrap_or(i64::MAX);
                let span = Span::from_ns(resend.saturating_mul(ENDS_AFTER));
                (self.clocks.realtime)().plus(span)
            }
        };
        // Event time may be ahead of the clock, in a replay.
        let ends = Some(ends).filter(|&ends| ends >= alert.fired).and_then(time);
        json.extend(ends.map(|ends| ("endsAt".into(), ends.into())));
        let page = self.page.clone();
        json.extend(page.map(|page| ("generatorURL".into(), page.into())));
        json.into()
    }
}

impl Destination for Alertmanager {
    fn deliver(&mut self, batch: &Batch<'_>) -> Result<(), Failure> {
        batch.alerts.iter().for_each(|alert| self.take(alert));
        let now = (self.clocks.monotonic)();
        let is_due = now >= self.next;
        // What is over comes first: an alert that fires again has its labels, and of two reports
        // with the same labels Alertmanager takes the later one.
        let ended = self.ended.values();
        let fresh: Vec<_> = match is_due {
            true => ended.chain(self.active.values()).collect(),
            false => {
                let firing = batch.alerts.iter().filter(|one| self.active.contains_key(&one.id));
                ended.chain(firing).collect()
            }
        };
        let posted = fresh.chunks(REQUEST_LEN_MAX).try_for_each(|some| {
            let some: Vec<_> = some.iter().map(|alert| self.json(alert)).collect();
            self.poster.post(&Json::from(some).to_string())
        });
        match &posted {
            Ok(()) => {
                for alert in &fresh {
                    self.late += u64::from(self.owed.remove(&alert.id));
                }
                self.ended.clear();
                if is_due || self.next == Duration::MAX {
                    self.next = now + self.resend;
                }
            }
            Err(failure) => {
                self.next = now + OWED_AFTER.min(self.resend);
                // What is refused once is refused again; the valid ones of a request were taken.
                if matches!(failure, Failure::Never(_)) {
                    self.ended.clear();
                    self.owed.retain(|id| self.active.contains_key(id));
                }
            }
        }
        if self.active.is_empty() && self.ended.is_empty() {
            self.next = Duration::MAX;
        }
        posted
    }

    fn due(&self) -> Option<Duration> {
        let is_any = self.next != Duration::MAX;
        is_any.then(|| self.next.saturating_sub((self.clocks.monotonic)()))
    }

    fn keep(&mut self, batch: &Batch<'_>) {
        let ids = batch.alerts.iter().map(|alert| alert.id);
        let are_kept = |id: &u64| self.active.contains_key(id) || self.ended.contains_key(id);
        self.owed.extend(ids.filter(are_kept));
    }

    fn delivered_late(&mut self) -> u64 {
        std::mem::take(&mut self.late)
    }

    fn batch_max(&self) -> usize {
        REQUEST_LEN_MAX
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fingerprints_are_those_of_alertmanager() {
        // As Alertmanager 0.25 has them.
        let labels = |pairs: &[(&str, &str)]| {
            pairs.iter().map(|&(name, value)| (name.to_owned(), value.to_owned())).collect()
        };
        let test = [("alertname", "wirelens-test"), ("severity", "info")];
        assert_eq!(fingerprint(&labels(&test)), "11b156f62434efdb");
        let flow = [
            ("alertname", "large flow"),
            ("dst_ip", "192.0.2.1"),
            ("severity", "warning"),
            ("src_ip", "10.0.0.1"),
        ];
        assert_eq!(fingerprint(&labels(&flow)), "75c533661a338a74");
    }

    #[test]
    fn the_api_is_below_the_address() {
        for base in ["http://a:9093", "http://a:9093/", "http://a:9093/api/v2/alerts"] {
            assert_eq!(endpoint(base), "http://a:9093/api/v2/alerts");
        }
        assert_eq!(endpoint("https://a/am/"), "https://a/am/api/v2/alerts");
    }
}
