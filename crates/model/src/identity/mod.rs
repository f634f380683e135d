//! What of a packet may be a feature where a model must not know units and networks.
//!
//! A model that is to tell a product must not learn the unit that it was trained on. So under
//! [`Identity::Masked`] a record holds only fields that this module lists: whatever is not listed
//! is absent, also of protocols that it does not know. It is a list of what stays, since one of
//! what goes is never complete.
//!
//! - [`headers`]: addresses, ports, ids, checksums, sequence numbers, stamps, echoed data go; hop
//!   counts are rounded up to what hosts begin with.
//! - [`payload`]: of known protocols the fields that every unit of a product fills in alike, in an
//!   order of their own, so that a name's length moves nothing behind it.
//! - [`port`]: ports from the dynamic range are one.
//!
//! The name of the rule is part of the schema and of its hash: another rule has another name.

mod dhcp;
mod dns;
pub(crate) mod headers;
mod http;
pub(crate) mod payload;
#[cfg(test)]
mod tests;
mod tls;

/// Whether features may tell units and networks.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Identity {
    /// Header and payload bytes as the packet has them.
    #[default]
    Kept,
    /// Only fields that are the same for every unit of a product, in every network.
    Masked,
}

/// The first port that systems give out to clients: Linux begins here, IANA's range at 49,152.
const DYNAMIC_PORT_MIN: u16 = 32_768;

impl Identity {
    /// Both, the default first.
    pub const ALL: [Self; 2] = [Self::Kept, Self::Masked];

    /// The name in options and files.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Kept => "kept",
            Self::Masked => "masked",
        }
    }

    /// The one of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|identity| identity.name() == name)
    }

    /// What the schema's text says of it; nothing of [`Kept`](Self::Kept), as before there was a
    /// choice. The number changes with any change of the rule.
    #[must_use]
    pub const fn schema_line(self) -> Option<&'static str> {
        match self {
            Self::Kept => None,
            Self::Masked => Some("identity masked 1"),
        }
    }

    /// A port as a feature: those that are given out at random are one.
    #[inline]
    #[must_use]
    pub fn port(self, port: u16) -> u16 {
        match self {
            Self::Kept => port,
            Self::Masked => port.min(DYNAMIC_PORT_MIN),
        }
    }
}

/// A block of a record, written from its first byte on. What does not fit is dropped.
pub(crate) struct View<'a> {
    data: &'a mut [u8],
    presence: &'a mut [u8],
    /// The byte of the record that is written next, and the first behind the block.
    at: usize,
    end: usize,
}

impl<'a> View<'a> {
    pub(crate) const fn new(
        data: &'a mut [u8],
        presence: &'a mut [u8],
        at: usize,
        len: usize,
    ) -> Self {
        Self { data, presence, at, end: at + len }
    }

    /// Whether more can be written.
    pub(crate) const fn is_full(&self) -> bool {
        self.at >= self.end
    }

    /// Writes bytes that are features.
    pub(crate) fn keep(&mut self, bytes: &[u8]) {
        let Some(room) = self.data.get_mut(self.at..self.end) else { return };
        let len = bytes.len().min(room.len());
        for (to, &from) in room.iter_mut().zip(bytes) {
            *to = from;
        }
        self.mark(len);
    }

    /// Says of so many bytes that they are there, a byte of eight together.
    fn mark(&mut self, len: usize) {
        let end = self.at + len;
        while self.at < end {
            let shift = self.at % 8;
            let count = (8 - shift).min(end - self.at);
            if let Some(presence) = self.presence.get_mut(self.at / 8) {
                *presence |= (u8::MAX << (8 - count)) >> shift;
            }
            self.at += count;
        }
    }

    /// Leaves out so many bytes: they are absent.
    pub(crate) const fn hide(&mut self, count: usize) {
        self.at = self.at.saturating_add(count);
        if self.at > self.end {
            self.at = self.end;
        }
    }

    /// Writes each byte that is a feature and leaves out the others.
    pub(crate) fn filter(&mut self, bytes: impl Iterator<Item = (u8, bool)>) {
        for (byte, is_kept) in bytes {
            if self.is_full() {
                return;
            }
            if is_kept {
                self.keep(&[byte]);
            } else {
                self.hide(1);
            }
        }
    }
}

/// A part of what was captured; what lies behind its end is not there.
pub(crate) fn part(bytes: &[u8], start: usize, len: usize) -> &[u8] {
    let end = start.saturating_add(len).min(bytes.len());
    bytes.get(start..end).unwrap_or_default()
}

/// Two bytes, the higher first.
pub(crate) fn word(bytes: &[u8], at: usize) -> Option<u16> {
    let pair = bytes.get(at..)?.first_chunk::<2>()?;
    Some(u16::from_be_bytes(*pair))
}
