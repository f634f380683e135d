//! Cuts packets where the driver hands them over, by their class: `bpf/cut.bpf.c`, an XDP program.
//!
//! What is cut is cut for all who listen on the interface, and for the machine itself: it is for
//! interfaces that carry mirrored traffic alone. The program is held by this process: when it ends,
//! however it does, packets come as they are. It takes Linux 6.6.

use std::fmt;
use std::os::fd::AsFd as _;
use std::sync::Arc;

use aya::maps::{Map, XskMap};
use aya::programs::{Xdp, XdpMode};
use aya::{Ebpf, EbpfLoader, TestRun as _, TestRunOptions, include_bytes_aligned};
use packet::{CutNote, HashSeed, Span};

use super::attach::{Attaching, MISSING, TapError, in_one_line};
use crate::live::HandOver;
use crate::sys::clock;
use crate::sys::interfaces;
use crate::sys::shared_array::SharedArray;

/// Built from the source next to it by `make bpf`.
const OBJECT: &[u8] = include_bytes_aligned!("../../bpf/cut.bpf.o");

/// Classes that the program distinguishes at most.
pub const CUT_CLASSES_MAX: usize = 8;
/// Hosts and flows are kept apart by so many kinds of keys.
const KEYS: u32 = 3;

// Places in `struct control`, bytes from its beginning.
const CLOCK_AT: usize = 40;
const TABLE_IN_FORCE_AT: usize = 56;
const MODEL_IN_FORCE_AT: usize = 60;
const TABLES_AT: usize = 64;
const TABLE_LEN: usize = 8 + 4 * CUT_CLASSES_MAX;
const HANDS_OVER_AT: usize = TABLES_AT + 2 * TABLE_LEN;
const CONTROL_LEN: usize = HANDS_OVER_AT + 8;
/// In place of bytes of payload.
const KEEP_ALL: u32 = u32::MAX;
/// Counters of one processor.
const COUNTS_LEN: usize = 16 * 8;

/// How a program in the kernel classifies.
#[derive(Clone, Copy, Debug)]
pub struct CutModel<'a> {
    /// Tables, as `struct model` of `bpf/cut.h` has them.
    pub bytes: &'a [u8],
    /// Layers of each sketch.
    pub layers: usize,
    /// Buckets of a layer, a power of two.
    pub buckets: usize,
    /// Sums begin again after so long.
    pub window: Span,
    /// Spreads keys.
    pub seed: HashSeed,
    /// Signs notes.
    pub secret: u64,
}

/// How much is left of packets, by class.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CutTable {
    /// Its number, from which a reader knows by which table a packet was cut.
    pub generation: u32,
    /// Bytes of payload; nothing where all are left.
    pub payload: [Option<u32>; CUT_CLASSES_MAX],
}

/// Where the program runs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum CutPlace {
    /// In the driver.
    Driver,
    /// In the network stack, since the driver refuses it for this reason: a packet is copied first.
    Stack(String),
}

/// The outcome of packets that came to the program.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CutCounts {
    /// All of them.
    pub seen: u64,
    /// Classified, and cut by their class.
    pub judged: u64,
    /// Left whole: neither IPv4 nor IPv6 over Ethernet.
    pub other_network: u64,
    /// Left whole: headers that only user space reads, such as fragments, tunnels and faults.
    pub other_header: u64,
    /// Left whole: neither TCP nor UDP.
    pub other_transport: u64,
    /// Left whole: longer than a packet of the usual MTU.
    pub long: u64,
    /// Classified, and left whole without a verdict: no room in front of the frame.
    pub no_room: u64,
    /// Keys of packets for which a sketch had no bucket.
    pub refused: u64,
    /// Bytes of the packets that were classified.
    pub bytes: u64,
    /// Those of them that were cut.
    pub cut_bytes: u64,
    /// Of a receive queue without the socket to which frames are handed over: they went up the
    /// network stack.
    pub other_queue: u64,
}

/// A program that cuts, at the interfaces that it is attached to, and its tables.
pub struct PacketCutter {
    ebpf: Ebpf,
    control: Arc<CutControl>,
}

/// What can be changed while packets come, without a call into the kernel.
pub struct CutControl {
    control: SharedArray,
    models: SharedArray,
    counts: SharedArray,
    model_len: usize,
    processors: usize,
}

impl PacketCutter {
    /// Loads the program with its tables; nothing passes it before it is attached.
    ///
    /// # Errors
    /// It takes `CAP_BPF` and `CAP_NET_ADMIN`, and a model of the program's length.
    pub fn load(model: &CutModel<'_>, table: &CutTable) -> Result<Self, TapError> {
        let loading = || -> Result<Self, Attaching> {
            let layer = u32::try_from(model.buckets).unwrap_or(u32::MAX).next_power_of_two();
            let layers = u32::try_from(model.layers).unwrap_or(u32::MAX);
            let processors = aya::util::nr_cpus().map_err(|(_, error)| error)?;
            let mut ebpf = EbpfLoader::new()
                .map_max_entries("BUCKETS", KEYS.saturating_mul(layers).saturating_mul(layer))
                .map_max_entries("COUNTS", u32::try_from(processors).unwrap_or(u32::MAX))
                .load(OBJECT)?;
            program(&mut ebpf)?.load()?;
            let model_len = model.bytes.len();
            let control = CutControl {
                control: shared(&ebpf, "CONTROL", CONTROL_LEN)?,
                models: shared(&ebpf, "MODELS", 2 * model_len)?,
                counts: shared(&ebpf, "COUNTS", processors * COUNTS_LEN)?,
                model_len,
                processors,
            };
            let [first, second] = model.seed.halves();
            let ahead = clock::realtime_ahead().as_ns().cast_unsigned();
            let window = model.window.as_ns().cast_unsigned();
            let words = [first, second, model.secret, window, ahead, 0];
            let words: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
            control.control.write(0, &words);
            let sizes = [layers.to_ne_bytes(), (layer - 1).to_ne_bytes()].concat();
            control.control.write(CLOCK_AT + 8, &sizes);
            control.put_model(model.bytes);
            control.put_table(table);
            Ok(Self { ebpf, control: Arc::new(control) })
        };
        loading().map_err(|error| error.named("cut"))
    }

    /// Attaches to what an interface of the calling thread's network namespace receives; where its
    /// driver has no place for it, to the network stack.
    ///
    /// # Errors
    /// It takes such an interface, at which no other XDP program is.
    pub fn attach(&mut self, device: &str) -> Result<CutPlace, TapError> {
        let mut attaching = || -> Result<CutPlace, Attaching> {
            interfaces::index(device)?;
            let program = program(&mut self.ebpf)?;
            let Err(refusal) = program.attach(device, XdpMode::Driver) else {
                return Ok(CutPlace::Driver);
            };
            program.attach(device, XdpMode::Skb)?;
            Ok(CutPlace::Stack(in_one_line(&refusal)))
        };
        attaching().map_err(|error| error.named(device))
    }

    /// Has frames handed over to the socket of an interface that was opened for it, in place of
    /// the network stack; before the program is attached there.
    ///
    /// # Errors
    /// The system's; no interface was opened for it.
    pub fn hand_over(&mut self, hand_over: &HandOver) -> Result<(), TapError> {
        let mut handing = || -> Result<(), Attaching> {
            let socket = hand_over.take().ok_or(MISSING)?;
            let queues = self.ebpf.map_mut("QUEUES").ok_or(MISSING)?;
            // The map keeps the socket for as long as its reader does.
            XskMap::try_from(queues)?.set(0, socket, 0)?;
            self.control.control.publish(HANDS_OVER_AT, 1);
            Ok(())
        };
        handing().map_err(|error| error.named("cut"))
    }

    /// What can be changed, and read, from now on.
    #[must_use]
    pub fn control(&self) -> Arc<CutControl> {
        Arc::clone(&self.control)
    }

    /// Has the program take in a frame as if it had come at this time; returns what is left of it,
    /// and the nanoseconds that it took. Once: the kernel would run it again on what was left.
    ///
    /// # Errors
    /// The system's.
    pub fn try_frame(&mut self, frame: &[u8], time_ns: i64) -> Result<(Vec<u8>, u64), TapError> {
        self.control.control.write(CLOCK_AT, &time_ns.to_ne_bytes());
        let mut left = vec![0; frame.len() + CutNote::LEN];
        let mut trying = || -> Result<(usize, u128), Attaching> {
            let options = TestRunOptions {
                data_in: Some(frame),
                data_out: Some(&mut left),
                repeat: 1,
                ..TestRunOptions::default()
            };
            let done = program(&mut self.ebpf)?.test_run(options)?;
            Ok((done.data_size_out as usize, done.duration.as_nanos()))
        };
        let (len, ns) = trying().map_err(|error| error.named("cut"))?;
        left.truncate(len);
        Ok((left, u64::try_from(ns).unwrap_or(u64::MAX)))
    }
}

impl CutControl {
    /// From the next packet on packets are cut by this table.
    pub fn put_table(&self, table: &CutTable) {
        let next = u32::from_ne_bytes(self.control.read(TABLE_IN_FORCE_AT)) & 1 ^ 1;
        let mut bytes = [table.generation.to_ne_bytes(), [0; 4]].concat();
        for payload in table.payload {
            bytes.extend(payload.unwrap_or(KEEP_ALL).to_ne_bytes());
        }
        self.control.write(TABLES_AT + next as usize * TABLE_LEN, &bytes);
        self.control.publish(TABLE_IN_FORCE_AT, next);
    }

    /// From the next packet on packets are classified by these tables, of the same sketches.
    pub fn put_model(&self, bytes: &[u8]) {
        let next = u32::from_ne_bytes(self.control.read(MODEL_IN_FORCE_AT)) & 1 ^ 1;
        let len = bytes.len().min(self.model_len);
        self.models.write(next as usize * self.model_len, bytes.get(..len).unwrap_or(bytes));
        self.control.publish(MODEL_IN_FORCE_AT, next);
    }

    /// The outcome of packets so far.
    #[must_use]
    pub fn counts(&self) -> CutCounts {
        let sum = |at: usize| {
            let of = |processor: usize| {
                u64::from_ne_bytes(self.counts.read(processor * COUNTS_LEN + 8 * at))
            };
            (0..self.processors).map(of).fold(0, u64::wrapping_add)
        };
        CutCounts {
            seen: sum(0),
            judged: sum(1),
            other_network: sum(2),
            other_header: sum(3),
            other_transport: sum(4),
            long: sum(5),
            no_room: sum(6),
            refused: sum(7),
            bytes: sum(8),
            cut_bytes: sum(9),
            other_queue: sum(10),
        }
    }
}

fn program(ebpf: &mut Ebpf) -> Result<&mut Xdp, Attaching> {
    Ok(ebpf.program_mut("cut").ok_or(MISSING)?.try_into()?)
}

fn shared(ebpf: &Ebpf, name: &str, len: usize) -> Result<SharedArray, Attaching> {
    let (Map::Array(data) | Map::Unsupported(data)) = ebpf.map(name).ok_or(MISSING)? else {
        return Err(MISSING);
    };
    Ok(SharedArray::new(data.fd().as_fd(), len)?)
}

impl fmt::Debug for PacketCutter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PacketCutter").finish_non_exhaustive()
    }
}

impl fmt::Debug for CutControl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CutControl").field("counts", &self.counts()).finish_non_exhaustive()
    }
}
