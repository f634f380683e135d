//! Databases that the tests write themselves.

use proptest::prelude::*;

use super::*;

/// A value of a record.
#[derive(Clone)]
pub(in crate::networks) enum Data {
    Text(&'static str),
    Short(u16),
    Number(u32),
    Long(u64),
    Map(Vec<(&'static str, Data)>),
    List(Vec<Data>),
}

impl Data {
    fn write(&self, to: &mut Vec<u8>) {
        let head = |to: &mut Vec<u8>, kind: u8, len: usize| {
            let len = u8::try_from(len).unwrap();
            // Lengths from 29 on have a byte of their own.
            let short = len.min(29);
            if kind > 7 {
                to.extend([short, kind - 7]);
            } else {
                to.push(kind << 5 | short);
            }
            to.extend(len.checked_sub(29));
        };
        match self {
            Self::Text(text) => {
                head(to, 2, text.len());
                to.extend(text.bytes());
            }
            Self::Short(number) => {
                head(to, 5, 2);
                to.extend(number.to_be_bytes());
            }
            Self::Number(number) => {
                head(to, 6, 4);
                to.extend(number.to_be_bytes());
            }
            Self::Long(number) => {
                head(to, 9, 8);
                to.extend(number.to_be_bytes());
            }
            Self::Map(pairs) => {
                head(to, 7, pairs.len());
                for (key, value) in pairs {
                    Self::Text(key).write(to);
                    value.write(to);
                }
            }
            Self::List(values) => {
                head(to, 11, values.len());
                values.iter().for_each(|value| value.write(to));
            }
        }
    }
}

#[derive(Clone, Copy)]
enum Branch {
    Nothing,
    Node(usize),
    Data(usize),
}

/// The bytes of a database over IPv6, with addresses of IPv4 in `::/96`, and records of 32 bits.
pub(in crate::networks) fn database(networks: &[(&str, Data)]) -> Vec<u8> {
    let (mut nodes, mut data) = (vec![[Branch::Nothing; 2]], Vec::new());
    for (network, value) in networks {
        let (address, len) = network.split_once('/').unwrap();
        let (bits, before) = match address.parse::<IpAddr>().unwrap() {
            IpAddr::V4(address) => (u128::from(address.to_bits()), 96),
            IpAddr::V6(address) => (address.to_bits(), 0),
        };
        let len: usize = before + len.parse::<usize>().unwrap();
        let mut node = 0;
        for depth in 0..len {
            let bit = usize::from(bits >> (127 - depth) & 1 == 1);
            if depth + 1 == len {
                nodes[node][bit] = Branch::Data(data.len());
                value.write(&mut data);
                break;
            }
            node = match nodes[node][bit] {
                Branch::Node(next) => next,
                _ => {
                    nodes.push([Branch::Nothing; 2]);
                    nodes[node][bit] = Branch::Node(nodes.len() - 1);
                    nodes.len() - 1
                }
            };
        }
    }
    let count = nodes.len();
    let mut bytes = Vec::new();
    for branch in nodes.iter().flatten() {
        let number = match branch {
            Branch::Nothing => count,
            Branch::Node(node) => *node,
            Branch::Data(at) => count + 16 + at,
        };
        bytes.extend(u32::try_from(number).unwrap().to_be_bytes());
    }
    bytes.extend([0; 16]);
    bytes.extend(data);
    bytes.extend(b"\xab\xcd\xefMaxMind.com");
    let text = Data::Text;
    Data::Map(vec![
        ("binary_format_major_version", Data::Short(2)),
        ("binary_format_minor_version", Data::Short(0)),
        ("build_epoch", Data::Long(1_700_000_000)),
        ("database_type", text("Tests")),
        ("description", Data::Map(vec![("en", text("Networks of the tests"))])),
        ("ip_version", Data::Short(6)),
        ("languages", Data::List(vec![text("en")])),
        ("node_count", Data::Number(u32::try_from(count).unwrap())),
        ("record_size", Data::Short(32)),
    ])
    .write(&mut bytes);
    bytes
}

fn system(number: u32, organization: &'static str) -> Data {
    Data::Map(vec![
        ("autonomous_system_number", Data::Number(number)),
        ("autonomous_system_organization", Data::Text(organization)),
    ])
}

fn systems() -> Vec<u8> {
    database(&[
        ("192.0.2.0/24", system(64_496, "Example")),
        ("198.51.100.7/32", Data::Map(vec![("autonomous_system_number", Data::Number(1))])),
        ("2001:db8::/32", system(4_200_000_000, "Beispiel GmbH")),
    ])
}

#[test]
fn systems_are_found_by_address() {
    let database = Database::of(systems(), DatabaseKind::Asn).unwrap();
    let of = |address: &str| {
        let System { number, organization } = database.system(address.parse().unwrap());
        (number, organization)
    };
    assert_eq!(of("192.0.2.9"), (Some(64_496), Some("Example")));
    assert_eq!(of("198.51.100.7"), (Some(1), None));
    assert_eq!(of("2001:db8::1"), (Some(4_200_000_000), Some("Beispiel GmbH")));
    assert_eq!(of("192.0.3.1"), (None, None));
}

#[test]
fn countries_are_found_by_address() {
    let country = |code| Data::Map(vec![("country", Data::Map(vec![("iso_code", code)]))]);
    let bytes = database(&[
        ("192.0.2.0/25", country(Data::Text("NL"))),
        ("192.0.2.128/25", country(Data::Number(1))),
    ]);
    let database = Database::of(bytes, DatabaseKind::Country).unwrap();
    let of = |address: &str| database.country(address.parse().unwrap());
    assert_eq!(of("192.0.2.1"), Some("NL"));
    assert_eq!(of("192.0.2.129"), None, "of another kind");
    assert_eq!(of("2001:db8::1"), None);
}

#[test]
fn a_file_that_will_not_do_says_why() {
    let refused = |bytes, asked| Database::of(bytes, asked).map(|_| ()).unwrap_err();
    assert!(
        refused(b"PK\x03\x04 zip".to_vec(), DatabaseKind::Asn).contains("wanted: a database in")
    );
    let why = refused(systems(), DatabaseKind::Country);
    assert!(why.contains("of type `Tests`; wanted: country.iso_code"), "{why}");
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("asn.mmdb");
    let why = Database::read(&path, DatabaseKind::Asn).map(|_| ()).unwrap_err();
    assert!(why.contains("asn.mmdb: No such file"), "{why}");
    let mut bytes = systems();
    let len = bytes.len();
    bytes.drain(len / 2..len - 300);
    std::fs::write(&path, bytes).unwrap();
    let why = Database::read(&path, DatabaseKind::Asn).map(|_| ()).unwrap_err();
    assert!(why.contains("asn.mmdb: "), "{why}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn a_damaged_file_is_refused_or_answers_and_never_panics(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
        cut in prop::option::weighted(0.3, any::<prop::sample::Index>()),
        address in any::<u32>(),
    ) {
        let mut bytes = systems();
        for (place, byte) in changes {
            let place = place.index(bytes.len());
            bytes[place] = byte;
        }
        if let Some(cut) = cut {
            bytes.truncate(cut.index(bytes.len()));
        }
        if let Ok(database) = Database::of(bytes, DatabaseKind::Asn) {
            for address in [address, 0xc000_0209, 0xc633_6407] {
                let address = IpAddr::V4(address.into());
                let _ = database.system(address);
                let _ = database.country(address);
            }
        }
    }
}
