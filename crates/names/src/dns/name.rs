//! Names in DNS messages (RFC 1035 §3.1 and §4.1.4).

use super::DnsFault;
use crate::text::{self, NAME_LEN_MAX};

/// Labels of a name at most: each takes two bytes or more of 255.
pub const LABELS_MAX: usize = 127;

/// Pointers of a name at most: writers share each ending once.
const POINTERS_MAX: u8 = 32;

const POINTER: u8 = 0b1100_0000;

/// A name in a message: a place where it begins. Labels may be shared by pointers.
#[derive(Clone, Copy, Debug)]
pub struct Name<'a> {
    message: &'a [u8],
    at: usize,
}

impl<'a> Name<'a> {
    /// The name that begins at a place of a message.
    #[must_use]
    pub const fn new(message: &'a [u8], at: usize) -> Self {
        Self { message, at }
    }

    /// The place behind the name, which ends at its first pointer or at the root.
    ///
    /// # Errors
    /// [`DnsFault`]: it does not end.
    pub fn end(&self) -> Result<usize, DnsFault> {
        let mut at = self.at;
        loop {
            match self.length(at)? {
                Length::Root => return Ok(at + 1),
                Length::Pointer(_) => return Ok(at + 2),
                Length::Label(len) => at += 1 + len,
            }
            if at - self.at > NAME_LEN_MAX {
                return Err(DnsFault::NameTooLong);
            }
        }
    }

    fn length(&self, at: usize) -> Result<Length, DnsFault> {
        let byte = *self.message.get(at).ok_or(DnsFault::PastEnd)?;
        match byte & POINTER {
            0 if byte == 0 => Ok(Length::Root),
            0 => Ok(Length::Label(usize::from(byte))),
            POINTER => {
                let low = *self.message.get(at + 1).ok_or(DnsFault::PastEnd)?;
                Ok(Length::Pointer(usize::from(byte & !POINTER) << 8 | usize::from(low)))
            }
            _ => Err(DnsFault::BadLabel),
        }
    }

    /// Calls `on` with each label in turn.
    fn labels(&self, mut on: impl FnMut(&'a [u8])) -> Result<(), DnsFault> {
        let (mut at, mut len) = (self.at, 1);
        // A pointer has to go back behind the last one's place, so that there is an end.
        let (mut before, mut pointers) = (self.at, 0);
        loop {
            match self.length(at)? {
                Length::Root => return Ok(()),
                Length::Pointer(to) if to < before && pointers < POINTERS_MAX => {
                    (at, before) = (to, to);
                    pointers += 1;
                }
                Length::Pointer(_) => return Err(DnsFault::NameLoop),
                Length::Label(label_len) => {
                    len += 1 + label_len;
                    if len > NAME_LEN_MAX {
                        return Err(DnsFault::NameTooLong);
                    }
                    let start = at + 1;
                    at = start + label_len;
                    on(self.message.get(start..at).ok_or(DnsFault::PastEnd)?);
                }
            }
        }
    }

    /// The name as text that is safe to print, in lower case and without the dot at its end; the
    /// root is `.`. A dot inside a label is `\x2e`.
    ///
    /// # Errors
    /// [`DnsFault`]: it cannot be read.
    pub fn text(&self) -> Result<String, DnsFault> {
        let mut name = String::new();
        self.labels(|label| {
            if !name.is_empty() {
                name.push('.');
            }
            for (index, part) in label.split(|&byte| byte == b'.').enumerate() {
                if index > 0 {
                    name.push_str("\\x2e");
                }
                text::push(&mut name, part);
            }
        })?;
        if name.is_empty() {
            name.push('.');
        }
        Ok(name)
    }

    /// A hash by which a response is matched with its query: FNV-1a of the labels in lower case.
    ///
    /// # Errors
    /// [`DnsFault`]: it cannot be read.
    pub fn hash(&self) -> Result<u32, DnsFault> {
        let mut hash = 0x811c_9dc5_u32;
        let mut add = |byte: u8| hash = (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193);
        self.labels(|label| {
            // The length tells `a.b` of one label from `a` and `b`. At most 63.
            add(label.len().to_le_bytes()[0]);
            label.iter().for_each(|byte| add(byte.to_ascii_lowercase()));
        })?;
        Ok(hash)
    }
}

/// What a byte of length says.
enum Length {
    Root,
    Label(usize),
    Pointer(usize),
}
