//! Encryption: a certificate of the operator's, or one that is made at the start.

use std::fmt::{self, Write as _};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

use packet::time::civil_from_days;
use rcgen::{CertificateParams, DnType, KeyPair};
use ring::digest::{SHA256, digest};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{self, ServerConfig};

/// Years that a certificate holds that is made at the start: as long as a run may continue.
const YEARS: i32 = 10;

/// Of the clock where it says nothing.
const FIRST_YEAR: i32 = 2026;

const DAY_NS: i64 = 86_400_000_000_000;

/// Whose certificate the server shows.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Certificate {
    /// One of the operator's, in PEM: the certificate with those that signed it, and its key.
    Files {
        /// The certificate, and after it those between it and the root.
        chain: PathBuf,
        /// The private key: PKCS #8, PKCS #1 or SEC1.
        key: PathBuf,
    },
    /// One that is made at the start and signed by itself, for these names and addresses.
    Made(Vec<String>),
}

impl Certificate {
    /// That of these files, a chain and its key; or elsewhere than on this machine, of this name,
    /// one that is made.
    #[must_use]
    pub fn of(
        files: Option<(PathBuf, PathBuf)>,
        listen: SocketAddr,
        machine: &str,
    ) -> Option<Self> {
        if let Some((chain, key)) = files {
            return Some(Self::Files { chain, key });
        }
        let ip = listen.ip();
        let mut names = vec![machine.to_owned(), String::from("localhost")];
        names.extend((!ip.is_unspecified()).then(|| ip.to_string()));
        names.retain(|name| !name.is_empty());
        (!ip.is_loopback()).then_some(Self::Made(names))
    }
}

/// Why a certificate cannot be used.
#[derive(Debug)]
pub enum CertificateError {
    /// A file cannot be read, or is not what it should be.
    File(PathBuf, String),
    /// The key is not that of the certificate, or its kind is not known.
    Pair(rustls::Error),
    /// None can be made.
    Make(rcgen::Error),
}

impl fmt::Display for CertificateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path, why) => write!(f, "{}: {why}", path.display()),
            Self::Pair(error) => {
                write!(f, "certificate and key: {error}; wanted: a key of that certificate")
            }
            Self::Make(error) => write!(f, "no certificate can be made: {error}"),
        }
    }
}

impl std::error::Error for CertificateError {}

/// What connections are encrypted with; it can be replaced while the server runs.
pub(crate) struct Tls {
    certificate: Certificate,
    config: RwLock<Arc<ServerConfig>>,
    /// SHA-256 of the certificate, as browsers show it.
    pub(crate) fingerprint: String,
}

impl Tls {
    pub(crate) fn new(certificate: Certificate, now_ns: i64) -> Result<Self, CertificateError> {
        let (chain, key) = match &certificate {
            Certificate::Files { chain, key } => read(chain, key)?,
            Certificate::Made(names) => {
                make(names.clone(), now_ns).map_err(CertificateError::Make)?
            }
        };
        let fingerprint = chain.first().map_or_else(String::new, fingerprint);
        let config = RwLock::new(config(chain, key)?);
        Ok(Self { certificate, config, fingerprint })
    }

    /// Reads the operator's certificate again, as when it was renewed. One that cannot be used
    /// leaves the one before in force.
    pub(crate) fn reload(&self) -> Result<(), CertificateError> {
        let Certificate::Files { chain, key } = &self.certificate else { return Ok(()) };
        let (chain, key) = read(chain, key)?;
        let config = config(chain, key)?;
        *self.config.write().unwrap_or_else(PoisonError::into_inner) = config;
        Ok(())
    }

    pub(crate) fn acceptor(&self) -> TlsAcceptor {
        let config = self.config.read().unwrap_or_else(PoisonError::into_inner);
        TlsAcceptor::from(Arc::clone(&config))
    }
}

type Pair = (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>);

fn config(
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
) -> Result<Arc<ServerConfig>, CertificateError> {
    let builder = ServerConfig::builder_with_provider(Arc::new(default_provider()));
    let builder = builder.with_safe_default_protocol_versions().map_err(CertificateError::Pair)?;
    let made = builder.with_no_client_auth().with_single_cert(chain, key);
    let mut config = made.map_err(CertificateError::Pair)?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

fn read(chain: &Path, key: &Path) -> Result<Pair, CertificateError> {
    let wrong = |path: &Path, why: String| CertificateError::File(path.to_owned(), why);
    let certificates = CertificateDer::pem_file_iter(chain)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|error| wrong(chain, error.to_string()))?;
    if certificates.is_empty() {
        let wanted = "no certificate in it; wanted: PEM with BEGIN CERTIFICATE";
        return Err(wrong(chain, String::from(wanted)));
    }
    let private = PrivateKeyDer::from_pem_file(key).map_err(|error| {
        wrong(key, format!("{error}; wanted: PEM with BEGIN PRIVATE KEY, without a password"))
    })?;
    Ok((certificates, private))
}

fn make(names: Vec<String>, now_ns: i64) -> Result<Pair, rcgen::Error> {
    let mut params = CertificateParams::new(names)?;
    params.distinguished_name.push(DnType::CommonName, "Wirelens");
    let (year, _, _) = civil_from_days(now_ns.div_euclid(DAY_NS));
    let year = i32::try_from(year).unwrap_or(FIRST_YEAR);
    // From the year before on: clocks of others may be behind.
    params.not_before = rcgen::date_time_ymd(year - 1, 1, 1);
    params.not_after = rcgen::date_time_ymd(year + YEARS, 1, 1);
    let pair = KeyPair::generate()?;
    let certificate = params.self_signed(&pair)?;
    let key = PrivateKeyDer::Pkcs8(pair.serialize_der().into());
    Ok((vec![certificate.der().clone()], key))
}

fn fingerprint(certificate: &CertificateDer<'_>) -> String {
    let mut text = String::new();
    for (at, byte) in digest(&SHA256, certificate).as_ref().iter().enumerate() {
        // Writing to a string cannot fail.
        let _ = write!(text, "{}{byte:02X}", if at > 0 { ":" } else { "" });
    }
    text
}
