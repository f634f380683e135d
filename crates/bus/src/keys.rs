//! Credentials of NATS: the seed of a key, and a JWT that names its owner.
//!
//! A seed is text in base32: two bytes that name its kind, 32 bytes of Ed25519, and a CRC-16. The
//! broker sends a nonce, which is signed.

use ring::signature::{Ed25519KeyPair, KeyPair as _};

/// First byte of a seed, after it the kind of key.
const SEED: u8 = 18 << 3;

/// First byte of a user's public key.
const USER: u8 = 20 << 3;

/// What is shown to the broker.
pub(crate) struct Credentials {
    pair: Ed25519KeyPair,
    /// Where it is left out, the broker knows the public key.
    pub jwt: Option<String>,
}

/// Why there are none.
pub(crate) const WANTED: &str = "no credentials; wanted: a file that nsc writes, or a user's seed";

impl Credentials {
    /// Reads a file of credentials of `nsc`, or one that has a seed alone.
    pub(crate) fn read(text: &str) -> Option<Self> {
        let lines = || text.lines().map(str::trim).filter(|line| !line.is_empty());
        let jwt = lines().find(|line| line.starts_with("eyJ") && line.split('.').count() == 3);
        let seed = lines().find(|line| line.starts_with("SU"))?;
        let pair = Ed25519KeyPair::from_seed_unchecked(&seed_bytes(seed)?).ok()?;
        Some(Self { pair, jwt: jwt.map(str::to_owned) })
    }

    /// The public key, as the broker's settings name it.
    pub(crate) fn public(&self) -> String {
        let mut bytes = vec![USER];
        bytes.extend_from_slice(self.pair.public_key().as_ref());
        bytes.extend(crc16(&bytes).to_le_bytes());
        base32(&bytes)
    }

    /// The signature of a nonce, in base64 for addresses.
    pub(crate) fn sign(&self, nonce: &str) -> String {
        base64url(self.pair.sign(nonce.as_bytes()).as_ref())
    }
}

fn seed_bytes(text: &str) -> Option<[u8; 32]> {
    let bytes = from_base32(text)?;
    let (content, crc) = bytes.split_last_chunk::<2>()?;
    let (kind, seed) = content.split_first_chunk::<2>()?;
    let is_seed = kind[0] & 0xf8 == SEED && crc16(content) == u16::from_le_bytes(*crc);
    seed.try_into().ok().filter(|_| is_seed)
}

const BASE32: &[u8; 32] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";

const BASE64: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// Groups of bits as letters, the last one filled with zeros.
fn letters(bytes: &[u8], bits: u32, alphabet: &[u8]) -> String {
    let (mut held, mut count, mut text) = (0_u32, 0, String::new());
    let mut put = |held: u32| {
        let index = (held & ((1 << bits) - 1)) as usize;
        text.extend(alphabet.get(index).map(|&letter| char::from(letter)));
    };
    for &byte in bytes {
        held = held << 8 | u32::from(byte);
        count += 8;
        while count >= bits {
            count -= bits;
            put(held >> count);
        }
        held &= (1 << count) - 1;
    }
    if count > 0 {
        put(held << (bits - count));
    }
    text
}

fn base32(bytes: &[u8]) -> String {
    letters(bytes, 5, BASE32)
}

fn base64url(bytes: &[u8]) -> String {
    letters(bytes, 6, BASE64)
}

fn from_base32(text: &str) -> Option<Vec<u8>> {
    let (mut held, mut count, mut bytes) = (0_u32, 0, Vec::new());
    for letter in text.bytes() {
        let value = BASE32.iter().position(|&known| known == letter)?;
        held = held << 5 | u32::try_from(value).ok()?;
        count += 5;
        if count >= 8 {
            count -= 8;
            bytes.push((held >> count & 0xff) as u8);
            held &= (1 << count) - 1;
        }
    }
    Some(bytes)
}

/// CRC-16 of XMODEM, which keys end with.
fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |crc, &byte| {
        (0..8).fold(crc ^ u16::from(byte) << 8, |crc, _| {
            if crc & 0x8000 == 0 { crc << 1 } else { crc << 1 ^ 0x1021 }
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_are_those_of_rfc_4648() {
        assert_eq!((base32(b"foobar"), base32(b"fo")), ("MZXW6YTBOI".into(), "MZXQ".into()));
        assert_eq!((base64url(b"foobar"), base64url(b"fo")), ("Zm9vYmFy".into(), "Zm8".into()));
        assert_eq!(from_base32("MZXW6YTBOI").unwrap(), b"foobar");
        assert_eq!(from_base32("1"), None);
        assert_eq!(crc16(b"123456789"), 0x31c3);
    }

    #[test]
    fn a_seed_is_read_whole_or_not() {
        let mut bytes = vec![SEED | USER >> 5, (USER & 31) << 3];
        bytes.extend([7; 32]);
        bytes.extend(crc16(&bytes).to_le_bytes());
        let seed = base32(&bytes);
        assert!(seed.starts_with("SU"), "{seed}");
        let read = Credentials::read(&format!("----\neyJ0.a.b\n----\n{seed}\n----\n")).unwrap();
        assert_eq!(read.jwt.as_deref(), Some("eyJ0.a.b"));
        assert!(read.public().starts_with('U') && read.public().len() == 56);
        assert_eq!(read.sign("nonce").len(), 86);
        assert!(Credentials::read(&seed).unwrap().jwt.is_none());
        let other = if seed.ends_with('A') { "B" } else { "A" };
        let wrong = format!("{}{other}", &seed[..seed.len() - 1]);
        assert!(Credentials::read(&wrong).is_none());
        assert!(Credentials::read(&seed[..20]).is_none());
    }
}
