//! What each chunk begins with: its section, the classes, the interfaces.

use packet::LinkType;
use packet::file::{Interface, InterfaceStatistics, PcapngEncoder, Section};

use crate::index::ENTERPRISE;
use crate::section::{ClassInfo, section_text};

/// Bytes of a block of statistics about an interface, at most.
const STATISTICS_LEN: usize = 24 + 7 * 12 + 4;
/// Interfaces a recorder knows; later ones share the last.
const INTERFACE_COUNT_MAX: usize = 64;
/// An interface as the recorder knows it.
#[derive(Debug)]
struct KnownInterface {
    /// Its number with the source of packets.
    index: u16,
    interface: Interface,
    statistics: Option<InterfaceStatistics>,
}

/// What each chunk begins and ends with.
#[derive(Debug)]
pub(super) struct Head {
    section: Section,
    classes: Vec<ClassInfo>,
    mode: (u64, String),
    encoder: PcapngEncoder,
    known: Vec<KnownInterface>,
    /// The blocks, encoded.
    blocks: Vec<u8>,
    /// Bytes that the blocks may have.
    len_max: usize,
    /// The number in the section of each interface of the source, plus one.
    numbers: Vec<u32>,
}

impl Head {
    pub(super) fn new(section: &Section, classes: &[ClassInfo], len_max: usize) -> Self {
        let mut head = Self {
            section: section.clone(),
            classes: classes.to_vec(),
            mode: (0, String::new()),
            encoder: PcapngEncoder::new(),
            known: Vec::new(),
            blocks: Vec::new(),
            len_max,
            numbers: Vec::new(),
        };
        head.encode();
        head
    }

    pub(super) fn blocks(&self) -> &[u8] {
        &self.blocks
    }

    pub(super) fn interface_count(&self) -> usize {
        self.known.len()
    }

    /// Bytes that statistics take at a chunk's end.
    pub(super) fn statistics_len(&self) -> usize {
        self.known.len() * STATISTICS_LEN
    }

    pub(super) fn set_mode(&mut self, generation: u64, name: &str) {
        self.mode = (generation, name.to_owned());
        self.encode();
    }

    /// The number in the section of the source's interface `index`.
    #[inline]
    pub(super) fn number(&self, index: u16) -> Option<u32> {
        self.numbers.get(usize::from(index)).and_then(|number| number.checked_sub(1))
    }

    /// Makes an interface known; returns its block, to be put into chunks that are open.
    pub(super) fn add(&mut self, index: u16, interface: &Interface) -> &[u8] {
        let place = usize::from(index);
        if self.numbers.len() <= place {
            self.numbers.resize(place + 1, 0);
        }
        if self.known.len() >= INTERFACE_COUNT_MAX {
            if let Some(number) = self.numbers.get_mut(place) {
                *number = INTERFACE_COUNT_MAX as u32;
            }
            return &[];
        }
        let start = self.blocks.len();
        let mut plain = Interface { offset_seconds: 0, statistics: None, ..interface.clone() };
        let mut number = self.encode_interface(&plain);
        if self.blocks.len() > self.len_max {
            // Texts longer than a chunk can carry: the name is enough.
            self.blocks.truncate(start);
            let name = plain.name.get(..plain.name.floor_char_boundary(64)).unwrap_or_default();
            plain = Interface { name: name.to_owned(), link: plain.link, ..Interface::default() };
            number = self.encode_interface(&plain);
        }
        if let (Some(place), Some(number)) = (self.numbers.get_mut(place), number) {
            *place = number + 1;
        }
        self.known.push(KnownInterface { index, interface: plain, statistics: None });
        self.blocks.get(start..).unwrap_or_default()
    }

    fn encode_interface(&mut self, interface: &Interface) -> Option<u32> {
        // Frames were cut by the policy, not at one length, so no snaplen is told.
        let interface = Interface { snaplen: 0, ..interface.clone() };
        self.encoder.interface(&mut self.blocks, &interface).ok()
    }

    pub(super) fn set_statistics(&mut self, index: u16, statistics: &InterfaceStatistics) {
        if let Some(known) = self.known.iter_mut().find(|known| known.index == index) {
            known.statistics = Some(*statistics);
        }
    }

    /// Appends what was counted on the interfaces.
    pub(super) fn put_statistics(&mut self, out: &mut Vec<u8>, interface_count: u32) {
        for (number, known) in (0..interface_count).zip(&self.known) {
            if let Some(statistics) = &known.statistics {
                // The number is one that the encoder gave out.
                let _ = self.encoder.statistics(out, number, statistics);
            }
        }
    }

    fn encode(&mut self) {
        let mut section = self.section.clone();
        let (generation, mode) = &self.mode;
        if !mode.is_empty() {
            section.comments.texts.push(format!("mode {mode} (generation {generation})"));
        }
        let text = section_text(&self.mode, &self.classes);
        self.blocks.clear();
        self.encoder.section_with(&mut self.blocks, &section, Some((ENTERPRISE, &text)));
        if self.blocks.len() > self.len_max / 2 {
            // A section's texts may be longer than a chunk: what the log needs stays.
            self.blocks.clear();
            let plain = Section::default();
            self.encoder.section_with(&mut self.blocks, &plain, Some((ENTERPRISE, &text)));
        }
        let known = std::mem::take(&mut self.known);
        for known in &known {
            self.encode_interface(&known.interface);
        }
        self.known = known;
    }
}

/// An interface of which nothing is known but what its frames are.
pub(super) fn nameless(link: LinkType) -> Interface {
    Interface { link, ..Interface::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interfaces_beyond_the_limit_share_the_last_and_long_texts_are_left_out() {
        let mut head = Head::new(&Section::default(), &[], 16 << 10);
        let long =
            Interface { name: "x".into(), description: "d".repeat(4000), ..nameless(LinkType(1)) };
        for index in 0..300 {
            head.add(index, &long);
        }
        assert_eq!(head.interface_count(), INTERFACE_COUNT_MAX);
        assert_eq!((head.number(3), head.number(299)), (Some(3), Some(63)));
        assert_eq!(head.number(300), None);
        assert!(head.blocks().len() < 32 << 10);
        let len = head.blocks().len();
        head.set_mode(1, "m");
        assert!(head.blocks().len() > len, "encoded anew, with the same interfaces");
        assert_eq!(head.encoder.interface(&mut Vec::new(), &long), Ok(64));
    }
}
