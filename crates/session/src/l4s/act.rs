//! Acting on packets that leave an interface: the program that re-marks them, and offloads that
//! would join them.

use std::sync::Arc;

use capture::tap::{EcnCounts, EcnError, EcnMarker, EcnSettings, Offloads};
use packet::EcnControl;

use super::follower::FLOWS_MAX;

/// An interface whose packets are re-marked, or would be.
pub(super) struct Acting {
    marker: Arc<EcnMarker>,
    /// None in a dry run, which changes nothing.
    offloads: Option<Offloads>,
    interface: String,
}

impl Acting {
    /// Attaches the program, by which no packet is changed yet, and switches offloads off unless
    /// this `is_dry_run`. What there is to say about that, a line.
    ///
    /// # Errors
    /// [`EcnError`]
    pub(super) fn begin(interface: &str, is_dry_run: bool) -> Result<(Self, String), EcnError> {
        let flow_count_max = u32::try_from(FLOWS_MAX).unwrap_or(u32::MAX);
        let marker =
            Arc::new(EcnMarker::attach(interface, EcnSettings { flow_count_max, is_dry_run })?);
        let on = marker.offloads()?;
        let on = if on.is_empty() { String::from("none is on") } else { on.join(", ") };
        let (offloads, line) = if is_dry_run {
            let line = format!("dry run, nothing is changed; segmentation offloads: {on}");
            (None, line)
        } else {
            let line = format!(
                "packets of named flows are re-marked; until this ends segmentation offloads are \
                 off (they were: {on}) and each packet is one segment, which costs CPU"
            );
            (Some(Offloads::off(interface)?), line)
        };
        let line = format!("l4s: {interface}: {line}");
        Ok((Self { marker, offloads, interface: interface.to_owned() }, line))
    }

    pub(super) fn control(&self) -> Box<dyn EcnControl> {
        Box::new(Arc::clone(&self.marker))
    }

    /// Ends it, once the loop has ended: lines to say, and what could not be put back.
    pub(super) fn end(self) -> (String, Option<String>) {
        let Self { marker, offloads, interface } = self;
        let lines = match marker.counts() {
            Ok(counts) => lines(&interface, &counts),
            Err(error) => format!("l4s: {error}\n"),
        };
        // The program first: it is detached when nobody holds it.
        drop(marker);
        let put_back = offloads.map_or(Ok(()), Offloads::put_back);
        (lines, put_back.err().map(|error| format!("l4s: offloads were not put back: {error}")))
    }
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
    text
}
