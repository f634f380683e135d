//! Files of models that cannot be: refused in a line, and before they fill the memory.

use cca::Model;
use cca::model::Scratch;
use serde_json::{Map, Value, json};

/// A file of networks of one block of one filter, which all have these weights.
fn file(networks: &[Value], weight: f32) -> Vec<u8> {
    let mut header = Map::new();
    let said = json!({
        "format": "wirelens-cca 1", "controls": ["reno", "bbr"], "inputs": ["cbiq_bytes"],
        "slot_ns": 1_000_000, "passed": "highest", "networks": networks,
    });
    header.insert("__metadata__".into(), json!({ "wirelens": said.to_string() }));
    let mut end = 0;
    let mut lengths: Vec<u64> = networks.iter().filter_map(|one| one["slots"].as_u64()).collect();
    lengths.dedup();
    for slots in lengths {
        for (name, outputs) in [("block0", 1), ("head", 2)] {
            for (part, shape) in [("weight", json!([outputs, 1, 3])), ("bias", json!([outputs]))] {
                let start = end;
                end += 4 * outputs * if part == "weight" { 3 } else { 1 };
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
    let told = model.tell(&[1.0; 4], &mut Scratch::default()).unwrap();
    assert!((told.confidence - 0.5).abs() < 1e-9 && told.control == Some(0), "{told:?}");
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
    assert_eq!(model.tell(&[1.0; 4], &mut Scratch::default()), None);
}

#[test]
fn a_file_that_is_cut_anywhere_is_refused_in_a_line() {
    let whole = file(&[network(4, 2)], 0.5);
    for end in 0..whole.len() {
        let text = refusal(&whole[..end]);
        assert!(!text.contains('\n'), "{text}");
    }
}
