//! What can be wrong with a ClientHello and the records around it.

use crate::fault::faults;

faults! {
    /// Why bytes are no ClientHello, or what is wrong within one.
    Fault:
    /// The handshake message is not a ClientHello.
    NotAHello = "not_a_hello";
    /// A length reaches past the end of what encloses it.
    LengthPastEnd = "length_past_end";
    /// Bytes follow the extensions, within the message.
    BytesLeftOver = "bytes_left_over";
    /// The list of cipher suites has an odd length.
    CipherSuitesWrong = "cipher_suites_wrong";
    /// An extension that names the server, its protocols or versions is there twice.
    ExtensionTwice = "extension_twice";
    /// The list of server names does not fill its extension or holds no host name.
    ServerNameWrong = "server_name_wrong";
    /// The server's host name has no byte.
    NameEmpty = "name_empty";
    /// The server's host name has more than 255 bytes.
    NameTooLong = "name_too_long";
    /// The list of application protocols does not fill its extension or has an empty entry.
    AlpnWrong = "alpn_wrong";
    /// The list of supported versions does not fill its extension or has an odd length.
    VersionsWrong = "versions_wrong";
    /// The list of signature algorithms does not fill its extension or has an odd length.
    SignatureAlgorithmsWrong = "signature_algorithms_wrong";
    /// A record without a byte, which RFC 8446 §5.1 forbids for handshakes.
    RecordEmpty = "record_empty";
    /// A record of more than 2^14 + 256 bytes.
    RecordTooLong = "record_too_long";
    /// Something else than a handshake record stands between parts of a ClientHello.
    RecordBetween = "record_between";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_snake_case_and_differ() {
        let names = Fault::ALL.map(Fault::name);
        assert!(names.iter().all(|name| name.bytes().all(|b| b == b'_' || b.is_ascii_lowercase())));
        let distinct: std::collections::BTreeSet<_> = names.iter().collect();
        assert_eq!(distinct.len(), Fault::COUNT);
        assert_eq!(Fault::NameEmpty.to_string(), "The server's host name has no byte.");
    }
}
