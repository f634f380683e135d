//! DNS, mDNS and LLMNR: what is asked for, without names of hosts and without answers.

use super::http::without_ids;
use super::{View, part, word};

/// Which names are features.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Names {
    /// Those of public servers: a product asks for its maker's.
    Public,
    /// Labels of services, such as `_hap._tcp.local`; the label before them names a unit.
    Services,
    /// None.
    None,
}

const HEADER_LEN: usize = 12;
const LABELS_MAX: usize = 32;
const RECORDS_MAX: usize = 32;
/// Ends of names that are given out in a network, and of those that hold addresses.
const PRIVATE_ENDS: [&[u8]; 14] = [
    b"local",
    b"localdomain",
    b"lan",
    b"home",
    b"internal",
    b"intranet",
    b"private",
    b"corp",
    b"arpa",
    b"box",
    b"localhost",
    b"domain",
    b"workgroup",
    b"host",
];

/// The labels of a name, and where what follows begins.
fn name(bytes: &[u8], start: usize) -> (Vec<&[u8]>, usize) {
    let (mut labels, mut at) = (Vec::new(), start);
    while let Some(&len) = bytes.get(at) {
        match len {
            0 => return (labels, at + 1),
            // A pointer ends a name.
            0xc0.. => return (labels, at + 2),
            _ if labels.len() < LABELS_MAX && len < 64 => {
                labels.push(part(bytes, at + 1, usize::from(len)));
                at += 1 + usize::from(len);
            }
            _ => break,
        }
    }
    (labels, bytes.len())
}

/// Whether a name of these labels is one of a public server.
pub(super) fn is_public(labels: &[&[u8]]) -> bool {
    let Some(last) = labels.last().filter(|_| labels.len() > 1) else { return false };
    last.len() > 1
        && last.iter().all(u8::is_ascii_alphabetic)
        && !PRIVATE_ENDS.iter().any(|end| last.eq_ignore_ascii_case(end))
}

/// Labels that are features; of others one byte is absent, however long they are.
fn put_name(view: &mut View<'_>, labels: &[&[u8]], names: Names) {
    let is_public = names == Names::Public && is_public(labels);
    for label in labels {
        let is_service = label.first() == Some(&b'_') || *label == b"local";
        if is_public || (names == Names::Services && is_service) {
            view.keep(&[u8::try_from(label.len()).unwrap_or(u8::MAX)]);
            view.filter(without_ids(label));
        } else {
            view.hide(1);
        }
    }
    view.keep(&[0]);
}

/// Flags and counts, then questions; of mDNS also names and types of the records.
pub(super) fn message(view: &mut View<'_>, bytes: &[u8], names: Names) {
    view.hide(2);
    view.keep(part(bytes, 2, HEADER_LEN - 2));
    let count = |at| word(bytes, at).map_or(0, usize::from);
    let questions = count(4).min(RECORDS_MAX);
    let mut at = HEADER_LEN;
    for _ in 0..questions {
        if at >= bytes.len() || view.is_full() {
            return;
        }
        let (labels, behind) = name(bytes, at);
        put_name(view, &labels, names);
        view.keep(part(bytes, behind, 4));
        at = behind + 4;
    }
    if names != Names::Services {
        return;
    }
    let records = (count(6) + count(8) + count(10)).min(RECORDS_MAX);
    for _ in 0..records {
        if at >= bytes.len() || view.is_full() {
            return;
        }
        let (labels, behind) = name(bytes, at);
        put_name(view, &labels, names);
        view.keep(part(bytes, behind, 4));
        let Some(len) = word(bytes, behind + 8) else { return };
        at = behind + 10 + usize::from(len);
    }
}
