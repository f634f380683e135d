//! Hellos in captures that are stored outside the repository, compared with what others have
//! published of the same captures and against tshark.

#[cfg(test)]
mod peers;
#[cfg(test)]
mod reading;

use std::collections::BTreeSet;
use std::path::PathBuf;

use reading::HelloRow;

/// Where `make test-wide` finds captures.
fn data() -> PathBuf {
    let data = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data");
    assert!(data.is_dir(), "{}: no captures there; see CONTRIBUTING.md", data.display());
    data
}

/// Fingerprints that FoxIO (`rust/ja4/src/snapshots`) and nDPI (`tests/cfgs/default/result`)
/// publish with the captures of these names. Each line is all that a capture has.
const PUBLISHED: &[(&str, &[&str])] = &[
    (
        "formats/FoxIO-LLC__chrome-cloudflare-quic-with-secrets.pcapng",
        &["q13d0310h3_55b375c5d22e_cd85d2d88918", "t13d1516h2_8daaf6152771_e5627efa2ab1"],
    ),
    ("malformed/FoxIO-LLC__badcurveball.pcap", &["t13d1615h2_46e7e9700bed_45f260be83e2"]),
    (
        "formats/FoxIO-LLC__tls-handshake.pcapng",
        &[
            "t13d1516h2_8daaf6152771_e5627efa2ab1",
            "t13d1516h1_8daaf6152771_e5627efa2ab1",
            "t13d151400_8daaf6152771_de4a06bb82e3",
            "t13d1517h1_8daaf6152771_6cdcb247c39b",
            "q13d0310h3_55b375c5d22e_cd85d2d88918",
        ],
    ),
    ("services/ntop__quic-v2.pcapng", &["q13d0310h3_55b375c5d22e_0a3b52e28cea"]),
    (
        "services/ntop__quic_frags_ch_in_multiple_packets.pcapng",
        &["q00i0307h4_55b375c5d22e_af0a630e9e67"],
    ),
    ("services/ntop__quic_frags_different_dcid.pcapng", &["q13d0311h3_55b375c5d22e_5a1f323ef56d"]),
    ("services/ntop__quic-29.pcap", &["q13d0512h9_d55e91d5c3b2_cd318bf3b157"]),
    (
        "services/ntop__chrome.pcap",
        &["t13d1516h2_8daaf6152771_e5627efa2ab1", "t13d1516h2_8daaf6152771_9b887d9acb53"],
    ),
    (
        "services/ntop__firefox.pcap",
        &["t13d1813h2_e8a523a41297_84e5d5db657c", "t13d1814h2_e8a523a41297_d267a5f792d4"],
    ),
    (
        "services/ntop__safari.pcap",
        &["t12d200800_2a284e3b0c56_6e2cce1a33e5", "t12d2010h2_2a284e3b0c56_f05fdf8c38a9"],
    ),
    ("services/ntop__443-curl.pcap", &["t12d6707h2_2955a3196ffa_c83f907a73d3"]),
    ("services/ntop__443-firefox.pcap", &["t13d1814h2_29a2cd9e9f10_d267a5f792d4"]),
];

#[test]
#[ignore = "wide: reads 12 captures in ../shared/data"]
fn fingerprints_are_those_that_others_have_published() {
    let data = data();
    for (name, published) in PUBLISHED {
        let seen = reading::hellos(&data.join(name));
        let fingerprints: BTreeSet<_> = seen.iter().map(|seen| seen.ja4.as_str()).collect();
        let published: BTreeSet<_> = published.iter().copied().collect();
        assert_eq!(fingerprints, published, "{name}");
    }
}

/// Hellos that tshark 4.0 does not see, and why. Those over QUIC were decrypted with their
/// authentication tag right.
const UNSEEN: &[(&str, u16, &str)] = &[
    ("ntop__anydesk.pcapng", 43535, "TLS to port 80, which tshark reads as HTTP"),
    ("ntop__ookla.pcap", 35830, "TLS to port 8080, which tshark reads as HTTP"),
    ("ntop__quic-forcing-vn-with-data.pcapng", 55523, "tshark stops at the version negotiation"),
    ("zeek__quicdoq.pcap", 46907, "QUIC to port 853, which tshark reads as DTLS"),
];

/// What of tshark's hellos is not looked for here: those behind other words of a stream
/// (STARTTLS, proxies, PostgreSQL), second ones after a HelloRetryRequest, and those of versions
/// of QUIC that are not read. So what is seen here must all be seen there, and of what is seen
/// there most here.
#[test]
#[ignore = "wide: reads the captures of services and formats in ../shared/data, with tshark"]
fn hellos_are_those_that_tshark_sees() {
    let data = data();
    let (mut both, mut there, mut only_here) = (0, 0, Vec::new());
    for folder in ["services", "formats"] {
        for path in reading::captures(&data.join(folder)) {
            let name = path.file_name().unwrap().to_string_lossy();
            let ours: BTreeSet<HelloRow> = reading::hellos(&path).into_iter().collect();
            if ours.is_empty() && !peers::is_about_hellos(&name) {
                continue;
            }
            let theirs = peers::hellos(&path);
            both += ours.intersection(&theirs).count();
            there += theirs.len();
            let is_unseen = |seen: &&HelloRow| {
                UNSEEN.iter().any(|(file, port, _)| *file == name && *port == seen.source_port)
            };
            let more = ours.difference(&theirs).filter(|seen| !is_unseen(seen));
            only_here.extend(more.map(|seen| format!("{name}: {seen:?}")));
        }
    }
    assert!(only_here.is_empty(), "{only_here:#?}");
    assert!(both * 100 >= there * 85, "{both} of {there}");
}
