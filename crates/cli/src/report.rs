//! `wirelens report`: what captures hold, as a page in one file.

use std::io::Write as _;
use std::path::PathBuf;

use clap::Args;
use files::FileMode;
use session::Host;
use sink::{Existing, OutputFile, WriteError};

use crate::failure::{Failure, Status};
use crate::run::{self, args::RunArguments};

/// Arguments of `wirelens report`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  wirelens report -r capture.pcapng -o report.html           flows, services, queues, latency
  wirelens report -c wirelens.toml -r day/ -o report.html    the applications of a settings file

The report is one HTML file of at most 3 MB that needs no server and loads nothing: send it to
a colleague. It has the views of the page (`wirelens run --page`). If not all rows fit, those
with the most bytes are kept, and the report shows how many there were. docs/guide/page.md")]
pub struct ReportArguments {
    /// Captures: files, folders of captures, or - for standard input; may be given several times
    #[arg(
        short = 'r',
        long = "read",
        value_name = "FILE|DIR|-",
        required_unless_present = "config"
    )]
    pub read: Vec<PathBuf>,
    /// Settings with the applications to run, in TOML [default: all that need none]
    #[arg(short = 'c', long = "config", value_name = "FILE.toml")]
    pub config: Option<PathBuf>,
    /// Write the report to this file
    #[arg(short = 'o', long = "output", value_name = "FILE.html")]
    pub output: PathBuf,
    /// Replace the file if it exists
    #[arg(long)]
    pub force: bool,
    /// Permissions of the file that is created, such as 0640 for the group to read [default: 0600]
    #[arg(long, value_name = "MODE")]
    pub file_mode: Option<FileMode>,
    /// Threads [default: one per core]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256))]
    pub threads: Option<u16>,
    /// No progress bar and no summary; errors are still printed
    #[arg(short = 'q', long)]
    pub quiet: bool,
}

/// Runs `wirelens report`.
pub(crate) fn run(arguments: &ReportArguments, host: &Host) -> Result<Status, Failure> {
    if !server::HAS_PAGE {
        return Err(Failure::error(
            "report: this program was built without its page; install Node.js 20 or newer and \
             build it again",
        ));
    }
    let ReportArguments { read, config, output, force, threads, quiet, .. } = arguments;
    let existing = if *force { Existing::Replace } else { Existing::Refuse };
    // First, so that nothing is read in vain.
    let mut file = OutputFile::create(output, existing)?;
    let asked = RunArguments {
        config: config.clone(),
        read: read.clone(),
        threads: *threads,
        quiet: *quiet,
        keeps_rows: true,
        ..RunArguments::default()
    };
    let (status, report) = run::report(&asked, host)?;
    file.write_all(report.as_bytes()).map_err(WriteError::Io)?;
    file.finish()?;
    Ok(status)
}
