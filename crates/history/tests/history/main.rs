//! A history as its users have it: folders, runs one after another, queries.

// Helpers of tests are tests to us, not to the lint.
#![allow(clippy::unwrap_used)]
// A test that is skipped says so.
#![allow(clippy::print_stdout)]

mod lent;
mod power;
mod querying;
mod storing;
