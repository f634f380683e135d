//! Where a run is shown, from the settings file: `[page]`.

use std::fmt;
use std::fs;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use serde::{Deserialize, Deserializer, de};

/// The port, unless another is asked for.
pub const PORT: u16 = 9417;

/// Settings of `[page]`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct PageSettings {
    /// Where the page and the API are served.
    #[serde(deserialize_with = "address")]
    pub listen: SocketAddr,
    /// A file whose first line whoever asks has to know.
    pub token_file: Option<PathBuf>,
    /// A certificate in PEM; its own is made where other machines can reach the address.
    pub certificate: Option<PathBuf>,
    /// The key of the certificate.
    pub key: Option<PathBuf>,
    /// The token, once it was read: the file may be a pipe, or readable only before the run
    /// changes its user.
    #[serde(skip)]
    pub token: Option<Secret>,
}

/// A text that no message shows.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("…")
    }
}

/// Characters of a token, which has to be hard to guess.
const TOKEN_LEN_MIN: usize = 16;

impl PageSettings {
    /// Reads the token, which the page is served with later.
    ///
    /// # Errors
    /// What is wrong with the file, for users.
    pub(crate) fn read_token(&mut self) -> Result<(), String> {
        self.token = self.token()?.map(Secret);
        Ok(())
    }

    /// The token that requests must carry: the first line of its file.
    ///
    /// # Errors
    /// What is wrong with the file, for users.
    pub fn token(&self) -> Result<Option<String>, String> {
        if let Some(Secret(token)) = &self.token {
            return Ok(Some(token.clone()));
        }
        let Some(path) = &self.token_file else { return Ok(None) };
        let name = path.display();
        let text =
            fs::read_to_string(path).map_err(|error| format!("token-file: {name}: {error}"))?;
        let token = text.lines().next().unwrap_or_default().trim_start_matches('\u{feff}').trim();
        let is_plain = token.chars().all(|c| c.is_ascii_alphanumeric() || "-_.~".contains(c));
        if token.len() < TOKEN_LEN_MIN || !is_plain {
            return Err(format!(
                "token-file: {name}: wanted a first line of {TOKEN_LEN_MIN} or more letters, \
                 digits, - _ . ~; try: openssl rand -hex 16 > {name}"
            ));
        }
        Ok(Some(token.to_owned()))
    }

    /// What is wrong with them together.
    pub(crate) fn mistake(&self) -> Option<&'static str> {
        match (&self.certificate, &self.key) {
            (Some(_), None) => Some("certificate without key; wanted: both, in PEM"),
            (None, Some(_)) => Some("key without certificate; wanted: both, in PEM"),
            _ if !self.listen.ip().is_loopback() && self.token_file.is_none() => Some(
                "listen: the address can be reached from other machines; wanted: 127.0.0.1 or \
                 [::1], or a token-file",
            ),
            _ => None,
        }
    }
}

impl Default for PageSettings {
    fn default() -> Self {
        let listen = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), PORT);
        Self { listen, token_file: None, certificate: None, key: None, token: None }
    }
}

/// Its keys with their defaults, as `--init` prints them.
pub(crate) const EXAMPLE: &str = "
# The page, the API and /metrics, over HTTP: every table of this file, live.
# [page]
# Address and port. One that other machines can reach needs a token, and is served over HTTPS.
# listen = \"127.0.0.1:9417\"
# A file with the token, its first line; read at the start.
# token-file = \"token\"
# A certificate and its key in PEM, read again on SIGHUP [default: none on loopback, elsewhere one
# that is made at the start].
# certificate = \"certificate.pem\"
# key = \"key.pem\"
";

fn address<'d, D: Deserializer<'d>>(deserializer: D) -> Result<SocketAddr, D::Error> {
    let text = String::deserialize(deserializer)?;
    parse_listen(&text).map_err(de::Error::custom)
}

/// Reads `127.0.0.1:9417`, an address alone, or a port alone, which is one of this machine.
///
/// # Errors
/// What was wanted, for the message of the argument.
pub fn parse_listen(text: &str) -> Result<SocketAddr, String> {
    let local = PageSettings::default().listen;
    let host = text.trim_matches(['[', ']']).parse::<IpAddr>();
    if let Ok(address) = host {
        return Ok(SocketAddr::new(address, local.port()));
    }
    if let Ok(port) = text.trim_start_matches(':').parse() {
        return Ok(SocketAddr::new(local.ip(), port));
    }
    let wanted = "wanted: an address and a port, such as 127.0.0.1:9417 or [::1]:9417, or a port";
    text.parse().map_err(|_| format!("{text:?}; {wanted}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_token_is_read_once_and_not_shown() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("token");
        fs::write(&path, "0123456789abcdef\n").unwrap();
        let mut page = PageSettings { token_file: Some(path.clone()), ..PageSettings::default() };
        page.read_token().unwrap();
        fs::remove_file(path).unwrap();
        assert_eq!(page.token().unwrap().as_deref(), Some("0123456789abcdef"));
        assert!(!format!("{page:?}").contains("0123456789abcdef"));
    }

    #[test]
    fn addresses_are_read_in_all_their_forms() {
        for (text, wanted) in [
            ("127.0.0.1:80", "127.0.0.1:80"),
            ("8080", "127.0.0.1:8080"),
            (":0", "127.0.0.1:0"),
            ("::1", "[::1]:9417"),
            ("[::1]", "[::1]:9417"),
            ("[::]:99", "[::]:99"),
        ] {
            assert_eq!(parse_listen(text).unwrap().to_string(), wanted, "{text}");
        }
        for text in ["", "localhost", "1.2.3.4:x", "99999"] {
            assert!(parse_listen(text).unwrap_err().contains("wanted"), "{text}");
        }
    }
}
