//! Cascades of hand-written trees: what is read, what is refused, and what is said of flows.

#![allow(clippy::unwrap_used)]

mod artifact;
mod beside;
mod build;
mod drift;
mod elsewhere;
mod frames;
mod serving;
mod sums;
mod windows;
