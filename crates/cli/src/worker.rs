//! `wirelens worker`: computes the later stages of models for sensors.

use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::path::PathBuf;

use clap::Args;
use server::{Mode, Server};
use session::Host;
use session::host::machine_name;
use session::run::Jail;
use session::worker::{self, Device, PARTITIONS, WorkerRequest, parse_partitions};
use store::Store;

use crate::clock::CLOCK;
use crate::failure::{Failure, Status};
use crate::interrupt;
use crate::run::{page, tell_line};

/// Arguments of `wirelens worker`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  wirelens worker --model services
  wirelens worker --model services --server nats://broker:4222 --threads 4
  wirelens worker --model ./campus -c wirelens.toml --partitions 0-1

Sensors with workers = true in [classify] send the flows that their first stage is not sure of.
Workers with the same model share them, join and leave at any time. docs/guide/workers.md")]
pub struct WorkerArguments {
    /// Folder of a trained model, or the name of a shipped one; the same as on the sensors
    #[arg(long, value_name = "MODEL")]
    pub model: PathBuf,
    /// Take [nats] from these settings: servers, credentials, TLS, prefix; with --page also [page]
    #[arg(short = 'c', long = "config", value_name = "FILE.toml")]
    pub config: Option<PathBuf>,
    /// Server of the broker; may be given several times [default: nats://127.0.0.1:4222]
    #[arg(long, value_name = "URL")]
    pub server: Vec<String>,
    /// Threads that compute
    #[arg(long, value_name = "N", default_value = "1")]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=256))]
    pub threads: u16,
    /// What computes networks: cpu, cuda, or a card by its number such as cuda:1
    #[arg(long, value_name = "DEVICE", default_value = "cpu")]
    pub device: Device,
    /// Parts of the flows to take, of 0 to 3 [default: all]
    #[arg(long, value_name = "FIRST-LAST", value_parser = parse_partitions)]
    pub partitions: Option<RangeInclusive<u16>>,
    /// Serve /metrics, the API and the page at this address [default: 127.0.0.1:9417]
    #[arg(long, value_name = "ADDRESS", num_args = 0..=1, default_missing_value = "127.0.0.1:9417")]
    #[arg(value_parser = session::page::parse_listen)]
    pub page: Option<SocketAddr>,
    /// Keep all rights while rows of sensors are read; without it only what the worker needs
    #[arg(long)]
    pub no_jail: bool,
    /// Print no summary; errors are still printed
    #[arg(short = 'q', long)]
    pub quiet: bool,
}

/// Runs `wirelens worker`.
pub(crate) fn run(asked: &WorkerArguments, host: &Host) -> Result<Status, Failure> {
    let (store, config) = (Store::new(), asked.config.as_deref());
    let shown = asked.page.map(|listen| worker::page(listen, config)).transpose();
    let serve = |shown| {
        let facts = page::facts_of(Mode::Live, Vec::new(), Box::new(|| (0, 0)));
        page::begin(&shown, &store, facts, (None, None), tell_line)
    };
    let server = shown.map_err(Failure::error)?.map(serve).transpose()?;
    let request = WorkerRequest {
        model: asked.model.clone(),
        config: asked.config.clone(),
        servers: asked.server.clone(),
        thread_count: usize::from(asked.threads),
        device: asked.device,
        partitions: asked.partitions.clone().unwrap_or(PARTITIONS),
        machine: machine_name(),
        monotonic: CLOCK.monotonic,
        tell: tell_line,
        jail: Jail::unless(asked.no_jail),
        store,
    };
    let ends = interrupt::control().flag();
    let counts = worker::run(request, host, crate::environment, &ends).map_err(Failure::error)?;
    server.into_iter().for_each(Server::end);
    if !asked.quiet {
        eprint!("{}", worker::lines(&counts));
    }
    Ok(Status::Fine)
}
