//! A flow as people name it.

use packet::community_id::parse_community_id;
use packet::{FlowKey, Protocol};
use packetlog::log::FlowQuery;

/// A Community ID, or protocol, address, port, address and port.
#[must_use]
pub fn flow_named(text: &str) -> Option<FlowQuery> {
    if let Some(digest) = parse_community_id(text) {
        return Some(FlowQuery::CommunityId(digest));
    }
    let parts: Vec<&str> = text.split(',').map(str::trim).collect();
    let &[protocol, source, source_port, destination, destination_port] = parts.as_slice() else {
        return None;
    };
    let by_name = (0..=u8::MAX).map(Protocol).find(|known| known.name() == Some(protocol));
    let protocol = by_name.or_else(|| protocol.parse().ok().map(Protocol))?;
    let (source, destination) = (source.parse().ok()?, destination.parse().ok()?);
    let (source_port, destination_port) =
        (source_port.parse().ok()?, destination_port.parse().ok()?);
    let (key, _) =
        FlowKey::from_tuple(source, destination, source_port, destination_port, protocol);
    Some(FlowQuery::Key(key))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flow_is_named_by_its_community_id_or_its_ends() {
        assert!(matches!(
            flow_named("1:wCb3OG7yAFWelaUydu0D+125CLM="),
            Some(FlowQuery::CommunityId(_))
        ));
        let forth = flow_named("tcp,192.0.2.1,50000,198.51.100.2,443").unwrap();
        let back = flow_named("6, 198.51.100.2, 443, 192.0.2.1, 50000").unwrap();
        assert_eq!(forth, back);
        for text in ["", "1:short", "tcp,192.0.2.1,50000", "tcp,a,1,b,2", "xyz,::1,1,::2,2"] {
            assert_eq!(flow_named(text), None, "{text}");
        }
    }
}
