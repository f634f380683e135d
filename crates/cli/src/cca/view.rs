//! Flows in a queue as a view that each period paints anew.
//!
//! Nothing of the terminal is changed that would have to be put back: lines are written over those
//! of the period before, no longer than it is wide, no more than it is high.

use std::collections::{HashMap, VecDeque};
use std::io::{self, IsTerminal as _, Write as _};

use cca::FlowWay;
use packet::SlotClock;
use terminal_size::{Height, Width};

use super::args::ViewWhen;
use session::cca::naming;

use super::{printed, table};
use crate::failure::Failure;
use crate::output::Show;
use crate::top::grouped;
use session::cca::rows::Told;

/// Periods that a chart shows at most.
const CHART_LEN_MAX: usize = 60;

/// Below this a chart shows nothing of use, and the flow's name is cut instead.
const CHART_LEN_MIN: usize = 8;

/// Where the output is no terminal, or one that does not know.
const SIZE_UNKNOWN: (usize, usize) = (100, 30);

/// The cursor to its first place (CUP), a line's and the screen's rest cleared (EL, ED).
const HOME: &str = "\x1b[H";
const CLEAR_LINE: &str = "\x1b[K";
const CLEAR_BELOW: &str = "\x1b[J";

/// Heights of a chart.
const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// A bar of the whole queue.
const BAR_LEN: usize = 40;

/// Whether there is to be a view.
pub(super) fn is_wanted(when: Option<ViewWhen>, show: Show) -> Result<bool, Failure> {
    match (when.unwrap_or(ViewWhen::Auto), show) {
        (ViewWhen::Auto, Show::Table) => Ok(std::io::stdout().is_terminal()),
        (ViewWhen::Always, Show::Rows(_)) => Err(Failure::usage(
            "--view always: rows are asked for; leave --format and -o out, or --view",
        )),
        (ViewWhen::Always, Show::Table) => Ok(true),
        (ViewWhen::Auto | ViewWhen::Never, _) => Ok(false),
    }
}

/// The view.
pub(super) struct View {
    title: String,
    charts: Charts,
}

/// CBIQ of the last periods, of flows that were told lately.
#[derive(Default)]
struct Charts {
    period_count: u64,
    flows: HashMap<FlowWay, Chart>,
}

#[derive(Default)]
struct Chart {
    told: u64,
    values: VecDeque<f64>,
}

impl View {
    /// Of what is between two taps.
    pub(super) fn new(ingress: &str, egress: &str) -> Self {
        let title = format!("wirelens cca between {ingress} and {egress}; Ctrl-C ends it");
        Self { title: plain(&title), charts: Charts::default() }
    }

    /// Paints a period, and below it what else was said.
    pub(super) fn put(
        &mut self,
        told: &Told,
        clock: SlotClock,
        controls: &[String],
        said: &[String],
    ) -> io::Result<()> {
        self.charts.add(told);
        let size = terminal_size::terminal_size();
        let size = size.map(|(Width(width), Height(height))| (width.into(), height.into()));
        // Of a terminal that was never told its size, nothing is known.
        let size = size.filter(|&(width, height)| width > 0 && height > 0);
        let lines = self.lines(told, clock, controls, said, size.unwrap_or(SIZE_UNKNOWN));
        let mut text = String::from(HOME);
        for line in lines {
            text.push_str(&line);
            text.push_str(CLEAR_LINE);
            text.push('\n');
        }
        text.push_str(CLEAR_BELOW);
        let mut out = std::io::stdout().lock();
        out.write_all(text.as_bytes())?;
        out.flush()?;
        Ok(())
    }

    /// What is painted: lines that fit.
    fn lines(
        &self,
        told: &Told,
        clock: SlotClock,
        controls: &[String],
        said: &[String],
        (width, height): (usize, usize),
    ) -> Vec<String> {
        let start = clock.start(told.period.start);
        let mut head = vec![self.title.clone()];
        head.push(format!("{start}, {} bytes in the queue", grouped(told.cbiq_sum.round() as u64)));
        head.push(String::new());
        let mut tail = vec![String::new()];
        tail.extend(by_control(told, controls, width));
        tail.extend(said.iter().map(|line| plain(line)));
        // The line after the last is the cursor's.
        let room = height.saturating_sub(head.len() + tail.len() + 3);
        let shown = told.flows.len().min(room);
        let mut lines = head;
        lines.extend(self.rows(told, clock, controls, shown, width));
        let hidden = told.flows.len() - shown + told.other_count;
        if told.flows.is_empty() {
            lines.push(String::from("no flow with data yet"));
        } else if hidden > 0 {
            lines.push(format!("… and {hidden} more"));
        }
        lines.extend(tail);
        lines.truncate(height.saturating_sub(1));
        lines.iter().map(|line| cut(line, width)).collect()
    }

    fn rows(
        &self,
        told: &Told,
        clock: SlotClock,
        controls: &[String],
        shown: usize,
        width: usize,
    ) -> Vec<String> {
        let has_controls = !controls.is_empty();
        let control_len = controls.iter().map(|name| name.chars().count()).max().unwrap_or(0);
        let control_len = if has_controls { control_len.max(2) + 5 + 2 } else { 0 };
        // Mbit/s, CBIQ and share, each with two spaces before it, and two before the chart.
        let fixed_len = control_len + 10 + 12 + 9 + 2;
        let names: Vec<String> =
            told.flows.iter().take(shown).map(|flow| printed::name(&flow.way)).collect();
        let longest = names.iter().map(|name| name.chars().count()).max().unwrap_or(0).max(4);
        let name_len = longest.min(width.saturating_sub(fixed_len + CHART_LEN_MIN)).max(8);
        let chart_len = width.saturating_sub(fixed_len + name_len).min(CHART_LEN_MAX);
        let line = |name: &str, control: &str, numbers: [&str; 3], chart: &str| {
            let [rate, cbiq, share] = numbers;
            let name = cut(name, name_len);
            let control = if has_controls {
                let len = control_len - 2;
                format!("  {:<len$}", cut(control, len))
            } else {
                String::new()
            };
            format!("{name:<name_len$}{control}  {rate:>8}  {cbiq:>10}  {share:>7}  {chart}")
        };
        let mut lines =
            vec![line("flow", "control", ["Mbit/s", "CBIQ bytes", "share"], "CBIQ of late")];
        let seconds = printed::seconds(clock, told.period);
        for ((flow, named), name) in told.flows.iter().zip(&told.named).zip(&names) {
            #[allow(clippy::cast_precision_loss)]
            let rate = flow.ingress_bytes as f64 * 8e-6 / seconds;
            let cbiq = match flow.queue {
                Ok(queue) => grouped(queue.cbiq_mean.round() as u64),
                Err(missing) => format!("no {}", missing.name()),
            };
            let share = told.share(flow).map(percent).unwrap_or_default();
            let control = named.map(|named| plain(&naming::text(&named, controls)));
            let chart = self.charts.of(&flow.way, chart_len);
            let numbers = [format!("{rate:.2}"), cbiq, share];
            let numbers = [&*numbers[0], &*numbers[1], &*numbers[2]];
            lines.push(line(name, &control.unwrap_or_default(), numbers, &chart));
        }
        lines
    }
}

impl Charts {
    fn add(&mut self, told: &Told) {
        self.period_count += 1;
        for flow in &told.flows {
            let chart = self.flows.entry(flow.way).or_default();
            // Where it was not told nothing is drawn of it.
            let missed = self.period_count - chart.told - 1;
            if chart.told > 0 {
                chart.values.extend((0..missed.min(CHART_LEN_MAX as u64)).map(|_| 0.0));
            }
            chart.told = self.period_count;
            chart.values.push_back(flow.queue.map_or(0.0, |queue| queue.cbiq_mean));
            let beyond = chart.values.len().saturating_sub(CHART_LEN_MAX);
            chart.values.drain(..beyond);
        }
        let now = self.period_count;
        self.flows.retain(|_, chart| now - chart.told < CHART_LEN_MAX as u64);
    }

    /// The last of a flow, as high as its highest.
    fn of(&self, way: &FlowWay, len: usize) -> String {
        let Some(chart) = self.flows.get(way) else { return String::new() };
        let skipped = chart.values.len().saturating_sub(len);
        let values: Vec<f64> = chart.values.iter().skip(skipped).copied().collect();
        let highest = values.iter().copied().fold(1.0, f64::max);
        #[allow(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            clippy::cast_precision_loss
        )]
        let index = |value: f64| (value / highest * (BARS.len() - 1) as f64).round() as usize;
        values.iter().map(|&value| BARS.get(index(value)).copied().unwrap_or(BARS[0])).collect()
    }
}

/// The queue by control, a bar each.
fn by_control(told: &Told, controls: &[String], width: usize) -> Vec<String> {
    if controls.is_empty() {
        return Vec::new();
    }
    let mut shares = told.shares(controls);
    let named: f64 = shares.iter().map(|(_, share)| share).sum();
    if told.cbiq_sum > 0.0 {
        shares.push((String::from("not named"), (1.0 - named).max(0.0)));
    }
    let longest = shares.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
    let bar_len = width.saturating_sub(longest + 2 + 7 + 2).min(BAR_LEN);
    let mut lines = vec![String::from("the queue by control")];
    lines.extend(shares.iter().map(|(name, share)| {
        let (name, bar) = (plain(name), table::bar(*share, bar_len));
        format!("{name:<longest$}  {:>7}  {bar}", percent(*share))
    }));
    lines
}

fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

/// Text that a terminal only prints, a column each letter.
fn plain(text: &str) -> String {
    let is_plain = |c: char| c == ' ' || c.is_ascii_graphic() || matches!(c, '→' | '…');
    text.chars().map(|c| if is_plain(c) { c } else { '?' }).collect()
}

fn cut(line: &str, width: usize) -> String {
    if line.chars().count() <= width {
        return line.to_owned();
    }
    let kept = line.chars().take(width.saturating_sub(1));
    kept.chain(['…'; 1].into_iter().take(width)).collect()
}

#[cfg(test)]
mod tests {
    use cca::model::Told as Named;
    use cca::{FlowPeriod, InQueue, Period};
    use packet::{FlowKey, Protocol, Span};

    use super::*;

    fn told(flow_count: u16, start: i64) -> Told {
        let flows: Vec<_> = (0..flow_count)
            .map(|port| {
                let ends = ("192.0.2.1".parse().unwrap(), "198.51.100.200".parse().unwrap());
                let (key, direction) =
                    FlowKey::from_tuple(ends.0, ends.1, 40_000 + port, 443, Protocol::TCP);
                let cbiq_mean = f64::from(port + 1) * start as f64 * 100.0;
                let queue = InQueue { cbiq_mean, cbiq_max: cbiq_mean, drops: 0.0 };
                FlowPeriod {
                    way: FlowWay { key, direction },
                    ingress_bytes: 125_000,
                    egress_bytes: 125_000,
                    queue: Ok(queue),
                    delay_max: None,
                }
            })
            .collect();
        let cbiq_sum = flows.iter().map(|flow| flow.queue.unwrap().cbiq_mean).sum();
        let named = Some(Named { control: Some(0), confidence: 0.9, slots: 100, unnamed: None });
        let named = vec![named; flows.len()];
        let period = Period { start, len: 100 };
        Told { period, flows, named, other_count: 0, cbiq_sum, unseen: None }
    }

    fn lines(told: &[Told], controls: &[&str], size: (usize, usize)) -> Vec<String> {
        let mut view = View::new("in\x1b[31m", "exit:in");
        told.iter().for_each(|told| view.charts.add(told));
        let controls: Vec<String> = controls.iter().map(|&name| name.to_owned()).collect();
        let said = [String::from("a\x07b"), String::from("moved")];
        let clock = SlotClock::new(Span::from_ns(1_000_000));
        view.lines(told.last().unwrap(), clock, &controls, &said, size)
    }

    #[test]
    fn a_view_fits_its_terminal_whatever_its_size() {
        let told: Vec<_> = (1..100).map(|start| told(30, start)).collect();
        for size in [(1, 1), (10, 3), (40, 10), (80, 24), (200, 60)] {
            for controls in [&[][..], &["bbr", "a control with quite a long name"]] {
                let lines = lines(&told, controls, size);
                assert!(lines.len() < size.1.max(1) || size.1 == 1, "{size:?}");
                for line in &lines {
                    assert!(line.chars().count() <= size.0, "{size:?}: {line}");
                }
            }
        }
    }

    #[test]
    fn what_a_terminal_would_obey_never_reaches_it() {
        let lines = lines(&[told(2, 1)], &["b\x1b[2Jbr", "reno"], (120, 30)).join("\n");
        assert!(!lines.contains(|c: char| c.is_control() && c != '\n'), "{lines:?}");
        assert!(lines.contains("b?[2Jbr 0.90") && lines.contains("a?b"), "{lines}");
    }

    #[test]
    fn a_flow_has_its_control_its_numbers_and_its_past() {
        let told: Vec<_> = [1, 4, 8].map(|start| told(2, start)).into();
        let lines = lines(&told, &["bbr", "reno"], (120, 30));
        let row = lines.iter().find(|line| line.starts_with("192.0.2.1:40001")).unwrap();
        for part in ["bbr 0.90", "10.00", "1,600", "66.7 %", "▂▅█"] {
            assert!(row.contains(part), "{part}: {row}");
        }
        let bar = lines.iter().find(|line| line.starts_with("bbr ")).unwrap();
        assert!(bar.contains("100.0 %") && bar.ends_with(&"▇".repeat(BAR_LEN)), "{bar}");
        assert_eq!(lines.last().unwrap(), "moved");
    }
}
