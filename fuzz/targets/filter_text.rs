//! Filter expressions: libpcap refuses them or compiles them, and what it
//! compiled runs over any frame. Without libpcap nothing is tried.
//!
//! Input: link type, number of bytes of the frame, the frame, the expression.
#![no_main]

use std::hint::black_box;
use std::sync::OnceLock;

use capture::Filter;
use fuzz::expression::expression;
use fuzz::input::Input;
use fuzz::promises::assert_one_line;
use libfuzzer_sys::{Corpus, fuzz_target};
use packet::LinkType;

const LINKS: [LinkType; 10] = [
    LinkType::ETHERNET,
    LinkType::RAW,
    LinkType::NULL,
    LinkType::LINUX_SLL,
    LinkType::LINUX_SLL2,
    LinkType::IEEE802_11_RADIOTAP,
    LinkType::PPP,
    LinkType::IPV6,
    LinkType::C_HDLC,
    LinkType(147),
];

/// Holds the library, so that it is not mapped anew for every expression.
static HELD: OnceLock<Option<Filter>> = OnceLock::new();

fuzz_target!(|bytes: &[u8]| -> Corpus {
    let held = HELD.get_or_init(|| match Filter::new("ip") {
        Ok(filter) => Some(filter),
        Err(error) => {
            println!("skipped: {error}");
            None
        }
    });
    if held.is_none() {
        return Corpus::Reject;
    }
    let mut input = Input::new(bytes);
    let link = LINKS[usize::from(input.u8()) % LINKS.len()];
    let frame_len = usize::from(input.u8() & 0x7f);
    let frame = input.bytes(frame_len);
    let text = expression(input.rest());
    let filter = Filter::new(&text).expect("the library was there before");
    match filter.compile(link) {
        Ok(program) => {
            for wire_len in [0, frame.len() as u32, u32::MAX] {
                black_box(program.passes(frame, wire_len));
                black_box(program.passes(&frame[..frame.len() / 2], wire_len));
            }
        }
        // The message repeats the expression, line breaks included.
        Err(error) if !text.contains(['\n', '\r']) => assert_one_line(&error),
        Err(_) => {}
    }
    Corpus::Keep
});
