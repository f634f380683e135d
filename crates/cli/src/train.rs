//! `wirelens train` and `wirelens eval`: what people type is handed to the Python package, whose
//! module `wirelens.classify` trains and judges models.

use std::env;
use std::ffi::OsString;

use clap::{Args, Subcommand};
use session::Host;

use crate::failure::{Failure, Status};
use crate::host::checkout;
use crate::python::{PYTHON_SETTING, Python, install_line};

const CLASSIFY: &str = "wirelens.classify";
const PACKETLOG: &str = "wirelens.packetlog";
const CCA: &str = "wirelens.cca";
const L4S: &str = "wirelens.l4s";

/// Arguments of `wirelens train`.
#[derive(Debug, Args)]
pub struct TrainArguments {
    /// What to train.
    #[command(subcommand)]
    pub command: TrainCommand,
}

/// What can be trained.
#[derive(Debug, Subcommand)]
pub enum TrainCommand {
    /// Train a cascade of models that classifies services or devices, on labelled captures
    ///
    /// Needs the Python package with its extra `train`; docs/guide/train.md explains installation
    /// and training. `wirelens train classify --help` shows all options.
    #[command(after_help = "Examples:
  wirelens train classify -r captures/ --flows flows.tsv --label app -o models/apps
  wirelens train classify --folders by-device/ -o models/devices --depths 1-10
  wirelens train classify --testbed testbed-runs/services -o models/services --plots plots

Time: each shipped model took a quarter of an hour on two cores.")]
    Classify(PythonOptions),
    /// Train small forests that classify packets for `wirelens packetlog`, on labelled captures
    ///
    /// Needs the Python package with its extra `train`; docs/guide/packetlog-train.md explains
    /// installation and training. `wirelens train packetlog --help` shows all options.
    #[command(after_help = "Examples:
  wirelens train packetlog -r testbed-runs/attacks -r testbed-runs/services -o models/mine
  wirelens train packetlog -r testbed-runs/congestion -o queue --use congestion

Time: the shipped model took a quarter of an hour on two cores.")]
    Packetlog(PythonOptions),
    /// Train networks that identify congestion controls for `wirelens cca`, on testbed runs
    ///
    /// Needs the Python package with its extra `train`, and PyTorch; docs/guide/cca-train.md
    /// explains how to install both. `wirelens train cca --help` shows all options.
    #[command(after_help = "Examples:
  wirelens train cca -r testbed-runs/congestion -o models/queue
  wirelens train cca -r testbed-runs/congestion -o queue --durations 100ms --recipe paper

Time: the shipped model took a quarter of an hour on two cores.")]
    Cca(PythonOptions),
    /// Train a network that predicts packet latencies for either queue of an L4S router
    ///
    /// Needs the Python package with its extra `train`, and PyTorch; docs/guide/l4s-predict.md
    /// explains how to use it. `wirelens train l4s --help` shows all options.
    #[command(after_help = "Examples:
  wirelens train l4s -r mine.parquet -o models/mine

Time: about ten minutes on one core.")]
    L4s(PythonOptions),
}

/// Arguments of `wirelens eval`.
#[derive(Debug, Args)]
pub struct EvalArguments {
    /// What to judge.
    #[command(subcommand)]
    pub command: EvalCommand,
}

/// What can be judged.
#[derive(Debug, Subcommand)]
pub enum EvalCommand {
    /// Evaluate a cascade on labelled captures, compared with each of its models and a port table
    ///
    /// Needs the Python package with its extra `train`; docs/guide/train.md explains how to install
    /// it. `wirelens eval classify --help` shows all options.
    #[command(after_help = "Examples:
  wirelens eval classify --model models/apps -r new-captures/ --flows new.tsv --label app
  wirelens eval classify --model models/services --testbed testbed-runs/other -o services.md

Time: some minutes for the runs of a data set.")]
    Classify(PythonOptions),
    /// Evaluate packet log forests on labelled captures, compared with NetBeacon and a port table
    ///
    /// Needs the Python package with its extra `train`; docs/guide/packetlog-train.md explains how
    /// to install it. `wirelens eval packetlog --help` shows all options.
    #[command(after_help = "Examples:
  wirelens eval packetlog --model models/mine -r testbed-runs/other
  wirelens eval packetlog --model models/mine -r new --trained-on attacks -o mine.md

Time: some minutes for the runs of a data set.")]
    Packetlog(PythonOptions),
    /// Evaluate a model of congestion controls on held-out testbed runs
    ///
    /// Needs the Python package with its extra `train`, and PyTorch; docs/guide/cca-train.md
    /// explains how to install both. `wirelens eval cca --help` shows all options.
    #[command(after_help = "Examples:
  wirelens eval cca --model models/queue -r testbed-runs/other

Time: some minutes for the runs of a data set.")]
    Cca(PythonOptions),
    /// Compare rules that choose the L4S queue of each packet, or predictors of latencies
    ///
    /// Rules are compared in a simulated network (docs/guide/l4s.md), predictors on traces
    /// (docs/guide/l4s-predict.md). Needs the Python package with its extra `train`; predictors
    /// need PyTorch. `wirelens eval l4s --help` shows all options.
    #[command(after_help = "Examples:
  wirelens eval l4s --controls
  wirelens eval l4s --controls --routers dualpi2,partitioned-20 --seeds 16 -o controls.md
  wirelens eval l4s --predict mine.parquet

Time: a minute or two on two cores for rules; half an hour and more for a trace.")]
    L4s(PythonOptions),
}

/// Options that the Python package reads.
#[derive(Debug, Args)]
#[command(disable_help_flag = true)]
pub struct PythonOptions {
    /// Options; `--help` lists them
    #[arg(value_name = "OPTIONS", trailing_var_arg = true, allow_hyphen_values = true)]
    pub options: Vec<OsString>,
}

/// Runs `wirelens train`.
pub(crate) fn run(arguments: &TrainArguments, host: &Host) -> Result<Status, Failure> {
    match &arguments.command {
        TrainCommand::Classify(handed) => hand_on("train", CLASSIFY, handed, host),
        TrainCommand::Packetlog(handed) => hand_on("train", PACKETLOG, handed, host),
        TrainCommand::Cca(handed) => hand_on("train", CCA, handed, host),
        TrainCommand::L4s(handed) => hand_on("train", L4S, handed, host),
    }
}

/// Runs `wirelens eval`.
pub(crate) fn run_eval(arguments: &EvalArguments, host: &Host) -> Result<Status, Failure> {
    match &arguments.command {
        EvalCommand::Classify(handed) => hand_on("eval", CLASSIFY, handed, host),
        EvalCommand::Packetlog(handed) => hand_on("eval", PACKETLOG, handed, host),
        EvalCommand::Cca(handed) => hand_on("eval", CCA, handed, host),
        EvalCommand::L4s(handed) => hand_on("eval", L4S, handed, host),
    }
}

/// Runs `wirelens feedback`.
pub(crate) fn feedback(handed: &PythonOptions, host: &Host) -> Result<Status, Failure> {
    hand_on("feedback", "wirelens.feedback", handed, host)
}

fn hand_on(
    command: &'static str,
    module: &'static str,
    handed: &PythonOptions,
    host: &Host,
) -> Result<Status, Failure> {
    let program = env::current_exe().unwrap_or_default();
    let python = Python::find(command, host, checkout(&program).as_deref());
    if !python.has_module(module)? {
        let python = python.path().display().to_string();
        return Err(Failure::error(format_args!(
            "{command}: {python} has no module {module}; {}, or name a Python that has it in \
             {PYTHON_SETTING}",
            install_line(&python, "[train]")
        )));
    }
    let arguments = std::iter::once(OsString::from(command)).chain(handed.options.iter().cloned());
    Err(python.become_module(module, arguments, None))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{Arguments, Command};
    use clap::Parser as _;

    fn handed(line: &str) -> Vec<String> {
        let words = std::iter::once("wirelens").chain(line.split(' '));
        let options = match Arguments::try_parse_from(words).unwrap().command {
            Some(Command::Train(TrainArguments {
                command:
                    TrainCommand::Classify(handed)
                    | TrainCommand::Packetlog(handed)
                    | TrainCommand::Cca(handed),
            })) => handed.options,
            Some(Command::Eval(EvalArguments {
                command:
                    EvalCommand::Classify(handed)
                    | EvalCommand::Packetlog(handed)
                    | EvalCommand::Cca(handed),
            })) => handed.options,
            other => panic!("{other:?}"),
        };
        options.into_iter().map(|option| option.into_string().unwrap()).collect()
    }

    #[test]
    fn options_are_handed_on_as_they_were_typed() {
        let options = handed("train classify -r a -r b --flows f.tsv --help -o m");
        assert_eq!(options.join(" "), "-r a -r b --flows f.tsv --help -o m");
        assert_eq!(handed("eval classify --model m -V").join(" "), "--model m -V");
        assert!(handed("train classify").is_empty());
        assert_eq!(handed("train packetlog -r a -o b").join(" "), "-r a -o b");
        assert_eq!(handed("eval packetlog --model m -r a").join(" "), "--model m -r a");
    }
}
