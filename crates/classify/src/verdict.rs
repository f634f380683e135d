//! What is said of a flow, once.

use std::borrow::Cow;

use packet::{FlowDirection, FlowKey, Protocol, Timestamp};

use crate::cascade::{Cascade, StageName};

/// The label of a flow whose class cannot be determined.
pub const UNKNOWN: &str = "unknown";

/// What a flow is called.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Label {
    /// A class of the cascade, by its number.
    Class(u16),
    /// None: the model was less sure of this class than it has to be.
    Unknown(u16),
    /// A protocol without ports, which names the flow; no model was asked.
    Protocol(Protocol),
}

impl Label {
    /// The word in the output.
    #[must_use]
    pub fn name(self, cascade: &Cascade) -> Cow<'_, str> {
        match self {
            Self::Unknown(_) => Cow::Borrowed(UNKNOWN),
            _ => self.guess(cascade),
        }
    }

    /// The word of the likeliest class; that of the protocol where no model was asked.
    #[must_use]
    pub fn guess(self, cascade: &Cascade) -> Cow<'_, str> {
        match self {
            Self::Class(class) | Self::Unknown(class) => Cow::Borrowed(cascade.class(class)),
            Self::Protocol(protocol) => protocol
                .name()
                .map_or_else(|| Cow::Owned(format!("protocol-{}", protocol.0)), Cow::Borrowed),
        }
    }

    /// Whether it says that the class cannot be determined.
    #[must_use]
    pub const fn is_unknown(self) -> bool {
        matches!(self, Self::Unknown(_))
    }
}

/// Why a flow was decided when it was.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
pub enum Cause {
    /// The model that was asked was sure enough.
    Confident,
    /// It was the last one: no stage comes after it.
    LastStage,
    /// The flow ended before it had the packets that the model looks at: decided by those it had.
    Ended,
    /// They did not come within the time that a flow waits: decided by those there are.
    Waited,
    /// No room for a flow that waits: decided by the last model that had been asked.
    Full,
    /// Its protocol has no ports and names it: no model was asked.
    Protocol,
    /// The next stage is computed elsewhere and did not answer in time, or the last one failed:
    /// decided by the last model that had answered; unknown where none had.
    Unanswered,
}

impl Cause {
    /// All, in the order of their numbers.
    pub const ALL: [Self; 7] = [
        Self::Confident,
        Self::LastStage,
        Self::Ended,
        Self::Waited,
        Self::Full,
        Self::Protocol,
        Self::Unanswered,
    ];

    /// The word in the output.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Confident => "confident",
            Self::LastStage => "last-stage",
            Self::Ended => "ended",
            Self::Waited => "waited",
            Self::Full => "full",
            Self::Protocol => "protocol",
            Self::Unanswered => "unanswered",
        }
    }
}

/// The verdict on a flow.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Verdict {
    /// The conversation.
    pub key: FlowKey,
    /// The way of its first packet: its sender is the source.
    pub direction: FlowDirection,
    /// The input of its first packet, as [`packet::Record::input`] has it.
    pub input: u16,
    /// The stamp of its first packet.
    pub first: Timestamp,
    /// Where the window begins that it is about; none where it is about the flow.
    pub window: Option<Timestamp>,
    /// What the flow is called.
    pub label: Label,
    /// How likely the best guess is right: the stage's calibrated probability of it; 1 where the
    /// protocol names the flow.
    pub confidence: f64,
    /// Which model decided; none where the protocol did.
    pub stage: Option<StageName>,
    /// How many packets it was shown.
    pub packets_used: u16,
    /// The stamp of the last packet that the model was shown; of a window that is over, of the last
    /// one in it.
    pub deciding: Timestamp,
    /// Event time of the packet that made its row complete, or of what showed that no more would
    /// come.
    pub decided: Timestamp,
    /// Why then.
    pub cause: Cause,
    /// From the deciding frame becoming readable to the verdict, where the door keeps time and a
    /// frame decided.
    pub latency_ns: Option<u64>,
    /// Which of the models of a run decided, as [`Options::version`](crate::Options::version) has
    /// it.
    pub version: u16,
    /// Whether a packet that was shown was several merged by an offload, and none was in training.
    pub other_segmentation: bool,
}

impl Verdict {
    /// Which model decided, as a word.
    #[must_use]
    pub fn stage_name(&self) -> &'static str {
        self.stage.map_or("none", StageName::name)
    }

    /// From the first packet, or from the start of the window, to the decision, in event time.
    #[must_use]
    pub fn wait_ns(&self) -> u64 {
        let start = self.window.unwrap_or(self.first);
        u64::try_from(self.decided.since(start).as_ns()).unwrap_or(0)
    }

    /// What makes the order of rows the same in every run.
    #[must_use]
    pub fn order(&self) -> impl Ord + use<> {
        (self.decided, self.first, self.key, self.direction as u8, self.packets_used)
    }
}
