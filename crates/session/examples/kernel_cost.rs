//! What the program in the kernel that classifies packets takes for each of them, in runs of the
//! kernel's own: `kernel_cost MODEL CAPTURE`. After each an ARP frame, which the program leaves as
//! it is: what that takes is nearly all of it the measurement. A line of JSON, which
//! `bench/speed/packetlog/kernel.py` keeps. Root.
#![allow(clippy::print_stdout, clippy::cast_precision_loss)]

use std::error::Error;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use capture::input::Input;
use capture::open::open;
use capture::reading::ReadOptions;
use capture::tap::{CUT_CLASSES_MAX, CutModel, CutTable, PacketCutter};
use packet::dissect::DissectOptions;
use packet::{HashSeed, Source as _};
use packetlog::integer::{IntegerModel, IntegerOptions};
use serde_json::json;
use session::packetlog::read_model;

const FRAMES_MAX: usize = 2_000;
const ARP_LEN: usize = 60;

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [model, capture] = words.as_slice() else {
        return Err("wanted: kernel_cost MODEL CAPTURE".into());
    };
    let model = read_model(Path::new(model))?.model;
    let integer = IntegerModel::new(&model, IntegerOptions::Kernel)?;
    let tables = integer.for_kernel()?;
    let model = CutModel {
        bytes: &tables.bytes,
        layers: tables.layers,
        buckets: tables.buckets,
        window: tables.window,
        seed: HashSeed::new(5),
        secret: 1,
    };
    // Headers are left.
    let table = CutTable { generation: 1, payload: [Some(0); CUT_CLASSES_MAX] };
    let mut cutter = PacketCutter::load(&model, &table)?;
    let options = ReadOptions {
        dissect: DissectOptions::default(),
        filter: None,
        snaplen: u32::MAX,
        progress: Arc::default(),
        stop: Arc::new(AtomicBool::new(false)),
    };
    let mut source = open(&Input::File(capture.into()), &options)?;
    let (mut costs, mut of_arp) = (Vec::new(), 0);
    let mut arp = [0; ARP_LEN];
    arp[..14].copy_from_slice(&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 6]);
    while let Some(batch) = source.next_batch() {
        for frame in batch.frames().take(FRAMES_MAX - costs.len()) {
            let time = frame.record.timestamp.as_ns();
            costs.push(cutter.try_frame(frame.bytes, time)?.1);
            of_arp += cutter.try_frame(&arp, time)?.1;
        }
        if costs.len() == FRAMES_MAX {
            break;
        }
    }
    costs.sort_unstable();
    let of = |hundredth: usize| costs.get(costs.len() * hundredth / 100).copied();
    let judged = cutter.control().counts();
    println!(
        "{}",
        json!({
            "frames": costs.len(),
            "judged_share": judged.judged as f64 / costs.len().max(1) as f64,
            "mean_ns": costs.iter().sum::<u64>() as f64 / costs.len().max(1) as f64,
            "arp_ns": of_arp as f64 / costs.len().max(1) as f64,
            "median_ns": of(50),
            "p99_ns": of(99),
        })
    );
    Ok(())
}
