//! Features of a network device as ethtool(8) names them, read and switched.

use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};

use super::interfaces::{self, SIOCETHTOOL};

/// Numbers of linux/ethtool.h.
const GET_STRINGS: u32 = 0x1b;
const GET_SET_INFO: u32 = 0x37;
const GET_FEATURES: u32 = 0x3a;
const SET_FEATURES: u32 = 0x3b;
const SET_OF_FEATURES: u32 = 4;

const NAME_LEN: usize = 32;
const BLOCK_BITS: usize = 32;
/// More would not be features of this world; it bounds what is allocated.
const FEATURE_COUNT_MAX: u32 = 1_024;

/// The features of one device.
#[derive(Debug)]
pub struct Features {
    socket: OwnedFd,
    /// A device may be renamed; its index stays.
    index: u32,
    /// By bit.
    names: Vec<String>,
}

impl Features {
    /// Of a device of the calling thread's network namespace.
    ///
    /// # Errors
    /// `ENODEV`, `EOPNOTSUPP`, and the system's.
    pub fn open(device: &str) -> io::Result<Self> {
        let index = interfaces::index(device)?;
        let mut features = Self { socket: interfaces::socket()?, index, names: Vec::new() };
        // Which sets are asked for is a word of 64 bits behind two of 32; counts follow.
        let [low, high] = halves(1 << SET_OF_FEATURES);
        let mut info = [GET_SET_INFO, 0, low, high, 0];
        features.ask(&mut info)?;
        let count = info[4].min(FEATURE_COUNT_MAX);
        if info[4] != count {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let mut strings = vec![0; 3 + count as usize * (NAME_LEN / size_of::<u32>())];
        strings[..3].copy_from_slice(&[GET_STRINGS, SET_OF_FEATURES, count]);
        // The kernel writes as many names as it has, which is what it said.
        features.ask(&mut strings)?;
        let bytes: Vec<u8> = strings[3..].iter().flat_map(|word| word.to_ne_bytes()).collect();
        let names = bytes.chunks(NAME_LEN).map(|name| {
            let len = name.iter().position(|&byte| byte == 0).unwrap_or(name.len());
            String::from_utf8_lossy(&name[..len]).into_owned()
        });
        features.names = names.collect();
        Ok(features)
    }

    /// Whether each of these is on. One that the kernel does not know is off.
    ///
    /// # Errors
    /// The system's; the device is gone.
    pub fn are_on(&self, names: &[&str]) -> io::Result<Vec<bool>> {
        let mut words = self.words(GET_FEATURES, 4);
        self.ask(&mut words)?;
        // Of each block: available, requested, active, never changed.
        let is_on = |name: &&str| {
            let bit = self.bit(name)?;
            let active = words.get(2 + bit / BLOCK_BITS * 4 + 2)?;
            Some(active >> (bit % BLOCK_BITS) & 1 == 1)
        };
        Ok(names.iter().map(|name| is_on(name).unwrap_or(false)).collect())
    }

    /// Switches these on or off, and leaves the rest as it is. What the device does not allow
    /// stays as it was and is no error.
    ///
    /// # Errors
    /// `EPERM` without `CAP_NET_ADMIN`, and the system's.
    pub fn switch(&self, names: &[&str], is_on: bool) -> io::Result<()> {
        let mut words = self.words(SET_FEATURES, 2);
        // Of each block: which are meant, and what they shall be.
        for bit in names.iter().filter_map(|name| self.bit(name)) {
            let (at, mask) = (2 + bit / BLOCK_BITS * 2, 1 << (bit % BLOCK_BITS));
            words[at] |= mask;
            words[at + 1] |= if is_on { mask } else { 0 };
        }
        self.ask(&mut words)
    }

    fn bit(&self, name: &str) -> Option<usize> {
        self.names.iter().position(|known| known == name)
    }

    /// A command with room for all features, in blocks of so many words.
    fn words(&self, command: u32, block_len: usize) -> Vec<u32> {
        let block_count = self.names.len().div_ceil(BLOCK_BITS);
        let mut words = vec![0; 2 + block_count * block_len];
        words[0] = command;
        words[1] = u32::try_from(block_count).unwrap_or(0);
        words
    }

    /// One command: its first word, and what the kernel reads and writes behind it.
    fn ask(&self, words: &mut [u32]) -> io::Result<()> {
        let mut request = interfaces::request("")?;
        request.ifr_ifru.ifru_ifindex = self.index.cast_signed();
        let fd = self.socket.as_raw_fd();
        // SAFETY: an open socket and a request, in which the kernel puts a terminated name.
        if unsafe { libc::ioctl(fd, libc::SIOCGIFNAME as _, &raw mut request) } != 0 {
            return Err(io::Error::last_os_error());
        }
        request.ifr_ifru.ifru_data = words.as_mut_ptr().cast();
        // SAFETY: as above; the words outlive the call, and are as many as the command says.
        let status = unsafe { libc::ioctl(fd, SIOCETHTOOL as _, &raw mut request) };
        // Above 0 are remarks on features that were not switched.
        if status < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }
}

fn halves(word: u64) -> [u32; 2] {
    let [a, b, c, d, e, f, g, h] = word.to_ne_bytes();
    [u32::from_ne_bytes([a, b, c, d]), u32::from_ne_bytes([e, f, g, h])]
}
