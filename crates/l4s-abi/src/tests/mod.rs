//! What C programs pass and receive.

mod calls;
mod header;
