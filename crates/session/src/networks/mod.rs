//! What is known of addresses besides packets: whether they are of this network, whose they are,
//! where, and who made the interface.
//!
//! Rows get these columns when they are written, on the thread that writes them: packets wait for
//! no database. What is in force is replaced as a whole when the settings are read again.

mod mmdb;
mod prefix;
mod vendors;

use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::{Arc, PoisonError, RwLock};

use engine::columns::{Columns, Field, Kind, RowMismatch, Schema, Value, Values, joined};
use serde::Deserialize;

use mmdb::{Database, DatabaseKind};
use packet::wire::ethernet::MacAddress;
use prefix::Prefix;
use vendors::Vendors;

/// Prefixes that may be given: each address is compared with all of them.
const PREFIXES_MAX: usize = 256;

/// Applications with a row for each flow.
const APPLICATIONS: [&str; 2] = ["flows", "classify"];

/// Columns of MAC addresses.
const MACS: [&str; 2] = ["src_mac", "dst_mac"];

/// Settings of `[networks]`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Settings {
    /// Prefixes of this network.
    pub local: Option<Vec<String>>,
    /// A database of autonomous systems.
    pub asn: Option<PathBuf>,
    /// A database of countries, or of cities.
    pub country: Option<PathBuf>,
    /// A list of vendors by the prefixes of their MAC addresses.
    pub mac_vendors: Option<PathBuf>,
}

/// Which columns there are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Parts {
    has_local: bool,
    has_asn: bool,
    has_country: bool,
    has_vendor: bool,
}

/// What is looked up of a side.
#[derive(Clone, Copy, Default)]
struct Ends {
    ip: Option<IpAddr>,
    mac: Option<MacAddress>,
}

/// What is in force.
#[derive(Default)]
struct NetworkTables {
    local: Option<Vec<Prefix>>,
    asn: Option<Database>,
    country: Option<Database>,
    vendors: Option<Vendors>,
}

/// What is known of addresses. Clones share it.
#[derive(Clone)]
pub struct Networks {
    parts: Parts,
    known: Arc<RwLock<Arc<NetworkTables>>>,
}

/// Of rows of one table.
#[derive(Clone)]
pub struct Enriching {
    networks: Networks,
    /// Which of the columns the table gets.
    parts: Parts,
    schema: Schema,
}

/// The columns of one side.
macro_rules! columns {
    ($side:literal, $of:literal) => {
        [
            Field::new(
                concat!($side, "_local"),
                Kind::I8,
                concat!("1 where the ", $of, " is in `[networks] local`, else 0."),
            )
            .nullable(),
            Field::new(
                concat!($side, "_asn"),
                Kind::U32,
                concat!("Autonomous system of the ", $of, "."),
            )
            .nullable(),
            Field::new(
                concat!($side, "_as_org"),
                Kind::Text,
                "Organization that runs this autonomous system.",
            )
            .nullable(),
            Field::new(
                concat!($side, "_country"),
                Kind::Text,
                concat!("Country of the ", $of, ", two letters of ISO 3166-1."),
            )
            .nullable(),
            Field::new(
                concat!($side, "_mac_vendor"),
                Kind::Text,
                concat!("Vendor of ", $side, "_mac; empty for randomised addresses."),
            )
            .nullable(),
        ]
    };
}

const SOURCE: [Field; 5] = columns!("src", "source");
const DESTINATION: [Field; 5] = columns!("dst", "destination");

/// All columns that `[networks]` can add.
#[must_use]
pub fn declared_columns() -> Vec<(&'static str, Schema)> {
    let all = joined(&[&SOURCE, &DESTINATION]);
    vec![("wirelens run, [networks], after the columns of [flows] and [classify]", all)]
}

impl Parts {
    fn fields(self) -> impl Iterator<Item = Field> {
        let Self { has_local, has_asn, has_country, has_vendor } = self;
        let has = [has_local, has_asn, has_asn, has_country, has_vendor];
        let of = move |fields: [Field; 5]| {
            fields.into_iter().zip(has).filter_map(|(field, is_there)| is_there.then_some(field))
        };
        of(SOURCE).chain(of(DESTINATION))
    }

    /// These columns after others.
    fn behind(self, base: &[Field]) -> Schema {
        joined(&[base, &self.fields().collect::<Vec<_>>()])
    }

    /// The values of both sides.
    fn push<'a>(self, row: &mut Vec<Value<'a>>, known: &'a NetworkTables, ends: Ends) {
        let address = ends.ip;
        if self.has_local {
            row.push(address.and_then(|address| known.is_local(address)).map(Value::I8).into());
        }
        if self.has_asn {
            let of = |address| known.asn.as_ref().map(|asn| asn.system(address));
            let system = address.and_then(of).unwrap_or_default();
            row.push(system.number.map(Value::U32).into());
            row.push(system.organization.map(Value::Str).into());
        }
        if self.has_country {
            let of = |address| known.country.as_ref()?.country(address);
            row.push(address.and_then(of).map(Value::Str).into());
        }
        if self.has_vendor {
            let of = |mac| known.vendors.as_ref()?.vendor(mac);
            row.push(ends.mac.and_then(of).map(Value::Str).into());
        }
    }
}

impl NetworkTables {
    fn is_local(&self, address: IpAddr) -> Option<i8> {
        let local = self.local.as_ref()?;
        Some(i8::from(local.iter().any(|prefix| prefix.contains(address))))
    }
}

impl Settings {
    /// Reads what they name.
    ///
    /// # Errors
    /// The key, and what is wrong with it.
    pub fn read(&self) -> Result<Networks, (&'static str, String)> {
        let Self { local, asn, country, mac_vendors } = self;
        let parts = Parts {
            has_local: local.is_some(),
            has_asn: asn.is_some(),
            has_country: country.is_some(),
            has_vendor: mac_vendors.is_some(),
        };
        let given = local.as_deref().unwrap_or_default();
        if given.len() > PREFIXES_MAX {
            let count = given.len();
            return Err(("local", format!("{count} prefixes; wanted: at most {PREFIXES_MAX}")));
        }
        let prefixes: Result<Vec<Prefix>, String> = given.iter().map(|text| text.parse()).collect();
        let prefixes = prefixes.map_err(|why| ("local", why))?;
        let read = |key, path: &Option<PathBuf>, asked| {
            let read = path.as_deref().map(|path| Database::read(path, asked)).transpose();
            read.map_err(|why| (key, why))
        };
        let known = NetworkTables {
            local: local.is_some().then_some(prefixes),
            asn: read("asn", asn, DatabaseKind::Asn)?,
            country: read("country", country, DatabaseKind::Country)?,
            vendors: mac_vendors
                .as_deref()
                .map(Vendors::read)
                .transpose()
                .map_err(|why| ("mac-vendors", why))?,
        };
        Ok(Networks { parts, known: Arc::new(RwLock::new(Arc::new(known))) })
    }
}

impl Networks {
    fn now(&self) -> Arc<NetworkTables> {
        Arc::clone(&self.known.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// What goes behind the rows of an application, if it has a row for each flow.
    #[must_use]
    pub fn of(&self, application: &str, schema: Schema) -> Option<Enriching> {
        let has = |name: &str| schema.iter().any(|field| field.name == name);
        let is_of_flows = ["community_id", "src_ip", "dst_ip"].into_iter().all(has);
        let is_it = APPLICATIONS.contains(&application) && is_of_flows;
        let parts = self.parts_of(schema);
        is_it.then(|| Enriching { networks: self.clone(), parts, schema: parts.behind(schema) })
    }

    /// Whether a list of vendors is given.
    #[must_use]
    pub(crate) const fn has_vendors(&self) -> bool {
        self.parts.has_vendor
    }

    /// Which columns a table gets: vendors are of MAC addresses, which few tables have.
    fn parts_of(&self, schema: Schema) -> Parts {
        let has_mac = schema.iter().any(|field| field.name == MACS[0]);
        Parts { has_vendor: self.parts.has_vendor && has_mac, ..self.parts }
    }

    /// Takes up what others know, where the columns stay the same: whether they do.
    pub(crate) fn take_up(&self, other: &Self) -> bool {
        if self.parts != other.parts {
            return false;
        }
        let known = other.now();
        *self.known.write().unwrap_or_else(PoisonError::into_inner) = known;
        true
    }
}

impl Enriching {
    /// The columns of rows with what is known of their addresses.
    #[must_use]
    pub const fn schema(&self) -> Schema {
        self.schema
    }

    /// The same of rows of other columns of the application.
    #[must_use]
    pub fn with(&self, base: Schema) -> Self {
        let networks = self.networks.clone();
        let parts = networks.parts_of(base);
        Self { schema: parts.behind(base), parts, networks }
    }

    /// Rows with what is known of their addresses.
    ///
    /// # Errors
    /// [`RowMismatch`]: more text than one batch of rows holds.
    pub fn rows(&self, rows: &Columns) -> Result<Columns, RowMismatch> {
        if rows.row_count() == 0 {
            return Ok(Columns::new(self.schema));
        }
        let Self { parts, .. } = *self;
        let known = self.networks.now();
        let place = |name: &str| rows.schema().iter().position(|field| field.name == name);
        let sides = [["src_ip", MACS[0]], ["dst_ip", MACS[1]]].map(|side| side.map(place));
        let mut more = Columns::new(parts.behind(&[]));
        let mut values = Vec::new();
        for at in 0..rows.row_count() {
            values.clear();
            for side in sides {
                let [ip, mac] = side.map(|place| place.and_then(|place| text(rows, place, at)));
                let ends = Ends {
                    ip: ip.and_then(|text| text.parse().ok()),
                    mac: mac.filter(|_| parts.has_vendor).and_then(MacAddress::parse),
                };
                parts.push(&mut values, &known, ends);
            }
            more.push_row(&values)?;
        }
        rows.beside(more, self.schema)
    }
}

fn text(rows: &Columns, place: usize, at: usize) -> Option<&str> {
    match rows.columns().get(place)?.values() {
        Values::Text(texts) => Some(texts.get(at)),
        _ => None,
    }
}

/// Their keys, as `--init` prints them.
pub(crate) const EXAMPLE: &str = "
# Attributes of addresses as columns of [flows] and [classify]: whether they are
# local, autonomous system and country, from databases of your own in MaxMind's format, and vendors
# of MAC addresses, which `macs = true` adds to [flows], from Wireshark's manuf or IEEE's oui.txt.
# [networks]
# local = [\"10.0.0.0/8\", \"172.16.0.0/12\", \"192.168.0.0/16\", \"fc00::/7\"]
# asn = \"GeoLite2-ASN.mmdb\"
# country = \"GeoLite2-Country.mmdb\"
# mac-vendors = \"/usr/share/ieee-data/oui.txt\"
";

#[cfg(test)]
mod tests {
    use super::mmdb::tests::{Data, database};
    use super::*;

    const ROWS: Schema = &[
        Field::new("community_id", Kind::Text, ""),
        Field::new("src_ip", Kind::Text, ""),
        Field::new("dst_ip", Kind::Text, ""),
    ];

    fn settings(folder: &std::path::Path) -> Settings {
        let asn = folder.join("asn.mmdb");
        let number = ("autonomous_system_number", Data::Number(64_496));
        let org = ("autonomous_system_organization", Data::Text("Example"));
        let bytes = database(&[("192.0.2.0/24", Data::Map(vec![number, org]))]);
        std::fs::write(&asn, bytes).unwrap();
        let local = Some(vec![String::from("10.0.0.0/8")]);
        Settings { local, asn: Some(asn), ..Settings::default() }
    }

    #[test]
    fn rows_have_what_is_known_of_both_ends() {
        let folder = tempfile::tempdir().unwrap();
        let networks = settings(folder.path()).read().unwrap();
        let enriching = networks.of("flows", ROWS).unwrap();
        let names: Vec<_> = enriching.schema().iter().map(|field| field.name).skip(3).collect();
        let side = |side: &str| ["local", "asn", "as_org"].map(|name| format!("{side}_{name}"));
        assert_eq!(names, [side("src"), side("dst")].concat());
        let mut rows = Columns::new(ROWS);
        for ends in [["10.1.2.3", "192.0.2.1"], ["2001:db8::1", "no address"]] {
            let [src, dst] = ends.map(Value::Str);
            rows.push_row(&[Value::Str("1:x="), src, dst]).unwrap();
        }
        let found = enriching.rows(&rows).unwrap();
        let mut wanted = Columns::new(enriching.schema());
        let id = Value::Str("1:x=");
        let [one, other] = [["10.1.2.3", "192.0.2.1"], ["2001:db8::1", "no address"]];
        let [none, zero] = [Value::Null, Value::I8(0)];
        let asn = [zero, Value::U32(64_496), Value::Str("Example")];
        let row = |[src, dst]: [&'static str; 2], values: [Value<'static>; 6]| {
            [[id, Value::Str(src), Value::Str(dst)].to_vec(), values.to_vec()].concat()
        };
        let [first, second, third] = asn;
        let of_one = row(one, [Value::I8(1), none, none, first, second, third]);
        wanted.push_row(&of_one).unwrap();
        wanted.push_row(&row(other, [zero, none, none, none, none, none])).unwrap();
        assert_eq!(found, wanted);
        assert_eq!(enriching.rows(&Columns::new(&[])).unwrap().row_count(), 0);
        // The same columns are made once.
        let again = networks.of("classify", ROWS).unwrap();
        assert!(std::ptr::eq(again.schema(), enriching.schema()));
        assert!(networks.of("top", ROWS).is_none());
        assert!(networks.of("flows", &ROWS[1..]).is_none());
    }

    #[test]
    fn what_is_in_force_is_replaced_where_columns_stay() {
        let folder = tempfile::tempdir().unwrap();
        let settings = settings(folder.path());
        let networks = settings.read().unwrap();
        let enriching = networks.of("flows", ROWS).unwrap();
        let wider = Some(vec![String::from("0.0.0.0/0"), String::from("::/0")]);
        let other = Settings { local: wider, ..settings.clone() };
        assert!(networks.take_up(&other.read().unwrap()));
        let mut rows = Columns::new(ROWS);
        let addresses = ["1:x=", "203.0.113.1", "2001:db8::1"].map(Value::Str);
        rows.push_row(&addresses).unwrap();
        let found = enriching.rows(&rows).unwrap();
        for place in [3, 6] {
            assert_eq!(*found.columns()[place].values(), Values::I8(vec![1]));
        }
        let fewer = Settings { local: None, ..settings };
        assert!(!networks.take_up(&fewer.read().unwrap()), "other columns");
    }

    #[test]
    fn too_many_prefixes_are_refused() {
        let local = Some(vec![String::from("10.0.0.0/8"); PREFIXES_MAX + 1]);
        let refused = Settings { local, ..Settings::default() }.read().map(|_| ()).unwrap_err();
        assert_eq!(refused, ("local", String::from("257 prefixes; wanted: at most 256")));
    }
}
