//! Which name a client asked for before it turned to an address.

use std::net::IpAddr;
use std::sync::Arc;

use packet::{Span, Timestamp};

use engine::recent::Recent;

/// Answers that are kept at most.
pub const ANSWERS_MAX: usize = 1 << 17;

/// An answer is kept for this long even where its TTL is shorter: hosts keep addresses of
/// connections that they open again and again (RFC 8767 §5 lets resolvers serve stale data as
/// well).
const KEPT_MIN: Span = Span::from_seconds(300);
/// And for at most this long.
const KEPT_MAX_S: u32 = 86_400;

/// A client and the address that it was given.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Key {
    client: IpAddr,
    address: IpAddr,
}

#[derive(Clone, Debug)]
struct CachedName {
    name: Arc<str>,
    until: Timestamp,
}

/// The latest answers, by client and address; what was not read for long is forgotten first.
#[derive(Clone, Debug)]
pub struct ResolverCache {
    answers: Recent<Key, CachedName>,
    /// Answers that were forgotten before their time.
    pub forgotten: u64,
}

impl ResolverCache {
    /// Nothing yet, and at most so many answers.
    #[must_use]
    pub fn new(answers_max: usize) -> Self {
        Self { answers: Recent::new(answers_max), forgotten: 0 }
    }

    /// Whether nothing is kept, so that nothing need be looked for.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.answers.is_empty()
    }

    /// Keeps an answer: `name` has `address` for `client`, for `ttl_s` seconds.
    pub fn insert(
        &mut self,
        client: IpAddr,
        address: IpAddr,
        name: &Arc<str>,
        ttl_s: u32,
        now: Timestamp,
    ) {
        let kept = Span::from_seconds(ttl_s.min(KEPT_MAX_S).into()).max(KEPT_MIN);
        let answered = CachedName { name: Arc::clone(name), until: now.plus(kept) };
        let Self { answers, forgotten } = self;
        answers.insert(Key { client, address }, answered, |old| {
            *forgotten += u64::from(old.until > now);
        });
    }

    /// The name for which a client was given an address.
    pub fn name(&mut self, client: IpAddr, address: IpAddr, now: Timestamp) -> Option<Arc<str>> {
        let Self { answers, forgotten } = self;
        let found = answers.get(&Key { client, address }, |old| {
            *forgotten += u64::from(old.until > now);
        });
        found.filter(|found| found.until >= now).map(|found| Arc::clone(&found.name))
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    const CLIENT: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1));

    fn address(number: u32) -> IpAddr {
        Ipv4Addr::from(number).into()
    }

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_ns(seconds * 1_000_000_000)
    }

    #[test]
    fn an_answer_holds_for_its_client_and_its_time() {
        let mut resolved = ResolverCache::new(16);
        assert!(resolved.is_empty());
        let name: Arc<str> = "example.com".into();
        resolved.insert(CLIENT, address(7), &name, 600, at(0));
        assert_eq!(resolved.name(CLIENT, address(7), at(600)).as_deref(), Some("example.com"));
        assert_eq!(resolved.name(CLIENT, address(7), at(601)), None);
        assert_eq!(resolved.name(address(1), address(7), at(1)), None, "another client");
        // A TTL of seconds holds for five minutes, one of years for a day.
        resolved.insert(CLIENT, address(8), &name, 1, at(0));
        assert!(resolved.name(CLIENT, address(8), at(300)).is_some());
        resolved.insert(CLIENT, address(9), &name, u32::MAX, at(0));
        assert_eq!(resolved.name(CLIENT, address(9), at(86_401)), None);
    }

    #[test]
    fn memory_is_bounded_and_what_is_read_stays() {
        let mut resolved = ResolverCache::new(64);
        let name: Arc<str> = "example.com".into();
        for number in 0..1000 {
            resolved.insert(CLIENT, address(number), &name, 600, at(0));
            assert!(resolved.answers.len() <= 64);
            assert!(resolved.name(CLIENT, address(0), at(1)).is_some());
        }
        assert!(resolved.name(CLIENT, address(500), at(1)).is_none());
        assert!(resolved.forgotten > 900);
    }
}
