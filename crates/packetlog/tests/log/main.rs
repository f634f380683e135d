//! Logs recorded, read back, torn, asked and put right.

mod compressing;
mod crashes;
mod faults;
mod lab;
mod reading;
mod room;
