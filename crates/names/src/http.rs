//! The first request of HTTP/1 (RFC 9112 §2 and §3.2): its host.

/// Methods that a request may begin with, each with the space behind it.
const METHODS: [&[u8]; 10] = [
    b"GET ",
    b"POST ",
    b"HEAD ",
    b"PUT ",
    b"DELETE ",
    b"OPTIONS ",
    b"CONNECT ",
    b"PATCH ",
    b"TRACE ",
    b"PROPFIND ",
];

/// SIP (RFC 3261) and RTSP (RFC 7826) ask for options as well, of other targets.
const OTHERS: [&[u8]; 4] = [b"OPTIONS sip:", b"OPTIONS sips:", b"OPTIONS rtsp:", b"OPTIONS * RTSP"];

/// How far a request was read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Request<'a> {
    /// Its header section is not complete, and had no host so far.
    NeedMore,
    /// The header section has ended, or a host was found: the name without the port.
    Read {
        /// The host, from the target of CONNECT or from the `Host` field.
        host: Option<&'a [u8]>,
        /// Whether a tunnel is asked for: what follows is another protocol.
        is_connect: bool,
    },
}

/// Whether a flow that begins with these bytes speaks HTTP/1: they are the start of a request.
#[must_use]
pub fn begins_like_request(bytes: &[u8]) -> bool {
    METHODS.iter().any(|method| bytes.starts_with(method))
        && !OTHERS.iter().any(|start| bytes.starts_with(start))
        && bytes.iter().take(16).all(|&byte| matches!(byte, b' '..=b'~' | b'\r' | b'\n'))
}

/// Reads the start of a request.
#[must_use]
pub fn read(bytes: &[u8]) -> Request<'_> {
    let mut lines = bytes.split_inclusive(|&byte| byte == b'\n');
    let Some(first) = lines.next().and_then(whole) else { return Request::NeedMore };
    if let Some(target) = first.strip_prefix(b"CONNECT ") {
        let host = target.split(|&byte| byte == b' ').next().map(without_port);
        return Request::Read { host: host.filter(|host| !host.is_empty()), is_connect: true };
    }
    for line in lines {
        let Some(line) = whole(line) else { return Request::NeedMore };
        if line.is_empty() {
            return Request::Read { host: None, is_connect: false };
        }
        let Some((name, value)) = line.split_at_checked(5) else { continue };
        if name.eq_ignore_ascii_case(b"host:") {
            let host = without_port(value.trim_ascii());
            let host = Some(host).filter(|host| !host.is_empty());
            return Request::Read { host, is_connect: false };
        }
    }
    Request::NeedMore
}

/// A line without its end; `None` where the end is not there yet.
fn whole(line: &[u8]) -> Option<&[u8]> {
    let line = line.strip_suffix(b"\n")?;
    Some(line.strip_suffix(b"\r").unwrap_or(line))
}

/// A host without its port, an IPv6 address without its brackets.
fn without_port(host: &[u8]) -> &[u8] {
    if let Some(bracketed) = host.strip_prefix(b"[") {
        return bracketed.split(|&byte| byte == b']').next().unwrap_or_default();
    }
    let colon = host.iter().rposition(|&byte| byte == b':');
    colon.and_then(|colon| host.get(..colon)).unwrap_or(host)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(bytes: &[u8]) -> Option<&[u8]> {
        match read(bytes) {
            Request::Read { host, .. } => host,
            Request::NeedMore => None,
        }
    }

    #[test]
    fn the_host_is_found_without_its_port() {
        let request = b"GET / HTTP/1.1\r\nAccept: */*\r\nhOST:  example.com:8080 \r\n\r\n";
        assert!(begins_like_request(request));
        assert_eq!(host(request), Some(&b"example.com"[..]));
        assert_eq!(host(b"GET / HTTP/1.1\nHost: [2001:db8::1]:80\n\n"), Some(&b"2001:db8::1"[..]));
        let tunnel = read(b"CONNECT example.com:443 HTTP/1.1\r\nHost: other");
        assert_eq!(tunnel, Request::Read { host: Some(b"example.com"), is_connect: true });
    }

    #[test]
    fn a_request_without_host_is_read_to_its_end() {
        let none = Request::Read { host: None, is_connect: false };
        assert_eq!(read(b"GET / HTTP/1.0\r\n\r\nHost: body\r\n"), none);
        assert_eq!(read(b"GET / HTTP/1.1\r\nHost:\r\n\r\n"), none);
        for part in [&b"GET / HT"[..], b"GET / HTTP/1.1\r\n", b"GET / HTTP/1.1\r\nHost: exa"] {
            assert_eq!(read(part), Request::NeedMore);
        }
    }

    #[test]
    fn other_protocols_do_not_begin_like_a_request() {
        assert!(!begins_like_request(b"GETX"));
        assert!(!begins_like_request(b"OPTIONS sip:b@example.org SIP/2.0\r\n"));
        assert!(!begins_like_request(b"GET \x00\x01"));
        assert!(!begins_like_request(b"\x16\x03\x01"));
    }
}
