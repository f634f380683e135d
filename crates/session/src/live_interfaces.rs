//! The interfaces of a run by their numbers in records. A reload adds some and lets others go;
//! numbers stay.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use packet::LinkType;
use packet::file::Interface;

/// The interfaces that a run has listened on so far. One that comes back has the number that it
/// had; all others have one of their own.
#[derive(Clone, Debug, Default)]
pub struct LiveInterfaces(Arc<Mutex<Vec<One>>>);

#[derive(Debug)]
struct One {
    described: Interface,
    is_open: bool,
}

impl LiveInterfaces {
    /// Those of the start, in the order of their numbers.
    pub(crate) fn begin(&self, interfaces: Vec<Interface>) {
        let open = |described| One { described, is_open: true };
        let mut all = self.all();
        *all = interfaces.into_iter().map(open).collect();
    }

    /// Those with numbers from this one on, as a capture describes them.
    pub(crate) fn described_from(&self, number: u16) -> Vec<Interface> {
        let all = self.all();
        all.iter().skip(number.into()).map(|one| one.described.clone()).collect()
    }

    /// The names of those that are listened on now.
    pub(crate) fn open_names(&self) -> Vec<String> {
        let all = self.all();
        all.iter().filter(|one| one.is_open).map(|one| one.described.name.clone()).collect()
    }

    /// The number of an interface that is listened on from now on; none where there are no more
    /// numbers.
    pub(crate) fn open(&self, name: &str, link: LinkType) -> Option<u16> {
        let mut all = self.all();
        let is_same = |one: &One| one.described.name == name && one.described.link == link;
        let number = all.iter().position(is_same).unwrap_or(all.len());
        let numbered = u16::try_from(number).ok()?;
        if let Some(known) = all.get_mut(number) {
            known.is_open = true;
        } else {
            let described = Interface { name: name.to_owned(), link, ..Interface::default() };
            all.push(One { described, is_open: true });
        }
        Some(numbered)
    }

    /// It is no longer listened on.
    pub(crate) fn close(&self, name: &str) {
        for one in self.all().iter_mut().filter(|one| one.described.name == name) {
            one.is_open = false;
        }
    }

    fn all(&self) -> MutexGuard<'_, Vec<One>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ethernet(name: &str) -> Interface {
        Interface { name: name.to_owned(), link: LinkType::ETHERNET, ..Interface::default() }
    }

    #[test]
    fn numbers_stay_and_one_that_comes_back_has_its_own_again() {
        let interfaces = LiveInterfaces::default();
        interfaces.begin(vec![ethernet("eth0"), ethernet("eth1")]);
        assert_eq!(interfaces.open("eth2", LinkType::ETHERNET), Some(2));
        interfaces.close("eth0");
        assert_eq!(interfaces.open_names(), ["eth1", "eth2"]);
        assert_eq!(interfaces.open("eth3", LinkType::ETHERNET), Some(3));
        assert_eq!(interfaces.open("eth0", LinkType::ETHERNET), Some(0));
        assert_eq!(interfaces.open_names(), ["eth0", "eth1", "eth2", "eth3"]);
        // The same name, and other frames.
        interfaces.close("eth1");
        assert_eq!(interfaces.open("eth1", LinkType::RAW), Some(4));
        let described = interfaces.described_from(2);
        let described: Vec<_> = described.iter().map(|one| one.name.as_str()).collect();
        assert_eq!(described, ["eth2", "eth3", "eth1"]);
    }

    #[test]
    fn interfaces_beyond_the_last_number_are_refused() {
        let interfaces = LiveInterfaces::default();
        interfaces.begin(vec![ethernet("eth0"); 1 << 16]);
        assert_eq!(interfaces.open("eth1", LinkType::ETHERNET), None);
    }
}
