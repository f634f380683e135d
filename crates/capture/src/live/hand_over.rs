//! What a program in the kernel that cuts frames and their reader agree on.

use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Frames that a program in the kernel cuts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CutFrames {
    /// Frames may begin with a [note](packet::CutNote) under this secret: their length is then
    /// what it says, and the note lies in front of what was captured.
    pub secret: u64,
    /// Where the program hands them over, if not to the network stack.
    pub hand_over: Option<HandOver>,
}

/// A place for the socket to which a program hands frames over: it is put there when the interface
/// is opened, and taken when the program is attached.
#[derive(Clone, Debug, Default)]
pub struct HandOver(Arc<HandOverState>);

#[derive(Debug, Default)]
struct HandOverState {
    socket: Mutex<Option<OwnedFd>>,
    is_in_driver: AtomicBool,
}

impl HandOver {
    /// Of an interface that was opened.
    pub(super) fn put(&self, socket: OwnedFd) {
        *self.0.socket.lock().unwrap_or_else(PoisonError::into_inner) = Some(socket);
    }

    /// The socket, once.
    #[must_use]
    pub fn take(&self) -> Option<OwnedFd> {
        self.0.socket.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// The program runs in the driver, which may count a frame that the socket has no room for.
    pub fn set_in_driver(&self) {
        self.0.is_in_driver.store(true, Ordering::Relaxed);
    }

    pub(super) fn is_in_driver(&self) -> bool {
        self.0.is_in_driver.load(Ordering::Relaxed)
    }
}

impl PartialEq for HandOver {
    /// Whether it is the same place.
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for HandOver {}
