//! What was stored is found, by us and by others.

use std::process::Command;

use packet::community_id::{community_digest, parse_community_id};
use packet::file::InterfaceStatistics;
use packet::{FlowKey, Protocol, Timestamp};
use packetlog::log::{FlowQuery, Log, Query};
use packetlog::recorder::{Notes, RecorderOptions, StoreOutcome};

use super::lab::*;

const COUNT: u32 = 20_000;

#[test]
fn every_packet_is_found_as_it_was_stored() {
    let folder = tempfile::tempdir().unwrap();
    record(options(folder.path()), 0..COUNT);
    let (got, report) = ask(folder.path(), &Query::default());
    assert_eq!(got.len(), COUNT as usize);
    assert_eq!(report.faults, []);
    for (number, got) in (0..COUNT).zip(&got) {
        let packet = Packet::numbered(number);
        let bytes = packet.bytes(number);
        let kept = &bytes[..bytes.len().min(packet.kept_len as usize)];
        let class = classes()[usize::from(packet.class)].name.clone();
        let wire_len = bytes.len() as u32;
        let wanted = LogPacket { number, ns: packet.ns, wire_len, bytes: kept.to_vec(), class };
        assert_eq!(*got, wanted, "in the order of their stamps, over both priorities");
    }
    assert!(files(folder.path(), ".pcapng").len() > 2, "files end where they are full");
}

#[test]
fn a_query_finds_what_a_look_at_every_packet_finds_and_reads_less() {
    let folder = tempfile::tempdir().unwrap();
    let mut wanted_hosts = 0;
    let (mut recorder, _) = begin(options(folder.path()));
    for number in 0..COUNT {
        let mut packet = Packet::numbered(number);
        if (7000..7100).contains(&number) {
            packet.source = [172, 16, 0, 1].into();
            wanted_hosts += 1;
        }
        store(&mut recorder, &packet, number);
    }
    recorder.finish().unwrap();
    let host = Query { hosts: vec![[172, 16, 0, 1].into()], ..Query::default() };
    let (got, report) = ask(folder.path(), &host);
    assert_eq!(got.len(), wanted_hosts);
    assert!(report.chunks_read < report.chunk_count / 10, "{report:?}");
    let class = Query { classes: vec!["scan".into()], ..Query::default() };
    let (got, report) = ask(folder.path(), &class);
    assert_eq!(got.len(), COUNT as usize / 10);
    assert!(report.chunks_read < report.chunk_count, "{report:?}");
    let stamp = |number: u32| Timestamp::from_ns(Packet::numbered(number).ns);
    let time = Query { from: Some(stamp(500)), to: Some(stamp(600)), ..Query::default() };
    let (got, report) = ask(folder.path(), &time);
    assert_eq!(
        got.iter().map(|got| got.number).collect::<Vec<_>>(),
        (500..600).collect::<Vec<_>>()
    );
    assert!(report.chunks_read < 10, "{report:?}");
    let nobody = Query { hosts: vec![[9, 9, 9, 9].into()], ..Query::default() };
    assert_eq!(ask(folder.path(), &nobody).1.chunks_read, 0);
    // The first packet of a class is far on: a query that is over does not look for it.
    let log = Log::open(folder.path()).unwrap();
    let plan = log.find(&class);
    let read = log.read_until(&class, &plan, &|| true, &mut |_| panic!("no packet is wanted"));
    assert_eq!(read.unwrap().chunks_read, 0);
}

#[test]
fn a_flow_is_found_by_its_ends_and_by_its_name() {
    let folder = tempfile::tempdir().unwrap();
    record(options(folder.path()), 0..COUNT);
    let packet = Packet::numbered(123);
    let (one, two) = (packet.source.into(), packet.destination.into());
    let key = FlowKey::from_tuple(two, one, 443, packet.port, Protocol::TCP).0;
    let id = packet::community_id::community_id(&key, 0);
    assert_eq!(parse_community_id(&id), Some(community_digest(&key, 0)));
    let wanted: Vec<u32> = (0..COUNT)
        .filter(|&number| {
            let other = Packet::numbered(number);
            (other.source, other.destination, other.port)
                == (packet.source, packet.destination, packet.port)
        })
        .collect();
    for flow in [FlowQuery::Key(key), FlowQuery::CommunityId(community_digest(&key, 0))] {
        let query = Query { flow: Some(flow), ..Query::default() };
        let got: Vec<u32> = ask(folder.path(), &query).0.iter().map(|got| got.number).collect();
        assert_eq!(got, wanted);
    }
}

#[test]
fn stats_tell_what_was_seen_stored_and_passed_over() {
    let folder = tempfile::tempdir().unwrap();
    let (mut recorder, _) = begin(options(folder.path()));
    recorder.mode(4, "log-sampled");
    for number in 0..1000 {
        let packet = Packet::numbered(number);
        if number % 4 == 0 {
            let bytes = packet.bytes(number);
            let record = packet.record(&bytes, 0);
            let judged = packetlog::PacketVerdict {
                class: packet.class,
                confidence: 1.0,
                basis: packetlog::Basis::Packet,
                flow: None,
            };
            recorder.pass_over(&packet::Frame::new(&bytes, &record), &judged);
        } else {
            store(&mut recorder, &packet, number);
        }
    }
    let rows = recorder.rows();
    recorder.finish().unwrap();
    let stats = Log::open(folder.path()).unwrap().stats();
    let total = stats.total();
    assert_eq!((total.seen_packets, total.stored_packets), (1000, 750));
    assert_eq!(stats.packet_count, 750);
    let names: Vec<&str> = stats.classes.iter().map(|class| class.name.as_str()).collect();
    assert_eq!(names, ["benign", "scan"]);
    for class in &stats.classes {
        assert_eq!(class.sums, rows[usize::from(class.sums.class)]);
    }
    assert_eq!(stats.first, Some(Timestamp::from_ns(Packet::numbered(1).ns)));
    assert!(stats.share().unwrap() < 1.0);
}

#[test]
fn files_end_with_their_time_also_when_the_clock_steps_back() {
    let folder = tempfile::tempdir().unwrap();
    let minute = packet::Span::from_seconds(60);
    let options = RecorderOptions { file_span_max: Some(minute), ..options(folder.path()) };
    let (mut recorder, _) = begin(options);
    for (number, second) in [0, 30, 59, 70, 4000, 100, 101].into_iter().enumerate() {
        let number = number as u32;
        let ns = START_NS + second * 1_000_000_000;
        let packet = Packet { ns, class: 0, ..Packet::numbered(number) };
        store(&mut recorder, &packet, number);
        recorder.flush();
    }
    recorder.finish().unwrap();
    let names: Vec<_> = files(folder.path(), ".pcapng")
        .iter()
        .map(|path| path.file_name().unwrap().to_str().unwrap().to_owned())
        .collect();
    assert_eq!(
        names,
        [
            "p0-20261121T093000Z-000000.pcapng",
            "p0-20261121T093110Z-000001.pcapng",
            "p0-20261121T093140Z-000003.pcapng",
            "p0-20261121T103640Z-000002.pcapng",
        ]
    );
    assert_eq!(numbers(folder.path()), [0, 1, 2, 3, 4, 5, 6]);
}

#[test]
fn notes_as_comments_are_read_too() {
    let folder = tempfile::tempdir().unwrap();
    record(RecorderOptions { notes: Notes::Comment, ..options(folder.path()) }, 0..1000);
    let query = Query { classes: vec!["scan".into()], ..Query::default() };
    assert_eq!(ask(folder.path(), &query).0.len(), 100);
}

#[test]
fn a_frame_that_no_chunk_holds_is_cut_and_its_length_told() {
    let folder = tempfile::tempdir().unwrap();
    let (mut recorder, _) = begin(options(folder.path()));
    let long = Packet { payload_len: 65_000, kept_len: u32::MAX, ..Packet::numbered(1) };
    assert_eq!(store(&mut recorder, &long, 1), StoreOutcome::Yes);
    assert_eq!(store(&mut recorder, &Packet::numbered(2), 2), StoreOutcome::Yes);
    let report = recorder.finish().unwrap();
    assert_eq!(report.frames_cut, 1);
    let (got, _) = ask(folder.path(), &Query::default());
    assert_eq!((got[0].wire_len, got.len()), (65_054, 2));
    assert!(got[0].bytes.len() > 50_000, "{}", got[0].bytes.len());
}

#[test]
fn other_programs_read_the_files() {
    let folder = tempfile::tempdir().unwrap();
    let (mut recorder, _) = begin(options(folder.path()));
    let statistics =
        InterfaceStatistics { received: Some(30), dropped: Some(7), ..Default::default() };
    recorder.losses(0, &statistics);
    for number in 0..5000 {
        store(&mut recorder, &Packet::numbered(number), number);
    }
    recorder.finish().unwrap();
    for file in files(folder.path(), ".pcapng") {
        for program in ["tshark", "tcpdump"] {
            if !has(program) {
                continue;
            }
            let arguments: &[&str] = match program {
                "tshark" => &["-n", "-T", "fields", "-e", "tcp.seq_raw", "-e", "frame.len", "-r"],
                _ => &["-n", "-r"],
            };
            let output = Command::new(program).args(arguments).arg(&file).output().unwrap();
            let errors = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{program}: {errors}");
            let lines = String::from_utf8(output.stdout).unwrap();
            let first = lines.lines().next().unwrap();
            if program == "tshark" {
                let number: u32 = first.split('\t').next().unwrap().parse().unwrap();
                let len = Packet::numbered(number).bytes(number).len();
                assert_eq!(first, format!("{number}\t{len}"), "the original length is kept");
            }
            let in_file = lines.lines().count();
            assert!(in_file > 100, "{program}: {in_file}");
        }
    }
    if has("tshark") {
        let count = |file: &std::path::Path| {
            let output = Command::new("tshark").arg("-n").arg("-r").arg(file).output().unwrap();
            String::from_utf8_lossy(&output.stdout).lines().count()
        };
        let sum: usize = files(folder.path(), ".pcapng").iter().map(|file| count(file)).sum();
        assert_eq!(sum, 5000);
    }
}
