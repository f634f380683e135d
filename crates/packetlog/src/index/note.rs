//! What was found of a packet, as an option of its block.

use super::ENTERPRISE;
use crate::judged::{Basis, PacketVerdict};

/// Class and confidence of a stored packet.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Note {
    /// Its class.
    pub class: u16,
    /// Probability of the class, in steps of 1/65535.
    pub confidence: f32,
    /// What that stands on.
    pub basis: Basis,
}

impl Note {
    /// First bytes of the value: what it is, and its version.
    const MAGIC: [u8; 2] = *b"W1";
    /// Bytes of the option, padded.
    pub(crate) const OPTION_LEN: usize = 16;

    /// Of a packet that carries no note: the first class.
    pub const FIRST_CLASS: Self = Self { class: 0, confidence: 0.0, basis: Basis::Packet };

    /// The option, as a pcapng block holds it.
    #[inline]
    #[must_use]
    pub(crate) fn option(judged: &PacketVerdict) -> [u8; Self::OPTION_LEN] {
        let [c0, c1] = judged.class.to_le_bytes();
        // A confidence that is no number becomes 0.
        let steps = (judged.confidence.clamp(0.0, 1.0) * 65_535.0).round() as u16;
        let [s0, s1] = steps.to_le_bytes();
        let [e0, e1, e2, e3] = ENTERPRISE.to_le_bytes();
        let [m0, m1] = Self::MAGIC;
        let basis = match judged.basis {
            Basis::Flow => 0,
            Basis::Packet => 1,
        };
        // 2989: bytes that may be copied; 12: the number, then what is ours.
        let [k0, k1] = 2989_u16.to_le_bytes();
        [k0, k1, 12, 0, e0, e1, e2, e3, m0, m1, basis, 0, c0, c1, s0, s1]
    }

    /// From the value of a custom option of [`ENTERPRISE`]; `None` where it is none of ours.
    #[must_use]
    pub fn read(value: &[u8]) -> Option<Self> {
        let &[m0, m1, basis, _, c0, c1, s0, s1] = value.first_chunk()?;
        let basis = match basis {
            0 => Basis::Flow,
            1 => Basis::Packet,
            _ => return None,
        };
        let confidence = f32::from(u16::from_le_bytes([s0, s1])) / 65_535.0;
        let class = u16::from_le_bytes([c0, c1]);
        ([m0, m1] == Self::MAGIC).then_some(Self { class, confidence, basis })
    }

    /// The same as a comment that people read.
    pub(crate) fn text(judged: &PacketVerdict, class: &str) -> String {
        let basis = match judged.basis {
            Basis::Flow => "flow",
            Basis::Packet => "packet",
        };
        let (number, confidence) = (judged.class, judged.confidence);
        format!("class={number} confidence={confidence:.4} basis={basis} name={class}")
    }

    /// From such a comment.
    #[must_use]
    pub fn from_text(text: &str) -> Option<Self> {
        let rest = text.strip_prefix("class=")?;
        let (class, rest) = rest.split_once(" confidence=")?;
        let (confidence, rest) = rest.split_once(" basis=")?;
        let (basis, _) = rest.split_once(" name=")?;
        let basis = match basis {
            "flow" => Basis::Flow,
            "packet" => Basis::Packet,
            _ => return None,
        };
        Some(Self { class: class.parse().ok()?, confidence: confidence.parse().ok()?, basis })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(class: u16, confidence: f32, basis: Basis) -> PacketVerdict {
        PacketVerdict { class, confidence, basis, flow: None }
    }

    #[test]
    fn a_note_is_read_as_it_was_written() {
        for basis in [Basis::Flow, Basis::Packet] {
            let judged = judged(700, 0.25, basis);
            let option = Note::option(&judged);
            let note = Note::read(&option[8..]).unwrap();
            assert_eq!((note.class, note.basis), (700, basis));
            assert!((note.confidence - 0.25).abs() < 1e-5);
            assert_eq!(Note::from_text(&Note::text(&judged, "a b")).unwrap().class, 700);
            assert_eq!(Note::from_text(&Note::text(&judged, "a b")).unwrap().basis, basis);
        }
    }

    #[test]
    fn what_is_no_note_is_none() {
        assert_eq!(Note::read(b"W1"), None);
        assert_eq!(Note::read(b"X1\0\0\0\0\0\0"), None);
        assert_eq!(Note::read(b"W1\x02\0\0\0\0\0"), None);
        assert_eq!(Note::from_text("class=1"), None);
        let odd = Note::option(&judged(1, f32::NAN, Basis::Flow));
        assert_eq!(Note::read(&odd[8..]).unwrap().confidence, 0.0);
    }
}
