//! Records to features.
//!
//! What a model sees of packets is made here and nowhere else, so that training and serving
//! cannot differ. This crate does no input or output and knows no flow table: it is given a frame
//! and writes what was asked for into bytes that its caller owns.
//!
//! - [`Layout`] says which headers there are and in which order, as nPrint has them;
//!   [`Subscription`] says which of their bits are wanted, of how many packets of a flow.
//! - [`Layout::fill`] copies a frame's headers into a compact record: their bytes, and one bit for
//!   each byte that says whether it was there.
//! - [`BitText`] and [`Subscription::values`] write such records as nPrint writes them.
//! - [`sequence`] keeps sizes, directions and gaps of a flow's first packets.
//! - [`first`] joins them: the features of a flow, and the one way from its frames to them.
//! - [`window`] does so for a flow in a window of time, again and again while it continues.
//! - [`trees`] scores compact records with decision trees, forests and boosted trees.
//! - [`conv`] scores sequences of numbers with small convolutional networks.
//! - [`encoder`] runs a small causal Transformer encoder token by token, and scores queries.
//! - [`numeric`] scores numbers of packets with small forests, many packets at a time.
//! - [`FeatureSchema`] names all of it, in order, with a hash that a model carries.
//!
//! What each of them means to the bit stands in `docs/specs/feature-schema.md`, the
//! files of trees in `docs/specs/trees.md`, tensors of an encoder in `docs/specs/encoder.md`.

#![deny(unsafe_code)]

pub mod block;
pub mod conv;
pub mod device;
pub mod encoder;
mod fill;
pub mod first;
pub mod identity;
pub mod layout;
pub mod numeric;
#[cfg(feature = "onnx")]
pub mod onnx;
mod path;
pub mod schema;
pub mod sequence;
#[allow(unsafe_code)]
mod simd;
pub mod subscription;
pub mod sums;
pub mod text;
pub mod trees;
pub mod window;

pub use block::{BLOCK_COUNT, Block};
pub use conv::{ConvError, ConvNet, ConvScratch, Convolution};
pub use device::Device;
pub use encoder::{
    Dense, Encoder, EncoderError, EncoderShape, EncoderState, Head, HeadScratch, HeadTrainer,
};
pub use first::{FeaturesError, FirstPackets, FlowFeatures, Number};
pub use identity::Identity;
pub use layout::{Layout, PAYLOAD_LEN_MAX, PLAIN_RECORD_LEN};
pub use numeric::{NumericError, NumericForest, TreeArrays};
pub use schema::{Arrangement, DataType, FeatureSchema, Headers};
pub use sequence::{FirstSteps, Step};
pub use subscription::{DEPTH_MAX, Subscription, SubscriptionError, SubscriptionRequest};
pub use text::BitText;
pub use trees::{Forest, ForestError, Rows};
pub use window::{WindowError, WindowFeatures, WindowNumber, WindowPackets};
