//! A model whose forests are full: every level asks, at a value that parts the packets in half or
//! so. No trained model of its size takes longer.

use packet::{HashSeed, Source as _};
use packetlog::Model;
use packetlog::features::{Column, FeatureOptions, Features, schema_hash};

use crate::Failure;
use crate::frames::Frames;
use crate::generate::random::Random;

/// Trees and levels of a forest.
#[derive(Clone, Copy)]
pub(crate) struct Shape {
    pub(crate) trees: usize,
    pub(crate) levels: u32,
    /// Flows whose last verdict is used again.
    pub(crate) reuse_flows: Option<usize>,
}

/// As the paper has them.
pub(crate) const PAPER: Shape = Shape { trees: 3, levels: 7, reuse_flows: None };
/// As models of states may need them.
pub(crate) const LARGER: Shape = Shape { trees: 10, levels: 10, reuse_flows: None };

/// Snapshots of which thresholds are drawn.
const SAMPLED: usize = 100_000;

/// A model over these columns, with thresholds that are values of the capture.
pub(crate) fn model(
    options: &FeatureOptions,
    names: &[String],
    shape: Shape,
    frames: &mut Frames,
) -> Result<Model, Failure> {
    let column = |name: &String| {
        Column::named(name, options).ok_or_else(|| format!("{name}: no such column"))
    };
    let columns = names.iter().map(column).collect::<Result<Vec<_>, _>>()?;
    let values = sample(options, &columns, frames)?;
    let of_flow = |at: usize| columns[at].key().is_some();
    let all: Vec<usize> = (0..columns.len()).collect();
    let of_packet: Vec<usize> = all.iter().copied().filter(|&at| !of_flow(at)).collect();
    let mut random = Random::new(7);
    let mut forest = |from: &[usize]| {
        let trees: Vec<String> =
            (0..shape.trees).map(|_| tree(from, shape.levels, &values, &mut random)).collect();
        format!(r#"{{"trees":[{}]}}"#, trees.join(","))
    };
    let keys: Vec<&str> = options.keys.iter().map(|key| key.name()).collect();
    let reuse = shape.reuse_flows.map_or_else(String::new, |flows| {
        format!(r#""verdict_reuse":{{"flows":{flows},"growth_percent":12}},"#)
    });
    let text = format!(
        r#"{{"format":"wirelens-packetlog 1","classes":["benign","anomalous"],{reuse}
        "features":{{"source":"{}","window_ns":{},"layers":{},"buckets":{},"keys":{keys:?},
        "idle_timeout_ns":{},"flow_count_max":{},"states":{}}},
        "columns":{names:?},"schema":"{}","flow_forest":{},"packet_forest":{}}}"#,
        options.source.name(),
        options.window.as_ns(),
        options.layers,
        options.buckets,
        options.idle_timeout.as_ns(),
        options.flow_count_max,
        options.states,
        schema_hash(options, &columns),
        forest(&all),
        forest(&of_packet),
    );
    Model::parse(text.as_bytes()).map_err(|error| error.to_string())
}

/// Values of each column.
fn sample(
    options: &FeatureOptions,
    columns: &[Column],
    frames: &mut Frames,
) -> Result<Vec<Vec<f32>>, Failure> {
    let mut features =
        Features::new(options, columns, HashSeed::new(1)).map_err(|error| error.to_string())?;
    let mut values = vec![Vec::new(); columns.len()];
    frames.next = 0;
    while let Some(batch) = frames.next_batch() {
        features.take(&batch, |_, snapshots| {
            for packet in 0..snapshots.len() {
                for (values, value) in values.iter_mut().zip(snapshots.row(packet)) {
                    values.push(value);
                }
            }
        });
        if values.first().is_none_or(|values| values.len() >= SAMPLED) {
            break;
        }
    }
    Ok(values)
}

fn tree(from: &[usize], levels: u32, values: &[Vec<f32>], random: &mut Random) -> String {
    let inner = (1usize << levels) - 1;
    let (mut feature, mut threshold) = (Vec::new(), Vec::new());
    let (mut left, mut right, mut value) = (Vec::new(), Vec::new(), Vec::new());
    for node in 0..2 * inner + 1 {
        let is_inner = node < inner;
        let mut pick = |len: usize| random.below(len.max(1) as u64) as usize;
        let column = from[pick(from.len())];
        let of_column = &values[column];
        let at = if of_column.is_empty() { 0.0 } else { of_column[pick(of_column.len())] };
        feature.push(if is_inner { column as i64 } else { -2 });
        threshold.push(if is_inner { f64::from(at) } else { -2.0 });
        left.push(if is_inner { 2 * node as i64 + 1 } else { -1 });
        right.push(if is_inner { 2 * node as i64 + 2 } else { -1 });
        let share = pick(100) as f64 / 100.0;
        value.push([share + 0.001, 1.0 - share]);
    }
    format!(
        r#"{{"feature":{feature:?},"threshold":{threshold:?},"left":{left:?},"right":{right:?},"value":{value:?}}}"#
    )
}
