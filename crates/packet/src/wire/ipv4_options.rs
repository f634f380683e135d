//! IPv4 options (RFC 791 §3.1): kind; unless kind is 0 or 1, length of the
//! whole option and content. Kind 0 ends the list, kind 1 fills a byte.

use crate::malformed::Malformed;

/// Kinds that name themselves.
pub mod kind {
    /// End of the list.
    pub const END_OF_LIST: u8 = 0;
    /// Filler.
    pub const NO_OPERATION: u8 = 1;
    /// Record route.
    pub const RECORD_ROUTE: u8 = 7;
    /// Timestamp.
    pub const TIMESTAMP: u8 = 68;
    /// Loose source route.
    pub const LOOSE_SOURCE_ROUTE: u8 = 131;
    /// Strict source route.
    pub const STRICT_SOURCE_ROUTE: u8 = 137;
    /// Router alert (RFC 2113).
    pub const ROUTER_ALERT: u8 = 148;
}

/// Bytes that options can have at most.
pub const OPTIONS_LEN_MAX: usize = 40;

/// One option with a length.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ipv4Option<'a> {
    /// Kind: copied flag, class and number together.
    pub kind: u8,
    /// What follows kind and length.
    pub content: &'a [u8],
}

/// The options in order, fillers passed. Ends after the first that is wrong.
#[derive(Clone, Debug)]
pub struct Ipv4Options<'a> {
    rest: &'a [u8],
}

impl<'a> Ipv4Options<'a> {
    /// Of the bytes between the fixed header and its end.
    #[inline]
    #[must_use]
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }
}

impl<'a> Iterator for Ipv4Options<'a> {
    type Item = Result<Ipv4Option<'a>, Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let (&kind, rest) = self.rest.split_first()?;
            self.rest = rest;
            match kind {
                kind::END_OF_LIST => {
                    self.rest = &[];
                    return None;
                }
                kind::NO_OPERATION => {}
                _ => break Some(self.content(kind)),
            }
        }
    }
}

impl<'a> Ipv4Options<'a> {
    fn content(&mut self, kind: u8) -> Result<Ipv4Option<'a>, Malformed> {
        let bytes = std::mem::take(&mut self.rest);
        let (&len, rest) = bytes.split_first().ok_or(Malformed::Ipv4OptionWrong)?;
        let content_len = usize::from(len).checked_sub(2).ok_or(Malformed::Ipv4OptionWrong)?;
        let (content, rest) =
            rest.split_at_checked(content_len).ok_or(Malformed::Ipv4OptionWrong)?;
        self.rest = rest;
        Ok(Ipv4Option { kind, content })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn fillers_are_passed_and_the_end_ends() {
        let mut options = Ipv4Options::new(&[1, 1, 148, 4, 0, 0, 0, 9]);
        let alert = Ipv4Option { kind: kind::ROUTER_ALERT, content: &[0, 0] };
        assert_eq!(options.next(), Some(Ok(alert)));
        assert_eq!(options.next(), None);
        assert_eq!(options.next(), None);
    }

    #[test]
    fn a_wrong_length_is_told_once() {
        for bytes in [&[7, 0, 0, 0][..], &[7, 1, 0, 0], &[7, 5, 0, 0], &[1, 1, 1, 7]] {
            let mut options = Ipv4Options::new(bytes);
            assert_eq!(options.next(), Some(Err(Malformed::Ipv4OptionWrong)));
            assert_eq!(options.next(), None);
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(0_u8..9, 0..40)) {
            prop_assert!(Ipv4Options::new(&bytes).count() <= bytes.len());
        }
    }
}
