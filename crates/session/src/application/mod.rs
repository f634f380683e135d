//! The interface of an application: a name, settings, columns, needs, and a lens
//! on the packets of a pass.
//!
//! A new one implements [`Application`] and [`Watcher`], and is added to the list of
//! `crate::applications`; no other code refers to it. `docs/specs/application.md` is the guide for
//! readers.

mod beside;
mod ended;
mod framed;
mod ready;
mod wants;

use std::any::Any;

use bus::Escalations;
use capture::live::CutFrames;
use engine::columns::Schema;
use engine::flow::FlowCounts;
use engine::flow::pass::{LabelKind, Lens, Now};
use engine::group::Outcome;
use engine::run::Control;
use packet::HashSeed;
use serde::de::DeserializeOwned;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use store::packets::PacketLog;

pub use crate::refusal::Refusal;
pub use beside::{Beside, BesideReport};
pub use ended::{ENDED_PER_PIECE, EndedRows, watch_ended};
pub(crate) use framed::{Framing, FramingLens, OpenFlows};
pub use ready::{Entry, Reading, Ready};
pub use store::{Count, Counting, OpenRows};
pub use wants::{Clash, CombinedWants, Wants};

use crate::captures::Captures;
use crate::clock::Clock;
use crate::done::RunTotals;
use crate::drills::Drills;
use crate::input::InputSettings;
use crate::live_interfaces::LiveInterfaces;
use crate::outlet::{Merge, Outlet, Sharing};
use crate::outside::Pace;
use crate::reading::InputRequest;
use crate::summary::{SourceSummary, StageSummary};
use crate::{Environment, Host};

/// An application: what is computed of packets, and written as rows.
pub trait Application: Send + Sized + 'static {
    /// Its name: of its table in a file of settings, of its rows, of its counters.
    const NAME: &'static str;
    /// What it answers, in a line.
    const ABOUT: &'static str;
    /// Its settings with their defaults, as they stand in a file that `--init` writes: lines of
    /// TOML with comments, without the table's name.
    const EXAMPLE: &'static str;
    /// Whether it writes rows; one that does not has a place of its own for what it keeps.
    const HAS_ROWS: bool = true;
    /// Whether flows of different keys have nothing to do with each other here, so that several
    /// threads may each look at some of them. Then [`open`](Self::open) is asked for as many lenses
    /// as there are passes, and rows go out by a [`PartOutlet`](crate::outlet::PartOutlet).
    const BY_FLOW: bool = false;

    /// Its settings, from a file, from arguments, or from Python.
    type Settings: DeserializeOwned + Default;

    /// Finds what the settings name, such as a model, and checks them.
    ///
    /// # Errors
    /// [`Refusal`], which names the setting.
    fn ready(settings: Self::Settings, site: &Site<'_>) -> Result<Self, Refusal>;

    /// Whether this one is [`BY_FLOW`](Self::BY_FLOW), as its settings are.
    fn is_by_flow(&self) -> bool {
        Self::BY_FLOW
    }

    /// Whether its rows of one flow depend on no other flow, as long as no budget is used up: then
    /// several runs over the same frames may each have a share of the flows.
    fn has_shares(&self) -> bool {
        self.is_by_flow()
    }

    /// What it looks at, and how flows have to be cut for it.
    fn wants(&self) -> Wants;

    /// The columns of its rows; `has_capture` says that rows name the capture they are from.
    fn schema(&self, has_capture: bool) -> Schema;

    /// The columns that no command has, by the words that ask for them; for the reference pages.
    #[must_use]
    fn declared() -> Vec<(&'static str, Schema)> {
        Vec::new()
    }

    /// Which labels the words of a rule may be about, with the words that this application gives.
    fn gives(&self) -> Vec<(LabelKind, Vec<String>)> {
        Vec::new()
    }

    /// Whether rules may have flows of some of its labels classified again.
    fn classifies_again(&self) -> bool {
        false
    }

    /// Captures that it reads in addition to those of the pass: no output may replace them.
    fn reads(&self) -> &[PathBuf] {
        &[]
    }

    /// The folder of the packet log that it writes, if it writes one.
    fn log_folder(&self) -> Option<&Path> {
        None
    }

    /// Its packet log, to search while it is written, if it writes one.
    fn log_search(&self) -> Option<Arc<dyn PacketLog>> {
        None
    }

    /// Why no rule may choose what it looks at, where that is so.
    fn unsteered(&self) -> Option<&'static str> {
        None
    }

    /// Whether it looks at frames in whatever order they come, and what several lenses find adds
    /// up: then captures are read in parts, in parallel, where nobody else looks at them, and
    /// [`open`](Self::open) is asked for [`Watchers::any`].
    fn is_in_any_order(&self) -> bool {
        false
    }

    /// What a running application of the same kind may take in place of its own, such as a model
    /// that was trained since.
    fn replacement(&self) -> Option<Replacement> {
        None
    }

    /// How frames come, where a program in the kernel classifies packets for it, and truncates
    /// them for everyone.
    fn cut_frames(&self) -> Option<CutFrames> {
        None
    }

    /// Whether it reads or writes maps of programs in the kernel after its first packet.
    fn has_maps(&self) -> bool {
        false
    }

    /// Whether workers over NATS compute a part of it, so that `[nats]` is needed.
    fn escalates(&self) -> bool {
        false
    }

    /// Begins.
    ///
    /// # Errors
    /// [`Refusal`]: a file or folder that cannot be written.
    fn open(self, opening: Opening) -> Result<Watchers, Refusal>;
}

/// Who looks at packets for an application.
#[derive(Default)]
pub struct Watchers {
    /// A lens for each pass that was asked for; the first is asked at the end, after it has taken
    /// in the others. None where packets stay in the kernel.
    pub lenses: Vec<Box<dyn Watcher>>,
    /// Who puts their rows together, where there are several.
    pub merge: Option<Box<dyn Merge>>,
    /// Makes a lens for frames in any order, where that was asked for.
    pub any: Option<MakeWatcher>,
    /// Work alongside the passes.
    pub beside: Option<Box<dyn Beside>>,
    /// Counts that no lens has to be asked for; made when someone looks.
    pub counting: Option<Counting>,
    /// Takes a [replacement](Application::replacement).
    pub replace: Option<Replace>,
}

/// What takes the place of something in a running application.
pub type Replacement = Arc<dyn Any + Send + Sync>;

/// Takes a replacement: what to say of it, nothing where nothing was changed, or why it cannot be
/// taken before the next start.
pub type Replace = Box<dyn Fn(&Replacement) -> Result<Option<String>, String>>;

/// Makes lenses of one application.
pub type MakeWatcher = Box<dyn Fn() -> Box<dyn Watcher> + Send + Sync>;

impl<W: Watcher> From<W> for Watchers {
    fn from(watcher: W) -> Self {
        Self { lenses: vec![Box::new(watcher)], ..Self::default() }
    }
}

/// The process that an application runs in, lent while it gets ready.
#[derive(Clone, Copy)]
pub struct Site<'a> {
    /// Where models are looked for.
    pub host: &'a Host,
    /// Looks a setting of the process up.
    pub environment: Environment,
    /// Time outside of event time.
    pub clock: Clock,
    /// Whether frames come from an interface.
    pub is_live: bool,
    /// Which frames the run reads, where that is known.
    pub input: Option<&'a InputSettings>,
    /// Whether the front end takes rows of tables without an output, and may add applications of
    /// its own.
    pub takes_rows: bool,
}

/// What an application is given when it begins.
pub struct Opening {
    /// Where its rows go; none where it has no rows.
    pub outlet: Option<Outlet>,
    /// How passes share the flows; one has all unless it is [`Application::BY_FLOW`], or
    /// [in any order](Application::is_in_any_order).
    pub sharing: Sharing,
    /// Which frames are read, and how: what is read beside them is read in the same way.
    pub request: InputRequest,
    /// The captures by name, where rows say which one they are from.
    pub captures: Captures,
    /// Spreads keys.
    pub seed: HashSeed,
    /// Stops the run where its results cannot be kept.
    pub control: Arc<Control>,
    /// The interfaces that are listened on, by their numbers in records: a reload adds some. None
    /// where frames describe theirs as they come.
    pub interfaces: LiveInterfaces,
    /// Prints messages for users, if they want them; a line each.
    pub tell: Option<fn(&str)>,
    /// Prints what a user has to know, wanted or not; a line each.
    pub warn: fn(&str),
    /// How far reading is, and what was lost on the way.
    pub progress: Arc<capture::Progress>,
    /// Time outside of event time.
    pub clock: Clock,
    /// Whether frames come from an interface.
    pub is_live: bool,
    /// At which speed captures are replayed, where they are.
    pub pace: Option<Arc<Pace>>,
    /// What rules make of labels.
    pub rules: crate::rules::InForce,
    /// The labels that rules read, which have to be given in the piece that decides.
    pub read_labels: Vec<LabelKind>,
    /// How workers are reached, where some application [escalates](Application::escalates).
    pub escalations: Option<Arc<Escalations>>,
    /// Faults on purpose.
    pub drills: Drills,
}

/// A lens that reports at the end the outcome of its packets.
pub trait Watcher: Lens + Send + Any {
    /// The application's name.
    fn name(&self) -> &'static str;

    /// Takes in what the lens of another pass has found, before [`close`](Self::close); that one is
    /// of the same type. Only of who is [`Application::BY_FLOW`], or in any order.
    fn fold(&mut self, _other: Box<dyn Any>) -> Result<(), Refusal> {
        Err(Refusal::new("no application that looks at a part of the flows"))
    }

    /// Its counts so far, for observers of the run.
    fn counts(&self, _now: &Now<'_>) -> Vec<Count> {
        Vec::new()
    }

    /// Rows that are not final, of the flows in these slots; none where it has no such rows. What
    /// costs time is left to who looks: packets wait.
    fn open_rows(&self, _now: &Now<'_>, _slots: Range<u32>) -> Option<(usize, OpenRows)> {
        None
    }

    /// The pass is over: writes the remaining rows, and reports the outcome. `flows` are the counts
    /// of packets and flows of the pass itself, or of all passes if there are several.
    ///
    /// # Errors
    /// [`Refusal`]: results that could not be kept.
    fn close(self: Box<Self>, flows: &RunTotals) -> Result<Closing, Refusal>;
}

/// The lens of another pass, for [`Watcher::fold`]: passes of one application have lenses of one
/// kind.
pub(crate) fn of_same<W: Any>(other: Box<dyn Any>) -> Result<Box<W>, Refusal> {
    other.downcast().map_err(|_| Refusal::new("passes of one application have lenses of one kind"))
}

/// What an application says at the end.
#[derive(Default)]
pub struct Closing {
    /// The outcome of each packet.
    pub outcome: Outcome,
    /// What packets without a key lack, such as "an IP header"; blank if that is not reported.
    pub key: &'static str,
    /// Packets whose window was already closed.
    pub late: u64,
    /// Packets whose key found a table full.
    pub beyond_max_keys: u64,
    /// Lines of its own, each ended.
    pub lines: String,
    /// What else it counted, by name.
    pub counts: Vec<(&'static str, u64)>,
    /// As [`Watcher::counts`], where closing has changed it.
    pub shown: Vec<Count>,
    /// Flows by how they ended, where it looks at flows.
    pub ended: Option<FlowCounts>,
    /// What was lost although it was to be kept; the run ends with an error.
    pub loss: Option<String>,
    /// Its rows that were dropped because writing them was too slow, as the run counts them.
    pub dropped_rows: u64,
    /// Outcome of the sources that it alone reads.
    pub own: Vec<SourceSummary>,
    /// Its results as a whole, for a front end that knows the application.
    pub found: Option<Box<dyn Any + Send>>,
}

impl Closing {
    /// What the application of this name did with its packets, where it reports packets with keys
    /// and without.
    #[must_use]
    pub fn stage<'a>(&'a self, name: &'a str) -> Option<StageSummary<'a>> {
        let Self { outcome, key, late, beyond_max_keys, .. } = self;
        let (late, beyond_max_keys) = (*late, *beyond_max_keys);
        (!key.is_empty()).then_some(StageSummary { name, outcome, key, late, beyond_max_keys })
    }
}
