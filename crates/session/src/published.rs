//! Where rows, alerts and metrics are published, from the settings file: `[nats]`.

use std::path::PathBuf;
use std::time::Duration;

use bus::{EscalationOptions, Link, Options, is_word};
use packet::{Span, Timestamp};
use serde::Deserialize;

use crate::clock::Clock;
use crate::written;

/// Settings of `[nats]`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct NatsSettings {
    /// Servers of one broker.
    pub servers: Vec<String>,
    /// A file of credentials.
    pub credentials: Option<PathBuf>,
    /// A file whose first line is a token.
    pub token_file: Option<PathBuf>,
    /// A user.
    pub user: Option<String>,
    /// A file whose first line is the user's password.
    pub password_file: Option<PathBuf>,
    /// Certificates of authorities in PEM.
    pub ca_file: Option<PathBuf>,
    /// A certificate in PEM that is shown to the broker.
    pub certificate: Option<PathBuf>,
    /// The key of the certificate.
    pub key: Option<PathBuf>,
    /// First word of all subjects.
    pub prefix: String,
    /// The name of this sensor; the machine's where it is left out.
    pub sensor: Option<String>,
    /// Rows older than this go from the stream.
    #[serde(deserialize_with = "written::duration")]
    pub keep: Span,
    /// The oldest rows go where the stream has more bytes than this.
    #[serde(deserialize_with = "written::bytes")]
    pub keep_bytes: u64,
    /// How often metrics are sent.
    #[serde(deserialize_with = "written::duration")]
    pub metrics_every: Span,
}

impl Default for NatsSettings {
    fn default() -> Self {
        Self {
            servers: vec![String::from("nats://127.0.0.1:4222")],
            credentials: None,
            token_file: None,
            user: None,
            password_file: None,
            ca_file: None,
            certificate: None,
            key: None,
            prefix: String::from("wirelens"),
            sensor: None,
            keep: Span::from_seconds(86_400),
            keep_bytes: 1 << 30,
            metrics_every: Span::from_seconds(10),
        }
    }
}

impl NatsSettings {
    /// As the publisher takes them: of a run that begins now, on a machine of this name, with its
    /// clocks, time since the epoch in nanoseconds and what prints messages for users. `waits` is
    /// [`Options::waits`].
    #[must_use]
    pub fn options(
        &self,
        machine: impl FnOnce() -> String,
        clock: Clock,
        realtime_ns: fn() -> i64,
        waits: bool,
        tell: fn(&str),
    ) -> Options {
        Options {
            link: self.link(),
            prefix: self.prefix.clone(),
            sensor: self.sensor.clone().unwrap_or_else(machine),
            run: run((clock.realtime)()),
            keep: duration(self.keep),
            keep_bytes: self.keep_bytes,
            metrics_every: duration(self.metrics_every),
            waits,
            realtime_ns,
            monotonic: clock.monotonic,
            tell,
        }
    }

    /// Files that are read for each connection.
    pub(crate) fn files(&self) -> Vec<PathBuf> {
        let Self { credentials, token_file, password_file, ca_file, certificate, key, .. } = self;
        let files = [credentials, token_file, password_file, ca_file, certificate, key];
        files.into_iter().flatten().cloned().collect()
    }

    /// The broker, and how it is reached.
    #[must_use]
    pub fn link(&self) -> Link {
        let Self { servers, credentials, token_file, ca_file, .. } = self.clone();
        let user = self.user.clone().zip(self.password_file.clone());
        let certificate = self.certificate.clone().zip(self.key.clone());
        Link { servers, credentials, token_file, user, ca_file, certificate }
    }

    /// As rows are escalated to workers: of a run that began at this time.
    #[must_use]
    pub fn escalations(
        &self,
        machine: impl FnOnce() -> String,
        began: Timestamp,
        monotonic: fn() -> Duration,
        tell: fn(&str),
    ) -> EscalationOptions {
        EscalationOptions {
            link: self.link(),
            prefix: self.prefix.clone(),
            sensor: self.sensor.clone().unwrap_or_else(machine),
            run: run(began),
            monotonic,
            tell,
        }
    }

    /// What is wrong with them.
    pub(crate) fn mistake(&self) -> Option<&'static str> {
        let logins = [self.credentials.is_some(), self.token_file.is_some(), self.user.is_some()];
        if self.servers.is_empty() {
            return Some("servers: none; wanted: such as [\"nats://127.0.0.1:4222\"]");
        }
        if !is_word(&self.prefix) {
            return Some("prefix: wanted letters, digits, - and _, as in \"wirelens\"");
        }
        if self.sensor.as_ref().is_some_and(|sensor| !is_sensor_name(sensor)) {
            return Some(
                "sensor: wanted a name of 1 to 128 bytes without space at its ends, such as \
                 \"roof-east\"",
            );
        }
        if self.user.is_some() != self.password_file.is_some() {
            return Some("user and password-file need each other");
        }
        if logins.into_iter().filter(|&is_given| is_given).count() > 1 {
            return Some("only one of credentials, token-file and user can be given");
        }
        if self.certificate.is_some() != self.key.is_some() {
            return Some("certificate and key need each other; wanted: both, in PEM");
        }
        if self.keep < Span::from_seconds(1) || self.metrics_every < Span::from_seconds(1) {
            return Some("keep and metrics-every: wanted a second or more");
        }
        None
    }
}

/// Whether a view of sensors takes it: headers are trimmed on their way, and a name that does not
/// agree with the subject is a stranger's.
fn is_sensor_name(name: &str) -> bool {
    (1..=128).contains(&name.len()) && name.trim() == name && !name.chars().any(char::is_control)
}

/// Distinguishes a run from others of its sensor.
fn run(began: Timestamp) -> String {
    format!("{:x}", began.as_ns())
}

/// The same time for crates that know no event time.
pub(crate) fn duration(span: Span) -> Duration {
    Duration::from_nanos(u64::try_from(span.as_ns()).unwrap_or(0))
}

/// Its keys with their defaults, as `--init` prints them.
pub(crate) const EXAMPLE: &str = "
# Publish the rows of every table, alerts included, on NATS JetStream, and metrics on core NATS.
# docs/guide/nats.md has a server to start with.
# [nats]
# servers = [\"nats://127.0.0.1:4222\"]
# prefix = \"wirelens\"
# The name of this sensor, a word of subjects [default: the machine's name].
# sensor = \"roof-east\"
# One of these: a file of credentials of nsc or of a seed, a token, or a user.
# credentials = \"sensor.creds\"
# token-file = \"token\"
# user = \"sensor\"
# password-file = \"password\"
# Certificates in PEM: the authority's, with which TLS is required, and our own.
# ca-file = \"ca.pem\"
# certificate = \"sensor.pem\"
# key = \"sensor.key\"
# How long, and how many bytes of rows, the stream keeps if it is created here.
# keep = \"1d\"
# keep-bytes = \"1G\"
# metrics-every = \"10s\"
";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_has_the_defaults() {
        let commented = EXAMPLE.lines().filter_map(|line| line.strip_prefix("# "));
        let is_default = |line: &&str| {
            let names = ["servers", "prefix", "keep", "metrics-every"];
            names.iter().any(|name| line.starts_with(name)) && line.contains(" = ")
        };
        let keys: Vec<_> = commented.filter(is_default).collect();
        let read: NatsSettings = toml::from_str(&keys.join("\n")).unwrap();
        assert_eq!((keys.len(), read), (5, NatsSettings::default()));
    }

    #[test]
    fn settings_without_a_meaning_are_refused() {
        assert_eq!(NatsSettings::default().mistake(), None);
        for (text, part) in [
            ("servers = []", "servers"),
            ("prefix = \"a.b\"", "prefix"),
            ("sensor = \"\"", "sensor"),
            ("sensor = \"roof \"", "without space"),
            ("sensor = \"roof\\teast\"", "sensor"),
            ("user = \"a\"", "password-file"),
            ("token-file = \"a\"\ncredentials = \"b\"", "only one"),
            ("key = \"a\"", "certificate"),
            ("metrics-every = \"1ms\"", "second"),
        ] {
            let settings: NatsSettings = toml::from_str(text).unwrap();
            assert!(settings.mistake().is_some_and(|told| told.contains(part)), "{text}");
        }
    }
}
