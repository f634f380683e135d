//! ClientHellos: whatever bytes say, they are read or refused; what is read of a part agrees with
//! what is read of the whole, with and without records around it.
//!
//! Input: two bytes that say where it is cut, then a handshake message or a TCP stream.
#![no_main]

use fuzz::input::Input;
use fuzz::promises::assert_one_line;
use libfuzzer_sys::fuzz_target;
use names::tls::{Hello, Ja4, Progress, Transport, begins_like_hello, handshake};

fuzz_target!(|bytes: &[u8]| {
    let mut input = Input::new(bytes);
    let cut = usize::from(input.u16());
    let bytes = input.rest();
    let part = &bytes[..cut.min(bytes.len())];
    hello(bytes, part);
    stream(bytes, part);
});

fn hello(bytes: &[u8], part: &[u8]) {
    let Ok(hello) = Hello::new(bytes) else { return };
    assert_one_line(&hello);
    let extensions: usize = hello.extensions().map(|one| one.data.len() + 4).sum();
    let lists = hello.cipher_suites().count() * 2 + extensions;
    assert!(lists <= bytes.len(), "{lists} bytes of {}", bytes.len());
    assert!(hello.server_name().is_none_or(|name| (1..=255).contains(&name.len())));
    assert!(hello.server_name().is_none() || hello.has_server_name());
    for (transport, letter) in [(Transport::Tcp, 't'), (Transport::Quic, 'q')] {
        let ja4 = Ja4::of(&hello, transport);
        assert_eq!(ja4.is_none(), hello.is_cut());
        assert!(ja4.is_none_or(|ja4| ja4.as_str().len() == 36 && ja4.as_str().starts_with(letter)));
    }
    // A part of what is no fault is none.
    let less = Hello::new(part).expect("a part of a hello is one");
    assert!(less.is_cut() || !hello.is_cut());
    assert!(less.server_name().is_none() || less.server_name() == hello.server_name());
    assert!(less.cipher_suites().zip(hello.cipher_suites()).all(|(a, b)| a == b));
    assert!(less.extensions().zip(hello.extensions()).all(|(a, b)| a == b));
}

fn stream(bytes: &[u8], part: &[u8]) {
    let (mut all_room, mut part_room) = (vec![0; bytes.len()], vec![0; part.len()]);
    let (all, less) = (handshake(bytes, &mut all_room), handshake(part, &mut part_room));
    assert!(all.bytes.starts_with(less.bytes));
    match less.progress {
        // What more bytes may change.
        Progress::NeedMore(wanted) => {
            assert!(wanted >= 4 && less.bytes.len() < wanted);
            assert!(part.is_empty() || begins_like_hello(part) || less.bytes.is_empty());
        }
        progress => assert_eq!(all.progress, progress),
    }
    if all.progress == Progress::Complete {
        assert!(begins_like_hello(bytes));
        assert!(
            Hello::new(all.bytes).is_ok_and(|hello| !hello.is_cut()) || {
                Hello::new(all.bytes).is_err()
            }
        );
    }
    // With less room there is less of it.
    let mut room = vec![0; part.len()];
    let least = handshake(bytes, &mut room);
    assert!(all.bytes.starts_with(least.bytes));
}
