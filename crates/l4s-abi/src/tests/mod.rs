//! What C programs are told, and what they see.

mod calls;
mod header;
