//! What can be wrong with an Initial packet.

use std::fmt;

macro_rules! faults {
    ($($(#[doc = $about:literal])* $name:ident = $text:literal;)*) => {
        /// Why a packet of QUIC could not be read.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        #[repr(u8)]
        pub enum Fault {
            $($(#[doc = $about])* $name,)*
        }

        impl Fault {
            /// Every fault, in the order of their discriminants.
            pub const ALL: [Self; Self::COUNT] = [$(Self::$name,)*];
            /// How many faults there are.
            pub const COUNT: usize = [$(stringify!($name),)*].len();

            /// The name used in output and metrics: `snake_case`, stable.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$name => $text,)* }
            }

            /// One sentence for people: what was seen.
            #[must_use]
            pub const fn about(self) -> &'static str {
                match self { $(Self::$name => concat!($($about),*).trim_ascii(),)* }
            }
        }
    };
}

faults! {
    /// A long header ends before its fields do.
    HeaderShort = "header_short";
    /// A connection identifier has more than 20 bytes.
    ConnectionIdLong = "connection_id_long";
    /// A packet's length reaches past the end of the datagram.
    LengthPastEnd = "length_past_end";
    /// A packet has fewer bytes than removing its header protection takes.
    PacketShort = "packet_short";
    /// A packet is longer than the buffer for decryption.
    PacketLong = "packet_long";
    /// No key that could have protected the packet opens it.
    NotDecrypted = "not_decrypted";
    /// A frame ends before its fields do.
    FrameShort = "frame_short";
    /// A frame of a type that Initial packets may not carry (RFC 9000 §12.4).
    FrameUnexpected = "frame_unexpected";
    /// A CRYPTO frame reaches past offset 2^62 - 1.
    OffsetLarge = "offset_large";
}

/// The sentence of [`Fault::about`].
impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.about())
    }
}
