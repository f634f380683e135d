//! The header says what the crate does: the same numbers, fields and functions.

use std::collections::BTreeSet;
use std::mem::{offset_of, size_of};

use crate::{
    WlCounts, WlDeparture, WlEnqueueOutcome, WlMarkerCounts, WlMarking, WlRecord, WlState,
    WlSteeringCounts,
};

fn header() -> String {
    read("../../testbed/ns3/wirelens_l4s.h")
}

fn read(path: &str) -> String {
    let path = format!("{}/{path}", env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"))
}

fn number(header: &str, name: &str) -> usize {
    let found = header.lines().find_map(|line| line.strip_prefix(&format!("#define {name} ")));
    found.and_then(|value| value.parse().ok()).unwrap_or_else(|| panic!("{name} is not a number"))
}

/// Fields of a structure as C lays them out: each at its offset.
fn fields(header: &str, name: &str) -> (Vec<(String, usize)>, usize) {
    let end = header.find(&format!("}} {name};")).unwrap_or_else(|| panic!("no {name}"));
    let start = header[..end].rfind('{').expect("a brace") + 1;
    let (mut fields, mut offset, mut most) = (Vec::new(), 0_usize, 1);
    for line in header[start..end].lines().map(str::trim).filter(|line| !line.is_empty()) {
        let (kind, field) = line.trim_end_matches(';').split_once(' ').expect("type and name");
        let size = match kind {
            "uint64_t" | "double" => 8,
            "uint32_t" => 4,
            "uint16_t" => 2,
            "uint8_t" => 1,
            _ => panic!("{kind} is not expected in {name}"),
        };
        let count = if field.ends_with("[2]") { 2 } else { 1 };
        offset = offset.next_multiple_of(size);
        fields.push((field.trim_end_matches("[2]").to_owned(), offset));
        (offset, most) = (offset + size * count, most.max(size));
    }
    (fields, offset.next_multiple_of(most))
}

/// What the crate says of a structure, as [`fields`] says it.
macro_rules! ours {
    ($type:ty, $($field:ident),+) => {
        (vec![$((stringify!($field).to_owned(), offset_of!($type, $field))),+], size_of::<$type>())
    };
}

#[test]
fn structures_are_laid_out_alike() {
    let header = header();
    assert_eq!(fields(&header, "wl_enqueue_outcome"), ours!(WlEnqueueOutcome, queue, outcome));
    assert_eq!(
        fields(&header, "wl_departure"),
        ours!(WlDeparture, tag, entered_ns, len, ecn, queue, outcome, mark)
    );
    assert_eq!(
        fields(&header, "wl_counts"),
        ours!(
            WlCounts,
            received,
            sent,
            sent_bytes,
            dropped_full,
            dropped_early,
            dropped_late,
            marked_pi,
            marked_threshold,
            waiting
        )
    );
    assert_eq!(fields(&header, "wl_state"), ours!(WlState, packets, bytes, delay_ns, probability));
    assert_eq!(fields(&header, "wl_steering_counts_of"), ours!(WlSteeringCounts, asked, remarked));
    assert_eq!(fields(&header, "wl_marking"), ours!(WlMarking, number, ecn));
    assert_eq!(
        fields(&header, "wl_marker_counts_of"),
        ours!(WlMarkerCounts, asked, kept, remarked, silent, unknown, limited, rare)
    );
    assert_eq!(
        fields(&header, "wl_record"),
        ours!(
            WlRecord,
            sent_ns,
            entered_ns,
            left_ns,
            received_ns,
            acked_ns,
            sequence,
            flow,
            size,
            found_l4s,
            found_classic,
            sender,
            receiver,
            ecn_sent,
            ecn_left,
            queue,
            outcome,
            mark,
            flags
        )
    );
}

#[test]
fn lengths_and_ecn_fields_are_the_same() {
    let header = header();
    assert_eq!(number(&header, "WL_RECORD_LEN"), l4s::trace::RECORD_LEN);
    assert_eq!(number(&header, "WL_MAGIC_LEN"), l4s::trace::MAGIC.len());
    assert_eq!(number(&header, "WL_ENTRY_LEN"), l4s::journal::ENTRY_LEN);
    use dualq::Ecn;
    for (name, ecn) in [
        ("WL_NOT_ECT", Ecn::NotEct),
        ("WL_ECT1", Ecn::Ect1),
        ("WL_ECT0", Ecn::Ect0),
        ("WL_CE", Ecn::Ce),
    ] {
        assert_eq!(number(&header, name), usize::from(ecn.bits()), "{name}");
    }
    assert_eq!(number(&header, "WL_L4S"), dualq::Queue::L4s as usize);
    assert_eq!(number(&header, "WL_CLASSIC"), dualq::Queue::Classic as usize);
}

/// What a trace and a router make of the header's numbers.
#[test]
fn outcomes_marks_and_flags_are_those_of_the_specification() {
    use dualq::{DropCause, MarkCause};
    use l4s::trace::{Outcome, Record};
    let header = header();
    let byte = |name| u8::try_from(number(&header, name)).expect("a byte");
    let read = |outcome, mark, flags| {
        Record::from(WlRecord { outcome, mark, flags, ..WlRecord::default() })
    };
    for (name, outcome) in [
        ("WL_SENT", Outcome::Sent),
        ("WL_DROPPED_FULL", Outcome::Dropped(DropCause::Full)),
        ("WL_DROPPED_EARLY", Outcome::Dropped(DropCause::Early)),
        ("WL_DROPPED_LATE", Outcome::Dropped(DropCause::Late)),
        ("WL_WAITING", Outcome::Waiting),
    ] {
        let record = read(byte(name), 0, 0);
        assert_eq!(record.outcome, outcome, "{name}");
        assert_eq!(record.to_bytes()[71], byte(name), "{name}");
    }
    for (name, mark) in [
        ("WL_UNMARKED", None),
        ("WL_MARKED_PI", Some(MarkCause::Pi)),
        ("WL_MARKED_THRESHOLD", Some(MarkCause::Threshold)),
    ] {
        let record = read(0, byte(name), 0);
        assert_eq!(record.mark, mark, "{name}");
        assert_eq!(record.to_bytes()[72], byte(name), "{name}");
    }
    let flagged = read(0, 0, byte("WL_RETRANSMISSION"));
    assert!(flagged.is_retransmission && !flagged.is_remarked);
    assert!(read(0, 0, byte("WL_REMARKED")).is_remarked);
}

/// Names of functions: `wl_` before `(`, where a line of the pattern begins.
fn functions(text: &str, is_declaration: impl Fn(&str) -> bool) -> BTreeSet<String> {
    let lines = text.lines().filter(|line| is_declaration(line));
    let names = lines.filter_map(|line| {
        let before = line.split_once('(')?.0;
        Some(before[before.rfind("wl_")?..].to_owned())
    });
    names.collect()
}

#[test]
fn the_header_declares_every_function_and_no_other() {
    let of_crate = ["router", "steering", "marker", "records"].map(|name| {
        functions(&read(&format!("src/{name}.rs")), |line| line.contains("extern \"C\" fn"))
    });
    let of_crate: BTreeSet<String> = of_crate.into_iter().flatten().collect();
    let of_header = functions(&header(), |line| {
        line.starts_with(|first: char| first.is_ascii_lowercase()) && !line.starts_with("typedef")
    });
    assert!(of_crate.len() >= 12, "{of_crate:?}");
    assert_eq!(of_header, of_crate);
}
