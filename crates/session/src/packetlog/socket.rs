//! A Unix socket in the log's folder: who may write there may steer the recorder.
//!
//! One request a connection, a line: `status`, `metrics` or `mode NAME`. The answer is a JSON
//! object with `error` where it could not be done, or for `metrics` Prometheus' text.

use std::fs;
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileTypeExt as _;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use engine::run::spawn_free;
use files::FileMode;
use serde_json::{Value, json};

use super::LogError;
use super::desk::Desk;
use super::metrics;

/// Name of the socket in the log's folder.
pub const NAME: &str = "control.sock";
/// Bytes of a request, and so many of an answer.
const REQUEST_LEN_MAX: u64 = 4 << 10;
const ANSWER_LEN_MAX: u64 = 4 << 20;
/// So long one connection may hold up the next.
const PATIENCE: Duration = Duration::from_secs(2);

/// The listening end.
pub struct Socket {
    path: PathBuf,
    /// That which the thread listens on, for ending it.
    listener: UnixStream,
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Socket {
    /// Listens for requests to `desk`, of which there is one, since a recorder locks its folder: a
    /// socket that is there already was left by a recorder that was killed.
    pub fn listen(folder: &Path, desk: Arc<Desk>) -> Result<Self, LogError> {
        let path = folder.join(NAME);
        let refused =
            |error: io::Error| LogError::error(format_args!("{}: {error}", path.display()));
        if fs::symlink_metadata(&path).is_ok_and(|file| file.file_type().is_socket()) {
            fs::remove_file(&path).map_err(refused)?;
        }
        // Only the owner of the log changes what it keeps.
        let listener = files::listen(&path, FileMode::OWNER).map_err(refused)?;
        let held = UnixStream::from(OwnedFd::from(listener.try_clone().map_err(refused)?));
        let is_over = Arc::new(AtomicBool::new(false));
        let ends = Arc::clone(&is_over);
        let thread = spawn_free("log-socket", move || {
            for stream in listener.incoming() {
                if ends.load(Ordering::Acquire) {
                    break;
                }
                // Of a connection that fails nothing is left to tell anybody.
                let _ = stream.and_then(|stream| answer(&stream, &desk));
            }
        });
        Ok(Self { path, listener: held, is_over, thread: Some(thread) })
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Release);
        // Wakes the thread, which waits for the next connection. To connect would not always: the
        // path may have gone with its folder, or be that of another socket by now.
        if self.listener.shutdown(Shutdown::Both).is_ok()
            && let Some(thread) = self.thread.take()
        {
            let _ = thread.join();
        }
        let _ = fs::remove_file(&self.path);
    }
}

/// Whether a recorder that runs answers for the log of this folder.
pub fn is_answered(folder: &Path) -> bool {
    files::connect(&folder.join(NAME)).is_ok()
}

fn answer(stream: &UnixStream, desk: &Desk) -> io::Result<()> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut line = String::new();
    BufReader::new(stream.take(REQUEST_LEN_MAX)).read_line(&mut line)?;
    let mut words = line.split_whitespace();
    let text = match (words.next(), words.next(), words.next()) {
        (Some("status"), None, None) => desk.status().to_string(),
        (Some("metrics"), None, None) => metrics::text(&desk.status()),
        (Some("mode"), Some(mode), None) => match desk.choose(mode) {
            Ok(reply) => reply.to_string(),
            Err(reason) => json!({"error": reason}).to_string(),
        },
        _ => json!({"error": "wanted: status, metrics or mode NAME"}).to_string(),
    };
    let mut stream = stream;
    stream.write_all(text.as_bytes())
}

/// Asks the recorder of a log; the answer as it came.
pub fn ask(folder: &Path, request: &str) -> Result<String, LogError> {
    let path = folder.join(NAME);
    let failed = |error: io::Error| {
        let hint = match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => {
                "; no recorder is running there: start one with `wirelens packetlog record`, or \
                 name the folder of another with --log"
            }
            io::ErrorKind::PermissionDenied => "; only its owner can control it",
            _ => "",
        };
        LogError::error(format_args!("{}: {error}{hint}", path.display()))
    };
    let mut stream = files::connect(&path).map_err(failed)?;
    stream.set_read_timeout(Some(5 * PATIENCE)).map_err(failed)?;
    stream.write_all(format!("{request}\n").as_bytes()).map_err(failed)?;
    let mut answer = String::new();
    stream.take(ANSWER_LEN_MAX).read_to_string(&mut answer).map_err(failed)?;
    Ok(answer)
}

/// The same where the answer is JSON, and an error in it one here.
pub fn ask_json(folder: &Path, request: &str) -> Result<Value, LogError> {
    let answer = ask(folder, request)?;
    let value: Value = serde_json::from_str(&answer).map_err(|error| {
        LogError::error(format_args!("invalid answer of the recorder: {error}"))
    })?;
    match value.get("error").and_then(Value::as_str) {
        Some(reason) => Err(LogError::usage(reason)),
        None => Ok(value),
    }
}
