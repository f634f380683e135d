//! Without taps in the kernel nothing is classified there.

use std::sync::Arc;

use packet::HashSeed;
use packet::file::Interface;
use packetlog::Model;
use packetlog::policy::{Granularity, KernelControl, Switch};
use serde_json::Value;

use super::judging::Judging;
use super::{Ask, LogError};

/// Where packets are classified and cut, if not in user space: nowhere.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Offload {}

/// Never.
pub(super) enum KernelHalf {}

impl Offload {
    pub(super) fn check(_: &Ask) -> Result<(), LogError> {
        Ok(())
    }

    pub(super) fn attach(
        self,
        _: &Model,
        _: HashSeed,
        _: &[Interface],
        _: &[Granularity],
    ) -> Result<Judging, LogError> {
        match self {}
    }
}

impl KernelHalf {
    pub(super) fn control(&self, _: Arc<Switch>, _: &[Granularity]) -> Arc<dyn KernelControl> {
        match *self {}
    }

    pub(super) fn begin_lines(&self) -> Vec<String> {
        match *self {}
    }

    pub(super) fn status(&self) -> Value {
        match *self {}
    }

    pub(super) fn line(&self) -> String {
        match *self {}
    }
}
