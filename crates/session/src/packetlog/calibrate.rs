//! `packetlog calibrate`: thresholds from a site's own traffic, on a pass of its own.

use std::path::PathBuf;
use std::sync::Arc;

use engine::columns::Schema;
use engine::flow::pass::{Labels, Lens, Piece};
use engine::group::Outcome;
use packet::{Batch, HashSeed, Span, Timestamp};
use packetlog::calibration::{BlockShortage, Budget, CalibrationResult, ScoreBlocks};
use packetlog::policy::{Granularity, Mode};
use packetlog::score::{ForestThresholds, MODEL_THRESHOLD, SCORE_STEPS, ScoreStep, Threshold};
use packetlog::{Classifier, PacketVerdict};
use sink::OutputFile;

use super::calibration::{CalibrationSpan, create, write};
use super::{LogError, NEEDS, PacketModel};
use crate::application::{Closing, Opening, Ready, Refusal, Wants, Watcher, Watchers};
use crate::done::RunTotals;
use crate::duration::parse_duration;

/// Progress is reported so often in a run on an interface.
const REPORTS: i64 = 10;
/// And at most this often.
const REPORT_EVERY_MIN: Span = Span::from_seconds(10);

/// A longer time mixes weeks.
const TIME_MAX: Span = Span::from_seconds(7 * 86_400);
/// From this correlation of successive blocks on, users are warned.
const CORRELATED: f64 = 0.5;
/// Blocks that are listed; the file has all of them.
const LISTED_MAX: usize = 8;

/// What is asked of a calibration.
#[derive(Clone)]
pub struct CalibrateSettings {
    /// Whose thresholds are set.
    pub model: PacketModel,
    /// The share of benign packets that may be marked.
    pub budget: Budget,
    /// The modes whose volume is estimated.
    pub modes: Vec<Mode>,
    /// The file that is written.
    pub output: PathBuf,
    /// Whether it may be replaced.
    pub may_replace: bool,
    /// How long an interface is listened on.
    pub duration: Option<Span>,
}

/// A calibration that is ready to begin.
pub struct Calibrator {
    settings: CalibrateSettings,
    tables: Vec<(String, Vec<Granularity>)>,
}

impl Calibrator {
    /// Checks that the model has something to calibrate, and that the modes fit it.
    ///
    /// # Errors
    /// [`LogError::Usage`]
    pub fn new(settings: CalibrateSettings) -> Result<Self, LogError> {
        let classes = settings.model.model.classes();
        if classes.len() < 2 {
            return Err(LogError::usage("--model: one class; wanted: a model that marks packets"));
        }
        let table = |mode: &Mode| Ok((mode.name.clone(), mode.table(classes)?));
        let tables = settings.modes.iter().map(table).collect::<Result<_, _>>();
        let tables =
            tables.map_err(|error: packetlog::policy::ModeError| LogError::usage(error))?;
        Ok(Self { settings, tables })
    }
}

impl Ready for Calibrator {
    fn name(&self) -> &'static str {
        "packetlog calibrate"
    }

    fn is_by_flow(&self) -> bool {
        false
    }

    fn wants(&self) -> Wants {
        Wants::frames(NEEDS)
    }

    fn schema(&self, _: bool) -> Schema {
        &[]
    }

    fn open(self: Box<Self>, opening: Opening) -> Result<Watchers, Refusal> {
        let tell = opening.tell.filter(|_| opening.is_live);
        let output = create(&self.settings.output, self.settings.may_replace);
        let output = output.map_err(Refusal::new)?;
        Ok(ScoreLens::new(*self, output, opening.seed, tell).into())
    }
}

/// What would be stored of packets of each score in a mode, if they were marked and if not.
struct Volume {
    mode: String,
    table: Vec<Granularity>,
    /// Of each score: packets and bytes if benign, packets and bytes if marked.
    by_score: Vec<[f64; 4]>,
}

/// Packets and bytes that a mode stores.
#[derive(Clone, PartialEq, Debug)]
pub struct ModeVolume {
    /// The mode.
    pub mode: String,
    /// Packets stored with the calibration, where packets are sampled in expectation.
    pub packets: f64,
    /// Their bytes.
    pub bytes: f64,
    /// Bytes stored with the model's own threshold.
    pub bytes_before: f64,
}

/// What a calibration found.
pub struct CalibrationReport {
    /// The thresholds, and by what they were chosen.
    pub result: CalibrationResult,
    /// What each mode would have stored of all packets.
    pub volumes: Vec<ModeVolume>,
    /// All packets.
    pub packets: u64,
    /// Their bytes on the wire.
    pub wire_bytes: u64,
    /// When they came.
    pub span: CalibrationSpan,
}

/// The lens: every packet is scored, and counted by its score.
struct ScoreLens {
    settings: CalibrateSettings,
    output: OutputFile,
    classifier: Classifier,
    judged: Vec<PacketVerdict>,
    blocks: ScoreBlocks,
    volumes: Vec<Volume>,
    packets: u64,
    wire_bytes: u64,
    span: Option<CalibrationSpan>,
    tell: Option<fn(&str)>,
    /// Event time from the first packet or tick, and of the latest report.
    reported: Option<(Timestamp, Timestamp)>,
}

impl ScoreLens {
    fn new(
        calibrate: Calibrator,
        output: OutputFile,
        seed: HashSeed,
        tell: Option<fn(&str)>,
    ) -> Self {
        let Calibrator { settings, tables } = calibrate;
        let (flow, packet) = (Threshold::ALL, Threshold::ALL);
        let volume =
            |(mode, table)| Volume { mode, table, by_score: vec![[0.0; 4]; SCORE_STEPS.into()] };
        Self {
            // Every packet gets its most probable anomalous class, and its score.
            classifier: Classifier::new(Arc::clone(&settings.model.model), seed)
                .with_thresholds(ForestThresholds { flow, packet }),
            judged: Vec::new(),
            blocks: ScoreBlocks::new(settings.budget),
            volumes: tables.into_iter().map(volume).collect(),
            packets: 0,
            wire_bytes: 0,
            span: None,
            tell,
            reported: None,
            output,
            settings,
        }
    }

    fn take_in(&mut self, batch: &Batch<'_>) {
        let Self { classifier, judged, blocks, volumes, span, .. } = self;
        classifier.judge(batch, judged);
        for ((frame, judged), &score) in batch.frames().zip(judged.iter()).zip(classifier.scores())
        {
            let time = frame.record.timestamp;
            blocks.add(time, score);
            self.packets += 1;
            self.wire_bytes += u64::from(frame.record.wire_len);
            for volume in &mut *volumes {
                let stored = |class: usize| {
                    let granularity = volume.table.get(class).copied();
                    let granularity = granularity.unwrap_or(Granularity::FULL);
                    let one_in = granularity.sample.map_or(1, |sample| sample.one_in.get());
                    let part =
                        f64::from(u8::from(granularity.keep != packetlog::policy::Keep::Nothing))
                            / f64::from(one_in);
                    (part, f64::from(granularity.kept_len(&frame)) * part)
                };
                let (benign, marked) = (stored(0), stored(judged.class.into()));
                if let Some(sums) = volume.by_score.get_mut(score.index()) {
                    sums[0] += benign.0;
                    sums[1] += benign.1;
                    sums[2] += marked.0;
                    sums[3] += marked.1;
                }
            }
            if time != Timestamp::UNKNOWN {
                let span = span.get_or_insert(CalibrationSpan { from: time, to: time });
                (span.from, span.to) = (span.from.min(time), span.to.max(time));
            }
        }
    }

    /// Says how far it is, on an interface.
    fn report(&mut self, now: Timestamp) {
        let Some(tell) = self.tell else { return };
        let (begun, last) = *self.reported.get_or_insert((now, now));
        let every = self.settings.duration.map_or(0, |all| all.as_ns() / REPORTS);
        if now.since(last).as_ns() < every.max(REPORT_EVERY_MIN.as_ns()) {
            return;
        }
        self.reported = Some((begun, now));
        let (packets, blocks) = (self.packets, self.blocks.block_count());
        let wanted = self.blocks.budget().blocks_min();
        let seconds = now.since(begun).as_seconds_f64();
        let of = self.settings.duration.map_or(0.0, Span::as_seconds_f64);
        tell(&format!(
            "packetlog calibrate: {seconds:.0} of {of:.0} s, {packets} packets in {blocks} blocks \
             of time; at least {wanted} are needed"
        ));
    }

    fn finish(self) -> Result<CalibrationReport, Refusal> {
        let (Some(span), true) = (self.span, self.packets > 0) else {
            return Err(Refusal::new(none(self.packets)));
        };
        let budget = self.settings.budget;
        let result = self.blocks.calibrate();
        let result = result.map_err(|few| Refusal::new(too_few(few, budget, span)))?;
        let found = (&result, budget, span);
        write(self.output, &self.settings.model, found).map_err(Refusal::new)?;
        let volumes = self.volumes.iter().map(|volume| volume.at(result.threshold)).collect();
        let (packets, wire_bytes) = (self.packets, self.wire_bytes);
        Ok(CalibrationReport { result, volumes, packets, wire_bytes, span })
    }
}

impl CalibrationReport {
    /// What was found, in lines.
    #[must_use]
    pub fn lines(&self, budget: f64) -> String {
        let result = &self.result;
        let percent = |share: f64| format!("{:.2} %", share * 100.0);
        let mut lines = format!(
            "threshold {:.3}, the model's own is {:.3}\n{} of {} packets marked, {} with the \
             model's own threshold\nbudget {}: at most {} of a block's packets are expected to be \
             marked, if traffic stays like these {} blocks of {} s\n",
            result.threshold.score(),
            MODEL_THRESHOLD.score(),
            percent(result.marked),
            result.packets,
            percent(result.marked_before),
            percent(budget),
            percent(result.bound),
            result.block_count,
            result.block.as_seconds_f64(),
        );
        if result.threshold == Threshold::NONE {
            lines.push_str(
                "no packet is marked at this budget: the model cannot distinguish any here; give \
                 a larger --budget, or train a model on your traffic\n",
            );
        }
        if result.autocorrelation > CORRELATED {
            lines.push_str(&format!(
                "successive blocks resemble each other (correlation {:.2}): there are fewer \
                 independent ones, and the budget is less certain; calibrate for longer\n",
                result.autocorrelation
            ));
        }
        self.add_outliers(&mut lines);
        lines
    }

    fn add_outliers(&self, lines: &mut String) {
        let result = &self.result;
        let (median, block) = (result.median * 100.0, result.block.as_seconds_f64());
        if result.standing_out > 0 {
            lines.push_str(&format!(
                "{} blocks have far more marked packets than the median of {median:.2} %, too \
                 many to leave out: if that is an attack, calibrate at another time\n",
                result.standing_out
            ));
        }
        if result.left_out.is_empty() {
            return;
        }
        lines.push_str(&format!(
            "{} blocks are left out: far more packets marked than the median of {median:.2} %, \
             which may be an attack; with them {:.2} % are marked at the threshold\n",
            result.left_out.len(),
            result.marked_with_all * 100.0
        ));
        for outlier in result.left_out.iter().take(LISTED_MAX) {
            lines.push_str(&format!(
                "  {} {block} s, {} packets, {:.1} % marked\n",
                outlier.start,
                outlier.packets,
                outlier.marked * 100.0
            ));
        }
        let more = result.left_out.len().saturating_sub(LISTED_MAX);
        if more > 0 {
            lines.push_str(&format!("  and {more} more, in the file\n"));
        }
    }
}

/// Reads a budget: `2%` or `0.02`.
///
/// # Errors
/// What was wanted.
pub fn parse_budget(text: &str) -> Result<Budget, String> {
    let (number, scale) = text.strip_suffix('%').map_or((text, 1.0), |number| (number, 100.0));
    let share = number.trim().parse::<f64>().ok().map(|share| share / scale);
    share.and_then(Budget::new).ok_or_else(|| String::from("wanted a share of 0.1% to 50%"))
}

/// Reads how long an interface is listened on.
///
/// # Errors
/// What was wanted.
pub fn parse_calibration_time(text: &str) -> Result<Span, String> {
    let time = parse_duration(text)?;
    if time > TIME_MAX { Err(String::from("wanted at most 7d")) } else { Ok(time) }
}

impl Volume {
    fn at(&self, threshold: Threshold) -> ModeVolume {
        let sum = |threshold: Threshold| {
            let mut sums = (0.0, 0.0);
            for (index, [packets, bytes, marked_packets, marked_bytes]) in
                self.by_score.iter().enumerate()
            {
                let of_marked = (*marked_packets, *marked_bytes);
                let is_marked = threshold.marks(ScoreStep::at(index));
                let (packets, bytes) = if is_marked { of_marked } else { (*packets, *bytes) };
                sums = (sums.0 + packets, sums.1 + bytes);
            }
            sums
        };
        let ((packets, bytes), (_, bytes_before)) = (sum(threshold), sum(MODEL_THRESHOLD));
        ModeVolume { mode: self.mode.clone(), packets, bytes, bytes_before }
    }
}

fn none(packets: u64) -> String {
    match packets {
        0 => String::from(
            "no packet; wanted: traffic to calibrate on: check the interface and the filter, or \
             give captures with -r",
        ),
        _ => format!("none of {packets} packets has a timestamp; wanted: captures with time"),
    }
}

/// What is missing, and how long it takes at the rate that was seen.
fn too_few(few: BlockShortage, budget: Budget, span: CalibrationSpan) -> String {
    let BlockShortage { blocks, wanted, packets, block } = few;
    let seconds = block.as_seconds_f64();
    let percent = budget.share() * 100.0;
    let took = span.to.since(span.from).as_seconds_f64().max(seconds);
    let more = wanted.saturating_sub(blocks);
    let longer = took / blocks.max(1) as f64 * more as f64;
    format!(
        "{packets} packets in {blocks} blocks of {seconds} s with traffic; a budget of {percent} % \
         needs at least {wanted}: calibrate for {longer:.0} s more of such traffic, or give a \
         budget of at least {:.1} %",
        // Rounded up.
        (1000.0 / (blocks as f64 + 1.0)).ceil() / 10.0
    )
}

impl Lens for ScoreLens {
    fn on_piece(&mut self, piece: &Piece<'_>, _: &mut Labels) {
        let batch = piece.as_batch();
        self.take_in(&batch);
        if let Some(record) = batch.records.last() {
            self.report(record.timestamp);
        }
    }

    fn on_tick(&mut self, time: Timestamp) {
        self.report(time);
    }

    fn outcome(&self) -> Option<Outcome> {
        Some(Outcome { keyed: self.packets, ..Outcome::default() })
    }
}

impl Watcher for ScoreLens {
    fn name(&self) -> &'static str {
        "packetlog calibrate"
    }

    fn close(self: Box<Self>, _: &RunTotals) -> Result<Closing, Refusal> {
        let outcome = Outcome { keyed: self.packets, ..Outcome::default() };
        let report = self.finish()?;
        Ok(Closing { outcome, found: Some(Box::new(report)), ..Closing::default() })
    }
}
