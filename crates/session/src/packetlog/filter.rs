//! The filter of a search in a log.

use std::collections::BTreeMap;
use std::fmt;

use capture::filter::Program;
use capture::{Filter, FilterError};
use packet::LinkType;
use packetlog::log::PacketMatch;

/// A filter, compiled for each link type that is met.
pub struct SearchFilter {
    filter: Option<Filter>,
    programs: BTreeMap<u16, Program>,
}

impl fmt::Debug for SearchFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SearchFilter").field("filter", &self.filter).finish_non_exhaustive()
    }
}

impl SearchFilter {
    /// Of an expression (pcap-filter(7)); a blank one lets all packets pass.
    ///
    /// # Errors
    /// It is none.
    pub fn new(expression: &str) -> Result<Self, FilterError> {
        let is_blank = expression.trim().is_empty();
        let filter = if is_blank { None } else { Some(Filter::new(expression)?) };
        if let Some(filter) = &filter {
            // Before anything is read; nearly all there is is Ethernet.
            filter.compile(LinkType::ETHERNET)?;
        }
        Ok(Self { filter, programs: BTreeMap::new() })
    }

    /// Whether a packet passes.
    ///
    /// # Errors
    /// It has a link type for which the expression means nothing.
    pub fn passes(&mut self, found: &PacketMatch<'_>) -> Result<bool, FilterError> {
        let Some(filter) = &self.filter else { return Ok(true) };
        let link = found.record.link;
        let program = match self.programs.entry(link.0) {
            std::collections::btree_map::Entry::Occupied(known) => known.into_mut(),
            std::collections::btree_map::Entry::Vacant(new) => new.insert(filter.compile(link)?),
        };
        Ok(program.passes(found.bytes, found.record.wire_len))
    }
}
