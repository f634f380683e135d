//! Models of congestion controls: whatever a file says, it is read or refused in a line, and what
//! was read tells controls of its own, with a probability.
//!
//! Input: a zero, then a file as it is; or anything else, then the file's header as text, and
//! behind a zero its numbers, which are repeated or cut to what the header asks for.
#![no_main]

use cca::Model;
use cca::model::Scratch;
use libfuzzer_sys::fuzz_target;

/// Intervals longer than this take more time than a target has.
const SLOTS_MAX: usize = 1 << 10;
/// No seed has numbers beyond.
const NUMBERS_LEN_MAX: usize = 1 << 16;

fuzz_target!(|bytes: &[u8]| {
    let Some((&kind, rest)) = bytes.split_first() else { return };
    let (file, numbers) = if kind == 0 { (rest.to_vec(), rest) } else { made(rest) };
    let model = match Model::parse(&file) {
        Ok(model) => model,
        Err(error) => {
            assert!(!error.to_string().contains('\n'), "{error}");
            return;
        }
    };
    assert!(!model.controls().is_empty() && model.reads().width() > 0);
    let mut scratch = Scratch::default();
    let mut most = usize::MAX;
    while let Some(slots) = model.longest(most) {
        tell(&model, slots, numbers, &mut scratch);
        most = slots - 1;
    }
});

/// A file with this header.
fn made(bytes: &[u8]) -> (Vec<u8>, &[u8]) {
    let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
    let (header, numbers) = bytes.split_at(end);
    let mut file = (header.len() as u64).to_le_bytes().to_vec();
    file.extend_from_slice(header);
    let wanted = numbers_len(header).min(NUMBERS_LEN_MAX);
    file.extend(numbers.iter().copied().chain([0]).cycle().take(wanted));
    (file, numbers)
}

/// Where the last tensor ends, by the header's words.
fn numbers_len(header: &[u8]) -> usize {
    const NAME: &str = "\"data_offsets\":[";
    let text = String::from_utf8_lossy(header);
    let ends = text.split(NAME).skip(1).filter_map(|rest| {
        let (_, end) = rest.split_once(']')?.0.split_once(',')?;
        end.trim().parse().ok()
    });
    ends.max().unwrap_or(0)
}

/// What intervals of so many slots are told to be; nothing else changes it.
fn tell(model: &Model, slots: usize, numbers: &[u8], scratch: &mut Scratch) {
    let count = slots.saturating_mul(model.reads().width());
    if slots > SLOTS_MAX {
        return;
    }
    let values = numbers.iter().copied().chain([1]).cycle();
    let rows: Vec<f32> = values.map(|value| f32::from(value) * 1500.0).take(count).collect();
    let told = model.tell(&rows, 1, scratch);
    assert_eq!(told, model.tell(&rows, 1, &mut Scratch::default()));
    // Weights whose products are beyond any number tell nothing.
    let Some(told) = told else { return };
    assert_eq!(told.slots, slots);
    assert!((0.0..=1.0).contains(&told.confidence), "{told:?}");
    assert!(told.control.is_none_or(|control| control < model.controls().len()));
}
