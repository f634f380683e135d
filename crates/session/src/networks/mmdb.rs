//! A user's own databases of addresses, in MaxMind's format (MMDB 2.0).

use std::fs::File;
use std::io::{Read as _, Take};
use std::net::IpAddr;
use std::path::Path;

use maxminddb::{Reader, WithinOptions};
use serde::Deserialize;

/// Bytes of a file; the largest that are sold have some 500 MB.
const FILE_LEN_MAX: u64 = 1 << 30;

/// Networks of a file that are looked at to see whether it has what is asked of it.
const NETWORKS_SEEN: usize = 10_000;

/// What is asked of a database.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum DatabaseKind {
    /// Autonomous systems.
    Asn,
    /// Countries.
    Country,
}

/// A database that was read as a whole.
pub(super) struct Database(Reader<Vec<u8>>);

/// The autonomous system of a network, as GeoLite2-ASN and others have it.
#[derive(Clone, Copy, Default, Debug, Deserialize)]
pub(super) struct System<'a> {
    /// Its number.
    #[serde(rename = "autonomous_system_number")]
    pub(super) number: Option<u32>,
    /// Who runs it.
    #[serde(borrow, rename = "autonomous_system_organization")]
    pub(super) organization: Option<&'a str>,
}

/// A network's record in a database of countries or cities.
#[derive(Clone, Copy, Deserialize)]
struct Place<'a> {
    #[serde(borrow)]
    country: Option<Country<'a>>,
}

#[derive(Clone, Copy, Deserialize)]
struct Country<'a> {
    #[serde(borrow)]
    iso_code: Option<&'a str>,
}

impl DatabaseKind {
    const fn wanted(self) -> &'static str {
        match self {
            Self::Asn => {
                "autonomous_system_number, as GeoLite2-ASN and DB-IP's ASN database have it"
            }
            Self::Country => {
                "country.iso_code, as GeoLite2-Country, GeoLite2-City and DB-IP's databases have it"
            }
        }
    }
}

impl Database {
    /// Reads a file, all of which has to be in order.
    ///
    /// # Errors
    /// Why not, with the file's name.
    pub(super) fn read(path: &Path, asked: DatabaseKind) -> Result<Self, String> {
        let name = path.display();
        let open = File::open(path).and_then(|file| {
            let len = file.metadata()?.len();
            Ok((len, file.take(FILE_LEN_MAX + 1)))
        });
        let mut bytes = Vec::new();
        let read = open.and_then(|(len, mut file): (u64, Take<File>)| {
            bytes.reserve_exact(usize::try_from(len.min(FILE_LEN_MAX)).unwrap_or(0) + 1);
            file.read_to_end(&mut bytes)
        });
        read.map_err(|error| format!("{name}: {error}"))?;
        if bytes.len() as u64 > FILE_LEN_MAX {
            return Err(format!("{name}: too large; wanted: an MMDB file of at most 1 GiB"));
        }
        Self::of(bytes, asked).map_err(|why| format!("{name}: {why}"))
    }

    /// Of the bytes of a file.
    fn of(bytes: Vec<u8>, asked: DatabaseKind) -> Result<Self, String> {
        let wanted = "wanted: a database in MaxMind's format (.mmdb)";
        let reader = Reader::from_source(bytes).map_err(|error| format!("{error}; {wanted}"))?;
        reader.verify().map_err(|error| format!("damaged: {error}; try to download it again"))?;
        let database = Self(reader);
        if !database.has(asked)? {
            let (kind, wanted) = (&database.0.metadata().database_type, asked.wanted());
            return Err(format!("a database of type `{kind}`; wanted: {wanted}"));
        }
        Ok(database)
    }

    /// Whether any of the first networks has what is asked for.
    fn has(&self, asked: DatabaseKind) -> Result<bool, String> {
        let networks = self.0.networks(WithinOptions::default());
        let networks = networks.map_err(|error| error.to_string())?;
        for found in networks.take(NETWORKS_SEEN) {
            let found = found.map_err(|error| error.to_string())?;
            let is_there = match asked {
                DatabaseKind::Asn => {
                    let system = found.decode::<System<'_>>();
                    system.is_ok_and(|system| system.is_some_and(|system| system.number.is_some()))
                }
                DatabaseKind::Country => {
                    found.decode::<Place<'_>>().is_ok_and(|it| code(it).is_some())
                }
            };
            if is_there {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The autonomous system of an address; nothing where the database does not have it.
    pub(super) fn system(&self, address: IpAddr) -> System<'_> {
        let found = self.0.lookup(address).and_then(|found| found.decode());
        found.ok().flatten().unwrap_or_default()
    }

    /// The country of an address, two letters of ISO 3166-1.
    pub(super) fn country(&self, address: IpAddr) -> Option<&str> {
        code(self.0.lookup(address).and_then(|found| found.decode()).ok().flatten())
    }
}

fn code(place: Option<Place<'_>>) -> Option<&str> {
    place?.country?.iso_code
}

#[cfg(test)]
#[path = "tests.rs"]
pub(super) mod tests;
