//! A program in the kernel that truncates packets for one application does so for all of a plan.

use capture::live::{ANY, CutFrames};

use super::app_plan::AppPlan;
use super::plan::Plan;

impl Plan {
    fn cutter(&self) -> Option<(&'static str, CutFrames)> {
        let frames = |one: &AppPlan| Some((one.ready.name(), one.ready.cut_frames()?));
        self.applications.iter().find_map(frames)
    }

    /// How frames come where a program in the kernel truncates them.
    pub(super) fn cut_frames(&self) -> Option<CutFrames> {
        self.cutter().map(|(_, frames)| frames)
    }

    /// Refuses what needs more of a packet than a program in the kernel leaves of it.
    ///
    /// # Errors
    /// The names of both, and why.
    pub fn check_cut(&self) -> Result<(), String> {
        let Some((name, _)) = self.cutter() else { return Ok(()) };
        let refuse = |other: &str, why: &str| {
            Err(format!("[{name}] offload with {other}: {why}; leave out one of both"))
        };
        let reads = |one: &&AppPlan| one.ready.name() != name && one.ready.wants().reads_payload;
        if let Some(reader) = self.applications.iter().find(reads) {
            let why = "it reads payload, of which packets are truncated before they come to it";
            return refuse(&format!("[{}]", reader.ready.name()), why);
        }
        if self.rules_read_names {
            let why = "lists of names are compared with payload, of which packets are truncated";
            return refuse("a [[rule]] about indicators that are names", why);
        }
        if self.rules.steers_keeping() {
            let why = "packets are truncated before a rule could keep more of them";
            return refuse("a [[rule]] that keeps packets", why);
        }
        let input = &self.input;
        // The log refuses them as well, but only once they are open.
        let interfaces = &input.interface;
        if interfaces.len() > 1 || interfaces.iter().any(|one| one == ANY) {
            return Err(format!(
                "[{name}] offload with [input] interface {}: wanted one interface by its name, as \
                 verdicts are lost where packets of several are merged; try a run for each, or no \
                 offload",
                interfaces.join(", ")
            ));
        }
        let of_frames = [
            ("filter", input.filter.is_some()),
            ("snaplen", input.snaplen.is_some()),
            ("drop-duplicates", input.drop_duplicates.is_some()),
        ];
        match of_frames.iter().find(|(_, is_given)| *is_given) {
            Some((key, _)) => refuse(
                &format!("[input] {key}"),
                "the program puts a note in front of each packet, which it would count as a part \
                 of it",
            ),
            None => Ok(()),
        }
    }
}
