//! The file of a calibration: which thresholds hold for which model, and what traffic was like.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use packet::{Span, Timestamp};
use packetlog::calibration::{
    Budget, Calibration, CalibrationResult, DriftReference, OutlierBlock, PACKETS_MIN,
};
use packetlog::score::{SCORE_STEPS, Threshold};
use serde::{Deserialize, Serialize};
use sink::{Existing, OutputFile};

use super::{LogError, PacketModel};

/// What stands first in a file.
const FORMAT: &str = "wirelens-packetlog-calibration 1";

/// Bytes of a file at most: no budget has as many blocks to leave out.
const FILE_LEN_MAX: u64 = 4 << 20;

/// A file as it is written; `docs/specs/packetlog-calibration.md` says what its fields mean.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct CalibrationFile {
    format: String,
    model_sha256: String,
    schema: String,
    budget: f64,
    threshold: WrittenThreshold,
    from_ns: i64,
    to_ns: i64,
    packets: u64,
    blocks: WrittenBlocks,
    marked: WrittenShares,
    drift: WrittenDrift,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenThreshold {
    flow: f64,
    packet: f64,
    resolution: f64,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenBlocks {
    seconds: f64,
    used: usize,
    autocorrelation: f64,
    left_out: Vec<WrittenBlock>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenBlock {
    from_ns: i64,
    packets: u64,
    marked: f64,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenShares {
    bound: f64,
    calibrated: f64,
    model: f64,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenDrift {
    edges: Vec<u16>,
    shares: Vec<f64>,
    psi_max: f64,
    marked_max: f64,
    period_s: f64,
    packets_min: u64,
}

/// When the packets of a calibration came.
#[derive(Clone, Copy, Debug)]
pub struct CalibrationSpan {
    /// The first.
    pub from: Timestamp,
    /// The last.
    pub to: Timestamp,
}

/// Begins a file, before the time that a calibration takes; one of this name is replaced if it
/// `may_replace` it.
pub(super) fn create(path: &Path, may_replace: bool) -> Result<OutputFile, LogError> {
    let existing = if may_replace { Existing::Replace } else { Existing::Refuse };
    OutputFile::create(path, existing).map_err(LogError::error)
}

/// Writes what was found.
pub(super) fn write(
    mut output: OutputFile,
    model: &PacketModel,
    (result, budget, span): (&CalibrationResult, Budget, CalibrationSpan),
) -> Result<(), LogError> {
    let reference = DriftReference::of(result, budget);
    let threshold = result.threshold.score();
    let file = CalibrationFile {
        format: FORMAT.to_owned(),
        model_sha256: model.sha256.clone(),
        schema: model.model.schema().to_owned(),
        budget: budget.share(),
        threshold: WrittenThreshold {
            flow: threshold,
            packet: threshold,
            resolution: 1.0 / f64::from(SCORE_STEPS),
        },
        from_ns: span.from.as_ns(),
        to_ns: span.to.as_ns(),
        packets: result.packets,
        blocks: WrittenBlocks {
            seconds: result.block.as_seconds_f64(),
            used: result.block_count,
            autocorrelation: result.autocorrelation,
            left_out: result.left_out.iter().map(written_block).collect(),
        },
        marked: WrittenShares {
            bound: result.bound,
            calibrated: result.marked,
            model: result.marked_before,
        },
        drift: WrittenDrift {
            psi_max: reference.psi_max,
            marked_max: reference.marked_max,
            period_s: reference.period.as_seconds_f64(),
            edges: reference.edges,
            shares: reference.shares,
            packets_min: PACKETS_MIN,
        },
    };
    let mut text = serde_json::to_string_pretty(&file).map_err(LogError::error)?;
    text.push('\n');
    std::io::Write::write_all(&mut output, text.as_bytes()).map_err(LogError::error)?;
    output.finish().map_err(LogError::error)?;
    Ok(())
}

const fn written_block(block: &OutlierBlock) -> WrittenBlock {
    let OutlierBlock { start, packets, marked } = *block;
    WrittenBlock { from_ns: start.as_ns(), packets, marked }
}

/// Reads the calibration of a model.
///
/// # Errors
/// It cannot be read, is none, or is of another model.
pub fn read_calibration(path: &Path, model: &PacketModel) -> Result<Calibration, String> {
    let name = path.display();
    let mut text = String::new();
    File::open(path)
        .and_then(|file| file.take(FILE_LEN_MAX + 1).read_to_string(&mut text))
        .map_err(|error| {
            format!("{name}: {error}; give a file of `wirelens packetlog calibrate`")
        })?;
    parse(&text, model).map_err(|why| format!("{name}: {why}"))
}

const AGAIN: &str = "run `wirelens packetlog calibrate` with this model";

fn parse(text: &str, model: &PacketModel) -> Result<Calibration, String> {
    let refused = |why: &dyn std::fmt::Display| {
        format!("{why}; wanted: a file of `wirelens packetlog calibrate`")
    };
    if text.len() as u64 > FILE_LEN_MAX {
        return Err(refused(&"more than 4 MiB"));
    }
    let file: CalibrationFile = serde_json::from_str(text).map_err(|error| refused(&error))?;
    if file.format != FORMAT {
        let seen: String = file.format.chars().take(70).filter(|c| !c.is_control()).collect();
        return Err(format!("format: {seen:?}; wanted: {FORMAT:?}"));
    }
    if file.schema != model.model.schema() {
        let wanted = model.model.schema();
        return Err(format!(
            "schema: of other features than those of the model, whose schema is {wanted}; {AGAIN}"
        ));
    }
    if file.model_sha256 != model.sha256 {
        let wanted = &model.sha256;
        return Err(format!(
            "model_sha256: of another model than this, whose model.json has {wanted}; {AGAIN}"
        ));
    }
    let budget = Budget::new(file.budget)
        .ok_or_else(|| format!("budget: {}; wanted: 0.001 to 0.5", file.budget))?;
    Ok(Calibration {
        budget,
        flow: threshold("flow", file.threshold.flow)?,
        packet: threshold("packet", file.threshold.packet)?,
        reference: reference(file.drift)?,
    })
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
fn threshold(name: &str, score: f64) -> Result<Threshold, String> {
    let steps = score * f64::from(SCORE_STEPS);
    let is_whole =
        (0.0..=f64::from(SCORE_STEPS)).contains(&steps) && (steps - steps.round()).abs() < 1e-6;
    is_whole
        .then(|| Threshold::from_steps(steps.round() as u16))
        .flatten()
        .ok_or_else(|| format!("threshold.{name}: {score}; wanted: 0 to 1, in thousandths"))
}

#[allow(clippy::cast_possible_truncation)]
fn reference(drift: WrittenDrift) -> Result<DriftReference, String> {
    let WrittenDrift { edges, shares, psi_max, marked_max, period_s, .. } = drift;
    let rises = edges.windows(2).all(|pair| pair[0] < pair[1]);
    if !rises || edges.iter().any(|edge| !(1..SCORE_STEPS).contains(edge)) {
        return Err(String::from("drift.edges: wanted: rising, from 1 to 999"));
    }
    let is_share = |share: &f64| *share > 0.0 && *share <= 1.0;
    if shares.len() != edges.len() + 1 || !shares.iter().all(is_share) {
        return Err(String::from("drift.shares: wanted: one above 0 for each bin"));
    }
    let is_plain = |value: f64| value.is_finite() && value > 0.0;
    if !is_plain(psi_max) || !is_plain(marked_max) || !(1.0..=1e9).contains(&period_s) {
        return Err(String::from("drift: wanted: limits above 0, and a period of at least 1 s"));
    }
    let period = Span::from_ns((period_s * 1e9) as i64);
    Ok(DriftReference { edges, shares, psi_max, marked_max, period })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use packetlog::calibration::ScoreBlocks;
    use packetlog::score::ScoreStep;

    use super::super::read_model;
    use super::*;

    fn model() -> PacketModel {
        read_model("packetlog".as_ref()).unwrap()
    }

    fn file(model: &PacketModel) -> String {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("calibration.json");
        let budget = Budget::new(0.02).unwrap();
        let mut blocks = ScoreBlocks::new(budget);
        for at in 0..100 {
            for score in 0..50 {
                let time = Timestamp::from_parts(1_700_000_000 + at, 0);
                blocks.add(time, ScoreStep::at(score * 11));
            }
        }
        let result = blocks.calibrate().unwrap();
        let from = Timestamp::from_parts(1_700_000_000, 0);
        let span = CalibrationSpan { from, to: from.plus(Span::from_seconds(99)) };
        write(create(&path, false).unwrap(), model, (&result, budget, span)).unwrap();
        let refused = create(&path, false).err().unwrap();
        assert!(refused.to_string().contains("exists"), "{refused}");
        write(create(&path, true).unwrap(), model, (&result, budget, span)).unwrap();
        let read = read_calibration(&path, model).unwrap();
        assert_eq!(read.reference, DriftReference::of(&result, budget));
        assert_eq!((read.flow, read.packet), (result.threshold, result.threshold));
        std::fs::read_to_string(&path).unwrap()
    }

    #[test]
    fn a_file_is_read_as_written_and_what_is_wrong_is_named() {
        let model = model();
        let text = file(&model);
        let sha256 = model.sha256.clone();
        for (from, to, wanted) in [
            (FORMAT, "wirelens-packetlog 1", "format: \"wirelens-packetlog 1\"; wanted: "),
            (sha256.as_str(), "00", "model_sha256: of another model than this"),
            (model.model.schema(), "00", "schema: of other features"),
            ("\"budget\": 0.02", "\"budget\": 2", "budget: 2; wanted: 0.001 to 0.5"),
            ("\"budget\": 0.02", "\"more\": 1, \"budget\": 0.02", "unknown field `more`"),
            ("\"flow\": 0.", "\"flow\": 7.", "threshold.flow: 7."),
            ("\"shares\": [", "\"shares\": [0.1,", "drift.shares: "),
            ("\"edges\": [", "\"edges\": [2000,", "drift.edges: "),
            ("\"period_s\": 1", "\"period_s\": -1", "drift: wanted"),
        ] {
            assert!(text.contains(from), "{from}: {text}");
            let refused = parse(&text.replacen(from, to, 1), &model).unwrap_err();
            assert!(refused.starts_with(wanted), "{from}: {refused}");
        }
        let refused = parse("{", &model).unwrap_err();
        assert!(refused.contains("wanted: a file of `wirelens packetlog calibrate`"), "{refused}");
        let other = PacketModel { model: Arc::clone(&model.model), sha256: String::from("1") };
        assert!(parse(&text, &other).is_err());
    }
}
