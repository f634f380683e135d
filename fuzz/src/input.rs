//! The engine's bytes, taken from the front.
//!
//! Values lie where they are written, one after another and big-endian, so
//! that a seed can be made by hand. Where the bytes end, zeros follow: a short
//! input is a whole input.

/// What is left of the engine's bytes.
#[derive(Clone, Copy, Debug)]
pub struct Input<'a> {
    rest: &'a [u8],
}

impl<'a> Input<'a> {
    /// From the first byte on.
    #[must_use]
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// Whether nothing is left.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// At most `len` bytes; fewer where they end.
    pub fn bytes(&mut self, len: usize) -> &'a [u8] {
        let (taken, rest) = self.rest.split_at(len.min(self.rest.len()));
        self.rest = rest;
        taken
    }

    /// All that is left.
    #[must_use]
    pub const fn rest(self) -> &'a [u8] {
        self.rest
    }

    /// The next `N` bytes.
    pub fn array<const N: usize>(&mut self) -> [u8; N] {
        let mut array = [0; N];
        for (to, from) in array.iter_mut().zip(self.bytes(N)) {
            *to = *from;
        }
        array
    }

    /// The next byte.
    pub fn u8(&mut self) -> u8 {
        u8::from_be_bytes(self.array())
    }

    /// The next two bytes.
    pub fn u16(&mut self) -> u16 {
        u16::from_be_bytes(self.array())
    }

    /// The next four bytes.
    pub fn u32(&mut self) -> u32 {
        u32::from_be_bytes(self.array())
    }

    /// The next eight bytes.
    pub fn u64(&mut self) -> u64 {
        u64::from_be_bytes(self.array())
    }

    /// The next eight bytes, signed.
    pub fn i64(&mut self) -> i64 {
        i64::from_be_bytes(self.array())
    }

    /// A byte that says whether a number follows, and the number.
    pub fn optional_u64(&mut self) -> Option<u64> {
        (self.u8() & 1 == 1).then(|| self.u64())
    }

    /// A text of at most 255 bytes, its length first: what of them is no text,
    /// and zeros, become question marks.
    pub fn text(&mut self) -> String {
        let len = usize::from(self.u8());
        let text = String::from_utf8_lossy(self.bytes(len)).into_owned();
        text.replace(['\0', char::REPLACEMENT_CHARACTER], "?")
    }
}
