//! `wirelens run --page`: the run, shown over HTTP.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use capture::Input;
use engine::run::Control;
use history::History;
use server::{Certificate, Facts, HAS_PAGE, Mode, Options, Server, ServerError};
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

/// Characters of a token, which has to be hard to guess.
const TOKEN_LEN_MIN: usize = 16;

/// How often it is looked whether Ctrl-C was pressed.
const LOOK_EVERY: Duration = Duration::from_millis(50);

impl From<ServerError> for Failure {
    fn from(error: ServerError) -> Self {
        Self::error(format_args!("page: {error}"))
    }
}

/// Begins to serve, and says where.
pub(super) fn begin(
    settings: &PageSettings,
    store: &Arc<Store>,
    inputs: &Inputs,
    (log_folder, history): (Option<PathBuf>, Option<Arc<History>>),
    tell: fn(&str),
) -> Result<Server, Failure> {
    let token = settings.token_file.as_deref().map(token).transpose()?;
    let certificate = certificate(settings);
    let is_made = matches!(certificate, Some(Certificate::Made(_)));
    let mut facts = facts(inputs, false);
    facts.history = history;
    facts.packet_log =
        log_folder.map(|folder| -> Arc<dyn PacketLog> { Arc::new(LogSearch::new(folder)) });
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
    Facts {
        version: env!("CARGO_PKG_VERSION"),
        mode,
        inputs: names,
        now_ns: || clock::realtime().as_ns(),
        packets: Box::new(move || (progress.frames_read(), progress.frames_dropped())),
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

/// The first line of a file.
fn token(path: &Path) -> Result<String, Failure> {
    let name = path.display();
    let text = fs::read_to_string(path)
        .map_err(|error| Failure::error(format_args!("token-file: {name}: {error}")))?;
    let token = text.lines().next().unwrap_or_default().trim_start_matches('\u{feff}').trim();
    let is_plain = token.chars().all(|c| c.is_ascii_alphanumeric() || "-_.~".contains(c));
    if token.len() < TOKEN_LEN_MIN || !is_plain {
        return Err(Failure::usage(format_args!(
            "token-file: {name}: wanted a first line of {TOKEN_LEN_MIN} or more letters, digits, \
             - _ . ~; try: openssl rand -hex 16 > {name}"
        )));
    }
    Ok(token.to_owned())
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
