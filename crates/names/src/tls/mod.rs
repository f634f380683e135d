//! TLS ClientHello (RFC 8446 §4.1.2).
