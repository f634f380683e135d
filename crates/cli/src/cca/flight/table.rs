//! Flows at one tap as people read them.

use std::io::{self, Write as _};

use cca::flight::FlightPeriod;
use packet::SlotClock;

use session::cca::flight::FlightReport;

use crate::cca::printed::{self, PrintablePeriod};
use crate::table;
use crate::top::grouped;

impl PrintablePeriod for FlightReport {
    fn print(&self, clock: SlotClock, controls: &[String]) -> io::Result<()> {
        print(self, clock, controls)
    }
}

fn print(told: &FlightReport, clock: SlotClock, controls: &[String]) -> io::Result<()> {
    let mut out = std::io::stdout().lock();
    let head = format!("from {}, one tap", clock.start(told.period.start));
    writeln!(out, "{}", table::broken(&head))?;
    writeln!(out, "{}\n", lines(told, clock, controls))?;
    Ok(())
}

fn lines(told: &FlightReport, clock: SlotClock, controls: &[String]) -> String {
    const TITLES: [&str; 9] = [
        "flow",
        "Mbit/s",
        "share",
        "RTT ms",
        "above least",
        "upstream ms",
        "resent",
        "flight bytes",
        "highest",
    ];
    let seconds = printed::seconds(clock, told.period);
    let rows = told.flows.iter().map(|flow| cells(flow, told.share(flow), seconds));
    let rows = rows.zip(told.named.iter().copied());
    printed::lines(&TITLES, rows, controls, told.other_count)
}

fn cells(flow: &FlightPeriod, share: Option<f64>, seconds: f64) -> Vec<String> {
    #[allow(clippy::cast_precision_loss)]
    let rate = flow.sent_bytes as f64 * 8e-6 / seconds;
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    let [mean, highest] = match flow.flight {
        Ok(flight) => [grouped(flight.mean_bytes.round() as u64), grouped(flight.max_bytes.into())],
        Err(missing) => [format!("no {}", missing.name()), String::new()],
    };
    let milliseconds =
        |rtt_s: Option<f64>| rtt_s.map(|rtt| format!("{:.1}", rtt * 1e3)).unwrap_or_default();
    vec![
        printed::name(&flow.way),
        format!("{rate:.2}"),
        share.map(|share| format!("{:.0} %", share * 100.0)).unwrap_or_default(),
        milliseconds(flow.rtt_s),
        milliseconds(flow.rtt_inflation_s),
        milliseconds(flow.upstream_rtt_s),
        flow.resent.to_string(),
        mean,
        highest,
    ]
}
