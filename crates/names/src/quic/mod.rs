//! QUIC Initial packets (RFC 9000, RFC 9001, RFC 9369).
