use super::*;

/// A response to `www.example.com`: an alias and the address of that, names shared by pointers.
fn response() -> Vec<u8> {
    let mut bytes = vec![0x12, 0x67, 0x81, 0x80, 0, 1, 0, 2, 0, 0, 0, 0];
    bytes.extend(b"\x03WwW\x07example\x03com\0\0\x01\0\x01");
    // At 12 www.example.com, at 16 example.com; the alias is cdn.example.com, at 45.
    bytes.extend(b"\xc0\x0c\0\x05\0\x01\0\0\x01\x2c\0\x06\x03cdn\xc0\x10");
    bytes.extend(b"\xc0\x2d\0\x01\0\x01\0\0\0\x3c\0\x04\xc0\0\x02\x07");
    bytes
}

#[test]
fn a_response_is_read_with_its_shared_names() {
    let bytes = response();
    let message = Message::new(&bytes).unwrap();
    let question = message.question().unwrap().unwrap();
    assert_eq!(question.name.text().unwrap(), "www.example.com");
    assert_eq!((question.kind, message.answer_count()), (RecordType::A, 2));
    let answers: Vec<_> = message.answers().map(Result::unwrap).collect();
    let [alias, address] = &answers[..] else { panic!("two answers") };
    assert_eq!((alias.kind, alias.ttl_s, alias.address()), (RecordType::CNAME, 300, None));
    assert_eq!(address.name.text().unwrap(), "cdn.example.com");
    assert_eq!((address.ttl_s, address.address()), (60, Some(Ipv4Addr::new(192, 0, 2, 7).into())));
    // Names are the same whatever their case, and whatever part of them is shared.
    assert_eq!(question.name.hash(), alias.name.hash());
    assert_ne!(question.name.hash(), address.name.hash());
}

#[test]
fn names_that_do_not_end_are_faults() {
    let name = |bytes: &[u8]| Name::new(bytes, 0).text();
    assert_eq!(name(b"\xc0\x00"), Err(DnsFault::NameLoop), "at itself");
    assert_eq!(name(b"\x01a\xc0\x00"), Err(DnsFault::NameLoop), "at its own start");
    assert_eq!(name(b"\xc0\x02\x01a\0"), Err(DnsFault::NameLoop), "forward");
    assert_eq!(name(b"\x03ab"), Err(DnsFault::PastEnd));
    assert_eq!(name(b"\xc0"), Err(DnsFault::PastEnd));
    assert_eq!(name(b""), Err(DnsFault::PastEnd));
    assert_eq!(name(b"\x40a\0"), Err(DnsFault::BadLabel));
    let long = [&b"\x3f"[..], &[b'a'; 63]].concat().repeat(5);
    assert_eq!(name(&long), Err(DnsFault::NameTooLong));
    assert_eq!(Name::new(&long, 0).end(), Err(DnsFault::NameTooLong));
}

#[test]
fn a_dot_inside_a_label_is_not_that_between_labels() {
    assert_eq!(Name::new(b"\x03a.b\x01c\0", 0).text().unwrap(), "a\\x2eb.c");
    assert_eq!(Name::new(b"\0", 0).text().unwrap(), ".");
}

#[test]
fn a_message_cut_anywhere_is_a_fault_or_shorter() {
    let bytes = response();
    for len in 0..bytes.len() {
        let Ok(message) = Message::new(&bytes[..len]) else { continue };
        let _ = message.question();
        assert!(message.answers().any(|answer| answer == Err(DnsFault::PastEnd)), "{len}");
    }
}

impl PartialEq for Answer<'_> {
    fn eq(&self, other: &Self) -> bool {
        (self.kind, self.ttl_s, self.data) == (other.kind, other.ttl_s, other.data)
    }
}
