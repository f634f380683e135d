//! Acting on packets that leave an interface: the program that re-marks them, and offloads that
//! would join them.

use std::ffi::OsStr;
use std::io;
use std::os::unix::net::UnixStream;
use std::process::ExitCode;
use std::sync::Arc;

use capture::tap::{EcnCounts, EcnMarker, EcnSettings};
use packet::EcnControl;

use super::follower::FLOWS_MAX;
use super::keeper::OffloadsKeeper;
use crate::application::Refusal;
use crate::device_keeper::{self, Chore as _, Helper, HelperError};
use crate::lock::Lock;

/// The helper of an interface, if it is named so.
pub(crate) fn helper_of(chore: &OsStr) -> Option<fn(UnixStream) -> ExitCode> {
    (chore == OffloadsKeeper::NAME).then_some(device_keeper::serve::<OffloadsKeeper>)
}

/// An interface whose packets are re-marked, or would be.
pub(super) struct Acting {
    marker: Arc<EcnMarker>,
    /// None in a dry run, which changes nothing.
    off: Option<Off>,
    interface: String,
}

impl Acting {
    /// Attaches the program, by which no packet is changed yet, and switches offloads off unless
    /// this `is_dry_run`. What there is to say about that, a line.
    ///
    /// # Errors
    /// [`Refusal`]: what the kernel refuses, or another process re-marks its packets.
    pub(super) fn begin(interface: &str, is_dry_run: bool) -> Result<(Self, String), Refusal> {
        let lock = (!is_dry_run).then(|| lock(interface)).transpose()?;
        let flow_count_max = u32::try_from(FLOWS_MAX).unwrap_or(u32::MAX);
        let settings = EcnSettings { flow_count_max, is_dry_run, ..EcnSettings::default() };
        let marker = Arc::new(EcnMarker::attach(interface, settings).map_err(Refusal::new)?);
        let on = marker.offloads().map_err(Refusal::new)?;
        let on = if on.is_empty() { String::from("none is on") } else { on.join(", ") };
        let (off, line) = if let Some(lock) = lock {
            let off = Off::switch(interface, &lock)?;
            let line = format!(
                "packets of named flows are re-marked; until this ends segmentation offloads are \
                 off (they were: {on}) and each packet is one segment, which costs CPU"
            );
            (Some(off), line)
        } else {
            let line = format!("dry run, nothing is changed; segmentation offloads: {on}");
            (None, line)
        };
        let line = format!("l4s: {interface}: {line}");
        Ok((Self { marker, off, interface: interface.to_owned() }, line))
    }

    pub(super) fn control(&self) -> Box<dyn EcnControl> {
        Box::new(Arc::clone(&self.marker))
    }

    /// That offloads will not be put back, since the helper that does it is gone.
    pub(super) fn loss(&mut self) -> Option<String> {
        let Off { helper, by_hand } = self.off.as_mut()?;
        Some(lost(&helper.lost()?, by_hand))
    }

    /// Ends it, once the loop has ended: lines to say, and what could not be put back.
    pub(super) fn end(self) -> (String, Option<String>) {
        let Self { marker, off, interface } = self;
        let lines = match marker.counts() {
            Ok(counts) => lines(&interface, &counts),
            Err(error) => format!("l4s: {error}\n"),
        };
        // The program first: it is detached when nobody holds it.
        drop(marker);
        let put_back = off.map_or(Ok(()), Off::put_back);
        (lines, put_back.err().map(|error| format!("l4s: offloads were not restored: {error}")))
    }
}

/// Offloads that are off until this ends, however it ends.
struct Off {
    helper: Helper,
    /// What a person types to put them back.
    by_hand: String,
}

impl Off {
    /// Has a helper switch them off. It holds the lock from here on.
    fn switch(interface: &str, lock: &Lock) -> Result<Self, Refusal> {
        let started = Helper::start::<OffloadsKeeper>(Some(lock), &interface.to_owned());
        let (helper, by_hand) = started.map_err(Refusal::new)?;
        Ok(Self { helper, by_hand })
    }

    fn put_back(self) -> Result<(), String> {
        self.helper.end().map(drop).map_err(|error| match error {
            HelperError::Lost(how) => lost(&how, &self.by_hand),
            error => error.to_string(),
        })
    }
}

/// The helper is gone.
fn lost(how: &str, by_hand: &str) -> String {
    format!(
        "the process that restores offloads has ended ({how}): they stay off; restore them: \
         {by_hand}"
    )
}

/// Nobody else switches the interface's offloads while this is held: they would take what is off
/// for what was found.
fn lock(interface: &str) -> Result<Lock, Refusal> {
    Lock::take(&format!("wirelens-offloads-{interface}")).map_err(|error| match error.kind() {
        io::ErrorKind::AddrInUse => Refusal::new(format_args!(
            "{interface}: another wirelens re-marks its packets; end it first"
        )),
        _ => Refusal::new(format_args!("{interface}: cannot be locked: {error}")),
    })
}

fn lines(interface: &str, counts: &EcnCounts) -> String {
    let mut text = format!(
        "l4s: {interface}: {} packets sent, {} of named flows\n",
        counts.seen(),
        counts.named.seen()
    );
    if counts.segmented > 0 {
        text.push_str(&format!(
            "l4s: {interface}: {} packets were sent as several segments with one ECN field: of \
             connections from before this began, or joined by another program\n",
            counts.segmented
        ));
    }
    if counts.budgets_expired > 0 {
        text.push_str(&format!(
            "l4s: {interface}: {} budgets expired in the kernel before this process ended them\n",
            counts.budgets_expired
        ));
    }
    text
}
