//! `wirelens run --page`: the run, shown over HTTP.

use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use capture::Input;
use engine::run::Control;
use history::History;
use server::{Certificate, CountPackets, Facts, HAS_PAGE, Mode, Options, Server, ServerError};
use session::host::machine_name;
use session::packetlog::search::LogSearch;
use session::page::PageSettings;
use session::reading::Inputs;
use store::Store;
use store::packets::PacketLog;

use crate::clock;
use crate::failure::Failure;
use crate::interrupt::Reopen;
use crate::service::{Notices, Service};

/// How often it is looked whether Ctrl-C was pressed.
pub(super) const LOOK_EVERY: Duration = Duration::from_millis(50);

impl From<ServerError> for Failure {
    fn from(error: ServerError) -> Self {
        Self::error(format_args!("page: {error}"))
    }
}

/// Begins to serve, and says where.
pub(super) fn begin(
    settings: &PageSettings,
    store: &Arc<Store>,
    facts: Facts,
    (log_folder, history): (Option<PathBuf>, Option<Arc<History>>),
    tell: fn(&str),
) -> Result<Server, Failure> {
    let token = settings.token().map_err(Failure::usage)?;
    let certificate = certificate(settings);
    let is_made = matches!(certificate, Some(Certificate::Made(_)));
    let packet_log =
        log_folder.map(|folder| -> Arc<dyn PacketLog> { Arc::new(LogSearch::new(folder)) });
    let facts = Facts { history, packet_log, ..facts };
    let query = token.as_deref().map_or_else(String::new, |token| format!("?token={token}"));
    let options = Options { listen: settings.listen, token, certificate };
    let server = Server::begin(options, store.clone(), facts)?;
    let what = if HAS_PAGE { "page" } else { "API, without the page (built without Node.js)" };
    tell(&format!("{what}: {}{query}", address(&server)));
    if let Some(fingerprint) = server.fingerprint().filter(|_| is_made) {
        tell(&format!(
            "page: its certificate was generated for this run; compare it when the browser warns: \
             SHA-256 {fingerprint}"
        ));
    }
    Ok(server)
}

/// Whose certificate is shown: that of the settings, or elsewhere than on this machine one that is
/// made.
fn certificate(settings: &PageSettings) -> Option<Certificate> {
    if let (Some(chain), Some(key)) = (&settings.certificate, &settings.key) {
        return Some(Certificate::Files { chain: chain.clone(), key: key.clone() });
    }
    let ip = settings.listen.ip();
    let mut names = vec![machine_name(), String::from("localhost")];
    names.extend((!ip.is_unspecified()).then(|| ip.to_string()));
    names.retain(|name| !name.is_empty());
    (!ip.is_loopback()).then_some(Certificate::Made(names))
}

/// What is typed into a browser.
pub(super) fn address(server: &Server) -> String {
    let (address, name) = (server.address(), machine_name());
    let scheme = if server.fingerprint().is_some() { "https" } else { "http" };
    if address.ip().is_unspecified() && !name.is_empty() {
        return format!("{scheme}://{name}:{}/", address.port());
    }
    format!("{scheme}://{address}/")
}

/// Reads the certificate again.
pub(super) fn reload(server: &Server, tell: fn(&str)) {
    if let Err(error) = server.reload_certificate() {
        tell(&format!("page: {error}; the previous certificate stays in force"));
    }
}

/// What there is to say of a run as a whole.
pub(crate) fn facts(inputs: &Inputs, is_report: bool) -> Facts {
    let (mode, names) = match &inputs.interface {
        Some(interface) => (Mode::Live, interface.names.clone()),
        None if is_report => (Mode::Report, names(inputs)),
        None => (Mode::Captures, names(inputs)),
    };
    let progress = Arc::clone(&inputs.options.progress);
    let packets = move || (progress.frames_read(), progress.frames_dropped());
    facts_of(mode, names, Box::new(packets))
}

/// The same of a run that counts packets itself.
pub(super) fn facts_of(mode: Mode, inputs: Vec<String>, packets: CountPackets) -> Facts {
    Facts {
        version: env!("CARGO_PKG_VERSION"),
        mode,
        inputs,
        now_ns: || clock::realtime().as_ns(),
        packets,
        packet_log: None,
        history: None,
    }
}

/// The names of captures, without folders: a report may go far.
fn names(inputs: &Inputs) -> Vec<String> {
    let name = |input: &Input| match input {
        Input::Stdin => String::from("-"),
        Input::File(path) => path.file_name().unwrap_or_default().to_string_lossy().into_owned(),
    };
    inputs.resolved.inputs.iter().map(name).collect()
}

/// Results of captures are shown until the user ends the run.
pub(super) fn stay(
    server: Server,
    control: &Control,
    (reopen, notices): (&Reopen, &Notices),
    (tell, is_quiet): (fn(&str), bool),
) {
    if !control.is_interrupted() && !is_quiet {
        eprintln!("wirelens: all input was read; the page stays open until Ctrl-C");
    }
    while !control.is_interrupted() {
        notices.tick();
        if reopen.take() {
            notices.send(Service::reloading);
            reload(&server, tell);
            notices.send(Service::taken_up);
        }
        thread::sleep(LOOK_EVERY);
    }
    server.end();
}
