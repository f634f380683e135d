//! What is said of traffic that is not as calibrated.

use packetlog::calibration::{DriftCounts, DriftWarning};
use serde_json::{Value, json};

/// A warning as a line for users.
pub(super) fn line(warning: &DriftWarning) -> String {
    match warning {
        DriftWarning::Scores { psi, psi_max } => format!(
            "packetlog: traffic differs from what was calibrated (population stability index \
             {psi:.2}, wanted at most {psi_max:.2}): the budget may not hold; if the traffic is \
             benign and stays so, run `wirelens packetlog calibrate` again"
        ),
        DriftWarning::Marked { marked, budget } => format!(
            "packetlog: {:.1} % of packets are marked, above the budget of {} %: look at them \
             with `wirelens packetlog query --class`; if they are benign, run `wirelens packetlog \
             calibrate` again",
            marked * 100.0,
            budget * 100.0
        ),
        DriftWarning::Recovered => String::from("packetlog: traffic is again as calibrated"),
    }
}

/// The same as an event.
pub(super) fn event(warning: &DriftWarning) -> Value {
    match warning {
        DriftWarning::Scores { psi, psi_max } => {
            json!({"seen": "scores", "psi": psi, "psi_max": psi_max})
        }
        DriftWarning::Marked { marked, budget } => {
            json!({"seen": "marked", "marked": marked, "budget": budget})
        }
        DriftWarning::Recovered => json!({"seen": "recovered"}),
    }
}

/// What is shown while a recorder runs.
pub(super) fn status(counts: &DriftCounts) -> Value {
    json!({
        "periods": counts.periods,
        "drifted": counts.drifted,
        "over_budget": counts.over_budget,
        "psi": counts.psi,
        "marked": counts.marked_share,
    })
}

/// The closing line.
pub(super) fn lines(counts: &DriftCounts) -> String {
    let DriftCounts { packets, marked, periods, drifted, over_budget, psi_highest, .. } = counts;
    // Of numbers so large no digit matters that is lost.
    let percent = *marked as f64 / (*packets).max(1) as f64 * 100.0;
    format!(
        "packetlog: calibration: {percent:.2} % of packets marked; {drifted} of {periods} periods \
         with other scores than calibrated (population stability index up to {psi_highest:.2}), \
         {over_budget} above the budget\n"
    )
}
