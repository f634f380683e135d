//! Flows that were cut by their age or by a window, and continue as another row.
//!
//! The table reports the end of a flow after it has shown the packet that cuts it. So a flow that
//! begins without a SYN may have read some packets of its own when the end of its earlier part is
//! reported.

use engine::flow::{EndReason, FlowRecord};
use packet::{FlowKey, Timestamp};

use super::{ACK, NameState, Reader, SYN, Stage};
use crate::found::FlowNames;

/// What was read of a flow until it was cut.
#[derive(Debug)]
pub(super) struct Cut {
    named: NameState,
    last: Timestamp,
    /// Whether its connection was closed as well.
    is_closed: bool,
}

/// What a flow would make of an earlier part between the same ports, by its own first packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) enum Earlier {
    /// There is none, or it was taken.
    #[default]
    Known,
    /// It continues.
    Continues,
    /// It continues unless it was closed: the answer to a SYN may come behind a cut.
    Opens,
    /// It does not: a SYN begins another connection.
    Replaced,
}

impl Earlier {
    /// By the flags of a flow's first packet; those of a packet without TCP are 0.
    pub(super) const fn of(tcp_flags: u8) -> Self {
        match tcp_flags & (SYN | ACK) {
            SYN => Self::Replaced,
            flags if flags & SYN != 0 => Self::Opens,
            _ => Self::Continues,
        }
    }
}

impl Reader {
    /// Keeps what was read of a flow for its next part. It stays counted until that begins or it
    /// is forgotten.
    pub(super) fn keep_cut(&mut self, named: &mut NameState, record: &FlowRecord) {
        let is_closed = matches!(record.reason, EndReason::Fin | EndReason::Rst);
        let cut = Cut { named: named.clone(), last: record.last, is_closed };
        let mut forgotten = Vec::new();
        let before = self.cut.insert(record.key, cut, |old| forgotten.push(old));
        for mut old in forgotten.into_iter().chain(before) {
            self.forget(&mut old.named);
        }
        // What is put together is the next part's.
        named.gathering = [None; 2];
    }

    /// Takes what was cut between the same ports, if that is reported: continues with it, or
    /// forgets it. Whether it continues, or nothing where there is none.
    pub(super) fn take_earlier(
        &mut self,
        named: &mut NameState,
        key: &FlowKey,
        first: Timestamp,
    ) -> Option<bool> {
        if named.earlier == Earlier::Known {
            return None;
        }
        let Cut { named: mut before, last, is_closed } = self.cut.take(key)?;
        let may_continue = match named.earlier {
            Earlier::Known | Earlier::Replaced => false,
            Earlier::Continues => true,
            Earlier::Opens => !is_closed,
        };
        named.earlier = Earlier::Known;
        if !may_continue || first.since(last) >= self.limits.idle_timeout {
            self.forget(&mut before);
            return Some(false);
        }
        self.join(named, before);
        Some(true)
    }

    /// Joins what was read of a flow before a cut with what was read of it since.
    fn join(&mut self, named: &mut NameState, mut before: NameState) {
        let has_read = named.seen.protocol.is_some() || named.is_gathering() || named.has_name();
        if before.stage == Stage::Done || !has_read {
            self.forget(named);
            *named = before;
            return;
        }
        // The hello was in the packets that were read since: what it lacks is added. What comes
        // first in a flow stays: its protocol, its query, and what DNS had answered before it.
        let earlier = before.seen.found.as_deref().cloned().unwrap_or_default();
        self.find(&mut named.seen, |found| {
            let FlowNames { server_name, resolved, hello, query } = earlier;
            found.server_name = found.server_name.take().or(server_name);
            found.hello = found.hello.take().or(hello);
            found.query = query.or(found.query.take());
            found.resolved = resolved;
        });
        named.seen.protocol = before.seen.protocol.or(named.seen.protocol);
        self.forget(&mut before);
    }
}

impl NameState {
    fn has_name(&self) -> bool {
        let found = self.seen.found.as_ref();
        found.is_some_and(|found| found.server_name.is_some() || found.query.is_some())
    }
}
