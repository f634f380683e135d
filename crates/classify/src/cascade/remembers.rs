//! How a cascade remembers hosts.

use serde_json::Value;

use super::calibration::floor;
use super::object::Object;
use super::read::span;
use super::reason::CascadeError;
use crate::memory::MemoryRule;

/// Of a cascade of version 3 about flows, where it says that it remembers.
pub(super) fn rule(
    root: &Object<'_>,
    version: u64,
    class_count: usize,
) -> Result<Option<MemoryRule>, CascadeError> {
    if root.get("memory").is_none() {
        return Ok(None);
    }
    if version < 3 {
        return Err(root.wrong("memory", "none before version 3"));
    }
    let memory = root.object("memory")?;
    let prior = memory.get("prior").and_then(Value::as_f64);
    let prior = prior.filter(|prior| prior.is_finite() && *prior > 0.0);
    Ok(Some(MemoryRule {
        half_life: span(&memory, "half_life_ns")?,
        prior: prior.ok_or_else(|| memory.wrong("prior", "a number above 0"))?,
        floor: floor(&memory, class_count)?,
    }))
}
