//! Bytes to record.
//!
//! This crate reads headers, names flows and decodes capture files. It does no
//! input or output and never asks for the time: bytes come in, small values go
//! out, and every way in which bytes can be wrong has a name that is counted.
//!
//! - [`Record`] says when a frame was seen, how long it was and where its
//!   headers lie; [`Batch`] lends records together with their bytes.
//! - [`dissect`](dissect::dissect) finds the headers of one frame;
//!   [`wire`] holds one file per protocol.
//! - [`file`] decodes and encodes pcap and pcapng, without any I/O.
//! - [`FlowKey`] names a conversation; [`community_id`] names it for others.
//! - [`EcnControl`] lets an application change what the kernel does to packets, without
//!   seeing how.

#![forbid(unsafe_code)]

pub mod batch;
pub mod community_id;
pub mod cut_note;
pub mod cut_tcp;
pub mod dissect;
pub mod duration;
pub mod ecn_control;
pub mod event_time;
pub mod file;
pub mod flow_key;
pub mod flow_slot;
pub mod hash;
pub mod layers;
pub mod link;
pub mod malformed;
pub mod must;
pub mod prehashed;
pub mod reach;
pub mod record;
pub mod tap_slot;
pub mod time;
pub mod when;
pub mod wire;

pub use batch::{BATCH_LEN_MAX, Batch, Frame, Source};
pub use cut_note::CutNote;
pub use cut_tcp::CutTcp;
pub use ecn_control::{EcnControl, EcnFlowCounts, EcnRefusal, OneWayFlow};
pub use event_time::{EventTime, TimeMove};
pub use flow_key::{FlowDirection, FlowKey};
pub use flow_slot::FlowSlot;
pub use hash::{HashSeed, KeyHash};
pub use layers::{Layers, Network, Protocol, Tunnel};
pub use link::LinkType;
pub use malformed::{Malformed, MalformedCounts};
pub use must::must;
pub use record::{Direction, Record};
pub use tap_slot::{SlotClock, TapSlot};
pub use time::{Span, Timestamp};
