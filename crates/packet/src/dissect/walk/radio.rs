//! Steps of 802.11, and of what radios write before it.

use super::{Next, Walk, first_of};
use crate::layers::Layers;
use crate::link::LinkType;
use crate::malformed::Malformed;
use crate::wire::ppi::{self, Ppi};
use crate::wire::prism::{self, Prism};
use crate::wire::radiotap::{self, Radiotap};
use crate::wire::wlan::{self, Wlan};

impl Walk<'_> {
    pub(super) fn radiotap(&mut self) -> Next {
        let view = match Radiotap::new(self.captured()) {
            Ok(view) => view,
            Err(cause @ Malformed::RadiotapHeaderWrong) => return self.fault(cause),
            Err(cause) => return self.missing_some(radiotap::HEADER_LEN, cause),
        };
        self.pass(view.header_len());
        if view.has_check_sequence() {
            self.narrow(self.remaining().saturating_sub(wlan::CHECK_SEQUENCE_LEN));
        }
        if view.is_padded() { Next::WlanPadded } else { Next::Wlan }
    }

    pub(super) fn prism(&mut self, is_avs: bool) -> Next {
        let bytes = self.captured();
        let view = if is_avs { Prism::new_avs(bytes) } else { Prism::new(bytes) };
        match view {
            Ok(view) => {
                self.pass(view.header_len());
                Next::Wlan
            }
            Err(cause) => self.missing_some(prism::AVS_HEADER_LEN, cause),
        }
    }

    pub(super) fn ppi(&mut self) -> Next {
        match Ppi::new(self.captured()) {
            Ok(view) => {
                self.pass(view.header_len());
                u16::try_from(view.link()).map_or(Next::Stop, |link| first_of(LinkType(link)))
            }
            Err(cause) => self.missing_some(ppi::HEADER_LEN, cause),
        }
    }

    /// Data frames lead on to LLC; what is protected, no first fragment or no data does not.
    pub(super) fn wlan(&mut self, is_padded: bool) -> Next {
        let bytes = self.captured();
        let view = match Wlan::new(bytes) {
            Ok(view) => view,
            Err(cause) => return self.missing(Wlan::len_needed(bytes), cause),
        };
        if !view.has_data() {
            return Next::Stop;
        }
        let header_len = view.header_len();
        self.pass(if is_padded { header_len.next_multiple_of(4) } else { header_len });
        if self.remaining() == 0 {
            return Next::Stop;
        }
        if view.is_protected() {
            self.layers.flags |= Layers::ENCRYPTED;
            return Next::Stop;
        }
        if view.fragment_number() != 0 {
            return Next::Stop;
        }
        self.is_open |= view.more_fragments();
        if view.is_aggregate() { self.subframe() } else { self.behind_wlan(view) }
    }

    /// The first subframe of an A-MSDU.
    fn subframe(&mut self) -> Next {
        let bytes = self.captured();
        let Some(header) = bytes.first_chunk::<{ wlan::SUBFRAME_HEADER_LEN }>() else {
            return self.missing(wlan::SUBFRAME_HEADER_LEN, Malformed::WlanHeaderShort);
        };
        let [.., high, low] = *header;
        self.pass(wlan::SUBFRAME_HEADER_LEN);
        self.narrow(usize::from(u16::from_be_bytes([high, low])));
        Next::Llc
    }

    fn behind_wlan(&mut self, view: Wlan<'_>) -> Next {
        if !view.may_have_mesh_control() {
            return Next::Llc;
        }
        match self.captured().first() {
            None => self.missing(1, Malformed::WlanHeaderShort),
            Some(&flags) => {
                if view.has_mesh_control(flags) {
                    self.pass(wlan::mesh_control_len(flags));
                }
                Next::Llc
            }
        }
    }
}
