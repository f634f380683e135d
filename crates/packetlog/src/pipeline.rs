//! From batches to the log: each packet is judged, looked up in the table in force, and kept.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use engine::Stage;
use packet::{Batch, Frame, HashSeed};

use crate::hindsight::{ChainHashes, Hindsight, HindsightCounts, Outlet, Plan};
use crate::judged::PacketVerdict;
use crate::policy::{Granularity, Keep, Sampler, Switch, Table};
use crate::reasons::Reason;

/// Who says what a packet is.
pub trait Judge {
    /// Clears `judged` and puts one judgement a record of the batch there, in order.
    fn judge(&mut self, batch: &Batch<'_>, judged: &mut Vec<PacketVerdict>);

    /// Why packets of that batch are marked that are newly so.
    fn reasons(&self) -> &[Reason] {
        &[]
    }
}

/// The outcome of a packet that was to be kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum KeepOutcome {
    /// It is in the log, or on its way there.
    Yes,
    /// There was no room; it is lost and counted.
    NoRoom,
}

/// Packets between saying that one comes and keeping it.
const AHEAD: usize = 8;

/// Who keeps packets.
pub trait Keeper {
    /// A packet will come soon: what is known of its flow may be asked for.
    #[inline]
    fn expect(&mut self, _: &PacketVerdict) {}

    /// Keeps the first `kept_len` bytes of a frame.
    fn keep(&mut self, frame: &Frame<'_>, kept_len: u32, judged: &PacketVerdict) -> KeepOutcome;

    /// A packet of which nothing is kept, by what the policy says.
    fn pass_over(&mut self, frame: &Frame<'_>, judged: &PacketVerdict);

    /// Keeps why a packet is marked that comes soon.
    fn explain(&mut self, _: &Reason) {}

    /// From here on packets are kept by this table.
    fn on_mode(&mut self, table: &Table);

    /// A batch has ended; on a silent link one comes as well.
    fn on_pause(&mut self);
}

/// The outcome of packets; read while they come.
#[derive(Debug, Default)]
pub struct Tally {
    /// Packets that came.
    pub seen: AtomicU64,
    /// Their bytes on the wire.
    pub seen_bytes: AtomicU64,
    /// Packets that were kept, whole or in part.
    pub kept: AtomicU64,
    /// Their bytes that were.
    pub kept_bytes: AtomicU64,
    /// Packets that the policy keeps nothing of.
    pub passed_over: AtomicU64,
    /// Packets for which the log had no room.
    pub no_room: AtomicU64,
    /// What hindsight did, where there is any.
    pub hindsight: Mutex<Option<HindsightCounts>>,
    /// Packets that were judged, by class: each when it is, while those of a log come by the block.
    judged: Box<[AtomicU64]>,
}

/// The same at one moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct TallyNow {
    /// As in [`Tally`].
    pub seen: u64,
    /// As in [`Tally`].
    pub seen_bytes: u64,
    /// As in [`Tally`].
    pub kept: u64,
    /// As in [`Tally`].
    pub kept_bytes: u64,
    /// As in [`Tally`].
    pub passed_over: u64,
    /// As in [`Tally`].
    pub no_room: u64,
    /// As in [`Tally`].
    pub hindsight: Option<HindsightCounts>,
}

impl Tally {
    fn of(class_count: usize) -> Self {
        Self { judged: (0..class_count).map(|_| AtomicU64::new(0)).collect(), ..Self::default() }
    }

    /// Packets that were judged to be of a class.
    #[must_use]
    pub fn judged(&self, class: usize) -> u64 {
        self.judged.get(class).map_or(0, |count| count.load(Ordering::Relaxed))
    }

    /// Adds numbers by class, which begin again at 0.
    fn add_judged(&self, more: &mut [u64]) {
        for (counter, more) in self.judged.iter().zip(more) {
            add(counter, std::mem::take(more));
        }
    }

    /// What it says now; while packets come the parts may be of neighbouring moments.
    #[must_use]
    pub fn now(&self) -> TallyNow {
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        TallyNow {
            seen: of(&self.seen),
            seen_bytes: of(&self.seen_bytes),
            kept: of(&self.kept),
            kept_bytes: of(&self.kept_bytes),
            passed_over: of(&self.passed_over),
            no_room: of(&self.no_room),
            hindsight: *self.hindsight.lock().unwrap_or_else(PoisonError::into_inner),
        }
    }

    fn add(&self, more: &TallyNow) {
        add(&self.seen, more.seen);
        add(&self.seen_bytes, more.seen_bytes);
        add(&self.kept, more.kept);
        add(&self.kept_bytes, more.kept_bytes);
        add(&self.passed_over, more.passed_over);
        add(&self.no_room, more.no_room);
        if more.hindsight.is_some() {
            *self.hindsight.lock().unwrap_or_else(PoisonError::into_inner) = more.hindsight;
        }
    }
}

/// One thread adds; others read.
fn add(counter: &AtomicU64, more: u64) {
    let sum = counter.load(Ordering::Relaxed).wrapping_add(more);
    counter.store(sum, Ordering::Relaxed);
}

impl TallyNow {
    /// Whether every packet that came is accounted for.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.seen == self.kept + self.passed_over + self.no_room + self.waiting()
    }

    /// Packets that wait for what comes after them; see [`Hindsight`].
    #[must_use]
    pub fn waiting(&self) -> u64 {
        self.hindsight.map_or(0, |counts| counts.waiting)
    }

    /// A packet is kept or passed over.
    #[inline]
    fn put(
        &mut self,
        keeper: &mut impl Keeper,
        frame: &Frame<'_>,
        judged: &PacketVerdict,
        kept_len: Option<u32>,
    ) {
        let Some(kept_len) = kept_len else {
            self.passed_over += 1;
            keeper.pass_over(frame, judged);
            return;
        };
        match keeper.keep(frame, kept_len, judged) {
            KeepOutcome::Yes => {
                self.kept += 1;
                self.kept_bytes += u64::from(kept_len);
            }
            KeepOutcome::NoRoom => self.no_room += 1,
        }
    }
}

/// The way of a packet into the log.
pub struct Pipeline<J, K> {
    judge: J,
    keeper: K,
    switch: Arc<Switch>,
    tally: Arc<Tally>,
    table: Arc<Table>,
    sampler: Sampler,
    judged: Vec<PacketVerdict>,
    /// Of the batch that is judged.
    by_class: Vec<u64>,
    hindsight: Option<Hindsight>,
}

impl<J: Judge, K: Keeper> Pipeline<J, K> {
    /// Begins with the table that is in the switch; `seed` chooses the flows that are sampled.
    pub fn new(judge: J, mut keeper: K, switch: Arc<Switch>, seed: HashSeed) -> Self {
        let table = switch.newer(0).unwrap_or_else(|| switch.table());
        switch.pause();
        keeper.on_mode(&table);
        let class_count = table.granularities.len();
        let sampler = Sampler::new(class_count, seed);
        let tally = Arc::new(Tally::of(class_count));
        let (judged, by_class) = (Vec::new(), vec![0; class_count]);
        Self { judge, keeper, switch, tally, table, sampler, judged, by_class, hindsight: None }
    }

    /// Packets wait before they are kept, for marks of their flow that come later.
    #[must_use]
    pub fn with_hindsight(self, hindsight: Option<Hindsight>) -> Self {
        Self { hindsight, ..self }
    }

    /// What becomes of packets.
    #[must_use]
    pub fn tally(&self) -> Arc<Tally> {
        Arc::clone(&self.tally)
    }

    /// No packet comes any more: none waits longer.
    pub fn finish(&mut self) {
        let Some(hindsight) = &mut self.hindsight else { return };
        let mut put = Put { sums: TallyNow::default(), keeper: &mut self.keeper };
        hindsight.release_all(&mut put);
        self.tally.add(&TallyNow { hindsight: Some(hindsight.counts()), ..put.sums });
    }

    /// Its parts, once no packet comes any more.
    pub fn into_parts(mut self) -> (J, K) {
        self.finish();
        (self.judge, self.keeper)
    }
}

impl<J: Judge, K: Keeper> Pipeline<J, K> {
    /// Takes up a table that was asked for, and judges the packets of a batch; [`keep`](Self::keep)
    /// has to follow, with the same batch.
    pub fn judge(&mut self, batch: &Batch<'_>) -> &[PacketVerdict] {
        if let Some(table) = self.switch.newer(self.table.generation) {
            // What waits was planned by the table before, and is written under its name.
            self.finish();
            self.keeper.on_mode(&table);
            self.table = table;
        }
        self.judge.judge(batch, &mut self.judged);
        for judged in &self.judged {
            if let Some(count) = self.by_class.get_mut(usize::from(judged.class)) {
                *count += 1;
            }
        }
        self.tally.add_judged(&mut self.by_class);
        for reason in self.judge.reasons() {
            self.keeper.explain(reason);
        }
        &self.judged
    }

    /// Keeps the packets that were judged, as the table in force says; or as `steer` does of those,
    /// by their place in the batch, of which it says anything.
    #[inline]
    pub fn keep(&mut self, batch: &Batch<'_>, mut steer: impl FnMut(usize) -> Option<Granularity>) {
        if let Some(mut hindsight) = self.hindsight.take() {
            self.keep_later(batch, steer, &mut hindsight);
            self.hindsight = Some(hindsight);
            self.keeper.on_pause();
            self.switch.pause();
            return;
        }
        let mut sums = TallyNow::default();
        for judged in self.judged.iter().take(AHEAD) {
            self.keeper.expect(judged);
        }
        for (at, (frame, judged)) in batch.frames().zip(&self.judged).enumerate() {
            if let Some(judged) = self.judged.get(at + AHEAD) {
                self.keeper.expect(judged);
            }
            sums.seen += 1;
            sums.seen_bytes += u64::from(frame.record.wire_len);
            let granularity = steer(at).unwrap_or_else(|| self.table.of(judged.class));
            let kept_len = kept_len(granularity, &mut self.sampler, &frame, judged);
            sums.put(&mut self.keeper, &frame, judged, kept_len);
        }
        self.tally.add(&sums);
        self.keeper.on_pause();
        self.switch.pause();
    }

    /// Likewise, of packets that wait first.
    fn keep_later(
        &mut self,
        batch: &Batch<'_>,
        mut steer: impl FnMut(usize) -> Option<Granularity>,
        hindsight: &mut Hindsight,
    ) {
        let (mut seen, mut seen_bytes) = (0, 0);
        let mut put = Put { sums: TallyNow::default(), keeper: &mut self.keeper };
        let mut coming = batch.frames().zip(&self.judged);
        let mut expect = |hindsight: &Hindsight| {
            let next = coming.next();
            next.map_or([None; 2], |(frame, judged)| hindsight.expect(&frame, judged))
        };
        let mut ahead: [ChainHashes; AHEAD] = std::array::from_fn(|_| expect(hindsight));
        for (at, (frame, judged)) in batch.frames().zip(&self.judged).enumerate() {
            let hashes = std::mem::replace(&mut ahead[at % AHEAD], expect(hindsight));
            seen += 1;
            seen_bytes += u64::from(frame.record.wire_len);
            let steered = steer(at);
            let granularity = steered.unwrap_or_else(|| self.table.of(judged.class));
            let plan = Plan {
                kept_len: kept_len(granularity, &mut self.sampler, &frame, judged),
                mark: (steered.is_some() || judged.class != 0).then_some(granularity),
                is_final: steered.is_some(),
            };
            hindsight.push(&frame, judged, hashes, plan, &mut put);
        }
        if let Some(time) = batch.tick {
            hindsight.tick(time, &mut put);
        }
        hindsight.give_over(&mut put);
        let hindsight = Some(hindsight.counts());
        self.tally.add(&TallyNow { seen, seen_bytes, hindsight, ..put.sums });
    }
}

/// Puts packets where they are kept, and counts them.
struct Put<'a, K> {
    sums: TallyNow,
    keeper: &'a mut K,
}

impl<K: Keeper> Outlet for Put<'_, K> {
    #[inline]
    fn expect(&mut self, judged: &PacketVerdict) {
        self.keeper.expect(judged);
    }

    #[inline]
    fn give(&mut self, frame: &Frame<'_>, judged: &PacketVerdict, kept_len: Option<u32>) {
        self.sums.put(self.keeper, frame, judged, kept_len);
    }
}

/// Bytes that are stored of a frame; nothing where the granularity or its sample leaves it out.
#[inline]
fn kept_len(
    granularity: Granularity,
    sampler: &mut Sampler,
    frame: &Frame<'_>,
    judged: &PacketVerdict,
) -> Option<u32> {
    let is_kept = granularity.keep != Keep::Nothing && sampler.takes(granularity.sample, judged);
    is_kept.then(|| granularity.kept_len(frame))
}

impl<J: Judge, K: Keeper> Stage for Pipeline<J, K> {
    fn on_batch(&mut self, batch: &Batch<'_>) {
        self.judge(batch);
        self.keep(batch, |_| None);
    }
}

#[cfg(test)]
mod tests {
    use packet::{Layers, Network, Record};

    use super::*;
    use crate::judged::Basis;
    use crate::policy::{KernelControl as _, Mode};

    /// Packets of the class that their first byte says.
    struct ByFirstByte;

    impl Judge for ByFirstByte {
        fn judge(&mut self, batch: &Batch<'_>, judged: &mut Vec<PacketVerdict>) {
            judged.clear();
            judged.extend(batch.frames().map(|frame| PacketVerdict {
                class: u16::from(frame.bytes[0]),
                confidence: 1.0,
                basis: Basis::Packet,
                flow: None,
            }));
        }
    }

    #[derive(Default)]
    struct Noted {
        kept: Vec<(u32, u16)>,
        passed_over: usize,
        modes: Vec<String>,
        room: usize,
    }

    impl Keeper for Noted {
        fn keep(&mut self, _: &Frame<'_>, kept_len: u32, judged: &PacketVerdict) -> KeepOutcome {
            if self.kept.len() == self.room {
                return KeepOutcome::NoRoom;
            }
            self.kept.push((kept_len, judged.class));
            KeepOutcome::Yes
        }
        fn pass_over(&mut self, _: &Frame<'_>, _: &PacketVerdict) {
            self.passed_over += 1;
        }
        fn on_mode(&mut self, table: &Table) {
            self.modes.push(table.mode.clone());
        }
        fn on_pause(&mut self) {}
    }

    fn frames(classes: &[u8]) -> (Vec<u8>, Vec<Record>) {
        let mut bytes = Vec::new();
        let records = classes.iter().map(|&class| {
            let offset = bytes.len() as u32;
            bytes.push(class);
            bytes.extend([0; 999]);
            let layers = Layers {
                network: Network::Ipv4,
                network_offset: 14,
                transport_offset: 34,
                payload_offset: 54,
                flags: Layers::TRANSPORT,
                ..Layers::default()
            };
            Record { offset, captured_len: 1000, wire_len: 1400, layers, ..Record::default() }
        });
        let records = records.collect();
        (bytes, records)
    }

    fn table(mode: &str) -> Vec<Granularity> {
        let classes = ["benign".to_owned(), "scan".to_owned()];
        let modes = Mode::recommended();
        modes.iter().find(|known| known.name == mode).unwrap().table(&classes).unwrap()
    }

    fn pipeline(mode: &str, room: usize) -> Pipeline<ByFirstByte, Noted> {
        let switch = Arc::new(Switch::new(mode, table(mode)));
        let noted = Noted { room, ..Noted::default() };
        Pipeline::new(ByFirstByte, noted, switch, HashSeed::new(1))
    }

    fn give(pipeline: &mut Pipeline<ByFirstByte, Noted>, classes: &[u8]) {
        let (bytes, records) = frames(classes);
        pipeline.on_batch(&Batch { bytes: &bytes, records: &records, tick: None });
    }

    #[test]
    fn each_class_is_kept_as_its_mode_says() {
        let mut pipeline = pipeline("default", usize::MAX);
        give(&mut pipeline, &[0, 1, 0]);
        let seven = pipeline.switch.ask("log-minimum", table("log-minimum"));
        give(&mut pipeline, &[0, 0, 1]);
        assert_eq!(pipeline.switch.in_force(), seven);
        let tally = pipeline.tally().now();
        assert!(tally.is_whole());
        assert_eq!((tally.seen, tally.kept, tally.passed_over), (6, 5, 1));
        assert_eq!(tally.seen_bytes, 6 * 1400);
        let (_, noted) = pipeline.into_parts();
        assert_eq!(noted.modes, ["default", "log-minimum"]);
        assert_eq!(noted.kept, [(54, 0), (1000, 1), (54, 0), (54, 0), (182, 1)]);
        assert_eq!(noted.passed_over, 1);
    }

    #[test]
    fn what_is_steered_is_kept_otherwise_than_its_class() {
        let mut pipeline = pipeline("log-minimum", usize::MAX);
        let (bytes, records) = frames(&[0, 1, 0, 1]);
        let batch = Batch { bytes: &bytes, records: &records, tick: None };
        let classes: Vec<_> = pipeline.judge(&batch).iter().map(|judged| judged.class).collect();
        assert_eq!(classes, [0, 1, 0, 1]);
        let nothing = Granularity { keep: Keep::Nothing, sample: None };
        pipeline.keep(&batch, |at| match at {
            0 => Some(Granularity::FULL),
            3 => Some(nothing),
            _ => None,
        });
        let tally = pipeline.tally().now();
        assert!(tally.is_whole());
        assert_eq!((tally.kept, tally.passed_over), (3, 1));
        let (_, noted) = pipeline.into_parts();
        assert_eq!(noted.kept, [(1000, 0), (182, 1), (54, 0)]);
    }

    #[test]
    fn what_finds_no_room_is_counted() {
        let mut pipeline = pipeline("log-all", 2);
        give(&mut pipeline, &[0, 1, 0, 1]);
        let tally = pipeline.tally().now();
        assert!(tally.is_whole());
        assert_eq!((tally.kept, tally.no_room, tally.kept_bytes), (2, 2, 2000));
    }
}
