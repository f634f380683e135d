//! Segmentation offloads of an interface, in the hands of the helper.

use capture::tap::Offloads;
use jail::{DeviceChanges, Needs};
use serde::{Deserialize, Serialize};

use crate::device_keeper::{Chore, OrderOutcome};

/// Offloads that are off.
pub(super) struct OffloadsKeeper(Offloads);

/// Nothing is asked after the start.
#[derive(Serialize, Deserialize)]
pub(super) enum NoOrder {}

impl Chore for OffloadsKeeper {
    const NAME: &'static str = "offloads";
    /// The interface.
    type Task = String;
    type Order = NoOrder;

    fn prepare(interface: String) -> Result<Self, String> {
        let offloads = Offloads::found(&interface).map_err(|error| error.to_string())?;
        // What a kernel lacks the run reports, which enters a jail as well.
        let _ = jail::enter(&Needs { changes: DeviceChanges::BySockets, ..Needs::default() });
        Ok(Self(offloads))
    }

    /// Says what a person would type to put them back.
    fn begin(&mut self) -> Result<String, String> {
        let by_hand = self.0.put_back_by().join("; ");
        self.0.switch_off().map(|()| by_hand).map_err(|error| error.to_string())
    }

    fn carry_out(&mut self, order: NoOrder) -> Result<OrderOutcome, String> {
        match order {}
    }

    fn end(&mut self) -> Result<String, String> {
        self.0.put_back().map(|()| String::new()).map_err(|error| error.to_string())
    }
}
