//! A webhook, in the form of Alertmanager's (version 4), which receivers of alerts know.

use serde_json::{Value as Json, json};

use super::alertmanager::{fingerprint, time};
use super::http::Poster;
use super::{Batch, Destination, Failure, Origin};
use crate::alert::{Alert, State, object};
use crate::rules::Wrong;
use crate::settings::NotifySettings;

/// A receiver of webhooks.
pub(super) struct Webhook {
    poster: Poster,
    page: String,
}

impl Webhook {
    pub(super) fn open(settings: &NotifySettings, origin: &Origin) -> Result<Self, Wrong> {
        let poster = Poster::open(settings, settings.to.clone())?;
        Ok(Self { poster, page: origin.page.clone().unwrap_or_default() })
    }

    fn document(&self, batch: &Batch<'_>) -> Json {
        let is_firing = |alert: &&std::sync::Arc<Alert>| alert.state == State::Firing;
        let status = match batch.alerts.iter().find(is_firing) {
            Some(_) => State::Firing,
            None => State::Resolved,
        };
        let alerts: Vec<_> = batch.alerts.iter().map(|alert| self.alert(alert)).collect();
        let mut shared = batch.alerts.first().map(|alert| alert.labels.clone()).unwrap_or_default();
        shared.retain(|name, value| {
            batch.alerts.iter().all(|alert| alert.labels.get(name) == Some(value))
        });
        json!({
            "version": "4",
            "groupKey": "wirelens",
            "truncatedAlerts": batch.held_back,
            "status": status.name(),
            "receiver": "wirelens",
            "groupLabels": {},
            "commonLabels": object(&shared),
            "commonAnnotations": {},
            "externalURL": self.page,
            "alerts": alerts,
        })
    }

    fn alert(&self, alert: &Alert) -> Json {
        // The zero time of Go, as Alertmanager has it where there is none.
        let unknown = || String::from("0001-01-01T00:00:00Z");
        let ends = (alert.state == State::Resolved).then(|| time(alert.time)).flatten();
        json!({
            "status": alert.state.name(),
            "labels": object(&alert.labels),
            "annotations": alert.annotations_json(),
            "startsAt": time(alert.fired).unwrap_or_else(unknown),
            "endsAt": ends.unwrap_or_else(unknown),
            "generatorURL": self.page,
            "fingerprint": fingerprint(&alert.labels),
        })
    }
}

impl Destination for Webhook {
    fn deliver(&mut self, batch: &Batch<'_>) -> Result<(), Failure> {
        self.poster.post(&self.document(batch).to_string())
    }
}
