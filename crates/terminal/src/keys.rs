//! Keys, read by a thread of their own.
//!
//! The library reads on where the terminal has begun a key and not finished it, and would never
//! stop where the terminal has gone. So it is only asked where there is something to read, and not
//! by the thread that draws and has to see a wish to stop.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Receiver;
use std::thread;
use std::time::Duration;

use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyModifiers};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::termios::{QueueSelector, tcflush};

use crate::view::{KeyInput, channel};

const NOW: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };

/// How soon the thread sees that it is no longer wanted.
const WAIT: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };

/// After input that was no key: whatever it is, it is not read in circles.
const PAUSE: Duration = Duration::from_millis(50);

/// Ends the thread when it goes.
pub(crate) struct Reading(Arc<AtomicBool>);

impl Drop for Reading {
    fn drop(&mut self) {
        // Not joined: it may wait for the rest of a key.
        self.0.store(true, Ordering::Release);
    }
}

/// Begins to read keys.
pub(crate) fn read() -> io::Result<(Receiver<io::Result<KeyInput>>, Reading)> {
    let (sender, receiver) = channel();
    let is_over = Arc::new(AtomicBool::new(false));
    let reading = Reading(Arc::clone(&is_over));
    thread::Builder::new().name(String::from("keys")).spawn(move || {
        while !is_over.load(Ordering::Acquire) {
            let pressed = match next() {
                Ok(None) => continue,
                Ok(Some(pressed)) => Ok(pressed),
                Err(why) => Err(why),
            };
            let is_last = pressed.is_err();
            if sender.send(pressed).is_err() || is_last {
                return;
            }
        }
    })?;
    Ok((receiver, reading))
}

/// The next key, if one comes in time.
fn next() -> io::Result<Option<KeyInput>> {
    is_readable(NOW)?;
    // Keys that came together with one before are with the library already.
    if !event::poll(Duration::ZERO)? {
        if is_readable(WAIT)? && !event::poll(Duration::ZERO)? {
            // What the library has not read of a long paste it would read key by key, later.
            let _ = tcflush(io::stdin(), QueueSelector::IFlush);
            thread::sleep(PAUSE);
        }
        return Ok(None);
    }
    Ok(match event::read()? {
        Event::Key(key) if is_redraw(key) => Some(KeyInput::Redraw),
        Event::Key(key) => Some(KeyInput::Key(key)),
        _ => None,
    })
}

/// Whether the terminal has something to read, in time; an error where it is gone.
fn is_readable(wait: Timespec) -> io::Result<bool> {
    let stdin = io::stdin();
    let mut polled = [PollFd::new(&stdin, PollFlags::IN)];
    match poll(&mut polled, Some(&wait)) {
        Ok(_) => {}
        // A change of the size, for one.
        Err(rustix::io::Errno::INTR) => return Ok(false),
        Err(why) => return Err(why.into()),
    }
    let seen = polled[0].revents();
    if seen.intersects(PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL) {
        return Err(io::Error::new(io::ErrorKind::BrokenPipe, "the terminal is gone"));
    }
    Ok(seen.contains(PollFlags::IN))
}

fn is_redraw(key: KeyEvent) -> bool {
    key.modifiers.contains(KeyModifiers::CONTROL) && key.code == KeyCode::Char('l')
}
