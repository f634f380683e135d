//! Capture filters: tcpdump's expressions, compiled by libpcap.

use std::fmt;
use std::sync::Arc;

use packet::LinkType;

#[cfg(target_os = "linux")]
use crate::sys::libpcap::LiveCompileError;
use crate::sys::libpcap::{Instruction, LIBRARY_NAMES, Libpcap, terminated};

/// A filter expression, ready to be compiled for each link type it meets.
#[derive(Clone)]
pub struct Filter {
    libpcap: Arc<Libpcap>,
    expression: Arc<str>,
}

/// A filter compiled for one link type.
#[derive(Clone)]
pub struct Program {
    libpcap: Arc<Libpcap>,
    instructions: Arc<[Instruction]>,
}

/// Why a filter cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FilterError {
    /// Libpcap is not installed.
    LibraryMissing {
        /// The loader's words.
        reason: String,
    },
    /// Libpcap refuses the expression.
    Refused {
        /// The expression.
        expression: String,
        /// The link type it was compiled for.
        link: LinkType,
        /// Libpcap's words.
        reason: String,
    },
}

impl Filter {
    /// A filter for `expression`; the library is opened now, the expression is
    /// compiled when a link type is known.
    ///
    /// # Errors
    /// [`FilterError::LibraryMissing`].
    pub fn new(expression: &str) -> Result<Self, FilterError> {
        let libpcap = Libpcap::open().map_err(|reason| FilterError::LibraryMissing { reason })?;
        Ok(Self { libpcap: Arc::new(libpcap), expression: expression.into() })
    }

    /// Compiles for one link type.
    ///
    /// # Errors
    /// [`FilterError::Refused`], with libpcap's reason: a syntax error, a
    /// header that the link type does not have, a filter that nothing can pass.
    pub fn compile(&self, link: LinkType) -> Result<Program, FilterError> {
        self.compile_in(link, false)
    }

    /// Compiles for the frames of a capture file, whose headers may be in the other byte order than
    /// this machine's. As of an interface it would not do: a loopback header is in the order of the
    /// machine that captured, IPv6 has another number there on each system, and which way a frame
    /// went is not in it.
    ///
    /// # Errors
    /// As of [`Filter::compile`].
    pub fn compile_in(&self, link: LinkType, is_swapped: bool) -> Result<Program, FilterError> {
        let refused =
            |reason| FilterError::Refused { expression: self.expression.to_string(), link, reason };
        let expression = terminated(&self.expression).map_err(refused)?;
        let header = file_header(link, is_swapped);
        let instructions = self.libpcap.compile_for_file(&expression, &header).map_err(refused)?;
        Ok(Program { libpcap: Arc::clone(&self.libpcap), instructions: instructions.into() })
    }

    /// Compiles for the kernel, for frames of one link type. The kernel takes VLAN tags out of
    /// Ethernet frames, which libpcap knows of an interface only: it is asked on the first of
    /// `interfaces`, all of them Ethernet, that it can listen on.
    ///
    /// # Errors
    /// As of [`Filter::compile`], or there is no such interface.
    #[cfg(target_os = "linux")]
    pub(crate) fn compile_live(
        &self,
        link: LinkType,
        interfaces: &[&str],
    ) -> Result<Vec<Instruction>, FilterError> {
        let refused =
            |reason| FilterError::Refused { expression: self.expression.to_string(), link, reason };
        let expression = terminated(&self.expression).map_err(refused)?;
        if link != LinkType::ETHERNET {
            let data_link_type = data_link_type(link);
            return self.libpcap.compile(&expression, data_link_type, SNAPLEN).map_err(refused);
        }
        let mut words = String::from("libpcap compiles on an interface that is up, and none is");
        for interface in interfaces {
            let name = terminated(interface).map_err(refused)?;
            match self.libpcap.compile_live(&expression, &name, data_link_type(link)) {
                Ok(instructions) => return Ok(instructions),
                Err(LiveCompileError::Expression(reason)) => return Err(refused(reason)),
                Err(LiveCompileError::Interface(reason)) => {
                    words = format!("libpcap cannot listen on {interface}: {reason}");
                }
            }
        }
        Err(refused(words))
    }
}

/// Frames are judged whole.
const SNAPLEN: i32 = 262_144;

/// The header of a pcap file of such frames, in this machine's byte order or the other.
fn file_header(link: LinkType, is_swapped: bool) -> [u8; 24] {
    // Libpcap has one number for raw IP in files.
    let number = if data_link_type(link) == i32::from(LinkType::RAW_OLD_12.0) {
        LinkType::RAW.0
    } else {
        link.0
    };
    let word = |value: u32| if is_swapped { value.swap_bytes() } else { value }.to_ne_bytes();
    let half = |value: u16| if is_swapped { value.swap_bytes() } else { value }.to_ne_bytes();
    let mut header = [0; 24];
    header[..4].copy_from_slice(&word(0xa1b2_c3d4));
    header[4..6].copy_from_slice(&half(2));
    header[6..8].copy_from_slice(&half(4));
    header[16..20].copy_from_slice(&word(SNAPLEN.unsigned_abs()));
    header[20..].copy_from_slice(&word(number.into()));
    header
}

/// Libpcap's number for a link type in memory, where it differs from the one in files.
fn data_link_type(link: LinkType) -> i32 {
    match link {
        LinkType::RAW | LinkType::RAW_OLD_14 => i32::from(LinkType::RAW_OLD_12.0),
        other => i32::from(other.0),
    }
}

impl Program {
    /// Whether a frame passes.
    #[inline]
    #[must_use]
    pub fn passes(&self, frame: &[u8], wire_len: u32) -> bool {
        self.libpcap.passes(&self.instructions, frame, wire_len)
    }
}

/// The library's name and version, or why it cannot be opened.
///
/// # Errors
/// The loader's words.
pub fn library_version() -> Result<String, String> {
    Libpcap::open().map(|libpcap| libpcap.version().to_owned())
}

impl fmt::Display for FilterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::LibraryMissing { reason } => write!(
                f,
                "filter: libpcap cannot be opened ({reason}); tried {}; install the package \
                 libpcap0.8, or read without a filter",
                LIBRARY_NAMES.join(", ")
            ),
            Self::Refused { expression, link, reason } => write!(
                f,
                "filter: `{expression}` cannot be used on {link} frames: {reason}; pcap-filter(7) \
                 has the syntax"
            ),
        }
    }
}

impl std::error::Error for FilterError {}

impl fmt::Debug for Filter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Filter").field(&self.expression).finish()
    }
}
