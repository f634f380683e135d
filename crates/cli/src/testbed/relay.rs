//! `wirelens testbed relay`: commands in, packets across, a report out.

use ::testbed::lateness::Lateness;
use ::testbed::relay::{
    BottleneckSettings, Command, Relay, RelayReport, Settings, Towards, WayReport, WaySettings,
};
use ::testbed::trace::TraceSettings;
use serde_json::{Value, json};
use session::duration::parse_delay;

use super::args::{RelayArguments, parse_loss};
use super::{commands, router, say, say_report};
use crate::failure::{Failure, Status};

pub(super) fn run(arguments: RelayArguments) -> Result<Status, Failure> {
    let commands = commands()?;
    let relay = Relay::open(&settings(arguments))?;
    say("ready")?;
    let report = relay.run(&commands, understand)?;
    say_report(&report_json(&report))?;
    Ok(Status::Fine)
}

fn settings(arguments: RelayArguments) -> Settings {
    let RelayArguments { a, b, queue_max, seed, .. } = arguments;
    let router = arguments.router.zip(arguments.rate);
    Settings {
        a,
        b,
        ab: WaySettings {
            delay: arguments.delay_ab,
            classes: arguments.class_ab,
            loss: arguments.loss_ab,
            bottleneck: router.map(|(router, rate_bits)| BottleneckSettings { router, rate_bits }),
        },
        ba: WaySettings {
            delay: arguments.delay_ba,
            classes: arguments.class_ba,
            loss: arguments.loss_ba,
            bottleneck: None,
        },
        queue_len_max: queue_max as usize,
        seed,
        trace: TraceSettings {
            trace: arguments.trace,
            journal: arguments.journal,
            senders: arguments.sender,
            receivers: arguments.receiver,
        },
    }
}

/// A line of standard input.
fn understand(line: &str) -> Result<Command, String> {
    let refuse = |wanted: &str| format!("`{line}` is not a command of a relay; {wanted}");
    let towards = |way| match way {
        "ab" => Ok(Towards::B),
        "ba" => Ok(Towards::A),
        _ => Err(refuse("wanted ab or ba as its second word")),
    };
    let words: Vec<&str> = line.split_whitespace().collect();
    match words[..] {
        ["stop"] => Ok(Command::Stop),
        ["delay", way, delay] => {
            let delay = parse_delay(delay).map_err(|wanted| refuse(&wanted))?;
            Ok(Command::Delay(towards(way)?, delay))
        }
        ["loss", way, loss] => {
            let loss = parse_loss(loss).map_err(|wanted| refuse(&wanted))?;
            Ok(Command::Loss(towards(way)?, loss))
        }
        _ => Err(refuse("wanted `delay ab 20ms`, `loss ba 0.01` or `stop`")),
    }
}

fn report_json(report: &RelayReport) -> Value {
    let mut json = json!({
        "realtime": report.is_realtime,
        "ab": way_json(&report.ab),
        "ba": way_json(&report.ba),
    });
    if let (Value::Object(fields), Some(bottleneck)) = (&mut json, &report.ab.bottleneck) {
        fields.insert(String::from("router"), router::report_json(bottleneck));
        let trace = report.trace.as_ref().map(router::trace_json);
        fields.insert(String::from("trace"), trace.into());
    }
    json
}

fn way_json(way: &WayReport) -> Value {
    json!({
        "received": way.received,
        "sent": way.sent,
        "lost": way.lost,
        "dropped_full": way.dropped_full,
        "dropped_closed": way.dropped_closed,
        "waiting": way.waiting,
        "dropped_before": way.dropped_before,
        "bytes": way.bytes,
        "adds_up": way.adds_up(),
        "late_us": lateness_json(&way.lateness),
    })
}

pub(super) fn lateness_json(lateness: &Lateness) -> Value {
    // To the nanosecond, without digits that nobody measured.
    let us = |ns: f64| ns.round() / 1e3;
    json!({
        "mean": us(lateness.mean_ns()),
        "p50": us(lateness.quantile_ns(0.5) as f64),
        "p90": us(lateness.quantile_ns(0.9) as f64),
        "p99": us(lateness.quantile_ns(0.99) as f64),
        "max": us(lateness.max_ns() as f64),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use packet::Span;

    #[test]
    fn commands_say_what_way_and_how_much() {
        let delay = Command::Delay(Towards::B, Span::from_ns(30_000_000));
        assert_eq!(understand("delay ab 30ms"), Ok(delay));
        assert_eq!(understand(" loss  ba 0.02"), Ok(Command::Loss(Towards::A, 0.02)));
        assert_eq!(understand("stop"), Ok(Command::Stop));
    }

    #[test]
    fn what_is_no_command_is_answered_with_one() {
        for line in ["dleay ab 1ms", "delay ab", "delay ac 1ms", "loss ab 1.5", "loss ab nan"] {
            let words = understand(line).unwrap_err();
            assert!(words.starts_with(&format!("`{line}` is not a command")), "{words}");
            assert!(words.contains("wanted"), "{words}");
        }
    }
}
