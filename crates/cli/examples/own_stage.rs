//! A question of your own, answered from every packet of a capture:
//!
//! `cargo run --release -p wirelens --example own_stage -- testdata/demo.pcapng`
//!
//! Copy this file, change the stage. It runs on every core, and its answer
//! does not depend on how many there are.

#![forbid(unsafe_code)]
#![allow(clippy::print_stdout)]

use capture::{Input, OpenError, ReadOptions, open, split::split};
use engine::run::{Control, run};
use engine::{Fold, Stage};
use packet::wire::tcp::{Tcp, TcpFlags};
use packet::{Batch, Layers, Protocol};

/// How many connections were asked for, and how many were refused or cut off.
#[derive(Default)]
struct Handshakes {
    syn: u64,
    syn_ack: u64,
    rst: u64,
}

impl Stage for Handshakes {
    fn on_batch(&mut self, batch: &Batch<'_>) {
        for frame in batch.frames() {
            let layers = &frame.record.layers;
            if layers.protocol != Protocol::TCP || !layers.has(Layers::TRANSPORT) {
                continue;
            }
            let Ok(tcp) = Tcp::new(frame.from_offset(layers.transport_offset)) else { continue };
            let flags = tcp.flags();
            let has = |flag| flags.contains(flag);
            self.syn += u64::from(has(TcpFlags::SYN) && !has(TcpFlags::ACK));
            self.syn_ack += u64::from(has(TcpFlags::SYN) && has(TcpFlags::ACK));
            self.rst += u64::from(has(TcpFlags::RST));
        }
    }
}

impl Fold for Handshakes {
    fn fold(&mut self, other: Self) {
        self.syn += other.syn;
        self.syn_ack += other.syn_ack;
        self.rst += other.rst;
    }
}

fn main() -> Result<(), OpenError> {
    let path = std::env::args_os().nth(1).unwrap_or_else(|| "testdata/demo.pcapng".into());
    let source = open(&Input::File(path.into()), &ReadOptions::default())?;
    // Parts of a large file go to different threads; see `capture::split` for
    // what a program that must be exact checks afterwards.
    let sources = split(source, 8);
    let Handshakes { syn, syn_ack, rst } =
        run(sources, 2, Handshakes::default, &Control::default()).stage;
    println!("{syn} SYN, {syn_ack} SYN-ACK, {rst} RST");
    Ok(())
}
