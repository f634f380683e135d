//! `wirelens packetlog`: packets kept as their class deserves, and found again.

pub mod args;
mod desk;
mod events;
mod metrics;
mod settings;
mod socket;
mod when;
