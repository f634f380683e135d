use super::*;
use crate::predictor::tests::{MS, constant};

fn packet(at_ns: u64) -> SentPacket {
    SentPacket { at_ns, flow: 1, receiver: 1, size: 1_500 }
}

/// 5 ms are enough, for a single packet too.
fn eager() -> MarkerSettings {
    MarkerSettings { margin_ns: 5 * MS, recent_min: 0.0, ..MarkerSettings::default() }
}

/// A marker whose model adds so many ms to the newest latency of either queue; 45 ms were seen of
/// the L4S queue, 40 ms of the classic one.
fn marker(settings: MarkerSettings) -> Marker {
    seen(Marker::new(Arc::new(constant(0.0)), settings).unwrap())
}

fn seen(mut marker: Marker) -> Marker {
    let (_, l4s) = marker.leave(&packet(0), Ecn::Ect1);
    let (_, classic) = marker.leave(&packet(1), Ecn::NotEct);
    marker.acknowledge(classic, 40 * MS + 1, Some(40 * MS));
    marker.acknowledge(l4s, 45 * MS, Some(45 * MS));
    marker
}

#[test]
fn a_packet_leaves_the_queue_that_is_predicted_to_be_slower() {
    let settings = MarkerSettings { share_max: 1.0, ..eager() };
    let mut marker = marker(settings);
    assert_eq!(marker.leave(&packet(50 * MS), Ecn::Ect1).0, Ecn::NotEct);
    assert_eq!(marker.leave(&packet(50 * MS), Ecn::NotEct).0, Ecn::NotEct);
    let counts = MarkerCounts { asked: 2, unknown: 1, remarked: 1, ..MarkerCounts::default() };
    assert_eq!(marker.counts(), counts);
    let patient = MarkerSettings { margin_ns: 6 * MS, ..settings };
    let mut marker = self::marker(patient);
    assert_eq!(marker.leave(&packet(50 * MS), Ecn::Ect1).0, Ecn::Ect1);
    assert_eq!(marker.counts().kept, 1);
}

#[test]
fn packets_keep_their_marking_on_a_path_unlike_those_that_trained() {
    // The lowest latency seen is 40 ms.
    for (range, is_known) in
        [([10, 34], true), ([10, 33], false), ([50, 80], true), ([51, 80], false)]
    {
        let settings = MarkerSettings { share_max: 1.0, ..eager() };
        let model = crate::predictor::tests::trained_on(range.map(|ms| ms * MS));
        let mut marker = seen(Marker::new(Arc::new(model), settings).unwrap());
        marker.leave(&packet(50 * MS), Ecn::Ect1);
        let MarkerCounts { remarked, unknown, .. } = marker.counts();
        // The first packet left before any acknowledgement.
        assert_eq!((remarked, unknown), if is_known { (1, 1) } else { (0, 2) }, "{range:?}");
        assert_eq!(marker.foreign_floor_ns(), (!is_known).then_some(40 * MS));
    }
}

#[test]
fn packets_keep_their_marking_when_acknowledgements_stop() {
    let mut marker = marker(MarkerSettings { share_max: 1.0, ..eager() });
    assert_eq!(marker.leave(&packet(1_000 * MS), Ecn::Ect1).0, Ecn::Ect1);
    assert_eq!(marker.counts().silent, 1);
}

#[test]
fn a_late_prediction_is_not_followed_and_what_departs_is_learned_from() {
    let mut marker = marker(MarkerSettings { share_max: 1.0, ..eager() });
    let predicted = marker.predict(&packet(50 * MS));
    assert_eq!(marker.judge(50 * MS, predicted, true), Verdict::Late);
    assert_eq!(marker.judge(50 * MS, predicted, false), Verdict::Remark);
    // Whoever saw it leave says by which queue it did.
    marker.depart(&packet(50 * MS), Queue::L4s);
    let counts =
        MarkerCounts { asked: 3, unknown: 1, late: 1, remarked: 1, ..MarkerCounts::default() };
    assert_eq!(marker.counts(), counts);
}

#[test]
fn the_share_of_remarked_packets_has_a_limit() {
    let mut marker = marker(MarkerSettings { share_max: 0.25, ..eager() });
    for at in 0..400 {
        marker.leave(&packet(50 * MS + at), Ecn::Ect1);
    }
    let counts = marker.counts();
    assert!((98..=101).contains(&counts.remarked), "{counts:?}");
    assert_eq!(counts.asked, counts.remarked + counts.limited + counts.unknown);
}

#[test]
fn a_marker_begins_once_the_classic_queue_is_better_for_more_than_a_few_packets() {
    let settings = MarkerSettings { share_max: 1.0, recent_min: 0.02, ..eager() };
    let mut marker = marker(settings);
    let first = (1..).find(|_| marker.leave(&packet(50 * MS), Ecn::Ect1).0 == Ecn::NotEct);
    // 1 - (1 - 1 / 4096)^83 is the first above 0.02.
    assert_eq!((first, marker.counts().rare), (Some(83), 82));
}

#[test]
fn settings_are_read_as_they_are_written() {
    for text in ["predicted:1000000ns:0.3:0.05", "predicted:0ns:1:0"] {
        assert_eq!(text.parse::<MarkerSettings>().map(|one| one.to_string()).unwrap(), text);
    }
    assert_eq!("predicted:3ms".parse(), Ok(MarkerSettings::default()));
    assert_eq!("predicted:3ms:0.8".parse(), Ok(MarkerSettings::default()));
    let wrong = ["", "predicted", "predicted:1", "predicted:1ms:2", "predicted:1ms:x", "last:1ms"];
    for text in wrong.into_iter().chain(["predicted:1ms:1:2", "predicted:1ms:1:0:0"]) {
        assert!(text.parse::<MarkerSettings>().unwrap_err().to_string().contains("wanted"));
    }
}
