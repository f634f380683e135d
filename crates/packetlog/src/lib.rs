//! Keeps each packet at the granularity that it deserves, and finds it again.
//!
//! Every packet is judged ([`Judged`]): what class of traffic it is of, and how sure that is. A
//! [`policy`] says how much of a packet of that class is kept.

#![deny(unsafe_code)]

pub mod index;
pub mod judged;
pub mod log;
pub mod manager;
pub mod pipeline;
pub mod policy;
pub mod recorder;
mod uring;

pub use judged::{Basis, Judged};
