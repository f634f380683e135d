//! Flows that were cut by their age or by a window, and continue as another row.
//!
//! The table reports the end of a flow after it has shown the packet that cuts it. So a flow that
//! begins without a SYN may have read some packets of its own when the end of its earlier part is
//! reported.

use engine::flow::FlowRecord;
use packet::{FlowKey, Timestamp};

use super::{NameState, Reader, Stage};
use crate::found::FlowNames;

/// What was read of a flow until it was cut.
#[derive(Debug)]
pub(super) struct Cut {
    pub(super) named: NameState,
    last: Timestamp,
}

impl Reader {
    /// Keeps what was read of a flow for its next part. It stays counted until that begins or it
    /// is forgotten.
    pub(super) fn keep_cut(&mut self, named: &mut NameState, record: &FlowRecord) {
        let cut = Cut { named: named.clone(), last: record.last };
        let mut forgotten = Vec::new();
        let before = self.cut.insert(record.key, cut, |old| forgotten.push(old));
        for mut old in forgotten.into_iter().chain(before) {
            self.forget(&mut old.named);
        }
        // What is put together is the next part's.
        named.gathering = [None; 2];
    }

    /// Continues with a flow that was cut; whether there is one.
    pub(super) fn go_on(&mut self, named: &mut NameState, key: &FlowKey, first: Timestamp) -> bool {
        let Some(Cut { named: mut before, last }) = self.cut.take(key) else { return false };
        if first.since(last) >= self.limits.idle_timeout {
            self.forget(&mut before);
            return false;
        }
        let has_read = named.seen.protocol.is_some() || named.is_gathering() || named.has_name();
        if before.stage == Stage::Done || !has_read {
            self.forget(named);
            *named = before;
            named.may_go_on = false;
            return true;
        }
        // The hello was in the packets that were read since: what it lacks is added.
        let protocol = named.seen.protocol.or(before.seen.protocol);
        let earlier = before.seen.found.clone();
        self.find(&mut named.seen, |found| {
            let Some(earlier) = earlier else { return };
            let FlowNames { server_name, resolved, hello, query } = (*earlier).clone();
            found.server_name = found.server_name.take().or(server_name);
            found.resolved = found.resolved.take().or(resolved);
            found.hello = found.hello.take().or(hello);
            found.query = found.query.take().or(query);
        });
        named.seen.protocol = protocol;
        named.may_go_on = false;
        self.forget(&mut before);
        true
    }
}

impl NameState {
    fn has_name(&self) -> bool {
        let found = self.seen.found.as_ref();
        found.is_some_and(|found| found.server_name.is_some() || found.query.is_some())
    }
}
