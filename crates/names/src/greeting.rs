//! Protocols that the first bytes of one side show.
//!
//! Each rule asks for bytes that the protocol prescribes, so that it holds on any port. What is
//! merely usual on a port is not asked.

/// An application protocol that the payload shows.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
pub enum Protocol {
    /// TLS (RFC 8446), by a ClientHello.
    Tls,
    /// QUIC (RFC 9000), by an Initial packet that could be decrypted.
    Quic,
    /// DNS (RFC 1035).
    Dns,
    /// Multicast DNS (RFC 6762).
    Mdns,
    /// LLMNR (RFC 4795).
    Llmnr,
    /// HTTP/1 (RFC 9112).
    Http,
    /// HTTP/2 without TLS (RFC 9113 §3.4).
    Http2,
    /// SSDP, which discovers devices by HTTP over UDP.
    Ssdp,
    /// SSH (RFC 4253 §4.2).
    Ssh,
    /// SMTP (RFC 5321 §4.2).
    Smtp,
    /// FTP (RFC 959 §5.4).
    Ftp,
    /// IMAP (RFC 9051 §7.1).
    Imap,
    /// POP3 (RFC 1939 §4).
    Pop3,
    /// MQTT (OASIS MQTT 5.0 §3.1).
    Mqtt,
    /// AMQP (ISO/IEC 19464 §2.2).
    Amqp,
    /// MySQL and MariaDB, by the server's handshake.
    Mysql,
    /// PostgreSQL, by the client's start-up message.
    Postgresql,
    /// Microsoft SQL Server (MS-TDS §2.2.6.5).
    Tds,
    /// MongoDB, by its message header.
    Mongodb,
    /// Redis, by a command in RESP.
    Redis,
    /// RDP (MS-RDPBCGR §2.2.1.1).
    Rdp,
    /// VNC (RFC 6143 §7.1.1).
    Vnc,
    /// SMB.
    Smb,
    /// SIP (RFC 3261 §7).
    Sip,
    /// RTSP (RFC 7826).
    Rtsp,
    /// STUN (RFC 8489 §5).
    Stun,
    /// DTLS (RFC 9147).
    Dtls,
    /// NTP (RFC 5905).
    Ntp,
    /// DHCP (RFC 2131).
    Dhcp,
    /// SNMP (RFC 3416), versions 1 and 2c.
    Snmp,
    /// The BitTorrent peer protocol (BEP 3).
    Bittorrent,
    /// WireGuard, by its first message.
    Wireguard,
    /// XMPP (RFC 6120).
    Xmpp,
    /// IRC (RFC 2812).
    Irc,
    /// LDAP (RFC 4511), by a bind request.
    Ldap,
    /// Modbus over TCP.
    Modbus,
    /// The name service of NetBIOS (RFC 1002 §4.2), on its port.
    Nbns,
    /// SOCKS (RFC 1928), in which another protocol follows.
    Socks,
}

macro_rules! names {
    ($($variant:ident $name:literal,)*) => {
        impl Protocol {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];

            /// Its name, in lower case.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name),* }
            }
        }
    };
}

names! {
    Tls "tls", Quic "quic", Dns "dns", Mdns "mdns", Llmnr "llmnr", Http "http", Http2 "http2",
    Ssdp "ssdp", Ssh "ssh", Smtp "smtp", Ftp "ftp", Imap "imap", Pop3 "pop3", Mqtt "mqtt",
    Amqp "amqp", Mysql "mysql", Postgresql "postgresql", Tds "tds", Mongodb "mongodb",
    Redis "redis", Rdp "rdp", Vnc "vnc", Smb "smb", Sip "sip", Rtsp "rtsp", Stun "stun",
    Dtls "dtls", Ntp "ntp", Dhcp "dhcp", Snmp "snmp", Bittorrent "bittorrent",
    Wireguard "wireguard", Xmpp "xmpp", Irc "irc", Ldap "ldap", Modbus "modbus",
    Nbns "nbns", Socks "socks",
}

impl Protocol {
    /// Whether a TLS handshake may follow on the same connection (STARTTLS, an upgrade or a
    /// tunnel).
    #[must_use]
    pub const fn may_upgrade(self) -> bool {
        use Protocol::{Ftp, Imap, Ldap, Mysql, Pop3, Postgresql};
        use Protocol::{Rdp, Smtp, Socks, Tds, Xmpp};
        matches!(
            self,
            Ftp | Imap | Ldap | Mysql | Pop3 | Postgresql | Rdp | Smtp | Socks | Tds | Xmpp
        )
    }
}

/// What the first bytes that one side of a TCP connection sends show. Protocols that are read
/// further (TLS, HTTP, DNS) are not looked for here.
#[must_use]
pub fn of_stream(bytes: &[u8]) -> Option<Protocol> {
    let first = *bytes.first()?;
    // Most greetings are text; their first byte excludes most of them.
    match first {
        b'S' if bytes.starts_with(b"SSH-") => Some(Protocol::Ssh),
        b'2' if bytes.starts_with(b"220") => mail_or_files(bytes),
        b'*' if bytes.starts_with(b"* OK") || bytes.starts_with(b"* PREAUTH") => {
            Some(Protocol::Imap)
        }
        b'*' if is_resp(bytes) => Some(Protocol::Redis),
        b'+' if bytes.starts_with(b"+OK ") || bytes.starts_with(b"+OK\r") => Some(Protocol::Pop3),
        b'R' if bytes.starts_with(b"RFB 00") => Some(Protocol::Vnc),
        b'A' if bytes.starts_with(b"AMQP") => Some(Protocol::Amqp),
        b'P' if bytes.starts_with(b"PRI * HTTP/2.0\r\n") => Some(Protocol::Http2),
        b'<' if bytes.starts_with(b"<?xml") || bytes.starts_with(b"<stream:stream") => {
            let has_stream = bytes.windows(14).any(|part| part == b"<stream:stream");
            has_stream.then_some(Protocol::Xmpp)
        }
        b'N' | b'U' if is_irc(bytes) => Some(Protocol::Irc),
        19 if bytes.starts_with(b"\x13BitTorrent protocol") => Some(Protocol::Bittorrent),
        0x10 if is_mqtt(bytes) => Some(Protocol::Mqtt),
        _ if is_sip(bytes) => Some(Protocol::Sip),
        _ if is_rtsp(bytes) => Some(Protocol::Rtsp),
        _ => of_binary_stream(bytes),
    }
}

/// Protocols whose messages begin with lengths or numbers.
fn of_binary_stream(bytes: &[u8]) -> Option<Protocol> {
    let word =
        |at: usize| -> Option<u32> { Some(u32::from_be_bytes(*bytes.get(at..)?.first_chunk()?)) };
    match bytes {
        // Length (3 bytes), number 0, protocol 10, the server's version in digits.
        [_, _, 0, 0, 10, b'3'..=b'9', ..] if bytes.len() > 20 => Some(Protocol::Mysql),
        // TPKT, then a connection request of X.224 whose length fits.
        [3, 0, high, low, len, 0xe0, ..]
            if usize::from(u16::from_be_bytes([*high, *low])) == usize::from(*len) + 5 =>
        {
            Some(Protocol::Rdp)
        }
        [0, _, _, _, 0xff | 0xfe, b'S', b'M', b'B', ..] => Some(Protocol::Smb),
        // A PRELOGIN packet, whole, whose first option is the version.
        [0x12, 1, high, low, _, _, _, _, 0, ..]
            if usize::from(u16::from_be_bytes([*high, *low])) >= 16 =>
        {
            Some(Protocol::Tds)
        }
        // The methods of authentication that a client knows, and nothing else.
        [5, count @ 1..=8, methods @ ..] if methods.len() == usize::from(*count) => {
            Some(Protocol::Socks)
        }
        // Version 4: CONNECT or BIND, port, address, and a user's name that ends the request.
        [4, 1 | 2, _, _, _, _, _, _, .., 0] if bytes.len() < 300 => Some(Protocol::Socks),
        _ if is_postgresql(bytes, word) => Some(Protocol::Postgresql),
        _ if is_mongodb(bytes) => Some(Protocol::Mongodb),
        _ if is_ldap(bytes) => Some(Protocol::Ldap),
        _ if is_modbus(bytes) => Some(Protocol::Modbus),
        _ => None,
    }
}

/// SMTP and FTP both greet with `220`; what follows decides, and nothing where neither says so.
fn mail_or_files(bytes: &[u8]) -> Option<Protocol> {
    let has = |word: &[u8]| {
        bytes.windows(word.len()).take(512).any(|part| part.eq_ignore_ascii_case(word))
    };
    match () {
        () if has(b"smtp") || has(b"postfix") || has(b"exim") => Some(Protocol::Smtp),
        () if has(b"ftp") || has(b"filezilla") => Some(Protocol::Ftp),
        () => None,
    }
}

/// An array of bulk strings: `*2\r\n$4\r\n`.
fn is_resp(bytes: &[u8]) -> bool {
    let digits = bytes.iter().skip(1).take_while(|byte| byte.is_ascii_digit()).count();
    digits > 0 && bytes.get(1 + digits..).is_some_and(|rest| rest.starts_with(b"\r\n$"))
}

fn is_irc(bytes: &[u8]) -> bool {
    let has_line = |word: &[u8]| bytes.windows(word.len()).any(|part| part == word);
    (bytes.starts_with(b"NICK ") && (has_line(b"\nUSER ") || bytes.ends_with(b"\n")))
        || (bytes.starts_with(b"USER ") && has_line(b" :"))
}

/// CONNECT: its remaining length, and the protocol's name with that name's length.
fn is_mqtt(bytes: &[u8]) -> bool {
    let lengths = bytes.iter().skip(1).take(4).take_while(|&&byte| byte & 0x80 != 0).count();
    let name = bytes.get(2 + lengths..).unwrap_or_default();
    name.starts_with(b"\0\x04MQTT") || name.starts_with(b"\0\x06MQIsdp")
}

fn is_sip(bytes: &[u8]) -> bool {
    const METHODS: [&[u8]; 7] =
        [b"INVITE ", b"REGISTER ", b"OPTIONS ", b"SUBSCRIBE ", b"NOTIFY ", b"MESSAGE ", b"BYE "];
    let is_request = METHODS.iter().any(|method| {
        let target = bytes.strip_prefix(*method);
        target.is_some_and(|target| target.starts_with(b"sip:") || target.starts_with(b"sips:"))
    });
    is_request || bytes.starts_with(b"SIP/2.0 ")
}

fn is_rtsp(bytes: &[u8]) -> bool {
    const METHODS: [&[u8]; 4] = [b"OPTIONS ", b"DESCRIBE ", b"SETUP ", b"PLAY "];
    let is_request = METHODS.iter().any(|method| {
        let target = bytes.strip_prefix(*method);
        target.is_some_and(|target| target.starts_with(b"rtsp://") || target.starts_with(b"* RTSP"))
    });
    is_request || bytes.starts_with(b"RTSP/1.0 ")
}

/// A start-up message of protocol 3, or a request for TLS or GSSAPI, whose length fits.
fn is_postgresql(bytes: &[u8], word: impl Fn(usize) -> Option<u32>) -> bool {
    let (Some(len), Some(code)) = (word(0), word(4)) else { return false };
    match code {
        80_877_103 | 80_877_104 => len == 8,
        0x0003_0000 | 0x0003_0002 => {
            (9..10_000).contains(&len)
                && bytes.get(8..).is_some_and(|rest| rest.starts_with(b"user"))
        }
        _ => false,
    }
}

/// Length, numbers, and the operation: OP_QUERY or OP_MSG.
fn is_mongodb(bytes: &[u8]) -> bool {
    let word =
        |at: usize| -> Option<u32> { Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?)) };
    let is_operation = matches!(word(12), Some(2004 | 2013));
    is_operation && word(0).is_some_and(|len| (26..48_000_000).contains(&len)) && word(8) == Some(0)
}

/// A message of BER with a bind request of version 2 or 3, or one for TLS (RFC 4511 §4.14).
fn is_ldap(bytes: &[u8]) -> bool {
    let inner = match bytes {
        [0x30, len, rest @ ..] if *len < 0x80 => rest,
        [0x30, 0x84, _, _, _, _, rest @ ..] => rest,
        _ => return false,
    };
    let inner = match inner {
        [2, 1, _, rest @ ..] => rest,
        _ => return false,
    };
    if inner.first() == Some(&0x77) {
        return inner.windows(START_TLS.len()).take(16).any(|part| part == START_TLS);
    }
    let inner = match inner {
        [0x60, len, rest @ ..] if *len < 0x80 => rest,
        [0x60, 0x84, _, _, _, _, rest @ ..] => rest,
        _ => return false,
    };
    matches!(inner, [2, 1, 2 | 3, ..])
}

/// What asks for TLS in LDAP.
const START_TLS: &[u8] = b"1.3.6.1.4.1.1466.20037";

/// A header whose length is that of the segment, of a function that exists.
fn is_modbus(bytes: &[u8]) -> bool {
    match bytes {
        [_, _, 0, 0, high, low, _unit, function, ..] => {
            let len = usize::from(u16::from_be_bytes([*high, *low]));
            len + 6 == bytes.len() && len >= 2 && matches!(function, 1..=6 | 15 | 16 | 22 | 23 | 43)
        }
        _ => false,
    }
}

/// What a datagram shows. DNS and QUIC are not looked for here.
#[must_use]
pub fn of_datagram(bytes: &[u8], ports: [u16; 2]) -> Option<Protocol> {
    match bytes {
        // A type of two zero bits and the magic cookie.
        [0..=0x3f, _, _, _, 0x21, 0x12, 0xa4, 0x42, ..] if bytes.len() >= 20 => {
            Some(Protocol::Stun)
        }
        // A handshake record of DTLS 1.0 or 1.2, epoch 0.
        [22, 0xfe, 0xfd | 0xff, 0, 0, ..] if bytes.len() >= 13 => Some(Protocol::Dtls),
        [1, 0, 0, 0, ..] if bytes.len() == 148 => Some(Protocol::Wireguard),
        // SEQUENCE, version 0 or 1, then the community.
        [0x30, _, 2, 1, 0 | 1, 4, ..] | [0x30, 0x81, _, 2, 1, 0 | 1, 4, ..] => Some(Protocol::Snmp),
        [0x30, 0x82, _, _, 2, 1, 0 | 1, 4, ..] => Some(Protocol::Snmp),
        _ if bytes.get(236..).is_some_and(|rest| rest.starts_with(&[99, 130, 83, 99])) => {
            Some(Protocol::Dhcp)
        }
        _ if is_ssdp(bytes) => Some(Protocol::Ssdp),
        _ if is_sip(bytes) => Some(Protocol::Sip),
        [_, _, _, _, 0, 1, ..] | [_, _, _, _, 0, 0, 0, 1, ..]
            if ports.contains(&137) && bytes.len() > 45 =>
        {
            Some(Protocol::Nbns)
        }
        // The header of NTP has no mark of its own, so the port counts.
        [first, ..] if ports.contains(&123) && bytes.len() >= 48 => {
            let (version, mode) = (first >> 3 & 7, first & 7);
            ((1..=4).contains(&version) && (1..=5).contains(&mode)).then_some(Protocol::Ntp)
        }
        _ => None,
    }
}

fn is_ssdp(bytes: &[u8]) -> bool {
    bytes.starts_with(b"M-SEARCH * HTTP/1.1") || bytes.starts_with(b"NOTIFY * HTTP/1.1")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn greetings_show_their_protocol() {
        for (bytes, protocol) in [
            (&b"SSH-2.0-OpenSSH_9.2\r\n"[..], Protocol::Ssh),
            (b"220 mail.example.com ESMTP Postfix\r\n", Protocol::Smtp),
            (b"220-FileZilla Server 1.7\r\n", Protocol::Ftp),
            (b"220 (vsFTPd 3.0.3)\r\n", Protocol::Ftp),
            (b"* OK [CAPABILITY IMAP4rev1] ready\r\n", Protocol::Imap),
            (b"+OK ready\r\n", Protocol::Pop3),
            (b"*2\r\n$4\r\nLLEN\r\n$6\r\nmylist\r\n", Protocol::Redis),
            (b"\x10\x0c\0\x04MQTT\x05\x02\0\x3c\0\0", Protocol::Mqtt),
            (b"\x10\x80\x01\0\x06MQIsdp\x03", Protocol::Mqtt),
            (b"\x4a\0\0\0\x0a8.0.36\0\x08\0\0\0abcdefgh\0", Protocol::Mysql),
            (b"\0\0\0\x08\x04\xd2\x16\x2f", Protocol::Postgresql),
            (b"\0\0\0\x12\0\x03\0\0user\0a\0\0", Protocol::Postgresql),
            (b"\x03\0\0\x13\x0e\xe0\0\0\0\0\0\x01\0\x08\0\x03\0\0\0", Protocol::Rdp),
            (b"\0\0\0\x45\xffSMBr", Protocol::Smb),
            (b"RFB 003.008\n", Protocol::Vnc),
            (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", Protocol::Http2),
            (b"INVITE sip:bob@example.com SIP/2.0\r\n", Protocol::Sip),
            (b"OPTIONS rtsp://camera/ RTSP/1.0\r\n", Protocol::Rtsp),
            (b"\x13BitTorrent protocol\0\0", Protocol::Bittorrent),
            (b"\0\x01\0\0\0\x06\x01\x03\0\x6b\0\x03", Protocol::Modbus),
            (b"\x05\x02\0\x02", Protocol::Socks),
            (b"\x04\x01\x01\xbb\x55\xc2\x54\xc5me\0", Protocol::Socks),
            (b"\x30\x1d\x02\x01\x01\x77\x18\x80\x161.3.6.1.4.1.1466.20037", Protocol::Ldap),
            (b"\x30\x0c\x02\x01\x01\x60\x07\x02\x01\x03\x04\0\x80\0", Protocol::Ldap),
        ] {
            assert_eq!(of_stream(bytes), Some(protocol), "{}", protocol.name());
        }
    }

    #[test]
    fn datagrams_show_their_protocol() {
        let mut stun = [0; 20];
        stun[..8].copy_from_slice(&[0, 1, 0, 0, 0x21, 0x12, 0xa4, 0x42]);
        assert_eq!(of_datagram(&stun, [1, 2]), Some(Protocol::Stun));
        let mut ntp = [0; 48];
        ntp[0] = 0x23;
        assert_eq!(of_datagram(&ntp, [123, 123]), Some(Protocol::Ntp));
        assert_eq!(of_datagram(&ntp, [5, 6]), None);
        let search = b"M-SEARCH * HTTP/1.1\r\nHOST: 239.255.255.250:1900\r\n\r\n";
        assert_eq!(of_datagram(search, [1, 1900]), Some(Protocol::Ssdp));
        let mut wireguard = [0; 148];
        wireguard[0] = 1;
        assert_eq!(of_datagram(&wireguard, [1, 51820]), Some(Protocol::Wireguard));
    }

    #[test]
    fn what_shows_nothing_has_no_protocol() {
        for bytes in [&b""[..], b"220 hello\r\n", b"\0\0\0\0", b"\x10\x00", b"*x\r\n$", b"<?xml?>"]
        {
            assert_eq!(of_stream(bytes), None, "{bytes:?}");
        }
        assert_eq!(of_datagram(&[0; 1200], [443, 5000]), None);
    }

    proptest::proptest! {
        #[test]
        fn no_bytes_panic(bytes: Vec<u8>, ports: [u16; 2]) {
            let _ = (of_stream(&bytes), of_datagram(&bytes, ports));
        }
    }
}
