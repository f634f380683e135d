//! What can be wrong with an Initial packet.

use crate::fault::faults;

faults! {
    /// Why a packet of QUIC could not be read.
    Fault:
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
