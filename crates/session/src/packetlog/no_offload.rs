//! Without taps in the kernel nothing is classified there.

use std::path::Path;
use std::sync::Arc;

use capture::live::CutFrames;
use packet::HashSeed;
use packet::file::Interface;
use packetlog::policy::{Granularity, KernelControl, Switch};
use serde_json::Value;

use super::judging::Judging;
use super::{Ask, LogError, Means, PacketModel};

/// Where packets are classified and cut, if not in user space: nowhere.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Offload {}

/// Never.
pub(super) enum KernelHalf {}

impl Offload {
    /// By XDP: this build has no programs for the kernel.
    pub(super) fn new(_: Means, _: bool) -> Result<Self, &'static str> {
        Err("xdp: this build has no programs for the kernel; use the command")
    }

    pub(super) const fn model<'a>(_: Option<&Self>, model: &'a Path) -> &'a Path {
        model
    }

    pub(super) const fn frames(&self) -> CutFrames {
        match *self {}
    }

    pub(super) fn check(_: &Ask) -> Result<(), String> {
        Ok(())
    }

    pub(super) fn attach(
        self,
        _: &PacketModel,
        _: HashSeed,
        _: &[Interface],
        _: &[Granularity],
    ) -> Result<Judging, LogError> {
        match self {}
    }
}

impl KernelHalf {
    pub(super) fn take_up(&self, _: &PacketModel) -> Result<bool, String> {
        match *self {}
    }

    pub(super) fn control(&self, _: Arc<Switch>, _: &[Granularity]) -> Arc<dyn KernelControl> {
        match *self {}
    }

    pub(super) fn begin_lines(&self) -> Vec<String> {
        match *self {}
    }

    pub(super) fn status(&self) -> Value {
        match *self {}
    }

    pub(super) fn loss(&self) -> Option<String> {
        match *self {}
    }

    pub(super) fn line(&self) -> String {
        match *self {}
    }
}
