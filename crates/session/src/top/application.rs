//! `top` on a pass that others share.

use std::any::Any;
use std::path::PathBuf;

use engine::columns::Schema;
use engine::exchange::{Extract as _, Outlet as Items, Own as _};
use engine::flow::pass::{FaultScope, Labels, Lens, Now, Piece};
use engine::group::{GroupStage, Groups, Outcome};
use engine::grouping::{ByDestination, ByFlow, ByPair, ByPort, ByProtocol, BySource};
use engine::table::{Entry as _, Tally};
use engine::window::{
    ClosedWindows, Item, WindowExtract, WindowOwner, fold_windows, open_windows_max,
};
use engine::{Fold as _, Stage as _};
use packet::{Batch, HashSeed, Span, Timestamp};
use serde::Deserialize;

use super::ranking::{Ranking, RankingRows, needs, schema, with_grouping};
use super::row::TopGrouping;
use super::{By, SortBy, by_name};
use crate::application::{
    Application, Closing, Count, Opening, Refusal, Site, Wants, Watcher, Watchers, of_same,
};
use crate::done::RunTotals;
use crate::outlet::{Outlet, Sharing};
use crate::{KEY_COUNTS, names_read, written};

/// Settings of `top`.
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Settings {
    /// Key to aggregate by.
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
    /// Keys kept at most, in all windows together that are open at a time.
    pub max_keys: usize,
    /// By name: pseudonyms instead of names, by the key in this file.
    pub hash_names: Option<PathBuf>,
}

impl Default for Settings {
    fn default() -> Self {
        let (by, sort) = (By::Source, SortBy::Bytes);
        Self { by, rows: 10, sort, window: None, max_keys: 3_000_000, hash_names: None }
    }
}

/// The largest senders, or whatever else packets are added up by.
pub struct Top {
    settings: Settings,
    shown: Option<Outlet<Vec<Ranking>>>,
}

impl Top {
    /// For a front end, which may show rankings live.
    #[must_use]
    pub const fn shown_by(settings: Settings, shown: Option<Outlet<Vec<Ranking>>>) -> Self {
        Self { settings, shown }
    }
}

impl Application for Top {
    const NAME: &'static str = "top";
    const ABOUT: &'static str = "Top talkers: packets and bytes by a key, largest first";
    const EXAMPLE: &'static str = "\
# Key: source, destination, pair, port, protocol, flow or name.
# by = \"source\"
# Rows per window, or of the whole run; 0 for all.
# rows = 10
# sort = \"bytes\"
# Totals for each window of this length; required on an interface.
window = \"10s\"
# max-keys = 3000000
# By name: pseudonyms, with the key in a file.
# hash-names = \"names.key\"
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
        match &settings.hash_names {
            Some(_) if settings.by != By::Name => {
                return Err(Refusal::of("hash-names", "only by = \"name\" has names"));
            }
            Some(path) => drop(names_read::read_key(path)?),
            None => {}
        }
        Ok(Self { settings, shown: None })
    }

    fn wants(&self) -> Wants {
        let needs = needs(self.settings.by);
        match self.settings.by {
            By::Name => Wants { window: Some(self.settings.window), ..Wants::flows(needs) },
            _ => Wants::frames(needs),
        }
    }

    fn schema(&self, _: bool) -> Schema {
        schema(self.settings.by, self.settings.window.is_some())
    }

    fn is_in_any_order(&self) -> bool {
        // In windows time must go on in one place.
        self.settings.window.is_none() && self.settings.by != By::Name
    }

    fn open(self, opening: Opening) -> Result<Watchers, Refusal> {
        let Self { settings, shown } = self;
        if opening.outlet.is_none() && shown.is_none() {
            return Err(Refusal::new("rows go nowhere"));
        }
        let by = settings.by;
        Ok(with_grouping!(by, grouping => {
            let Opening { outlet, seed, sharing, .. } = opening;
            let (refused, refusal) = (Tally::default(), None);
            let out = Out { grouping, settings, outlet, shown, refused, refusal };
            watch(out, seed, sharing)
        }, name => return by_name::watch(settings, shown, opening)))
    }
}

fn watch<G: TopGrouping + 'static>(out: Out<G>, seed: HashSeed, sharing: Sharing) -> Watchers {
    let Settings { max_keys, window, .. } = out.settings;
    let whole = move |out: Out<G>| GroupStage::new(out.grouping, seed, max_keys);
    match (window, sharing) {
        (None, Sharing::AnyOrder { is_merged }) => {
            let make = move || -> Box<dyn Watcher> {
                let stage = whole(out.clone()).of_merged(is_merged);
                Box::new(Whole { stage, out: out.clone() })
            };
            Watchers { any: Some(Box::new(make)), ..Watchers::default() }
        }
        (None, _) => Whole { stage: whole(out.clone()), out }.into(),
        (Some(window), _) => {
            let extract = WindowExtract::new(out.grouping, seed, window);
            let owner = WindowOwner::new(seed, max_keys.div_ceil(open_windows_max(window)));
            WindowSums { extract, owner, closed: Vec::new(), forgotten: 0, out }.into()
        }
    }
}

/// Rows on their way out.
#[derive(Clone)]
struct Out<G> {
    grouping: G,
    settings: Settings,
    outlet: Option<Outlet>,
    shown: Option<Outlet<Vec<Ranking>>>,
    refused: Tally,
    refusal: Option<Refusal>,
}

impl<G: TopGrouping> Out<G> {
    fn put(&mut self, start: Option<Timestamp>, groups: &Groups<G>) {
        self.refused.fold(&G::tally(&groups.refused()));
        let ranked = RankingRows::of(self.grouping, &self.settings, start, groups);
        if let Some(shown) = &self.shown {
            shown.put(vec![ranked.shown()]);
        }
        let Some(outlet) = &self.outlet else { return };
        for columns in ranked.columns() {
            match columns {
                Ok(columns) => outlet.put(columns),
                Err(refused) => {
                    self.refusal.get_or_insert(Refusal::new(refused));
                }
            }
        }
    }

    fn close(
        self,
        outcome: Outcome,
        (late, epochs): (u64, u64),
        forgotten: u64,
    ) -> Result<Closing, Refusal> {
        let shown = shown(late, self.refused.packets, forgotten);
        let Self { refused, refusal, .. } = self;
        let mut lines = match forgotten {
            0 => String::new(),
            count => format!(
                "top: the source of {count} flows was evicted to bound memory; if they resume, it \
                 is the sender of the next packet\n"
            ),
        };
        if epochs > 0 {
            lines.push_str(&format!(
                "top: {epochs} steps back of the clock by 120 s or more: windows begin again\n"
            ));
        }
        let closing = Closing {
            outcome,
            key: G::KEY,
            late,
            beyond_max_keys: refused.packets,
            lines,
            counts: vec![("forgotten_flows", forgotten)],
            shown,
            ..Closing::default()
        };
        refusal.map_or(Ok(closing), Err)
    }
}

/// Counts during a run: of closed windows, and the total at the end.
pub(super) fn shown(late: u64, beyond_max_keys: u64, forgotten: u64) -> Vec<Count> {
    let beyond = "Packets of keys beyond the maximum.";
    vec![
        Count::total("packets_late", "Packets whose window was already closed.", late),
        Count::total("packets_beyond_max_keys", beyond, beyond_max_keys),
        Count::total("forgotten_flows", "Flows whose source was evicted.", forgotten),
    ]
}

/// Sums over the whole run.
struct Whole<G: TopGrouping> {
    stage: GroupStage<G>,
    out: Out<G>,
}

impl<G: TopGrouping> Lens for Whole<G> {
    fn on_piece(&mut self, piece: &Piece<'_>, _: &mut Labels) {
        self.stage.on_batch(&piece.as_batch());
    }

    fn on_source(&mut self, index: usize) {
        self.stage.on_source(index);
    }

    fn on_fault(&mut self, _: &FaultScope<'_>) -> bool {
        self.stage.drop_staged();
        true
    }

    fn outcome(&self) -> Option<Outcome> {
        Some(self.stage.outcome().clone())
    }
}

impl<G: TopGrouping + 'static> Watcher for Whole<G> {
    fn name(&self) -> &'static str {
        Top::NAME
    }

    fn fold(&mut self, other: Box<dyn Any>) -> Result<(), Refusal> {
        self.stage.fold(of_same::<Self>(other)?.stage);
        Ok(())
    }

    fn close(self: Box<Self>, _: &RunTotals) -> Result<Closing, Refusal> {
        let Self { stage, mut out } = *self;
        let (groups, outcome) = stage.finish();
        out.put(None, &groups);
        out.close(outcome, (0, 0), 0)
    }
}

/// Sums of each window.
struct WindowSums<G: TopGrouping> {
    extract: WindowExtract<G>,
    owner: WindowOwner<G>,
    closed: Vec<ClosedWindows<G>>,
    forgotten: u64,
    out: Out<G>,
}

/// Items to their owner, on the same thread.
struct InPlace<'a, G: TopGrouping> {
    owner: &'a mut WindowOwner<G>,
    closed: &'a mut Vec<ClosedWindows<G>>,
}

impl<G: TopGrouping> Items<Item<G::Narrow, G::Wide, G::Value>, Timestamp> for InPlace<'_, G> {
    #[inline]
    fn item(&mut self, _: u64, item: Item<G::Narrow, G::Wide, G::Value>) {
        self.owner.on_item(item);
    }

    fn mark(&mut self, mark: Timestamp) {
        self.closed.push(self.owner.on_mark(mark));
    }

    fn flush(&mut self) {}
}

impl<G: TopGrouping> WindowSums<G> {
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

impl<G: TopGrouping> Lens for WindowSums<G> {
    fn on_piece(&mut self, piece: &Piece<'_>, _: &mut Labels) {
        self.take(&piece.as_batch());
    }

    fn on_tick(&mut self, time: Timestamp) {
        self.take(&Batch { bytes: &[], records: &[], tick: Some(time) });
    }

    /// Sums are of packets, and whole after each of them.
    fn on_fault(&mut self, _: &FaultScope<'_>) -> bool {
        true
    }

    fn outcome(&self) -> Option<Outcome> {
        Some(self.extract.so_far().0.clone())
    }
}

impl<G: TopGrouping + 'static> Watcher for WindowSums<G> {
    fn name(&self) -> &'static str {
        Top::NAME
    }

    fn counts(&self, _: &Now<'_>) -> Vec<Count> {
        shown(self.extract.so_far().1, self.out.refused.packets, self.forgotten)
    }

    fn close(mut self: Box<Self>, _: &RunTotals) -> Result<Closing, Refusal> {
        let last = self.extract.last_mark();
        self.closed.push(self.owner.on_mark(last));
        self.put();
        let Self { extract, forgotten, out, .. } = *self;
        let epochs = extract.epochs();
        let (outcome, late) = extract.finish();
        out.close(outcome, (late, epochs), forgotten)
    }
}
