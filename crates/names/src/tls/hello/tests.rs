use proptest::prelude::*;

use super::*;
use crate::tls::made::{HelloSpec, alpn, list, server_name, vector, versions};

fn read(made: &HelloSpec) -> String {
    Hello::new(&made.message()).unwrap().to_string()
}

#[test]
fn a_hello_says_what_was_put_into_it() {
    let made = HelloSpec::default();
    let message = made.message();
    let hello = Hello::new(&message).unwrap();
    assert_eq!(
        hello.to_string(),
        "client hello, version 0x0304, name example.com, alpn h2 http/1.1"
    );
    assert_eq!(hello.server_name(), Some(&b"example.com"[..]));
    assert_eq!((hello.legacy_version(), hello.version()), (0x0303, 0x0304));
    assert_eq!(hello.cipher_suites().collect::<Vec<_>>(), made.cipher_suites);
    assert_eq!(hello.signature_algorithms().count(), 8);
    let kinds: Vec<_> = hello.extensions().map(|extension| extension.kind).collect();
    assert_eq!(kinds, made.extensions.iter().map(|(kind, _)| *kind).collect::<Vec<_>>());
    let seen = hello.supported_versions().unwrap().collect::<Vec<_>>();
    assert_eq!(seen, [0x6a6a, 0x0304, 0x0303]);
    assert!(!hello.is_cut() && !hello.ech_offered());
    assert_eq!(hello.fault(), None);
}

/// RFC 9001 §A.2.
#[test]
fn the_hello_of_rfc_9001_is_read() {
    let frame = crate::quic::vectors::client_crypto_frame();
    let hello = Hello::new(&frame[4..]).unwrap();
    assert_eq!(hello.to_string(), "client hello, version 0x0304, name example.com, alpn alpn");
    assert_eq!(hello.cipher_suites().collect::<Vec<_>>(), [0x1301, 0x1302]);
    let kinds: Vec<_> = hello.extensions().map(|extension| extension.kind).collect();
    assert_eq!(kinds, [0, 0xff01, 10, 16, 5, 51, 43, 13, 45, 28, 57]);
    let last = hello.extensions().last().unwrap();
    assert_eq!((last.kind, last.data.len()), (57, 50));
}

#[test]
fn a_hello_of_tls_1_0_needs_no_extensions() {
    let made = HelloSpec { version: 0x0301, cipher_suites: vec![5, 4], extensions: Vec::new() };
    let message = made.message();
    let hello = Hello::new(&message).unwrap();
    assert_eq!(hello.to_string(), "client hello, version 0x0301");
    assert_eq!((hello.extensions().count(), hello.has_server_name()), (0, false));
    assert_eq!(Hello::new(&message[..message.len() - 1]).unwrap().to_string(), {
        "client hello, version 0x0301, cut"
    });
}

#[test]
fn grease_has_sixteen_values() {
    let values: Vec<_> = (0..=u16::MAX).filter(|&value| is_grease(value)).collect();
    assert_eq!(values.len(), 16);
    assert_eq!((values[0], values[1], values[15]), (0x0a0a, 0x1a1a, 0xfafa));
    let only_grease = HelloSpec::default().with(43, Some(versions(&[0x1a1a])));
    assert_eq!(Hello::new(&only_grease.message()).unwrap().version(), 0);
}

#[test]
fn ech_is_offered_by_its_extension() {
    let made = HelloSpec::default().with(0xfe0d, Some(vec![0; 8]));
    assert!(read(&made).ends_with(", ech"));
}

#[test]
fn what_is_no_hello_is_refused() {
    assert_eq!(Hello::new(&[2, 0, 0, 0]).unwrap_err(), Fault::NotAHello);
    let mut message = HelloSpec::default().message();
    // The length of the session identifier reaches past the message.
    message[38] = 255;
    message.truncate(60);
    message[1..4].copy_from_slice(&[0, 0, 56]);
    assert_eq!(Hello::new(&message).unwrap_err(), Fault::LengthPastEnd);
}

#[test]
fn an_extension_past_the_list_of_extensions_is_refused() {
    let mut message = HelloSpec::default().with(0xfe0d, Some(vec![0; 8])).message();
    let len = message.len();
    // The length of the last extension.
    message[len - 9] = 9;
    assert_eq!(Hello::new(&message).unwrap_err(), Fault::LengthPastEnd);
    message[len - 9] = 7;
    assert_eq!(Hello::new(&message).unwrap_err(), Fault::LengthPastEnd, "a byte left over");
}

#[test]
fn a_fault_in_one_extension_leaves_the_others() {
    let long = server_name(&[b'a'; 256]);
    let cases: [(u16, Vec<u8>, Fault); 14] = [
        (0, vec![], Fault::ServerNameWrong),
        (0, vec![0, 9, 0, 0, 1, b'a'], Fault::ServerNameWrong),
        (0, vector(&[1, 0, 1, b'a']), Fault::ServerNameWrong),
        (0, vector(&[0, 0, 9, b'a']), Fault::ServerNameWrong),
        (0, server_name(b""), Fault::NameEmpty),
        (0, long, Fault::NameTooLong),
        (16, vec![], Fault::AlpnWrong),
        (16, vec![0, 9, 2, b'h', b'3'], Fault::AlpnWrong),
        (16, vec![0, 3, 9, b'h', b'3'], Fault::AlpnWrong),
        (16, alpn(&[b"h3", b"", b"h2"]), Fault::AlpnWrong),
        (43, vec![2, 3, 4, 3], Fault::VersionsWrong),
        (43, vec![], Fault::VersionsWrong),
        (13, vec![0, 3, 4, 3, 1], Fault::SignatureAlgorithmsWrong),
        (13, list(&[]), Fault::SignatureAlgorithmsWrong),
    ];
    for (kind, data, fault) in cases {
        let message = HelloSpec::default().with(kind, Some(data.clone())).message();
        let hello = Hello::new(&message).unwrap();
        assert_eq!(hello.fault(), Some(fault), "{kind}: {data:?}");
        assert_eq!(hello.server_name().is_some(), kind != 0, "{kind}: {data:?}");
        assert!(hello.has_server_name());
        assert_eq!(hello.cipher_suites().count(), 16);
    }
}

#[test]
fn names_of_up_to_255_bytes_and_other_kinds_of_names_pass() {
    let name = [b'a'; NAME_LEN_MAX];
    let message = HelloSpec::default().with(0, Some(server_name(&name))).message();
    assert_eq!(Hello::new(&message).unwrap().server_name(), Some(&name[..]));
    let second = vector(&[&[7, 0, 1, 9, 0], &vector(b"b.example")[..]].concat());
    let message = HelloSpec::default().with(0, Some(second)).message();
    assert_eq!(Hello::new(&message).unwrap().server_name(), Some(&b"b.example"[..]));
    let odd = server_name(b"a\n\xff.example");
    assert!(read(&HelloSpec::default().with(0, Some(odd))).contains("name a\\n\\xff.example"));
}

#[test]
fn of_two_extensions_the_first_one_holds() {
    let mut made = HelloSpec::default();
    made.extensions.push((0, server_name(b"other.example")));
    let message = made.message();
    let hello = Hello::new(&message).unwrap();
    assert_eq!(hello.server_name(), Some(&b"example.com"[..]));
    assert_eq!(hello.fault(), Some(Fault::ExtensionTwice));
}

#[test]
fn bytes_behind_the_message_are_not_looked_at_and_within_it_are_named() {
    let mut message = HelloSpec::default().message();
    message.extend([0; 5]);
    assert_eq!(Hello::new(&message).unwrap().fault(), None);
    let len = u16::try_from(message.len() - 4).unwrap();
    message[2..4].copy_from_slice(&len.to_be_bytes());
    assert_eq!(Hello::new(&message).unwrap().fault(), Some(Fault::BytesLeftOver));
}

proptest! {
    #[test]
    fn a_prefix_says_less_and_nothing_else(cut in 0_usize..600) {
        let message = HelloSpec::default().message();
        let whole = Hello::new(&message).unwrap();
        let part = Hello::new(&message[..cut.min(message.len())]).unwrap();
        prop_assert_eq!(part.is_cut(), cut < message.len());
        prop_assert!(part.server_name().is_none() || part.server_name() == whole.server_name());
        let kinds = part.extensions().zip(whole.extensions());
        prop_assert!(kinds.into_iter().all(|(a, b)| a == b));
        let suites = part.cipher_suites().zip(whole.cipher_suites());
        prop_assert!(suites.into_iter().all(|(a, b)| a == b));
    }

    #[test]
    fn any_bytes_are_read_or_refused(
        bytes in prop::collection::vec(any::<u8>(), 0..200),
        place in 0_usize..400, byte: u8,
    ) {
        let mut message = HelloSpec::default().message();
        if let Some(target) = message.get_mut(place) {
            *target = byte;
        }
        for message in [message, bytes.clone(), [&[1, 0, 0, 190][..], &bytes].concat()] {
            if let Ok(hello) = Hello::new(&message) {
                let _ = hello.to_string();
                let len: usize = hello.extensions().map(|one| one.data.len() + 4).sum();
                prop_assert!(len <= message.len());
                prop_assert!(hello.server_name().is_none_or(|name| !name.is_empty()));
            }
        }
    }
}
