//! What was read, and what was wrong with it.

use std::collections::BTreeMap;

/// Counts of a run.
#[derive(Clone, Debug, Default)]
pub struct Counts {
    /// TLS ClientHellos that were read, of TCP.
    pub hellos: u64,
    /// TLS ClientHellos that were read, of QUIC.
    pub quic_hellos: u64,
    /// HTTP/1 requests with a host.
    pub requests: u64,
    /// DNS queries.
    pub queries: u64,
    /// DNS responses to queries that were seen.
    pub responses: u64,
    /// Handshakes in pieces that made room for others.
    pub evicted: u64,
    /// Answers of DNS that made room for others before their time.
    pub answers_forgotten: u64,
    /// Names that were not kept, since the budget for names was spent.
    pub names_dropped: u64,
    /// What was wrong, by the name of its cause.
    faults: BTreeMap<&'static str, u64>,
}

impl Counts {
    /// Counts a fault.
    pub(crate) fn fault(&mut self, name: &'static str) {
        *self.faults.entry(name).or_default() += 1;
    }

    /// Faults by the name of their cause.
    pub fn faults(&self) -> impl Iterator<Item = (&'static str, u64)> {
        self.faults.iter().map(|(&name, &count)| (name, count))
    }

    /// Adds what was counted elsewhere.
    pub fn fold(&mut self, other: &Self) {
        let Self { hellos, quic_hellos, requests, queries, responses, faults, .. } = other;
        self.hellos += hellos;
        self.quic_hellos += quic_hellos;
        self.requests += requests;
        self.queries += queries;
        self.responses += responses;
        self.evicted += other.evicted;
        self.answers_forgotten += other.answers_forgotten;
        self.names_dropped += other.names_dropped;
        for (&name, count) in faults {
            *self.faults.entry(name).or_default() += count;
        }
    }
}
