//! What a program in the kernel that cuts frames and their reader agree on.

use std::os::fd::OwnedFd;
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
pub struct HandOver(Arc<Mutex<Option<OwnedFd>>>);

impl HandOver {
    /// Of an interface that was opened.
    pub(super) fn put(&self, socket: OwnedFd) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(socket);
    }

    /// The socket, once.
    #[must_use]
    pub fn take(&self) -> Option<OwnedFd> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl PartialEq for HandOver {
    /// Whether it is the same place.
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for HandOver {}
