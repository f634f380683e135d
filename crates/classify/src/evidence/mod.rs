//! What the names of a flow are evidence of: classes by a list of protocols, labels and domains.
//!
//! A list says of which class a protocol, a label of a name or a domain is
//! (`docs/specs/cascade.md`, *Names*). [`NameList::evidence`] reads what was found of a flow by it,
//! and [`Weights`] add that to what a model says of the flow's packets.

mod awaited;
mod host;
mod list;
mod weights;

pub use awaited::{DEPTH_COUNT_MAX, FlowEvidence, NamesSoFar};
pub use list::{ListError, NameList};
pub use weights::Weights;

/// Classes that evidence distinguishes at most.
pub const CLASS_COUNT_MAX: usize = u64::BITS as usize;

/// Kinds of evidence, the weakest first but for the last, which is weak compared with a suffix.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Kind {
    /// The application protocol.
    Protocol,
    /// A protocol that carries others: TLS, QUIC, HTTP, DTLS.
    Carrier,
    /// The longest suffix of the server's name that is in the list.
    Suffix,
    /// A label of the name.
    Label,
    /// The same where a suffix is found as well.
    LabelBesideSuffix,
}

impl Kind {
    /// All, in the order of their numbers.
    pub const ALL: [Self; 5] =
        [Self::Protocol, Self::Carrier, Self::Suffix, Self::Label, Self::LabelBesideSuffix];

    /// The word in the artifact.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Protocol => "protocol",
            Self::Carrier => "carrier",
            Self::Suffix => "suffix",
            Self::Label => "label",
            Self::LabelBesideSuffix => "label beside suffix",
        }
    }
}

/// The strongest evidence of a flow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum State {
    /// There is none.
    None,
    /// A protocol that carries others.
    Carrier,
    /// A protocol.
    Protocol,
    /// A label of the name.
    Label,
    /// A suffix of the name.
    Suffix,
}

impl State {
    /// All, the weakest first.
    pub const ALL: [Self; 5] =
        [Self::None, Self::Carrier, Self::Protocol, Self::Label, Self::Suffix];

    /// The word in the artifact.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Carrier => "carrier",
            Self::Protocol => "protocol",
            Self::Label => "label",
            Self::Suffix => "suffix",
        }
    }
}

/// What is known of a flow in addition to its packets: by kind, the classes that are meant.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Evidence {
    /// By kind, a bit for each class.
    classes: [u64; Kind::ALL.len()],
    /// Whether the protocol is identified and in no line of the list: the flow is of no class that
    /// the list has.
    pub is_unlisted: bool,
}

impl Evidence {
    /// By kind, a bit for each class.
    #[must_use]
    pub const fn classes(&self) -> &[u64; Kind::ALL.len()] {
        &self.classes
    }

    /// Evidence as [`classes`](Self::classes) gives it.
    #[must_use]
    pub const fn of(classes: [u64; Kind::ALL.len()], is_unlisted: bool) -> Self {
        Self { classes, is_unlisted }
    }

    /// Whether there is evidence of a kind.
    const fn has(&self, kind: Kind) -> bool {
        let [protocol, carrier, suffix, label, beside] = self.classes;
        0 != match kind {
            Kind::Protocol => protocol,
            Kind::Carrier => carrier,
            Kind::Suffix => suffix,
            Kind::Label => label,
            Kind::LabelBesideSuffix => beside,
        }
    }

    /// The strongest kind.
    #[must_use]
    pub const fn state(&self) -> State {
        if self.has(Kind::Suffix) {
            State::Suffix
        } else if self.has(Kind::Label) {
            State::Label
        } else if self.has(Kind::Protocol) {
            State::Protocol
        } else if self.has(Kind::Carrier) {
            State::Carrier
        } else {
            State::None
        }
    }

    fn add(&mut self, kind: Kind, class: u8) {
        if let Some(classes) = self.classes.get_mut(kind as usize) {
            *classes |= 1_u64.checked_shl(class.into()).unwrap_or(0);
        }
    }
}
