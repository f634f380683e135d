//! Every system call, every foreign call, every unsafe block of this crate.

#[cfg(all(target_os = "linux", target_env = "gnu"))]
pub mod allocator;
#[cfg(target_os = "linux")]
pub mod clock;
#[cfg(target_os = "linux")]
pub mod descriptors;
#[cfg(target_os = "linux")]
pub mod features;
#[cfg(target_os = "linux")]
pub mod gso_limit;
#[cfg(target_os = "linux")]
pub mod interfaces;
pub mod interruptible;
pub mod libpcap;
pub mod mapping;
#[cfg(target_os = "linux")]
pub mod namespace;
#[cfg(target_os = "linux")]
pub mod packet_ring;
#[cfg(target_os = "linux")]
pub mod packet_sender;
#[cfg(target_os = "linux")]
pub mod packet_socket;
pub mod prefetch;
#[cfg(target_os = "linux")]
pub mod scheduling;
#[cfg(all(target_os = "linux", feature = "tap"))]
pub mod shared_array;
#[cfg(target_os = "linux")]
mod shared_memory;
#[cfg(target_os = "linux")]
pub mod xdp_socket;
