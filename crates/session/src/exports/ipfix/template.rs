//! Templates: which information elements a record has (RFC 7011, section 3.4).
//!
//! A template for each kind of flow, so that no field stands for something that was not measured:
//! the kinds are bits of the template's number.

/// The number of elements that go the other way (RFC 5103, section 6.1).
pub(super) const REVERSE: u32 = 29_305;

/// The first number that a template may have.
const TEMPLATE_MIN: u16 = 256;

/// The length of a field that says its own.
const VARIABLE: u16 = u16::MAX;

/// A field of a record; values are written in the order of a template's fields.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Field {
    SourceAddress,
    DestinationAddress,
    SourcePort,
    DestinationPort,
    IcmpTypeCode,
    Protocol,
    Octets,
    Packets,
    TcpFlags,
    Start,
    End,
    EndReason,
    Vlan,
    SourceMac,
    DestinationMac,
    Direction,
    ReverseOctets,
    ReversePackets,
    ReverseTcpFlags,
    ReverseStart,
    ReverseEnd,
    CommunityId,
    Label,
    Confidence,
}

/// What kind of flow a template is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Kind {
    pub(super) is_ipv6: bool,
    pub(super) is_icmp: bool,
    pub(super) has_vlan: bool,
    /// Both directions in one record.
    pub(super) has_reverse: bool,
    pub(super) has_macs: bool,
}

/// What all templates of an export have.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Extras {
    /// The number of who defines private elements.
    pub(super) enterprise: Option<u32>,
    /// Whether flows have what a model says.
    pub(super) has_verdict: bool,
}

impl Kind {
    /// Every kind; those with both directions where `is_biflow`, with MAC addresses where rows
    /// have them.
    pub(super) fn all(is_biflow: bool, has_macs: bool) -> impl Iterator<Item = Self> {
        let kinds = (0..32).map(|bits: u16| Self {
            is_ipv6: bits & 1 != 0,
            is_icmp: bits & 2 != 0,
            has_vlan: bits & 4 != 0,
            has_reverse: bits & 8 != 0,
            has_macs: bits & 16 != 0,
        });
        kinds.filter(move |kind| kind.has_reverse <= is_biflow && kind.has_macs <= has_macs)
    }

    /// The template's number.
    pub(super) fn id(self) -> u16 {
        let Self { is_ipv6, is_icmp, has_vlan, has_reverse, has_macs } = self;
        let bits = [is_ipv6, is_icmp, has_vlan, has_reverse, has_macs].into_iter().enumerate();
        TEMPLATE_MIN + bits.map(|(place, is_set)| u16::from(is_set) << place).sum::<u16>()
    }

    /// The fields of a record.
    pub(super) fn fields(self, extras: Extras) -> Vec<Field> {
        use Field as F;
        let mut fields = vec![F::SourceAddress, F::DestinationAddress];
        match self.is_icmp {
            true => fields.push(F::IcmpTypeCode),
            false => fields.extend([F::SourcePort, F::DestinationPort]),
        }
        fields.extend([F::Protocol, F::Octets, F::Packets, F::TcpFlags, F::Start, F::End]);
        fields.push(F::EndReason);
        fields.extend(self.has_vlan.then_some(F::Vlan));
        if self.has_macs {
            fields.extend([F::SourceMac, F::DestinationMac]);
        }
        if self.has_reverse {
            fields.extend([F::Direction, F::ReverseOctets, F::ReversePackets]);
            fields.extend([F::ReverseTcpFlags, F::ReverseStart, F::ReverseEnd]);
        }
        if extras.enterprise.is_some() {
            fields.push(F::CommunityId);
            fields.extend(
                extras.has_verdict.then_some([F::Label, F::Confidence]).into_iter().flatten(),
            );
        }
        fields
    }

    /// Appends the template record.
    pub(super) fn push(self, bytes: &mut Vec<u8>, extras: Extras) {
        let fields = self.fields(extras);
        bytes.extend(self.id().to_be_bytes());
        bytes.extend((fields.len() as u16).to_be_bytes());
        for field in fields {
            let (number, len, owner) = self.specifier(field, extras.enterprise);
            let bit = if owner.is_some() { 1 << 15 } else { 0 };
            bytes.extend((number | bit).to_be_bytes());
            bytes.extend(len.to_be_bytes());
            bytes.extend(owner.iter().flat_map(|owner| owner.to_be_bytes()));
        }
    }

    /// Number and length of an element by IANA's registry, and whose it is where it is not IANA's.
    const fn specifier(self, field: Field, enterprise: Option<u32>) -> (u16, u16, Option<u32>) {
        let address = if self.is_ipv6 { 16 } else { 4 };
        let reverse = Some(REVERSE);
        match field {
            Field::SourceAddress => (if self.is_ipv6 { 27 } else { 8 }, address, None),
            Field::DestinationAddress => (if self.is_ipv6 { 28 } else { 12 }, address, None),
            Field::SourcePort => (7, 2, None),
            Field::DestinationPort => (11, 2, None),
            Field::IcmpTypeCode => (if self.is_ipv6 { 139 } else { 32 }, 2, None),
            Field::Protocol => (4, 1, None),
            Field::Octets => (1, 8, None),
            Field::Packets => (2, 8, None),
            Field::TcpFlags => (6, 2, None),
            Field::Start => (152, 8, None),
            Field::End => (153, 8, None),
            Field::EndReason => (136, 1, None),
            Field::Vlan => (58, 2, None),
            Field::SourceMac => (56, 6, None),
            Field::DestinationMac => (80, 6, None),
            Field::Direction => (239, 1, None),
            Field::ReverseOctets => (1, 8, reverse),
            Field::ReversePackets => (2, 8, reverse),
            Field::ReverseTcpFlags => (6, 2, reverse),
            Field::ReverseStart => (152, 8, reverse),
            Field::ReverseEnd => (153, 8, reverse),
            Field::CommunityId => (1, VARIABLE, enterprise),
            Field::Label => (2, VARIABLE, enterprise),
            Field::Confidence => (3, 8, enterprise),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_has_a_number_and_as_many_fields_as_it_says() {
        let extras = Extras { enterprise: Some(32_473), has_verdict: true };
        let ids: Vec<_> = Kind::all(true, true).map(Kind::id).collect();
        assert_eq!(ids, (256..288).collect::<Vec<_>>());
        for kind in Kind::all(true, true) {
            let mut bytes = Vec::new();
            kind.push(&mut bytes, extras);
            let mut rest = bytes.get(4..).unwrap();
            let mut count = 0;
            while let [high, _, _, _, ..] = rest {
                rest = rest.get(if high & 0x80 != 0 { 8 } else { 4 }..).unwrap();
                count += 1;
            }
            assert_eq!(bytes.get(2..4).unwrap(), u16::to_be_bytes(count));
        }
    }

    #[test]
    fn without_a_number_of_ones_own_there_is_no_private_element() {
        for kind in Kind::all(false, true) {
            let mut bytes = Vec::new();
            kind.push(&mut bytes, Extras { enterprise: None, has_verdict: true });
            assert!(bytes.chunks(4).skip(1).all(|field| field[0] & 0x80 == 0));
        }
    }
}
