//! Applications behind one list, whatever their settings are.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use capture::live::CutFrames;
use engine::columns::Schema;
use engine::flow::pass::LabelKind;
use store::packets::PacketLog;
use toml::Spanned;
use toml::de::DeTable;

use super::{Application, Opening, Refusal, Replacement, Site, Wants, Watchers};
use crate::toml_text::{Mistakes, fields_of, read_table};

/// An application in the list.
pub struct Entry {
    /// Its name.
    pub name: &'static str,
    /// What it answers, in a line.
    pub about: &'static str,
    /// Its settings with their defaults, with comments.
    pub example: &'static str,
    /// Whether it writes rows.
    pub has_rows: bool,
    /// As [`Application::declared`].
    pub declared: fn() -> Vec<(&'static str, Schema)>,
    /// The keys of its settings.
    pub keys: fn() -> &'static [&'static str],
    /// Reads its settings, and gets ready.
    pub read: fn(Reading<'_, '_>) -> Option<Box<dyn Ready>>,
}

/// A table of settings that is read, and where its mistakes go.
pub struct Reading<'a, 't> {
    /// The table, without the keys that every application has.
    pub table: Spanned<DeTable<'t>>,
    /// The process.
    pub site: Site<'a>,
    /// What is wrong with it.
    pub mistakes: &'a mut Mistakes,
}

/// An application that is ready to begin.
pub trait Ready: Send {
    /// Its name.
    fn name(&self) -> &'static str;
    /// As [`Application::is_by_flow`].
    fn is_by_flow(&self) -> bool;
    /// As [`Application::has_shares`].
    fn has_shares(&self) -> bool {
        self.is_by_flow()
    }
    /// As [`Application::wants`].
    fn wants(&self) -> Wants;
    /// As [`Application::schema`].
    fn schema(&self, has_capture: bool) -> Schema;
    /// As [`Application::gives`].
    fn gives(&self) -> Vec<(LabelKind, Vec<String>)> {
        Vec::new()
    }
    /// As [`Application::classifies_again`].
    fn classifies_again(&self) -> bool {
        false
    }
    /// As [`Application::reads`].
    fn reads(&self) -> &[PathBuf] {
        &[]
    }
    /// As [`Application::log_folder`].
    fn log_folder(&self) -> Option<&Path> {
        None
    }
    /// As [`Application::log_search`].
    fn log_search(&self) -> Option<Arc<dyn PacketLog>> {
        None
    }
    /// As [`Application::unsteered`].
    fn unsteered(&self) -> Option<&'static str> {
        None
    }
    /// As [`Application::is_in_any_order`].
    fn is_in_any_order(&self) -> bool {
        false
    }
    /// As [`Application::replacement`].
    fn replacement(&self) -> Option<Replacement> {
        None
    }
    /// As [`Application::cut_frames`].
    fn cut_frames(&self) -> Option<CutFrames> {
        None
    }
    /// As [`Application::escalates`].
    fn escalates(&self) -> bool {
        false
    }
    /// As [`Application::has_maps`].
    fn has_maps(&self) -> bool {
        false
    }
    /// Whether it attaches programs in the kernel, which takes rights at the start.
    fn attaches(&self) -> bool {
        self.has_maps() || self.cut_frames().is_some()
    }
    /// As [`Application::open`].
    ///
    /// # Errors
    /// [`Refusal`]
    fn open(self: Box<Self>, opening: Opening) -> Result<Watchers, Refusal>;
}

impl<A: Application> Ready for A {
    fn name(&self) -> &'static str {
        A::NAME
    }

    fn is_by_flow(&self) -> bool {
        Application::is_by_flow(self)
    }

    fn has_shares(&self) -> bool {
        Application::has_shares(self)
    }

    fn wants(&self) -> Wants {
        Application::wants(self)
    }

    fn schema(&self, has_capture: bool) -> Schema {
        Application::schema(self, has_capture)
    }

    fn gives(&self) -> Vec<(LabelKind, Vec<String>)> {
        Application::gives(self)
    }

    fn classifies_again(&self) -> bool {
        Application::classifies_again(self)
    }

    fn reads(&self) -> &[PathBuf] {
        Application::reads(self)
    }

    fn replacement(&self) -> Option<Replacement> {
        Application::replacement(self)
    }

    fn cut_frames(&self) -> Option<CutFrames> {
        Application::cut_frames(self)
    }

    fn escalates(&self) -> bool {
        Application::escalates(self)
    }

    fn has_maps(&self) -> bool {
        Application::has_maps(self)
    }

    fn log_folder(&self) -> Option<&Path> {
        Application::log_folder(self)
    }

    fn log_search(&self) -> Option<Arc<dyn PacketLog>> {
        Application::log_search(self)
    }

    fn unsteered(&self) -> Option<&'static str> {
        Application::unsteered(self)
    }

    fn is_in_any_order(&self) -> bool {
        Application::is_in_any_order(self)
    }

    fn open(self: Box<Self>, opening: Opening) -> Result<Watchers, Refusal> {
        Application::open(*self, opening)
    }
}

impl Entry {
    /// The entry of an application.
    #[must_use]
    pub const fn of<A: Application>() -> Self {
        Self {
            name: A::NAME,
            about: A::ABOUT,
            example: A::EXAMPLE,
            has_rows: A::HAS_ROWS,
            declared: A::declared,
            keys: fields_of::<A::Settings>,
            read: read::<A>,
        }
    }
}

fn read<A: Application>(reading: Reading<'_, '_>) -> Option<Box<dyn Ready>> {
    let Reading { table, site, mistakes } = reading;
    let at = table.span();
    let settings: A::Settings = read_table(A::NAME, &table, mistakes)?;
    match A::ready(settings, &site) {
        Ok(application) => Some(Box::new(application)),
        Err(Refusal { key, message }) => {
            let place = key.and_then(|key| table.get_ref().get_key_value(key));
            let at = place.map_or(at, |(key, _)| key.span());
            let key = key.map(|key| format!("{key}: ")).unwrap_or_default();
            mistakes.add(at, format_args!("[{}] {key}{message}", A::NAME));
            None
        }
    }
}
