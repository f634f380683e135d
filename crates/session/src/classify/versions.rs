//! The models of a run, which may be replaced while it reads.
//!
//! A flow keeps the model that it began with, and each verdict says which one that was. A model is
//! replaced by one that distinguishes the same classes at the same stages and reads no more of a
//! frame: all else (columns, rules, limits of flows) was fixed when the run began.

use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use classify::{Cascade, Stage};

use super::{needs, wants_inner};
use crate::application::Replace;

/// Models of a run at most.
const MODELS_MAX: usize = 64;

/// All of them, the newest last.
#[derive(Clone)]
pub(super) struct ModelVersions(Arc<Shared>);

struct Shared {
    models: RwLock<Vec<Arc<Cascade>>>,
    newest: AtomicU16,
}

impl ModelVersions {
    pub(super) fn new(first: Arc<Cascade>) -> Self {
        let models = RwLock::new(vec![first]);
        Self(Arc::new(Shared { models, newest: AtomicU16::new(0) }))
    }

    /// The number of the newest; looked at with each piece of packets.
    #[inline]
    pub(super) fn newest(&self) -> u16 {
        self.0.newest.load(Ordering::Acquire)
    }

    /// All models, by number.
    pub(super) fn all(&self) -> Vec<Arc<Cascade>> {
        // A list is only ever appended to: what a thread left that fell is a list all the same.
        self.0.models.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Takes models that settings ask for when they are read again.
    pub(super) fn taking(self) -> Replace {
        Box::new(move |model| match Arc::clone(model).downcast() {
            Ok(model) => self.replace(model),
            Err(_) => Ok(None),
        })
    }

    /// Has flows that begin from here on served by another model: what to say of it; nothing where
    /// it is the same one.
    ///
    /// # Errors
    /// Why it cannot take the place of the one before.
    fn replace(&self, model: Arc<Cascade>) -> Result<Option<String>, String> {
        let mut models = self.0.models.write().unwrap_or_else(PoisonError::into_inner);
        let count = models.len();
        let Some(last) = models.last() else { return Ok(None) };
        if last.id() == model.id() {
            return Ok(None);
        }
        let is_plain = |model: &Cascade| model.memory().is_none() && model.window().is_none();
        if !is_plain(last) || !is_plain(&model) {
            let (seen, why) = (model.id(), "a memory of hosts and windows stay as they began");
            return Err(format!("{seen} cannot replace {} during a run: {why}", last.id()));
        }
        if let Some(what) = difference(last, &model) {
            let (seen, wanted) = (model.id(), last.id());
            return Err(format!("{seen} has other {what} than {wanted}"));
        }
        if count == MODELS_MAX {
            return Err(format!("this run has had {MODELS_MAX} models"));
        }
        let told = format!("{} serves flows from now on, in place of {}", model.id(), last.id());
        models.push(model);
        self.0.newest.store(u16::try_from(count).unwrap_or(u16::MAX), Ordering::Release);
        Ok(Some(told))
    }
}

/// What keeps a model from serving where the other one did.
fn difference(from: &Cascade, to: &Cascade) -> Option<&'static str> {
    let stages =
        |cascade: &Cascade| -> Vec<_> { cascade.stages().iter().map(Stage::name).collect() };
    let checks = [
        ("classes", from.classes() == to.classes()),
        ("stages", stages(from) == stages(to)),
        ("timeouts of flows", from.flows() == to.flows()),
        ("headers in tunnels", wants_inner(from) == wants_inner(to)),
        ("names of protocols", from.names_protocols() == to.names_protocols()),
        ("names of servers", from.names().is_some() == to.names().is_some()),
        ("needs of bytes", needs(to).len <= needs(from).len),
    ];
    checks.iter().find(|(_, is_same)| !is_same).map(|(what, _)| *what)
}
