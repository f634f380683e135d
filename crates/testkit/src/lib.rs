//! What tests share, and the laws of the repository as tests.
//!
//! - [`golden`] runs a command and compares what it says with files under
//!   `testdata/golden/<case>/`.
//! - [`disk`] records what a program does to files, and replays what a crash leaves of it.
//! - [`tidy`] holds the rules that neither the compiler nor a lint can check;
//!   `tests/tidy.rs` applies them to the repository.
//! - [`repository`] finds the files those rules read, [`source`] tells their
//!   code from their comments.
//!
//! Other crates depend on this one for their tests only, and it depends on
//! none of them.

#![forbid(unsafe_code)]

pub mod disk;
pub mod golden;
pub mod imports;
pub mod repository;
pub mod source;
pub mod tidy;
