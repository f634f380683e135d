//! How wide the terminal is.

use std::io::{IsTerminal as _, stdout};

/// Characters in a line of the terminal that standard output is; none where it is a file or a pipe,
/// or where the terminal does not know.
#[must_use]
pub fn width() -> Option<u16> {
    if !stdout().is_terminal() {
        return None;
    }
    let size = rustix::termios::tcgetwinsize(stdout()).ok()?;
    Some(size.ws_col).filter(|&columns| columns > 0)
}
