//! HTTP and what is written like it: SSDP, RTSP, SIP, banners of SSH.

use super::dns::is_public;
use super::{View, part};

const STARTS: [&[u8]; 22] = [
    b"GET ",
    b"POST ",
    b"PUT ",
    b"HEAD ",
    b"DELETE ",
    b"PATCH ",
    b"OPTIONS ",
    b"CONNECT ",
    b"NOTIFY ",
    b"M-SEARCH ",
    b"SUBSCRIBE ",
    b"UNSUBSCRIBE ",
    b"HTTP/",
    b"RTSP/",
    b"SIP/",
    b"SSH-",
    b"DESCRIBE ",
    b"SETUP ",
    b"PLAY ",
    b"REGISTER ",
    b"INVITE ",
    b"<?xml ",
];
/// Fields whose values are of a product, with ids taken out. Of others the name stays.
const FIELDS_KEPT: [&[u8]; 22] = [
    b"server",
    b"user-agent",
    b"st",
    b"nt",
    b"nts",
    b"man",
    b"mx",
    b"cache-control",
    b"content-type",
    b"accept",
    b"accept-encoding",
    b"accept-language",
    b"accept-charset",
    b"connection",
    b"soapaction",
    b"transfer-encoding",
    b"pragma",
    b"upgrade",
    b"ext",
    b"public",
    b"allow",
    b"proxy-connection",
];
const HOST: &[u8] = b"host";
/// Where SSDP is sent to, in every network.
const SSDP: &[u8] = b"239.255.255.250";

/// Whether bytes begin as a message does.
pub(super) fn is_message(bytes: &[u8]) -> bool {
    STARTS.iter().any(|start| bytes.starts_with(start))
}

/// The first line without queries, and the fields; no body.
pub(super) fn message(view: &mut View<'_>, bytes: &[u8]) {
    for (index, line) in bytes.split_inclusive(|&byte| byte == b'\n').enumerate() {
        if view.is_full() || line == b"\r\n" || line == b"\n" {
            return;
        }
        if index == 0 {
            first_line(view, line);
        } else {
            field(view, line);
        }
    }
}

/// A path or a status stays, behind the method; a query does not, nor a target that names a host
/// or a user.
fn first_line(view: &mut View<'_>, line: &[u8]) {
    let space = |byte: &u8| *byte == b' ';
    let start = line.iter().position(space).map_or(line.len(), |at| at + 1);
    // Of a line that is cut the target may be, too.
    let end = line.iter().rposition(space).filter(|&end| end >= start).unwrap_or(line.len());
    let target = part(line, start, end - start);
    let is_shown = target.first().is_none_or(|b| b"/*".contains(b) || b.is_ascii_digit());
    let path_len = target.iter().position(|&byte| byte == b'?').unwrap_or(target.len());
    let hidden_from = if is_shown { start + path_len } else { start };
    let bytes = without_ids(line).enumerate();
    view.filter(
        bytes.map(|(at, (byte, is_kept))| (byte, is_kept && !(hidden_from..end).contains(&at))),
    );
}

fn field(view: &mut View<'_>, line: &[u8]) {
    let Some(colon) = line.iter().position(|&byte| byte == b':') else {
        // No field: the rest of a first line, or anything.
        return view.hide(line.len());
    };
    let (name, value) = line.split_at(colon + 1);
    let bare = name.trim_ascii_end().strip_suffix(b":").unwrap_or_default();
    if bare.iter().all(|&byte| byte.is_ascii_alphabetic() || byte == b'-') {
        view.keep(name);
    } else {
        return view.hide(line.len());
    }
    let is_of = |kept: &&[u8]| bare.eq_ignore_ascii_case(kept);
    let is_kept = FIELDS_KEPT.iter().any(is_of)
        || (bare.eq_ignore_ascii_case(HOST) && is_public_host(value.trim_ascii()));
    if is_kept {
        view.filter(without_ids(value));
    } else {
        view.hide(value.len());
    }
}

fn is_public_host(value: &[u8]) -> bool {
    let host = value.split(|&byte| byte == b':').next().unwrap_or_default();
    host == SSDP || is_public(&host.split(|&byte| byte == b'.').collect::<Vec<_>>())
}

/// Each byte of a text, and whether it is a feature. Absent are: what stands behind `uuid:`,
/// addresses, words of many digits, and long ones that mix letters and digits.
pub(super) fn without_ids(text: &[u8]) -> impl Iterator<Item = (u8, bool)> + '_ {
    let mut is_kept = vec![true; text.len()];
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || !byte.is_ascii();
    hide_runs(text, &mut is_kept, is_word, is_id);
    let is_of_address = |byte: u8| byte.is_ascii_hexdigit() || b".:-".contains(&byte);
    hide_runs(text, &mut is_kept, is_of_address, is_address);
    if let Some(at) = text.windows(5).position(|five| five.eq_ignore_ascii_case(b"uuid:")) {
        let end = text[at..].iter().position(|byte| b" \r\n".contains(byte));
        let end = end.map_or(text.len(), |end| at + end);
        is_kept.get_mut(at + 5..end).unwrap_or_default().fill(false);
    }
    text.iter().copied().zip(is_kept)
}

/// Hides runs of bytes of a kind that a rule finds.
fn hide_runs(
    text: &[u8],
    is_kept: &mut [bool],
    is_of_run: impl Fn(u8) -> bool,
    is_hidden: impl Fn(&[u8]) -> bool,
) {
    let mut start = 0;
    while start < text.len() {
        let rest = text.get(start..).unwrap_or_default();
        let len = rest.iter().take_while(|&&byte| is_of_run(byte)).count();
        if len > 0 && is_hidden(&rest[..len]) {
            is_kept.get_mut(start..start + len).unwrap_or_default().fill(false);
        }
        start += len.max(1);
    }
}

/// Serial numbers, hardware addresses, tokens and user names.
fn is_id(word: &[u8]) -> bool {
    let digits = word.iter().filter(|byte| byte.is_ascii_digit()).count();
    let is_hex = word.iter().all(u8::is_ascii_hexdigit);
    digits >= 4 || (digits > 0 && word.len() >= 12) || (is_hex && word.len() >= 6)
}

/// IPv4 addresses but that of SSDP, IPv6 addresses, and hardware addresses with signs between.
fn is_address(run: &[u8]) -> bool {
    let bare = run.strip_suffix(b".").unwrap_or(run);
    if bare.starts_with(SSDP) {
        return false;
    }
    let count = |sign: u8| bare.iter().filter(|&&byte| byte == sign).count();
    let has_digit = bare.iter().any(u8::is_ascii_digit);
    (count(b'.') >= 3 && has_digit) || count(b':') >= 2 || (count(b'-') >= 3 && has_digit)
}
