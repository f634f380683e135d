//! One file per protocol, each in the same order: the header described,
//! offsets, a checked view over borrowed bytes, a small owned value, one line
//! of text, tests.
//!
//! A view takes bytes that start at its header and end where the enclosing
//! layer ends, as far as they were captured. Its one constructor checks what
//! the accessors need, so that none of them can panic. A value holds only what
//! may be emitted, and `parse` of what it emits gives it back.

pub mod accurate_ecn;
pub mod arp;
pub mod checksum;
pub mod cooked;
pub mod dns;
pub mod erspan;
pub mod ethernet;
pub mod geneve;
pub mod gre;
pub mod gtpu;
pub mod icmp;
pub mod icmpv6;
pub mod ipv4;
pub mod ipv4_options;
pub mod ipv6;
pub mod ipv6_extension;
pub mod llc;
pub mod loopback;
pub mod macsec;
pub mod mpls;
pub mod nflog;
pub mod ppi;
pub mod ppp;
pub mod pppoe;
pub mod prism;
pub mod quic;
pub mod radiotap;
pub mod sctp;
pub mod tcp;
pub mod tcp_options;
pub mod udp;
pub mod vlan;
pub mod vxlan;
pub mod wlan;
