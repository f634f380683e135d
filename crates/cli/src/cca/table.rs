//! Flows in a queue as people read them.

use std::io::{self, Write as _};

use cca::FlowPeriod;
use packet::SlotClock;

use session::cca::rows::QueueReport;

use super::printed::{self, PrintablePeriod};
use crate::table;
use crate::top::grouped;

/// A bar that stands for the whole queue.
const BAR_LEN: usize = 20;

impl PrintablePeriod for QueueReport {
    fn print(&self, clock: SlotClock, controls: &[String]) -> io::Result<()> {
        print(self, clock, controls)
    }
}

fn print(told: &QueueReport, clock: SlotClock, controls: &[String]) -> io::Result<()> {
    let mut out = std::io::stdout().lock();
    let start = clock.start(told.period.start);
    let head = format!("from {start}, {:.0} bytes in the queue", told.cbiq_sum);
    writeln!(out, "{}", table::broken(&head))?;
    writeln!(out, "{}", lines(told, clock, controls))?;
    if !controls.is_empty() {
        let shares = told.shares(controls);
        let shares =
            shares.iter().map(|(control, share)| format!("{control} {:.1} %", share * 100.0));
        let shares = shares.collect::<Vec<_>>().join(", ");
        let line = format!("queue by congestion control: {shares}");
        writeln!(out, "{}", table::broken(&line))?;
    }
    writeln!(out)?;
    Ok(())
}

fn lines(told: &QueueReport, clock: SlotClock, controls: &[String]) -> String {
    const TITLES: [&str; 7] = ["flow", "Mbit/s", "delay ms", "drops", "CBIQ bytes", "share", ""];
    let seconds = printed::seconds(clock, told.period);
    let cells = |flow: &FlowPeriod| {
        #[allow(clippy::cast_precision_loss)]
        let rate = flow.ingress_bytes as f64 * 8e-6 / seconds;
        let delay = flow.delay_max.map(|delay| format!("{:.1}", delay.as_seconds_f64() * 1e3));
        let share = told.share(flow);
        let drops = flow.queue.ok().and_then(|queue| queue.drops);
        let cbiq = match flow.queue {
            Ok(queue) => grouped(queue.cbiq_mean.round() as u64),
            Err(missing) => format!("no {}", missing.name()),
        };
        vec![
            printed::name(&flow.way),
            format!("{rate:.2}"),
            delay.unwrap_or_default(),
            drops.map(|drops| format!("{drops:.0}")).unwrap_or_default(),
            cbiq,
            share.map(|share| format!("{:.1} %", share * 100.0)).unwrap_or_default(),
            bar(share.unwrap_or_default(), BAR_LEN),
        ]
    };
    let rows = told.flows.iter().map(cells).zip(told.named.iter().copied());
    printed::lines(&TITLES, rows, controls, told.other_count)
}

/// A bar, `whole` long of the whole queue.
fn bar(share: f64, whole: usize) -> String {
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss)]
    let len = (share.clamp(0.0, 1.0) * whole as f64).round() as usize;
    "▇".repeat(len)
}
