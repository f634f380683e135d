//! Where a device is: a network namespace and a name in it.

use std::path::PathBuf;
use std::str::FromStr;
use std::{fmt, io, thread};

use crate::sys::namespace;

/// Where `ip netns` keeps namespaces that have names.
const NAMED_NAMESPACES: &str = "/run/netns";

/// The kernel's limit on names of interfaces, `IFNAMSIZ` less the end.
const DEVICE_LEN_MAX: usize = 15;

/// A device in a network namespace, written `NETNS:DEV`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Place {
    /// A name as `ip netns` knows it, or a path.
    pub namespace: String,
    /// Name of the interface.
    pub device: String,
}

impl Place {
    /// The file that stands for the namespace.
    #[must_use]
    pub fn namespace_file(&self) -> PathBuf {
        if self.namespace.contains('/') {
            return PathBuf::from(&self.namespace);
        }
        PathBuf::from(NAMED_NAMESPACES).join(&self.namespace)
    }

    /// Does something in the namespace, on a thread that ends there: one that went there does not
    /// come back, and the caller stays where it is.
    ///
    /// # Errors
    /// The namespace cannot be entered: there is none, or it takes `CAP_SYS_ADMIN`.
    pub fn inside<T: Send>(&self, work: impl FnOnce() -> T + Send) -> io::Result<T> {
        let entered = || {
            namespace::enter(&namespace::open(&self.namespace_file())?)?;
            Ok(work())
        };
        let joined = thread::scope(|scope| scope.spawn(entered).join());
        joined.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.namespace, self.device)
    }
}

impl FromStr for Place {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let Some((namespace, device)) = text.rsplit_once(':') else {
            return Err(format!("`{text}` names no device; wanted NETNS:DEV"));
        };
        if matches!(namespace, "" | "." | "..") {
            return Err(format!("`{text}` names no network namespace; wanted NETNS:DEV"));
        }
        let is_wrong = |c: char| c == '/' || c.is_whitespace() || c.is_control();
        if device.is_empty() || device.len() > DEVICE_LEN_MAX || device.contains(is_wrong) {
            return Err(format!(
                "`{device}` cannot be a device; wanted 1 to {DEVICE_LEN_MAX} characters, \
                 no space and no slash"
            ));
        }
        Ok(Self { namespace: namespace.to_owned(), device: device.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_lies_under_run_and_a_path_where_it_says() {
        let place: Place = "wlt-1:tun0".parse().unwrap();
        assert_eq!(place.namespace_file(), PathBuf::from("/run/netns/wlt-1"));
        assert_eq!(place.to_string(), "wlt-1:tun0");
        let place: Place = "/proc/7/ns/net:eth0".parse().unwrap();
        assert_eq!(place.namespace_file(), PathBuf::from("/proc/7/ns/net"));
        assert_eq!(place.device, "eth0");
    }

    #[test]
    fn what_names_no_device_is_refused() {
        for text in ["", "a", "a:", ":b", "..:b", "a:b c", "a:b/c", "a:sixteen-letters-"] {
            assert!(text.parse::<Place>().is_err(), "{text}");
        }
    }
}
