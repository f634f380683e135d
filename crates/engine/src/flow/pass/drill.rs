//! Faults that are made on purpose, to see what one does.

use super::labels::Labels;
use super::lens::{Lens, Piece};

/// A panic at a packet of a lens: it takes in those before it in the piece, as a lens does that
/// panics by itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Drill {
    /// The number of the packet, from 1, among those that the lens is lent.
    pub packet: u64,
    /// Whether each later packet is one as well.
    pub repeats: bool,
    taken_in: u64,
}

impl Drill {
    /// At this packet; each lens counts its own.
    #[must_use]
    pub const fn at(packet: u64, repeats: bool) -> Self {
        Self { packet, repeats, taken_in: 0 }
    }

    pub(super) fn on_piece<L: Lens + ?Sized>(
        &mut self,
        lens: &mut L,
        piece: &Piece<'_>,
        labels: &mut Labels,
    ) {
        let before = self.taken_in;
        self.taken_in += piece.packet_count() as u64;
        let is_due = self.packet <= self.taken_in && (self.repeats || self.packet > before);
        if is_due {
            self.fail(before, lens, piece, labels);
        } else {
            lens.on_piece(piece, labels);
        }
    }

    fn fail<L: Lens + ?Sized>(
        self,
        before: u64,
        lens: &mut L,
        piece: &Piece<'_>,
        labels: &mut Labels,
    ) {
        // Far below 2^32, as a piece is.
        let at = usize::try_from(self.packet.saturating_sub(before + 1)).unwrap_or(usize::MAX);
        lens.on_piece(&piece.first(at), labels);
        let failing = before + at as u64 + 1;
        // The one assertion that is to fail: always where it is reached.
        assert!(failing <= before, "drill: a fault was asked for at packet {failing}");
    }
}
