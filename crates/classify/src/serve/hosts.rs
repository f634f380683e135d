//! What is remembered of hosts, and what is said of them, where the cascade has a memory.

use super::{Classifier, Clock, TakeVerdicts};
use crate::host::HostVerdict;
use crate::memory::Memory;

impl<C: Clock, O: TakeVerdicts> Classifier<C, O> {
    /// From here on also hands over verdicts on hosts, where the cascade remembers any. The last
    /// one of a host, at the latest at the end, is the verdict on it.
    pub fn note_hosts(&mut self) {
        if let Some(memory) = &mut self.memory {
            memory.note_hosts(&self.cascade);
            self.notes_hosts = true;
        }
    }

    /// What is said of the hosts that are remembered, most flows first, where they are
    /// [noted](Self::note_hosts).
    #[must_use]
    pub fn hosts(&self) -> Vec<HostVerdict> {
        self.memory.as_ref().map(Memory::verdicts).unwrap_or_default()
    }

    /// Remembers what was decided since the last mark.
    pub(super) fn remember(&mut self, is_last: bool) {
        let Self { memory: Some(memory), unremembered, .. } = self else { return };
        // Sums depend on the order.
        unremembered.sort_by_key(|(verdict, _)| verdict.order());
        for (verdict, own) in unremembered.drain(..) {
            let host = verdict.key.endpoints(verdict.direction).0.address;
            if host.is_unspecified() {
                // Whoever has no address yet sends from it.
                continue;
            }
            memory.add(host, verdict.first, verdict.decided, &own);
        }
        if self.notes_hosts {
            self.output.take_hosts(&memory.take_verdicts(is_last));
        }
    }
}
