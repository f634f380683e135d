//! A history as its users have it: folders, runs one after another, queries.

// Helpers of tests are tests to us, not to the lint.
#![allow(clippy::unwrap_used)]

mod lent;
mod querying;
mod storing;
