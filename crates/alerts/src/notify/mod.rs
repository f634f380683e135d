//! Delivery of alerts: a thread and a bounded queue for each destination.

mod alertmanager;
mod feed;
mod http;
mod jsonl;
mod rate;
mod syslog;
mod webhook;

use std::sync::Arc;
use std::time::Duration;

use crate::alert::Alert;
use crate::begin::{Clocks, EveLine};
use crate::rules::Wrong;
use crate::settings::{NotifyKind, NotifySettings};

pub(crate) use feed::Feed;
pub use feed::NotifyState;

/// The first wait after a failure; each further one is twice as long.
const BACKOFF_FIRST: Duration = Duration::from_millis(500);

/// The longest wait.
const BACKOFF_MAX: Duration = Duration::from_secs(30);

/// Deliveries that are tried, unless another number is given.
const ATTEMPTS: u32 = 5;

/// Why alerts were not delivered.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Failure {
    /// It may succeed later, and not before this time where it is given.
    Later(String, Option<Duration>),
    /// It will not, however often it is tried.
    Never(String),
}

impl Failure {
    pub(crate) fn later(why: impl ToString) -> Self {
        Self::Later(why.to_string(), None)
    }

    pub(crate) fn why(&self) -> &str {
        match self {
            Self::Later(why, _) | Self::Never(why) => why,
        }
    }
}

/// Alerts on their way.
pub(crate) struct Batch<'a> {
    pub alerts: &'a [Arc<Alert>],
    /// Alerts that the rate limit held back since the delivery before.
    pub held_back: u64,
}

/// Where alerts go.
pub(crate) trait Destination: Send {
    /// Delivers alerts in order. After [`Failure::Later`] it is given the same ones again.
    fn deliver(&mut self, batch: &Batch<'_>) -> Result<(), Failure>;

    /// After how long it has something to deliver without new alerts.
    fn due(&self) -> Option<Duration> {
        None
    }

    /// Its file was moved away.
    fn reopen(&mut self) {}

    /// Delivering these was given up. Those that this keeps go with a later delivery.
    fn keep(&mut self, _: &Batch<'_>) {}

    /// Alerts that it kept and has delivered since this was asked last.
    fn delivered_late(&mut self) -> u64 {
        0
    }

    /// Alerts that it takes in one delivery.
    fn batch_max(&self) -> usize {
        64
    }
}

/// What destinations say of the machine they run on.
#[derive(Clone, Debug)]
pub(crate) struct Origin {
    /// Its name.
    pub host: String,
    /// The address of the page.
    pub page: Option<String>,
    pub clocks: Clocks,
    /// Writes alerts as Suricata's events.
    pub eve: EveLine,
}

/// Opens a destination.
///
/// # Errors
/// What is wrong with the settings, or with a file that they name.
pub(crate) fn open(
    settings: &NotifySettings,
    origin: &Origin,
) -> Result<Box<dyn Destination>, Vec<Wrong>> {
    let wrong = mistakes(settings);
    if !wrong.is_empty() {
        return Err(wrong);
    }
    let one = |wrong| vec![wrong];
    Ok(match settings.kind {
        NotifyKind::Jsonl => {
            Box::new(jsonl::JsonLines::open(settings, |alert| Some(alert.json())).map_err(one)?)
        }
        NotifyKind::Eve => Box::new(jsonl::JsonLines::open(settings, origin.eve).map_err(one)?),
        NotifyKind::Syslog => Box::new(syslog::Syslog::open(settings, origin).map_err(one)?),
        NotifyKind::Webhook => Box::new(webhook::Webhook::open(settings, origin).map_err(one)?),
        NotifyKind::Alertmanager => {
            Box::new(alertmanager::Alertmanager::open(settings, origin).map_err(one)?)
        }
    })
}

/// What is wrong with settings, without opening anything.
pub(crate) fn mistakes(settings: &NotifySettings) -> Vec<Wrong> {
    let NotifySettings { kind, to, .. } = settings;
    let mut wrong = Vec::new();
    let mut refuse = |is_wrong: bool, key, told: &str| {
        if is_wrong {
            wrong.push((key, told.to_owned()));
        }
    };
    let is_http = matches!(kind, NotifyKind::Webhook | NotifyKind::Alertmanager);
    let is_file = matches!(kind, NotifyKind::Jsonl | NotifyKind::Eve);
    refuse(is_file && to.is_empty(), "to", "wanted: the path of a file");
    if is_http {
        refuse(true, "to", http::check_url(to).err().as_deref().unwrap_or_default());
    }
    if *kind == NotifyKind::Syslog {
        refuse(true, "to", syslog::Target::read(to).err().as_deref().unwrap_or_default());
    }
    let only_http = "has an effect with webhook and alertmanager only";
    refuse(!is_http && settings.token_file.is_some(), "token-file", only_http);
    refuse(!is_http && settings.user.is_some(), "user", only_http);
    refuse(!is_http && settings.password_file.is_some(), "password-file", only_http);
    refuse(!is_http && settings.ca_file.is_some(), "ca-file", only_http);
    refuse(!is_http && settings.proxy.is_some(), "proxy", only_http);
    refuse(
        settings.user.is_some() != settings.password_file.is_some(),
        "user",
        "user and password-file need each other",
    );
    refuse(
        settings.user.is_some() && settings.token_file.is_some(),
        "token-file",
        "only one of token-file and user can be given",
    );
    let only_syslog = "has an effect with syslog only";
    refuse(*kind != NotifyKind::Syslog && settings.facility.is_some(), "facility", only_syslog);
    refuse(*kind != NotifyKind::Syslog && settings.enterprise.is_some(), "enterprise", only_syslog);
    let is_resent = *kind == NotifyKind::Alertmanager;
    refuse(!is_resent && settings.resend.is_some(), "resend", "needs kind = \"alertmanager\"");
    refuse(settings.attempts == Some(0), "attempts", "wanted: 1 or more");
    refuse(settings.queue == Some(0), "queue", "wanted: 1 or more");
    wrong.retain(|(_, told)| !told.is_empty());
    wrong
}

/// The names of destinations: those given, else their kinds, with a number where several would
/// have one name. Counters are distinguished by them.
pub(crate) fn names(settings: &[NotifySettings]) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for one in settings {
        let name = one.name.clone().unwrap_or_else(|| one.kind.name().into());
        let numbered = (2..).map(|number| format!("{name} {number}"));
        let mut free = std::iter::once(name.clone()).chain(numbered);
        let free = free.find(|name| !names.contains(name)).unwrap_or_default();
        names.push(free);
    }
    names
}

/// Delivers what a feed has until it is over.
pub(crate) fn work(feed: &Feed, mut destination: Box<dyn Destination>, attempts: Option<u32>) {
    let attempts = attempts.unwrap_or(ATTEMPTS);
    while let Some(taken) = feed.take(destination.due(), destination.batch_max()) {
        if taken.is_reopened {
            destination.reopen();
        }
        let batch = Batch { alerts: &taken.alerts, held_back: taken.held_back };
        if batch.alerts.is_empty() && destination.due().is_none_or(|due| !due.is_zero()) {
            continue;
        }
        let mut backoff = BACKOFF_FIRST;
        for attempt in 1..=attempts {
            let failure = match destination.deliver(&batch) {
                Ok(()) => {
                    feed.note_delivered(&taken, destination.delivered_late());
                    break;
                }
                Err(failure) => failure,
            };
            let wait = match &failure {
                Failure::Later(_, after) if attempt < attempts => after.unwrap_or(backoff),
                _ => {
                    destination.keep(&batch);
                    feed.note_failed(&taken, failure.why());
                    break;
                }
            };
            feed.note_retry(failure.why());
            if !feed.pause(wait) {
                destination.keep(&batch);
                feed.note_failed(&taken, failure.why());
                break;
            }
            backoff = (backoff * 2).min(BACKOFF_MAX);
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
