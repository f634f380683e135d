//! A server's name, taken apart.

use std::net::IpAddr;

/// Second labels under which registries of countries give out names.
const SECOND: [&str; 9] = ["co", "com", "org", "net", "ac", "gov", "edu", "ne", "or"];

/// A host's name in lower case, without port and last dot; none where it is an address or has no
/// dot.
pub(super) fn host(name: &str) -> Option<String> {
    let plain = match name.split_once(':') {
        Some((host, port))
            if !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit()) =>
        {
            host
        }
        _ => name,
    };
    let plain = plain.to_lowercase();
    let plain = plain.trim_end_matches('.');
    let address = plain.trim_matches(['[', ']']);
    (address.parse::<IpAddr>().is_err() && plain.contains('.')).then(|| plain.to_owned())
}

/// The labels before the registered domain, and the first label of that domain.
fn divided(host: &str) -> (Vec<&str>, &str) {
    let mut labels: Vec<_> = host.split('.').collect();
    let is_second = match labels.as_slice() {
        [.., _, second, top] => top.len() == 2 && SECOND.contains(second),
        _ => false,
    };
    let domain_at = labels.len().saturating_sub(if is_second { 3 } else { 2 });
    let domain = labels.get(domain_at).copied().unwrap_or_default();
    labels.truncate(domain_at);
    (labels, domain)
}

/// Words of a host's name: of the labels before its registered domain, the numbers at their ends
/// removed, and of the domain's first label.
pub(super) fn words(host: &str) -> impl Iterator<Item = &str> {
    let (labels, domain) = divided(host);
    let own = labels
        .into_iter()
        .flat_map(|label| label.split(['-', '_']))
        .map(|part| part.trim_end_matches(|letter: char| letter.is_ascii_digit()));
    let of_domain =
        domain.split(|letter: char| matches!(letter, '-' | '_') || letter.is_ascii_digit());
    own.chain(of_domain).filter(|word| word.chars().nth(1).is_some())
}

/// A host's name and all its suffixes, the longest first.
pub(super) fn suffixes(host: &str) -> impl Iterator<Item = &str> {
    let after_dots = host.match_indices('.').filter_map(|(dot, _)| host.get(dot + 1..));
    std::iter::once(host).chain(after_dots)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_a_name_without_port_and_last_dot() {
        assert_eq!(host("WWW.Example.org.:8080").as_deref(), Some("www.example.org"));
        assert_eq!(host("a.example:x").as_deref(), Some("a.example:x"));
        for other in ["192.0.2.1", "192.0.2.1:80", "[2001:db8::1]", "2001:db8::1", "printer", ""] {
            assert_eq!(host(other), None, "{other}");
        }
    }

    #[test]
    fn words_are_of_the_labels_and_the_domain() {
        let of = |host| words(host).collect::<Vec<_>>();
        assert_eq!(of("smtp-in02.a.mail4you.co.uk"), ["smtp", "in", "mail", "you"]);
        assert_eq!(of("vpn3.example.org"), ["vpn", "example"]);
        assert_eq!(of("co.uk"), ["co"]);
    }

    #[test]
    fn suffixes_begin_with_the_whole() {
        assert_eq!(suffixes("a.b.c").collect::<Vec<_>>(), ["a.b.c", "b.c", "c"]);
    }
}
