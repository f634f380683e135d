//! Every system call and every unsafe block of this crate.
//!
//! With `libc`, which is in every build already, and not with a crate that wraps it: `rustix`
//! has `ppoll`, but neither `SCHED_FIFO` nor, without unsafe code of ours, the
//! request that makes a TUN device; `nix` would leave as much.

pub mod time;
pub mod tun;
pub mod waiting;
