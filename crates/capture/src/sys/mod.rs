//! Every system call, every foreign call, every unsafe block of this crate.

pub mod interruptible;
pub mod libpcap;
pub mod mapping;
pub mod prefetch;
