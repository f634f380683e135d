//! Files of models that cannot be: refused in a line, and before they fill the memory.

use std::net::IpAddr;

use cca::model::Scratch;
use cca::votes::FlowHistory;
use cca::{FlowWay, Model, Period, UnnamedReason, Votes};
use packet::{FlowKey, Protocol};
use serde_json::{Map, Value, json};

/// A file of networks of one block of one filter, which all have these weights.
fn file(networks: &[Value], weight: f32) -> Vec<u8> {
    file_that_says(networks, weight, json!({}))
}

fn file_that_says(networks: &[Value], weight: f32, more: Value) -> Vec<u8> {
    file_of_width(1, networks, weight, more)
}

/// The same of networks that read so many columns.
fn file_of_width(width: usize, networks: &[Value], weight: f32, more: Value) -> Vec<u8> {
    let mut header = Map::new();
    let mut said = json!({
        "format": "wirelens-cca 1", "controls": ["reno", "bbr"], "inputs": ["cbiq_bytes"],
        "slot_ns": 1_000_000, "passed": "highest", "networks": networks,
    });
    if let (Some(said), Value::Object(more)) = (said.as_object_mut(), more) {
        said.extend(more);
    }
    header.insert("__metadata__".into(), json!({ "wirelens": said.to_string() }));
    let mut end = 0;
    let mut lengths: Vec<u64> = networks.iter().filter_map(|one| one["slots"].as_u64()).collect();
    lengths.dedup();
    for slots in lengths {
        for (name, inputs, outputs) in [("block0", width, 1), ("head", 1, 2)] {
            let weight = json!([outputs, inputs, 3]);
            for (part, shape) in [("weight", weight), ("bias", json!([outputs]))] {
                let start = end;
                end += 4 * outputs * if part == "weight" { 3 * inputs } else { 1 };
                let tensor = json!({"dtype": "F32", "shape": shape, "data_offsets": [start, end]});
                header.insert(format!("{slots}.{name}.{part}"), tensor);
            }
        }
    }
    let header = Value::Object(header).to_string();
    let mut file = (header.len() as u64).to_le_bytes().to_vec();
    file.extend_from_slice(header.as_bytes());
    file.extend((0..end / 4).flat_map(|_| weight.to_le_bytes()));
    file
}

fn network(slots: u64, pool_len: u64) -> Value {
    json!({
        "slots": slots, "pool_len": pool_len, "blocks": 1, "temperature": 1.0, "unknown_below": 0.1,
    })
}

fn refusal(file: &[u8]) -> String {
    Model::parse(file).map_or_else(|error| error.to_string(), |_| "it was read".to_owned())
}

#[test]
fn a_whole_file_is_read() {
    let model = Model::parse(&file(&[network(4, 2), network(8, 2)], 0.5)).unwrap();
    assert_eq!(model.longest(100), Some(8));
    let told = model.tell(&[1.0; 4], 1, &mut Scratch::default()).unwrap();
    assert!((told.confidence - 0.5).abs() < 1e-9 && told.control == Some(0), "{told:?}");
}

#[test]
fn flows_of_other_controls_are_not_named() {
    let told = |more: Value| {
        let model = Model::parse(&file_that_says(&[network(4, 2)], 0.5, more)).unwrap();
        let scratch = &mut Scratch::default();
        let alone = model.tell(&[1.0; 4], 1, scratch).unwrap();
        let together = model.tell_together(&[vec![1.0; 4], vec![1.0; 4]], scratch).unwrap();
        let (way, history) = (way(), FlowHistory { slots: 4, began: false, slots_kept: 9 });
        let mut votes = Votes::default();
        for window in votes.wanted(&model, &way, 8, history) {
            votes.add(&model, &way, window.start, &[1.0; 4], scratch);
        }
        let voted = votes.told(&model, &way, 8).unwrap();
        [alone, together, voted].map(|told| {
            let why = told.unnamed.map(UnnamedReason::name);
            (told.control, why, told.probability().is_some())
        })
    };
    // Of two that are as probable, the first is the answer.
    let names = |first: &str, second: &str| json!({ "controls": [first, second] });
    assert_eq!(told(names("other", "bbr")), [(None, Some("other"), true); 3]);
    assert_eq!(told(names("bbr", "other")), [(Some(0), None, true); 3]);
}

#[test]
fn networks_that_share_their_weights_are_refused() {
    let text = refusal(&file(&[network(4, 2), network(4, 2)], 0.5));
    assert!(text.contains("networks") && text.contains("one for each length"), "{text}");
}

#[test]
fn intervals_that_no_memory_holds_are_refused() {
    let text = refusal(&file(&[network(1 << 23, 2)], 0.5));
    assert!(text.contains("slots") && text.contains("wanted: 1 to"), "{text}");
    let text = refusal(&file(&[network(2, 3)], 0.5));
    assert!(text.contains("for its pools"), "{text}");
}

#[test]
fn scores_that_are_no_numbers_tell_nothing() {
    let model = Model::parse(&file(&[network(4, 2)], f32::MAX)).unwrap();
    assert_eq!(model.tell(&[1.0; 4], 1, &mut Scratch::default()), None);
}

#[test]
fn a_file_that_is_cut_anywhere_is_refused_in_a_line() {
    let whole = file(&[network(4, 2)], 0.5);
    for end in 0..whole.len() {
        let text = refusal(&whole[..end]);
        assert!(!text.contains('\n'), "{text}");
    }
    // What a library quotes of a file is in one line, and does nothing to a terminal.
    let header = br#"{"a":{"dtype":"F\n\u001b[2J3","shape":[1],"data_offsets":[0,4]}}"#;
    let mut quoted = (header.len() as u64).to_le_bytes().to_vec();
    quoted.extend(header.iter().chain(&[0; 4]));
    let text = refusal(&quoted);
    assert!(text.contains("F  [2J3") && !text.contains(char::is_control), "{text:?}");
}

/// Of one tap, with levels, trained on flows of 1 to 10 Mbit/s and round trips of 10 to 100 ms.
fn one_tap(width: usize, more: &Value) -> Vec<u8> {
    let mut said = json!({
        "inputs": ["acked_bytes", "path_rtt_s"], "rows_per_rtt": 2, "levels": true,
        "range": { "rate_bit": [1e6, 1e7], "rtt_s": [0.01, 0.1] },
    });
    if let (Some(said), Value::Object(more)) = (said.as_object_mut(), more.clone()) {
        said.extend(more);
    }
    file_of_width(width, &[network(4, 2)], 0.5, said)
}

#[test]
fn levels_are_read_beside_shapes() {
    let model = Model::parse(&one_tap(5, &json!({}))).unwrap();
    // 5,000 bytes in each row of 10 ms are 4 Mbit/s.
    let rows = [5e3, 0.02, 5e3, 0.02, 5e3, 0.02, 5e3, 0.02];
    let told = model.tell(&rows, 10, &mut Scratch::default()).unwrap();
    assert_eq!((told.control, told.slots, told.unnamed), (Some(0), 40, None));
    let [first, second, third] = told.likeliest;
    assert!(first.is_some_and(|(control, sure)| control == 0 && (sure - 0.5).abs() < 1e-9));
    assert!(second.is_some_and(|(control, _)| control == 1) && third.is_none());
    let text = refusal(&one_tap(2, &json!({})));
    assert!(text.contains("[1, 2, 3]; wanted: [1, 5, 3]"), "{text}");
    let text = refusal(&one_tap(5, &json!({ "levels": 1 })));
    assert!(text.contains("levels: 1: wanted: true or false"), "{text}");
    let levels = json!({ "levels": true, "inputs": ["acked_bytes", "path_rtt_s"] });
    let text = refusal(&file_of_width(5, &[network(4, 2)], 0.5, levels));
    assert!(text.contains("levels: true: wanted: with one tap, with rows_per_rtt"), "{text}");
}

#[test]
fn of_two_taps_levels_and_shares_are_read_beside_shapes() {
    let levels = |inputs: Value| json!({ "levels": true, "queue_shares": true, "inputs": inputs });
    let of_width = |width| {
        file_of_width(width, &[network(4, 2)], 0.5, levels(json!(["cbiq_bytes", "ingress_bytes"])))
    };
    let model = Model::parse(&of_width(6)).unwrap();
    assert!(model.reads_sums());
    // Of each slot what the flow has, and what all have.
    let rows = [5e3, 1448.0, 1e4, 2896.0].repeat(4);
    let told = model.tell(&rows, 1, &mut Scratch::default()).unwrap();
    assert_eq!((told.control, told.slots), (Some(0), 4));
    assert_eq!(model.tell(&rows[..8], 1, &mut Scratch::default()), None);
    let text = refusal(&of_width(2));
    assert!(text.contains("[1, 2, 3]; wanted: [1, 6, 3]"), "{text}");
    let gaps = levels(json!(["arrival_gap_ns"]));
    let text = refusal(&file_of_width(3, &[network(4, 2)], 0.5, gaps));
    assert!(text.contains("levels: true: arrival_gap_ns: no flow has a share"), "{text}");
    assert!(!Model::parse(&file(&[network(4, 2)], 0.5)).unwrap().reads_sums());
}

#[test]
fn of_two_taps_levels_are_read_without_sums_where_no_share_is() {
    let said = |more: Value| {
        let mut said = json!({ "inputs": ["cbiq_bytes", "ingress_bytes"] });
        said.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        file_of_width(4, &[network(4, 2)], 0.5, said)
    };
    let model = Model::parse(&said(json!({ "levels": true }))).unwrap();
    assert!(!model.reads_sums());
    let rows = [5e3, 1448.0].repeat(4);
    let told = model.tell(&rows, 1, &mut Scratch::default()).unwrap();
    assert_eq!((told.control, told.slots), (Some(0), 4));
    for more in [json!({ "queue_shares": true }), json!({ "levels": true, "queue_shares": 1 })] {
        let text = refusal(&said(more));
        assert!(text.contains("queue_shares: "), "{text}");
    }
    let text = refusal(&one_tap(5, &json!({ "queue_shares": true })));
    assert!(text.contains("queue_shares: true: wanted: with two taps, with levels"), "{text}");
}

/// Windows of two slots that tell BBR, by 1 more, until a flow is known for the eight of the next.
#[test]
fn short_windows_vote_until_a_longer_one_is_known() {
    let voting = |correlation: Value| {
        let mut short = network(2, 1);
        if !correlation.is_null() {
            short["correlation"] = correlation;
        }
        // Tensors of the first network stand first, and the bias of its last score last of them.
        let networks = [short, network(8, 2)];
        let mut bytes = file(&networks, 0.5);
        let first_len = 4 * (3 + 1 + 6 + 2);
        let header_len = u64::from_le_bytes(bytes[..8].try_into().unwrap());
        let bias = 8 + usize::try_from(header_len).unwrap() + first_len - 4;
        bytes[bias..bias + 4].copy_from_slice(&1.5_f32.to_le_bytes());
        bytes
    };
    let logistic = |score: f64| 1.0 / (1.0 + (-score).exp());
    for (correlation, worth) in [(json!(0.0), 3.0), (json!(1.0), 1.0), (json!(0.25), 2.0)] {
        let model = Model::parse(&voting(correlation)).unwrap();
        assert_eq!([2, 5, 7].map(|slots| model.shorter_windows(2, slots)), [1, 2, 3]);
        let windows = vec![vec![1.0; 2]; 3];
        let told = model.tell_together(&windows, &mut Scratch::default()).unwrap();
        assert_eq!((told.control, told.slots), (Some(1), 6));
        assert!((told.confidence - logistic(worth)).abs() < 1e-6, "{told:?}");
        let one = model.tell_together(&windows[..1], &mut Scratch::default()).unwrap();
        assert_eq!(
            (one.slots, one),
            (2, model.tell(&[1.0; 2], 1, &mut Scratch::default()).unwrap())
        );
        // The longest votes elsewhere.
        assert_eq!(model.shorter_windows(8, 100), 1);
    }
    assert_eq!(Model::parse(&voting(json!(null))).unwrap().shorter_windows(2, 7), 1);
    assert!(refusal(&voting(json!(2.0))).contains("networks.correlation"));
    let mut of_one_tap = network(4, 2);
    of_one_tap["correlation"] = 0.1.into();
    let said = json!({ "inputs": ["flight_bytes"] });
    let text = refusal(&file_that_says(&[of_one_tap], 0.5, said));
    assert!(text.contains("correlation of two taps alone"), "{text}");
}

#[test]
fn flows_outside_of_training_are_not_named() {
    let model = Model::parse(&one_tap(5, &json!({}))).unwrap();
    let told = |acked: f32, rtt_s: f32| {
        let rows = [acked, rtt_s].repeat(4);
        let told = model.tell(&rows, 10, &mut Scratch::default()).unwrap();
        (told.control, told.unnamed.map(UnnamedReason::name), told.probability().is_some())
    };
    assert_eq!(told(5e3, 0.02), (Some(0), None, true));
    assert_eq!(told(5e4, 0.02), (None, Some("rate"), false));
    assert_eq!(told(5e3, 0.2), (None, Some("rtt"), false));
    let inputs = json!({ "inputs": ["acked_bytes", "rtt_s"] });
    let text = refusal(&one_tap(5, &inputs));
    assert!(text.contains("range") && text.contains("with the inputs acked_bytes and path_rtt_s"));
}

/// Windows of four slots of which three count together; BBR is identified, by 1 more than Reno.
#[allow(clippy::unwrap_used)] // It is a test's.
fn voting_model(correlation: f32) -> Model {
    let votes = json!({ "votes": { "most": 3, "correlation": correlation } });
    let mut file = file_that_says(&[network(4, 2)], 0.5, votes);
    // The bias of the last score stands last.
    let bias = file.len() - 4;
    file[bias..].copy_from_slice(&1.5_f32.to_le_bytes());
    Model::parse(&file).unwrap()
}

fn way() -> FlowWay {
    let [source, destination] = [1, 2].map(|last| IpAddr::from([192, 0, 2, last]));
    let (key, direction) = FlowKey::from_tuple(source, destination, 5001, 80, Protocol::TCP);
    FlowWay { key, direction }
}

/// Windows of four slots that tell nothing, and intervals of two of them that tell BBR, by 1 more.
#[allow(clippy::unwrap_used)] // It is a test's.
fn model_with_longer() -> Model {
    let votes = json!({ "votes": { "most": 4, "correlation": 0.0, "part": 0.5 } });
    let mut file = file_that_says(&[network(4, 2), longer(8, 2)], 0.5, votes);
    let bias = file.len() - 4;
    file[bias..].copy_from_slice(&1.5_f32.to_le_bytes());
    Model::parse(&file).unwrap()
}

fn longer(slots: u64, row_slots: u64) -> Value {
    let mut network = network(slots, 2);
    network["row_slots"] = row_slots.into();
    network
}

/// All that is wanted is added; how many windows that were.
fn vote(votes: &mut Votes, model: &Model, end: i64, slots: usize, slots_kept: usize) -> usize {
    let wanted = votes.wanted(model, &way(), end, FlowHistory { slots, began: false, slots_kept });
    for window in &wanted {
        votes.add(model, &way(), window.start, &[1.0; 4], &mut Scratch::default());
    }
    wanted.len()
}

#[test]
fn windows_that_were_added_are_not_wanted_again_and_count_up_to_the_most() {
    let (model, mut votes) = (voting_model(0.0), Votes::default());
    let known = FlowHistory { slots: 10, began: false, slots_kept: 10 };
    let wanted = votes.wanted(&model, &way(), 100, known);
    assert_eq!(wanted, [Period { start: 92, len: 4 }, Period { start: 96, len: 4 }]);
    assert_eq!(votes.told(&model, &way(), 100), None);
    assert_eq!(vote(&mut votes, &model, 100, 10, 10), 2);
    assert_eq!(votes.told(&model, &way(), 100).unwrap().slots, 8);
    // Only what is known is read, and what was told before counts all the same.
    assert_eq!(vote(&mut votes, &model, 104, 10, 10), 1);
    assert_eq!(votes.told(&model, &way(), 104).unwrap().slots, 12);
    assert_eq!(vote(&mut votes, &model, 108, 10, 10), 1);
    assert_eq!(votes.told(&model, &way(), 108).unwrap().slots, 12);
    votes.forget_before(&model, 200);
    assert_eq!(votes.told(&model, &way(), 108), None);
}

#[test]
fn windows_are_worth_what_they_do_not_share() {
    let confidence = |correlation, slots| {
        let (model, mut votes) = (voting_model(correlation), Votes::default());
        vote(&mut votes, &model, 100, slots, 0);
        let told = votes.told(&model, &way(), 100).unwrap();
        assert_eq!(told.control, Some(1));
        told.confidence
    };
    let odds_of = |votes: f64| 1.0 / (1.0 + (-votes).exp());
    for (correlation, worth) in [(0.0, 3.0), (1.0, 1.0), (0.25, 2.0)] {
        assert!((confidence(correlation, 4) - odds_of(1.0)).abs() < 1e-6);
        assert!((confidence(correlation, 12) - odds_of(worth)).abs() < 1e-6, "{correlation}");
    }
}

#[test]
fn another_connection_of_the_same_ends_is_told_by_its_own_windows() {
    let (model, mut votes) = (voting_model(0.0), Votes::default());
    assert_eq!(vote(&mut votes, &model, 100, 12, 8), 3);
    // It is known for 5 slots, and of what is there for long 8 are.
    assert_eq!(vote(&mut votes, &model, 104, 5, 8), 1);
    assert_eq!(votes.told(&model, &way(), 104).unwrap().slots, 4);
}

#[test]
fn what_a_queue_unlike_those_of_training_showed_has_no_vote() {
    let (model, mut votes) = (voting_model(0.0), Votes::default());
    assert_eq!(votes.slots_since(100, 12), 12);
    assert_eq!(vote(&mut votes, &model, 100, 12, 12), 3);
    votes.forget_up_to(106);
    assert_eq!(votes.told(&model, &way(), 100), None);
    // Slots before it are kept, and are not read any more.
    assert_eq!(vote(&mut votes, &model, 108, 12, 12), 0);
    assert_eq!(votes.told(&model, &way(), 108), None);
    assert_eq!((votes.slots_since(108, 12), votes.slots_since(108, 1)), (2, 1));
    assert_eq!(vote(&mut votes, &model, 112, 12, 12), 1);
    assert_eq!(votes.told(&model, &way(), 112).unwrap().slots, 4);
    assert_eq!(vote(&mut votes, &model, 116, 12, 12), 1);
    assert_eq!(votes.told(&model, &way(), 116).unwrap().slots, 8);
}

#[test]
fn a_flow_that_begins_is_told_by_its_beginning_until_there_is_more() {
    let (model, mut votes) = (voting_model(0.0), Votes::default());
    let wanted = |votes: &mut Votes, end, slots| {
        let known = FlowHistory { slots, began: true, slots_kept: 10_000 };
        votes.wanted(&model, &way(), end, known).len()
    };
    assert_eq!(wanted(&mut votes, 1_000, 1_000), 3);
    // Two seconds are its beginning.
    assert_eq!(wanted(&mut votes, 2_003, 2_003), 3);
    assert_eq!(wanted(&mut votes, 2_004, 2_004), 1);
    assert_eq!(wanted(&mut votes, 2_008, 2_008), 2);
}

#[test]
fn votes_that_cannot_be_are_refused() {
    for (votes, word) in [
        (json!({ "most": 0, "correlation": 0.1 }), "votes.most"),
        (json!({ "most": 3, "correlation": 1.1 }), "votes.correlation"),
        (json!({ "most": 3 }), "votes.correlation"),
        (json!(7), "votes: wanted"),
    ] {
        let text = refusal(&file_that_says(&[network(4, 2)], 0.5, json!({ "votes": votes })));
        assert!(text.starts_with(word), "{text}");
    }
    let one_tap = json!({ "inputs": ["flight_bytes"], "votes": { "most": 3, "correlation": 0.1 } });
    let text = refusal(&file_that_says(&[network(4, 2)], 0.5, one_tap));
    assert!(text.contains("wanted: of two taps alone"), "{text}");
}

#[test]
fn longer_intervals_vote_beside_the_windows_that_make_them() {
    let (model, mut votes) = (model_with_longer(), Votes::default());
    assert_eq!(model.longest(usize::MAX), Some(4));
    let logistic = |score: f64| 1.0 / (1.0 + (-score).exp());
    for (end, slots, longer) in [(104, 4, 0), (108, 8, 1), (112, 12, 1), (116, 16, 2)] {
        assert_eq!(vote(&mut votes, &model, end, slots, 0), 1, "each window is read once");
        let told = votes.told(&model, &way(), end).unwrap();
        let expected = logistic(0.5 * f64::from(longer));
        assert!((told.confidence - expected).abs() < 1e-6, "{end}: {told:?}, {expected}");
        assert_eq!(told.slots, slots);
    }
    // All at once is the same.
    let mut votes = Votes::default();
    assert_eq!(vote(&mut votes, &model, 116, 16, 0), 4);
    let told = votes.told(&model, &way(), 116).unwrap();
    assert!((told.confidence - logistic(1.0)).abs() < 1e-6, "{told:?}");
}

#[test]
fn a_window_that_is_missing_makes_no_longer_interval() {
    let (model, mut votes) = (model_with_longer(), Votes::default());
    assert_eq!(vote(&mut votes, &model, 104, 4, 0), 1);
    let known = FlowHistory { slots: 12, began: false, slots_kept: 0 };
    // Of what is wanted the first could not be read.
    let last = votes.wanted(&model, &way(), 112, known).last().copied().unwrap();
    assert_eq!(last.start, 108);
    votes.add(&model, &way(), last.start, &[1.0; 4], &mut Scratch::default());
    let told = votes.told(&model, &way(), 112).unwrap();
    assert!((told.confidence - 0.5).abs() < 1e-6, "{told:?}");
}

#[test]
fn longer_intervals_that_windows_do_not_make_are_refused() {
    let votes = json!({ "votes": { "most": 4, "correlation": 0.0 } });
    for (networks, word) in [
        (vec![network(4, 2), longer(10, 2)], "several of the longest"),
        (vec![network(4, 2), longer(12, 3)], "several of the longest"),
        (vec![longer(8, 2)], "several of the longest"),
        (vec![network(4, 2), longer(8, 2), longer(16, 4)], "one at most"),
        (vec![network(4, 2), longer(40, 4)], "votes"),
        (vec![network(4, 2), longer(8, 9)], "row_slots"),
    ] {
        let text = refusal(&file_that_says(&networks, 0.5, votes.clone()));
        assert!(text.contains(word), "{text}");
    }
}

#[test]
fn a_model_says_whether_it_was_trained_on_fewer_packets() {
    let of = |shares: Value| file_that_says(&[network(4, 2)], 0.5, json!({ "shares": shares }));
    let knows = |shares| Model::parse(&of(shares)).unwrap().knows_samples();
    assert!(knows(json!([1.0, 0.1])) && !knows(json!([1.0])));
    assert!(!Model::parse(&file(&[network(4, 2)], 0.5)).unwrap().knows_samples());
    let text = refusal(&of(json!([2.0])));
    assert!(text.contains("shares") && text.contains("parts of 1"), "{text}");
}
