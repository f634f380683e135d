//! What is reported of a simulated switch.

use engine::columns::{Columns, Field, Kind, RowMismatch, Schema, Value};
use packetlog::switch::{LossCause, SwitchLimits, SwitchTally};

use super::anomalous::Agreement;

/// Columns of the simulation, a row for each traffic, rate and mode.
pub const SIMULATION: Schema = &[
    Field::new("traffic", Kind::Text, "Workload of the paper, or captures."),
    Field::new("gbps", Kind::U32, "Offered rate in Gbit/s: a stream for each 100."),
    Field::new("mode", Kind::Text, "Recording mode."),
    Field::new("packets", Kind::U64, "Packets offered, of all streams."),
    Field::new("mpps", Kind::F64, "Million packets per second offered."),
    Field::new("marked_packets", Kind::U64, "Packets classified as anomalous."),
    Field::new("log_gbps", Kind::F64, "Messages to the server, in Gbit/s, before any limit."),
    Field::new("log_mpps", Kind::F64, "Their number, in millions per second."),
    Field::new("benign_log_gbps", Kind::F64, "Those of benign packets, in Gbit/s."),
    Field::new("benign_log_mpps", Kind::F64, "Their number, in millions per second."),
    Field::new("marked_log_gbps", Kind::F64, "Those of marked packets, in Gbit/s."),
    Field::new("marked_log_mpps", Kind::F64, "Their number, in millions per second."),
    Field::new("marked_gbps", Kind::F64, "Marked packets as they were offered, in Gbit/s."),
    Field::new("recirculated_gbps", Kind::F64, "Recirculated in the switch, before any limit."),
    Field::new("recirculated_mpps", Kind::F64, "Their number, in millions per second."),
    Field::new("exceeded", Kind::Text, "Limits below these rates: recirculation, rdma, disks."),
    Field::new("full_packets", Kind::U64, "Packets stored in full."),
    Field::new("partial_packets", Kind::U64, "Packets stored truncated."),
    Field::new("header_packets", Kind::U64, "Packets stored as headers."),
    Field::new("unsampled_packets", Kind::U64, "Packets not stored because the mode samples."),
    Field::new("lost_recirculation", Kind::U64, "Packets lost at the recirculation port."),
    Field::new("lost_rdma", Kind::U64, "Packets lost at the server, each with a NACK."),
    Field::new("lost_recovery", Kind::U64, "Packets lost until the switch noticed the NACK."),
    Field::new("lost_memory", Kind::U64, "Packets lost because both memory blocks were full."),
    Field::new("nacks", Kind::U64, "Losses that the server reported to the switch."),
    Field::new("blocks_written", Kind::U64, "Memory blocks written to disk."),
    Field::new("first_loss_us", Kind::F64, "Microseconds until the first loss.").nullable(),
    Field::new("precision", Kind::F64, "Of marked packets the share that are anomalous.")
        .nullable(),
    Field::new("recall", Kind::F64, "Of anomalous packets the share that are marked.").nullable(),
    Field::new("accuracy", Kind::F64, "Of all packets the share that are classified right.")
        .nullable(),
];

/// What is printed of it on a terminal.
const SHOWN: Schema = &[
    Field::new("traffic", Kind::Text, "Workload of the paper, or captures."),
    Field::new("gbps", Kind::U32, "Offered rate in Gbit/s."),
    Field::new("mode", Kind::Text, "Recording mode."),
    Field::new("marked", Kind::Text, "Share of packets classified as anomalous."),
    Field::new("log_gbps", Kind::Text, "Messages to the server."),
    Field::new("log_mpps", Kind::Text, "Their number."),
    Field::new("recirculated_gbps", Kind::Text, "Recirculated in the switch."),
    Field::new("lost", Kind::Text, "Share of packets lost."),
    Field::new("exceeded", Kind::Text, "Limits below these rates."),
    Field::new("precision", Kind::Text, "Of marked packets the anomalous ones."),
    Field::new("recall", Kind::Text, "Of anomalous packets the marked ones."),
    Field::new("accuracy", Kind::Text, "Of all packets those classified right."),
];
/// Columns of it that are there in any case.
const SHOWN_ALWAYS: usize = SHOWN.len() - 3;

/// The outcome of all simulated switches.
pub struct SimulationReport {
    pub(super) rows: Vec<Row>,
}

pub(super) struct Row {
    pub traffic: &'static str,
    pub gbps: u32,
    pub mode: String,
    pub seconds: f64,
    pub tally: SwitchTally,
    /// Where it is known which packets are anomalous.
    pub agreement: Option<Agreement>,
}

impl Row {
    #[allow(clippy::cast_precision_loss)]
    fn gbps(&self, bytes: u64) -> f64 {
        bytes as f64 * 8e-9 / self.seconds
    }

    #[allow(clippy::cast_precision_loss)]
    fn mpps(&self, packets: u64) -> f64 {
        packets as f64 * 1e-6 / self.seconds
    }

    /// Limits that the log would have to be within, and is not.
    #[allow(clippy::cast_precision_loss)]
    fn exceeded(&self) -> String {
        let (all, limits) = (self.tally.all(), SwitchLimits::default());
        let log_gbps = self.gbps(all.log_bytes);
        // What is stored is without what is around each message.
        let around = all.log_packets * u64::from(packetlog::switch::MESSAGE_BYTES);
        let rates = [
            ("recirculation", self.gbps(all.round_bytes), limits.recirculation_mbps),
            ("rdma", log_gbps, limits.rdma_mbps),
            ("disks", self.gbps(all.log_bytes - around), limits.disk_mbps),
        ];
        let above = rates.iter().filter(|(_, gbps, mbps)| gbps * 1e3 > *mbps as f64);
        above.map(|&(name, ..)| name).collect::<Vec<_>>().join(" ")
    }
}

impl SimulationReport {
    /// All of it.
    ///
    /// # Errors
    /// A row that does not fit, a fault of ours.
    #[allow(clippy::cast_precision_loss)]
    pub fn columns(&self) -> Result<Columns, RowMismatch> {
        let mut columns = Columns::new(SIMULATION);
        for row in &self.rows {
            let (tally, all) = (&row.tally, row.tally.all());
            let (benign, marked) = (&tally.benign, &tally.anomalous);
            let exceeded = row.exceeded();
            let first = tally.first_loss_ps.iter().flatten().min();
            let lost = |cause: LossCause| Value::U64(tally.lost[cause as usize]);
            let share = |share: fn(&Agreement) -> Option<f64>| {
                row.agreement.as_ref().and_then(share).map_or(Value::Null, Value::F64)
            };
            columns.push_row(&[
                Value::Str(row.traffic),
                Value::U32(row.gbps),
                Value::Str(&row.mode),
                Value::U64(all.packets),
                Value::F64(row.mpps(all.packets)),
                Value::U64(marked.packets),
                Value::F64(row.gbps(all.log_bytes)),
                Value::F64(row.mpps(all.log_packets)),
                Value::F64(row.gbps(benign.log_bytes)),
                Value::F64(row.mpps(benign.log_packets)),
                Value::F64(row.gbps(marked.log_bytes)),
                Value::F64(row.mpps(marked.log_packets)),
                Value::F64(row.gbps(marked.bytes)),
                Value::F64(row.gbps(all.round_bytes)),
                Value::F64(row.mpps(all.round_packets)),
                Value::Str(&exceeded),
                Value::U64(tally.full),
                Value::U64(tally.partial),
                Value::U64(tally.headers),
                Value::U64(tally.not_sampled),
                lost(LossCause::Recirculation),
                lost(LossCause::Rdma),
                lost(LossCause::RdmaRecovery),
                lost(LossCause::Memory),
                Value::U64(tally.nacks),
                Value::U64(tally.blocks_written),
                first.map_or(Value::Null, |&ps| Value::F64(ps as f64 * 1e-6)),
                share(Agreement::precision),
                share(Agreement::recall),
                share(Agreement::accuracy),
            ])?;
        }
        Ok(columns)
    }

    /// What fits a terminal.
    ///
    /// # Errors
    /// A row that does not fit, a fault of ours.
    #[allow(clippy::cast_precision_loss)]
    pub fn shown(&self) -> Result<Columns, RowMismatch> {
        let is_judged = self.rows.iter().any(|row| row.agreement.is_some());
        let shown = if is_judged { SHOWN.len() } else { SHOWN_ALWAYS };
        let mut columns = Columns::new(SHOWN.split_at(shown).0);
        for row in &self.rows {
            let (all, lost) = (row.tally.all(), row.tally.lost.iter().sum::<u64>());
            let percent =
                |part: u64| format!("{:.2} %", part as f64 / all.packets.max(1) as f64 * 100.0);
            let share = |share: fn(&Agreement) -> Option<f64>| {
                let share = row.agreement.as_ref().and_then(share);
                share.map_or_else(String::new, |share| format!("{share:.3}"))
            };
            let shares = [Agreement::precision, Agreement::recall, Agreement::accuracy].map(share);
            let [marked, lost] = [row.tally.anomalous.packets, lost].map(percent);
            let [log_gbps, recirculated_gbps] =
                [all.log_bytes, all.round_bytes].map(|bytes| format!("{:.1}", row.gbps(bytes)));
            let log_mpps = format!("{:.1}", row.mpps(all.log_packets));
            let exceeded = row.exceeded();
            let mut values = vec![
                Value::Str(row.traffic),
                Value::U32(row.gbps),
                Value::Str(&row.mode),
                Value::Str(&marked),
                Value::Str(&log_gbps),
                Value::Str(&log_mpps),
                Value::Str(&recirculated_gbps),
                Value::Str(&lost),
                Value::Str(&exceeded),
            ];
            values.extend(shares.iter().map(|share| Value::Str(share)));
            values.truncate(shown);
            columns.push_row(&values)?;
        }
        Ok(columns)
    }
}
