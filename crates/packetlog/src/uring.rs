//! Writes through the kernel's `io_uring`: several on their way at a time, from memory that it
//! knows already.
//!
//! The one place of this crate with unsafe code. What makes it sound: a block and its file belong
//! to the ring from the moment their write is handed to the kernel until the kernel has said that
//! it is over, and a ring that is dropped waits for that first.

#![allow(unsafe_code)]

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd as _;
use std::sync::Arc;

use io_uring::register::Restriction;
use io_uring::{IoUring, opcode, types};

use crate::recorder::Block;

/// A write on its way; given back to [`Ring::end`].
#[derive(Debug)]
pub(crate) struct Ticket(usize);

/// What the kernel may read until it says that it no longer does.
#[derive(Debug)]
struct Slot {
    block: Block,
    /// Kept open as long as the kernel writes to it.
    _file: Arc<File>,
    len: usize,
    /// What the kernel said, once it did.
    result: Option<i32>,
}

/// A ring and what is on its way through it.
pub(crate) struct Ring {
    ring: IoUring,
    slots: Vec<Option<Slot>>,
    /// Whether the kernel knows the blocks by number.
    is_registered: bool,
}

impl Ring {
    /// A ring for `depth` writes at a time. The blocks are made known to the kernel where it
    /// allows that, which spares it from finding their pages each time.
    pub(crate) fn new(depth: usize, blocks: &[&Block]) -> io::Result<Self> {
        // Begun switched off, so that it can be restricted; before Linux 5.10 it cannot.
        let begun_off = IoUring::builder().setup_r_disabled().build(depth as u32);
        let can_be_restricted = begun_off.is_ok();
        let ring = begun_off.or_else(|_| IoUring::new(depth as u32))?;
        let vectors: Vec<libc::iovec> = blocks
            .iter()
            .map(|block| {
                let bytes = block.bytes();
                libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() }
            })
            .collect();
        // SAFETY: the kernel pins the pages and only reads them, when a write of ours names
        // them. Blocks never move, and while a write is on its way its block lies in a slot. A
        // block that is freed earlier than the ring leaves the kernel with pages nobody names.
        let registered = unsafe { ring.submitter().register_buffers(&vectors) };
        if can_be_restricted {
            // Neither seccomp nor Landlock see what goes through a ring that is open: this one
            // writes to open files, and does nothing else.
            let writes = [opcode::WriteFixed::CODE, opcode::Write::CODE];
            let mut writes = writes.map(Restriction::sqe_op);
            ring.submitter().register_restrictions(&mut writes)?;
            ring.submitter().register_enable_rings()?;
        }
        let slots = (0..depth).map(|_| None).collect();
        Ok(Self { ring, slots, is_registered: registered.is_ok() })
    }

    /// Hands a write of the first `len` bytes of a block to the kernel; the block comes back from
    /// [`Ring::end`], or immediately with an error.
    pub(crate) fn begin(
        &mut self,
        file: Arc<File>,
        block: Block,
        len: usize,
        offset: u64,
    ) -> Result<Ticket, (Block, io::Error)> {
        let free = self.slots.iter().position(Option::is_none);
        let (Some(index), Some(bytes)) = (free, block.bytes().get(..len)) else {
            return Err((block, io::ErrorKind::InvalidInput.into()));
        };
        let (descriptor, start) = (types::Fd(file.as_raw_fd()), bytes.as_ptr());
        let entry = if self.is_registered && block.number != Block::UNNUMBERED {
            opcode::WriteFixed::new(descriptor, start, len as u32, block.number)
                .offset(offset)
                .build()
        } else {
            opcode::Write::new(descriptor, start, len as u32).offset(offset).build()
        };
        let entry = entry.user_data(index as u64);
        // SAFETY: `start` and `len` lie within `block`, which with the file goes into a slot in
        // the next lines and stays there until the completion is seen; moving a block does not
        // move its bytes.
        let pushed = unsafe { self.ring.submission().push(&entry) };
        if pushed.is_err() {
            return Err((block, io::ErrorKind::WouldBlock.into()));
        }
        if let Some(slot) = self.slots.get_mut(index) {
            *slot = Some(Slot { block, _file: file, len, result: None });
        }
        // An entry that is not taken now is taken by the next call: the slot waits for it.
        let _ = self.ring.submit();
        Ok(Ticket(index))
    }

    /// Waits until the write is over, and gives its block back.
    pub(crate) fn end(&mut self, ticket: Ticket) -> Option<(Block, io::Result<()>)> {
        loop {
            self.collect();
            let slot = self.slots.get_mut(ticket.0)?;
            if slot.as_ref()?.result.is_some() {
                let Slot { block, len, result, .. } = slot.take()?;
                let outcome = match result.unwrap_or(0) {
                    code if code < 0 => Err(io::Error::from_raw_os_error(-code)),
                    written if written.cast_unsigned() as usize == len => Ok(()),
                    // As a full disk does: the repetition says why.
                    _ => Err(io::ErrorKind::WriteZero.into()),
                };
                return Some((block, outcome));
            }
            // An interruption is no end: it is asked again.
            let _ = self.ring.submit_and_wait(1);
        }
    }

    /// Notes what the kernel has said meanwhile.
    fn collect(&mut self) {
        for completion in self.ring.completion() {
            let index = usize::try_from(completion.user_data()).unwrap_or(usize::MAX);
            if let Some(Some(slot)) = self.slots.get_mut(index) {
                slot.result = Some(completion.result());
            }
        }
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        for index in 0..self.slots.len() {
            let _ = self.end(Ticket(index));
        }
    }
}
