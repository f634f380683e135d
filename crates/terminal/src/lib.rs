//! Tables of a run in a terminal: a screen per application, for routers without a browser.
//!
//! [`run`] shows what a [`store::Store`] has. What a screen shows is computed in `model`, what keys
//! change is kept in `app`, and `draw` puts both into cells; only `view` and `keys` touch the
//! terminal, so that everything else is tested without one.

#![forbid(unsafe_code)]

mod app;
mod draw;
mod first;
mod keys;
mod messages;
mod model;
mod screens;
mod text;
mod value;
mod view;
mod width;

#[cfg(test)]
mod tests;

pub use first::First;
pub use messages::Messages;
pub use text::Glyphs;
pub use view::{Facts, InputNames, PacketCounts, run};
pub use width::width;
