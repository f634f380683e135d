//! DNS messages and what else is read of text: whatever bytes say, names end, are safe to
//! print, and have no more text than their bytes can make.
//!
//! Input: bytes of a message; the same bytes as the start of a stream.
#![no_main]

use libfuzzer_sys::fuzz_target;
use names::dns::Message;
use names::http::{self, Request};
use names::{greeting, text};

fuzz_target!(|bytes: &[u8]| {
    message(bytes);
    let _ = (greeting::of_stream(bytes), greeting::of_datagram(bytes, [53, 123]));
    if let Request::Read { host: Some(host), .. } = http::read(bytes) {
        assert!(!host.is_empty() && host.len() <= bytes.len());
        assert_printable(&text::shown(host));
    }
});

fn message(bytes: &[u8]) {
    let Ok(message) = Message::new(bytes) else { return };
    let _ = message.is_plain();
    if let Ok(Some(question)) = message.question() {
        let (end, text) = (question.name.end(), question.name.text());
        assert!(end.is_ok_and(|end| end <= bytes.len()));
        if let Ok(text) = text {
            assert!(question.name.hash().is_ok());
            assert_printable(&text);
        }
    }
    let mut is_over = false;
    for answer in message.answers() {
        assert!(!is_over, "nothing follows a fault");
        let Ok(answer) = answer else {
            is_over = true;
            continue;
        };
        assert!(answer.data.len() <= bytes.len());
        assert!(answer.address().is_none() || answer.alias().is_none());
        if let Some(Ok(alias)) = answer.alias().map(|alias| alias.text()) {
            assert_printable(&alias);
        }
    }
}

fn assert_printable(text: &str) {
    assert!(text.chars().all(|c| !c.is_control()), "{text:?}");
    // Each of at most 255 bytes and dots makes ten characters at most.
    assert!(text.len() <= 512 * 10, "{}", text.len());
}
