//! `top` on a pass that others share.

use engine::Stage as _;
use engine::columns::Schema;
use engine::exchange::{Extract as _, Outlet as Items, Own as _};
use engine::flow::pass::{Labels, Lens, Piece};
use engine::group::{GroupStage, Groups, Outcome};
use engine::grouping::{ByDestination, ByFlow, ByPair, ByPort, ByProtocol, BySource};
use engine::table::Tally;
use engine::window::{Closed, Item, WindowExtract, WindowOwner, fold_windows};
use packet::{Batch, Span, Timestamp};
use serde::Deserialize;

use super::compute::shown;
use super::row::Presented;
use super::{By, Done, SortBy, TopRequest, needs, schema};
use crate::application::{Application, Closing, Opening, Refusal, Site, Wants, Watcher, Watchers};
use crate::outlet::Outlet;
use crate::reading::Received;
use crate::{KEY_COUNTS, flows, written};

/// Settings of `top`.
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Settings {
    /// What to add up by.
    #[serde(deserialize_with = "written::choice")]
    pub by: By,
    /// Rows of each window, or of the whole run; 0 for all.
    pub rows: usize,
    /// Order of the rows.
    #[serde(deserialize_with = "written::choice")]
    pub sort: SortBy,
    /// Add up each window of this length for itself.
    #[serde(deserialize_with = "written::duration_if_any")]
    pub window: Option<Span>,
    /// Keys kept at most.
    pub max_keys: usize,
}

impl Default for Settings {
    fn default() -> Self {
        let (by, sort) = (By::Source, SortBy::Bytes);
        Self { by, rows: 10, sort, window: None, max_keys: 16_000_000 }
    }
}

/// The largest senders, or whatever else packets are added up by.
pub struct Top(Settings);

impl Application for Top {
    const NAME: &'static str = "top";
    const ABOUT: &'static str = "Who sends what: packets and bytes by a key, the largest first";
    const EXAMPLE: &'static str = "\
# Key: source, destination, pair, port, protocol or flow.
# by = \"source\"
# Rows of each window, or of the whole run; 0 for all.
# rows = 10
# sort = \"bytes\"
# Totals for each window of this length; required on an interface.
window = \"10s\"
# max-keys = 16000000
";

    type Settings = Settings;

    fn ready(settings: Settings, site: &Site<'_>) -> Result<Self, Refusal> {
        if !KEY_COUNTS.contains(&settings.max_keys) {
            let (least, most) = (KEY_COUNTS.start(), KEY_COUNTS.end());
            return Err(Refusal::of("max-keys", format_args!("wanted {least} to {most}")));
        }
        if site.is_live && settings.window.is_none() {
            return Err(Refusal::new(
                "an interface has no end, so totals need windows; give window = \"10s\"",
            ));
        }
        Ok(Self(settings))
    }

    fn wants(&self) -> Wants {
        Wants::frames(needs(self.0.by))
    }

    fn schema(&self, _: bool) -> Schema {
        schema(self.0.by, self.0.window.is_some())
    }

    fn open(self, opening: Opening) -> Result<Watchers, Refusal> {
        let Settings { by, rows, sort, window, max_keys } = self.0;
        let row_count_max = if rows == 0 { usize::MAX } else { rows };
        let seed = opening.seed;
        let request = TopRequest { by, row_count_max, sort, window, max_keys, seed };
        let Some(outlet) = opening.outlet else { return Err(Refusal::new("rows go nowhere")) };
        Ok(match by {
            By::Source => watch(BySource, request, outlet),
            By::Destination => watch(ByDestination, request, outlet),
            By::Pair => watch(ByPair, request, outlet),
            By::Port => watch(ByPort, request, outlet),
            By::Protocol => watch(ByProtocol, request, outlet),
            By::Flow => watch(ByFlow, request, outlet),
        })
    }
}

fn watch<G: Presented + 'static>(grouping: G, request: TopRequest, outlet: Outlet) -> Watchers {
    let TopRequest { seed, max_keys, .. } = request;
    let out = Out { grouping, request, outlet, refused: Tally::default(), refusal: None };
    match request.window {
        None => Whole { stage: GroupStage::new(grouping, seed, max_keys), out }.into(),
        Some(window) => Windowed {
            extract: WindowExtract::new(grouping, seed, window),
            owner: WindowOwner::new(seed, max_keys),
            closed: Vec::new(),
            forgotten: 0,
            out,
        }
        .into(),
    }
}

/// Rows on their way out.
struct Out<G> {
    grouping: G,
    request: TopRequest,
    outlet: Outlet,
    refused: Tally,
    refusal: Option<Refusal>,
}

impl<G: Presented> Out<G> {
    fn put(&mut self, start: Option<Timestamp>, groups: &Groups<G>) {
        use engine::table::Entry as _;
        self.refused.fold(&G::tally(&groups.refused()));
        let rows = shown(self.grouping, &self.request, start, groups, |shown| {
            for columns in shown.columns() {
                self.outlet.put(columns.map_err(Refusal::new)?);
            }
            Ok(())
        });
        if let Err(refusal) = rows {
            self.refusal.get_or_insert(refusal);
        }
    }

    fn close(self, outcome: Outcome, late: u64, forgotten: u64) -> Result<Closing, Refusal> {
        let Self { refused, refusal, .. } = self;
        let (received, key) = (Received::default(), G::KEY);
        let done = Done { outcome, received, late, refused, forgotten, key };
        let lines = done.lines();
        let (outcome, beyond_max_keys) = (done.outcome, refused.packets);
        let closing = Closing { outcome, key, late, beyond_max_keys, lines, ..Closing::default() };
        refusal.map_or(Ok(closing), Err)
    }
}

/// Sums over the whole run.
struct Whole<G: Presented> {
    stage: GroupStage<G>,
    out: Out<G>,
}

impl<G: Presented> Lens for Whole<G> {
    fn on_piece(&mut self, piece: &Piece<'_>, _: &mut Labels) {
        self.stage.on_batch(&piece.as_batch());
    }
}

impl<G: Presented + 'static> Watcher for Whole<G> {
    fn name(&self) -> &'static str {
        Top::NAME
    }

    fn close(self: Box<Self>, _: &flows::Done) -> Result<Closing, Refusal> {
        let Self { stage, mut out } = *self;
        let (groups, outcome) = stage.finish();
        out.put(None, &groups);
        out.close(outcome, 0, 0)
    }
}

/// Sums of each window.
struct Windowed<G: Presented> {
    extract: WindowExtract<G>,
    owner: WindowOwner<G>,
    closed: Vec<Closed<G>>,
    forgotten: u64,
    out: Out<G>,
}

/// Items to their owner, on the same thread.
struct InPlace<'a, G: Presented> {
    owner: &'a mut WindowOwner<G>,
    closed: &'a mut Vec<Closed<G>>,
}

impl<G: Presented> Items<Item<G::Narrow, G::Wide, G::Value>, Timestamp> for InPlace<'_, G> {
    #[inline]
    fn item(&mut self, _: u64, item: Item<G::Narrow, G::Wide, G::Value>) {
        self.owner.on_item(item);
    }

    fn mark(&mut self, mark: Timestamp) {
        self.closed.push(self.owner.on_mark(mark));
    }

    fn flush(&mut self) {}
}

impl<G: Presented> Windowed<G> {
    fn take(&mut self, batch: &Batch<'_>) {
        let Self { extract, owner, closed, .. } = self;
        extract.extract(batch, &mut InPlace { owner, closed });
        self.put();
    }

    fn put(&mut self) {
        let Self { closed, forgotten, out, .. } = self;
        for part in closed.drain(..) {
            for (start, groups) in fold_windows(vec![part]) {
                *forgotten += groups.forgotten;
                out.put(Some(start), &groups);
            }
        }
    }
}

impl<G: Presented> Lens for Windowed<G> {
    fn on_piece(&mut self, piece: &Piece<'_>, _: &mut Labels) {
        self.take(&piece.as_batch());
    }

    fn on_tick(&mut self, time: Timestamp) {
        self.take(&Batch { bytes: &[], records: &[], tick: Some(time) });
    }
}

impl<G: Presented + 'static> Watcher for Windowed<G> {
    fn name(&self) -> &'static str {
        Top::NAME
    }

    fn close(mut self: Box<Self>, _: &flows::Done) -> Result<Closing, Refusal> {
        let last = self.extract.last_mark();
        self.closed.push(self.owner.on_mark(last));
        self.put();
        let Self { extract, forgotten, out, .. } = *self;
        let (outcome, late) = extract.finish();
        out.close(outcome, late, forgotten)
    }
}
