//! Logs recorded, read back, torn, asked and put right.

mod lab;
mod reading;
