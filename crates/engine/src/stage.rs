//! What runs on packets.

use packet::Batch;

/// Something that sees every batch and runs to completion on it.
///
/// One method is required. A stage belongs to one thread while it runs; what
/// it keeps is its own. It never asks for the time: time is in the records.
///
/// ```
/// use engine::{Fold, Stage, run::{Control, run}};
/// use packet::{Batch, Network, Record, Source};
///
/// /// How many frames carried IPv6, and their bytes on the wire.
/// #[derive(Default)]
/// struct Ipv6Share { packets: u64, bytes: u64 }
///
/// impl Stage for Ipv6Share {
///     fn on_batch(&mut self, batch: &Batch<'_>) {
///         for frame in batch.frames().filter(|f| f.record.layers.network == Network::Ipv6) {
///             self.packets += 1;
///             self.bytes += u64::from(frame.record.wire_len);
///         }
///     }
/// }
///
/// // Needed only to run on several threads: how two halves become a whole.
/// impl Fold for Ipv6Share {
///     fn fold(&mut self, other: Self) {
///         self.packets += other.packets;
///         self.bytes += other.bytes;
///     }
/// }
///
/// # struct Empty;
/// # impl Source for Empty { fn next_batch(&mut self) -> Option<Batch<'_>> { None } }
/// # let sources = vec![Empty, Empty];
/// let finished = run(sources, 2, Ipv6Share::default, &Control::default());
/// println!("{} IPv6 packets", finished.stage.packets);
/// ```
pub trait Stage {
    /// Takes in some frames. They are lent: copy what must outlive the call.
    fn on_batch(&mut self, batch: &Batch<'_>);

    /// From here on batches are of another source, by its place among all. Where packets are
    /// dealt with in any order, this is how a stage knows which came first.
    #[inline]
    fn on_source(&mut self, _index: usize) {}
}

/// A stage whose parts, run on different pieces of the same traffic in any
/// order, add up to what one stage would have found on all of it.
pub trait Fold: Sized {
    /// Takes in what another part found.
    fn fold(&mut self, other: Self);
}

/// Two stages on the same batches.
impl<A: Stage, B: Stage> Stage for (A, B) {
    #[inline]
    fn on_batch(&mut self, batch: &Batch<'_>) {
        self.0.on_batch(batch);
        self.1.on_batch(batch);
    }

    fn on_source(&mut self, index: usize) {
        self.0.on_source(index);
        self.1.on_source(index);
    }
}

impl<A: Fold, B: Fold> Fold for (A, B) {
    fn fold(&mut self, other: Self) {
        self.0.fold(other.0);
        self.1.fold(other.1);
    }
}
