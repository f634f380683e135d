//! What computes a model: this machine's processors, or a graphics card.

use std::fmt;
use std::str::FromStr;

/// What computes a model.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Device {
    /// A processor, one thread for each session.
    #[default]
    Processor,
    /// A graphics card, through CUDA.
    Cuda {
        /// Which, counted from 0 as CUDA does.
        index: u16,
    },
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Processor => f.write_str("cpu"),
            Self::Cuda { index } => write!(f, "cuda:{index}"),
        }
    }
}

impl FromStr for Device {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let index = text.strip_prefix("cuda:").map(str::parse);
        match (text, index) {
            ("cpu", _) => Ok(Self::Processor),
            ("cuda", _) => Ok(Self::Cuda { index: 0 }),
            (_, Some(Ok(index))) => Ok(Self::Cuda { index }),
            _ => Err(String::from("wanted cpu, cuda, or a card by its number such as cuda:1")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_is_read_as_it_is_written() {
        for device in [Device::Processor, Device::Cuda { index: 0 }, Device::Cuda { index: 7 }] {
            assert_eq!(device.to_string().parse(), Ok(device));
        }
        assert_eq!("cuda".parse(), Ok(Device::Cuda { index: 0 }));
        for wrong in ["", "gpu", "cuda:", "cuda:-1", "cuda:99999", "CPU"] {
            assert!(wrong.parse::<Device>().is_err(), "{wrong}");
        }
    }
}
