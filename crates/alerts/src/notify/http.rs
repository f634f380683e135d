//! JSON by HTTP POST.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ureq::http::Uri;
use ureq::http::header::{AUTHORIZATION, CONTENT_TYPE, LOCATION, RETRY_AFTER};
use ureq::tls::{PemItem, RootCerts, TlsConfig, parse_pem};
use ureq::{Agent, Proxy};

use super::Failure;
use crate::rules::Wrong;
use crate::settings::{NotifySettings, duration_or};
use crate::text::push_clean;

/// Bytes of an answer that are read.
const ANSWER_LEN_MAX: u64 = 4_096;

/// The longest wait that a receiver can ask for.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(300);

/// Where JSON is sent.
pub(super) struct Poster {
    agent: Agent,
    url: String,
    credential: Credential,
}

/// Files are read for each request, as tokens change during a run.
enum Credential {
    None,
    Token(PathBuf),
    Password { user: String, path: PathBuf },
}

/// Whether alerts can be posted to a URL.
///
/// # Errors
/// What was wanted.
pub(super) fn check_url(url: &str) -> Result<(), String> {
    // A URL may hold a secret, so that it is not repeated.
    let rest = url.strip_prefix("https://").or_else(|| url.strip_prefix("http://"));
    let rest = rest.ok_or("wanted: a URL that begins with https:// or http://")?;
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    if authority.is_empty() || url.chars().any(|c| c.is_whitespace() || c.is_control()) {
        return Err("wanted: a URL with a host and without spaces".into());
    }
    if authority.contains('@') {
        return Err("a password in a URL; wanted: user and password-file".into());
    }
    url.parse::<Uri>().map_err(|_| "wanted: a URL, such as https://hooks.example/path")?;
    Ok(())
}

impl Poster {
    pub(super) fn open(settings: &NotifySettings, url: String) -> Result<Self, Wrong> {
        let NotifySettings { timeout, token_file, user, password_file, ca_file, proxy, .. } =
            settings;
        let credential = match (token_file, user, password_file) {
            (Some(path), ..) => Credential::Token(path.clone()),
            (_, Some(user), Some(path)) => {
                Credential::Password { user: user.clone(), path: path.clone() }
            }
            _ => Credential::None,
        };
        let key = if token_file.is_some() { "token-file" } else { "password-file" };
        credential.header().map_err(|why| (key, why))?;
        let roots = ca_file.as_deref().map_or(Ok(RootCerts::WebPki), roots);
        let tls = TlsConfig::builder().root_certs(roots.map_err(|why| ("ca-file", why))?).build();
        let proxy = proxy.as_deref().map(Proxy::new).transpose();
        let proxy = proxy.map_err(|error| ("proxy", error.to_string()))?;
        let config = Agent::config_builder()
            .timeout_global(Some(duration_or(*timeout, 5)))
            .http_status_as_error(false)
            // Elsewhere no one vouches for who reads the alerts, or the token.
            .max_redirects(0)
            .max_redirects_will_error(false)
            // Not from the environment: settings say all.
            .proxy(proxy)
            // Alerts are rare, and a connection that idles is mostly closed when one comes.
            .max_idle_connections(0)
            .user_agent("wirelens")
            .tls_config(tls)
            .build();
        Ok(Self { agent: config.into(), url, credential })
    }

    /// Sends one document.
    pub(super) fn post(&self, json: &str) -> Result<(), Failure> {
        let mut request = self.agent.post(&self.url).header(CONTENT_TYPE, "application/json");
        if let Some(credential) = self.credential.header().map_err(Failure::later)? {
            request = request.header(AUTHORIZATION, credential);
        }
        let mut response = request.send(json).map_err(Failure::later)?;
        let status = response.status();
        if status.is_success() {
            return Ok(());
        }
        let header = |name| response.headers().get(name).and_then(|value| value.to_str().ok());
        let mut why = format!("HTTP status {}", status.as_u16());
        if status.is_redirection() {
            why.push_str(", a redirect, which is not followed; to: ");
            push_clean(&mut why, header(LOCATION).unwrap_or("nowhere"), 200);
            return Err(Failure::Never(why));
        }
        let after = header(RETRY_AFTER).and_then(|text| text.trim().parse().ok());
        let after = after.map(|seconds| Duration::from_secs(seconds).min(RETRY_AFTER_MAX));
        let body = response.body_mut().with_config().limit(ANSWER_LEN_MAX).lossy_utf8(true);
        if let Ok(text) = body.read_to_string() {
            let _ = write!(why, ": ");
            push_clean(&mut why, text.trim(), 200);
        }
        let is_passing = status.is_server_error() || matches!(status.as_u16(), 408 | 425 | 429);
        Err(if is_passing { Failure::Later(why, after) } else { Failure::Never(why) })
    }
}

impl Credential {
    fn header(&self) -> Result<Option<String>, String> {
        let first_line = |path: &Path| {
            let text = fs::read_to_string(path);
            let text = text.map_err(|error| format!("{}: {error}", path.display()))?;
            let line = text.trim_start_matches('\u{feff}').lines().next().unwrap_or_default();
            let line = line.trim().to_owned();
            let is_header = !line.is_empty() && !line.chars().any(char::is_control);
            is_header.then_some(line).ok_or_else(|| format!("{}: no first line", path.display()))
        };
        Ok(match self {
            Self::None => None,
            Self::Token(path) => Some(format!("Bearer {}", first_line(path)?)),
            Self::Password { user, path } => {
                Some(format!("Basic {}", base64(&format!("{user}:{}", first_line(path)?))))
            }
        })
    }
}

fn roots(path: &Path) -> Result<RootCerts, String> {
    let told = |why: String| format!("{}: {why}", path.display());
    let pem = fs::read(path).map_err(|error| told(error.to_string()))?;
    let items = parse_pem(&pem).filter_map(|item| match item {
        Ok(PemItem::Certificate(certificate)) => Some(Ok(certificate)),
        Ok(_) => None,
        Err(error) => Some(Err(told(error.to_string()))),
    });
    let certificates: Vec<_> = items.collect::<Result<_, _>>()?;
    if certificates.is_empty() {
        return Err(told("no certificate in it; wanted: PEM".into()));
    }
    Ok(RootCerts::new_with_certs(&certificates))
}

/// RFC 4648, section 4.
fn base64(text: &str) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut coded = String::new();
    for chunk in text.as_bytes().chunks(3) {
        let byte = |at: usize| u32::from(chunk.get(at).copied().unwrap_or_default());
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for at in 0..4 {
            let index = (bits >> (18 - 6 * at)) & 63;
            let letter = ALPHABET.get(index as usize).copied().map_or('=', char::from);
            coded.push(if at <= chunk.len() { letter } else { '=' });
        }
    }
    coded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_that_of_the_rfc() {
        for (text, wanted) in [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foob", "Zm9vYg=="),
            ("fooba", "Zm9vYmE="),
            ("foobar", "Zm9vYmFy"),
        ] {
            assert_eq!(base64(text), wanted);
        }
    }

    #[test]
    fn urls_are_checked_without_being_repeated() {
        assert_eq!(check_url("https://hooks.example/T0/secret"), Ok(()));
        for bad in
            ["ftp://secret", "https://", "https://u:secret@host/", "http://a b", "http://[secret"]
        {
            let told = check_url(bad).unwrap_err();
            assert!(told.contains("wanted") && !told.contains("secret"), "{told}");
        }
    }
}
