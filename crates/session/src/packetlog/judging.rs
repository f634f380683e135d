//! Who judges the packets of a log.

use std::sync::Arc;

use packet::file::Interface;
use packet::{Batch, HashSeed};
use packetlog::calibration::{Calibration, CalibrationJudge, DriftState};
use packetlog::integer::verdicts::KernelVerdicts;
use packetlog::pipeline::Judge;
use packetlog::policy::{Granularity, KernelControl, Switch};
use packetlog::reasons::{Reason, ReasonTally};
use packetlog::{ClassifierCounts, PacketVerdict};

use super::offload::{KernelHalf, Offload};
use super::{LogError, PacketModel};

/// User space does, or reads what the kernel said.
pub(super) enum Judging {
    User(Box<CalibrationJudge>),
    #[cfg_attr(
        not(all(target_os = "linux", feature = "tap")),
        expect(dead_code, reason = "no program is attached without taps")
    )]
    Kernel(Box<KernelVerdicts>, Arc<KernelHalf>),
}

impl Judging {
    /// In the kernel on these interfaces, by this table, where that is asked for.
    ///
    /// # Errors
    /// [`LogError`]: the kernel takes no program.
    pub(super) fn new(
        offload: Option<Offload>,
        model: &PacketModel,
        seed: HashSeed,
        calibration: Option<Calibration>,
        (interfaces, table): (&[Interface], &[Granularity]),
    ) -> Result<Self, LogError> {
        let user = || CalibrationJudge::new(Arc::clone(&model.model), seed, calibration.as_ref());
        let attach = |offload: Offload| offload.attach(model, seed, interfaces, table);
        offload.map_or_else(|| Ok(Self::User(Box::new(user()))), attach)
    }

    /// Itself, the half in the kernel where there is one, and who changes the table of both.
    pub(super) fn with(
        self,
        switch: Arc<Switch>,
        table: &[Granularity],
    ) -> (Self, Option<Arc<KernelHalf>>, Arc<dyn KernelControl>) {
        match &self {
            Self::User(_) => (self, None, switch),
            Self::Kernel(_, half) => {
                let half = Arc::clone(half);
                let control = half.control(switch, table);
                (self, Some(half), control)
            }
        }
    }

    pub(super) fn drift(&self) -> Option<Arc<DriftState>> {
        match self {
            Self::User(judge) => judge.drift(),
            Self::Kernel(..) => None,
        }
    }

    pub(super) fn reason_tally(&self) -> Arc<ReasonTally> {
        match self {
            Self::User(judge) => judge.reason_tally(),
            // Of a verdict of the kernel the path through the forest is not known.
            Self::Kernel(..) => Arc::default(),
        }
    }

    /// A closing line of the half in the kernel, where there is one.
    pub(super) fn kernel_line(&self) -> String {
        match self {
            Self::User(_) => String::new(),
            Self::Kernel(_, half) => half.line(),
        }
    }

    /// What was lost in the half in the kernel, where there is one.
    pub(super) fn kernel_loss(&self) -> Option<String> {
        match self {
            Self::User(_) => None,
            Self::Kernel(_, half) => half.loss(),
        }
    }

    pub(super) fn counts(&self) -> ClassifierCounts {
        match self {
            Self::User(judge) => judge.counts(),
            Self::Kernel(judge, _) => judge.counts(),
        }
    }
}

impl Judge for Judging {
    fn judge(&mut self, batch: &Batch<'_>, judged: &mut Vec<PacketVerdict>) {
        match self {
            Self::User(judge) => judge.judge(batch, judged),
            Self::Kernel(judge, _) => judge.judge(batch, judged),
        }
    }

    fn reasons(&self) -> &[Reason] {
        match self {
            Self::User(judge) => judge.reasons(),
            Self::Kernel(..) => &[],
        }
    }
}
