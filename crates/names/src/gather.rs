//! Bytes that arrive in pieces, in any order.
