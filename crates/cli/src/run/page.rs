//! `wirelens run --page`: the run, shown over HTTP.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use engine::run::Control;
use history::History;
use server::{Certificate, CountPackets, Facts, Mode, Options, Server, ServerError};
use session::host::machine_name;
use session::page::PageSettings;
use session::reading::Inputs;
use store::Store;
use store::packets::PacketLog;

use crate::clock;
use crate::failure::Failure;
use crate::interrupt::Reopen;
use crate::service::{Notices, Service};

/// How often it is looked whether Ctrl-C was pressed.
const LOOK_EVERY: Duration = Duration::from_millis(50);

impl From<ServerError> for Failure {
    fn from(error: ServerError) -> Self {
        Self::error(format_args!("page: {error}"))
    }
}

/// Begins to serve, and says where.
pub(crate) fn begin(
    settings: &PageSettings,
    store: &Arc<Store>,
    facts: Facts,
    (packet_log, history): (Option<Arc<dyn PacketLog>>, Option<Arc<History>>),
    tell: fn(&str),
) -> Result<Server, Failure> {
    let token = settings.token().map_err(Failure::usage)?;
    let machine = machine_name();
    let files = settings.certificate.clone().zip(settings.key.clone());
    let certificate = Certificate::of(files, settings.listen, &machine);
    let facts = Facts { history, packet_log, ..facts };
    let options = Options { listen: settings.listen, token, certificate };
    let server = Server::begin(options, store.clone(), facts)?;
    server.lines(&machine).iter().for_each(|line| tell(line));
    Ok(server)
}

/// Reads the certificate again.
pub(super) fn reload(server: &Server, tell: fn(&str)) {
    if let Err(error) = server.reload_certificate() {
        tell(&format!("page: {error}; the previous certificate stays in force"));
    }
}

/// What there is to say of a run as a whole.
pub(crate) fn facts(inputs: &Inputs, is_report: bool) -> Facts {
    let mode = match &inputs.interface {
        Some(_) => Mode::Live,
        None if is_report => Mode::Report,
        None => Mode::Captures,
    };
    let progress = Arc::clone(&inputs.options.progress);
    let packets = move || {
        let so_far = progress.so_far();
        (so_far.received, so_far.dropped.ring_full)
    };
    let inputs = Box::new(inputs.naming());
    Facts { inputs, ..facts_of(mode, Vec::new(), Box::new(packets)) }
}

/// The same of a run that counts packets itself.
pub(crate) fn facts_of(mode: Mode, inputs: Vec<String>, packets: CountPackets) -> Facts {
    Facts {
        version: env!("CARGO_PKG_VERSION"),
        mode,
        inputs: Box::new(move || inputs.clone()),
        now_ns: || clock::realtime().as_ns(),
        packets,
        packet_log: None,
        history: None,
    }
}

/// Waits until the user ends the run, or it has failed. `again` does what a hangup asks for.
pub(super) fn stay(
    control: &Control,
    (reopen, notices): (&Reopen, &Notices),
    mut again: impl FnMut(),
) {
    while !control.is_stopped() {
        notices.tick();
        if reopen.take() {
            notices.send(Service::reloading);
            again();
            notices.send(Service::taken_up);
        }
        thread::sleep(LOOK_EVERY);
    }
}

/// Results of captures are shown until the user ends the run.
pub(super) fn stay_open(
    server: &Server,
    control: &Control,
    hangups: (&Reopen, &Notices),
    (tell, is_quiet): (fn(&str), bool),
) {
    if !control.is_interrupted() && !is_quiet {
        eprintln!("wirelens: all input was read; the page stays open until Ctrl-C");
    }
    stay(control, hangups, || reload(server, tell));
}
