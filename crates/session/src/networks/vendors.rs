//! Vendors of MAC addresses, from a list of the user's: Wireshark's `manuf`, or IEEE's `oui.txt`
//! and `oui.csv`.

use std::collections::HashMap;
use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use packet::wire::ethernet::MacAddress;

/// Bytes of a file; Wireshark's has 3 MB, IEEE's 6 MB.
const FILE_LEN_MAX: u64 = 64 << 20;

/// Prefixes of a file; IEEE has assigned some 55,000.
const PREFIXES_MAX: usize = 1 << 20;

/// Bits of the prefixes that IEEE assigns: MA-L, MA-M and MA-S.
const LENS: [u32; 3] = [24, 28, 36];

/// Bits of an address.
const ADDRESS_LEN: u32 = 48;

/// Bit of an address that its user chose: locally administered, such as those that phones draw.
const LOCAL: u64 = 1 << 41;

/// Names by prefix, the prefixes by their length.
#[derive(Debug)]
pub(super) struct Vendors {
    names: Vec<Box<str>>,
    prefixes: [HashMap<u64, u32>; LENS.len()],
}

impl Vendors {
    /// Reads a list.
    ///
    /// # Errors
    /// Why not, with the file's name.
    pub(super) fn read(path: &Path) -> Result<Self, String> {
        let name = path.display();
        let mut bytes = Vec::new();
        let read = File::open(path).and_then(|file| {
            let mut file = file.take(FILE_LEN_MAX + 1);
            file.read_to_end(&mut bytes)
        });
        read.map_err(|error| format!("{name}: {error}"))?;
        if bytes.len() as u64 > FILE_LEN_MAX {
            return Err(format!("{name}: more than 64 MiB; wanted: a list of vendors"));
        }
        Self::of(&String::from_utf8_lossy(&bytes)).map_err(|why| format!("{name}: {why}"))
    }

    /// Of the text of a list. Lines of other kinds are passed over: each list has some.
    fn of(text: &str) -> Result<Self, String> {
        let mut vendors = Self { names: Vec::new(), prefixes: Default::default() };
        let mut numbers: HashMap<&str, u32> = HashMap::new();
        // Editors of Windows begin a file with a byte-order mark.
        for line in text.trim_start_matches('\u{feff}').lines() {
            let Some((prefix, len, name)) = entry(line) else { continue };
            let Some(place) = LENS.iter().position(|&known| known == len) else { continue };
            let next = u32::try_from(vendors.names.len()).unwrap_or(u32::MAX);
            let number = *numbers.entry(name).or_insert(next);
            if number == next {
                vendors.names.push(name.into());
            }
            if let Some(prefixes) = vendors.prefixes.get_mut(place) {
                prefixes.insert(prefix, number);
            }
            if vendors.prefix_count() > PREFIXES_MAX {
                return Err(format!(
                    "more than {PREFIXES_MAX} prefixes; wanted: a list of vendors"
                ));
            }
        }
        if vendors.prefix_count() == 0 {
            return Err(String::from(
                "no line names a vendor; wanted: Wireshark's manuf, or IEEE's oui.txt or oui.csv",
            ));
        }
        Ok(vendors)
    }

    fn prefix_count(&self) -> usize {
        self.prefixes.iter().map(HashMap::len).sum()
    }

    /// The vendor of an address by its longest prefix; none where its user chose the address.
    pub(super) fn vendor(&self, address: MacAddress) -> Option<&str> {
        let [a, b, c, d, e, f] = address.0;
        let bits = u64::from_be_bytes([0, 0, a, b, c, d, e, f]);
        if bits & LOCAL != 0 {
            return None;
        }
        let longest_first = LENS.iter().zip(&self.prefixes).rev();
        let mut found = longest_first
            .filter_map(|(len, prefixes)| prefixes.get(&(bits >> (ADDRESS_LEN - len))));
        self.names.get(*found.next()? as usize).map(|name| &**name)
    }
}

/// Prefix, its bits and the vendor of a line.
fn entry(line: &str) -> Option<(u64, u32, &str)> {
    let line = line.trim();
    if line.is_empty() || line.starts_with('#') {
        return None;
    }
    // oui.csv: MA-L,00005E,"ICANN, IANA Department",address
    if let Some((_, rest)) = line.split_once(',').filter(|(kind, _)| kind.starts_with("MA-")) {
        let (digits, rest) = rest.split_once(',')?;
        let name = match rest.strip_prefix('"') {
            Some(quoted) => quoted.split('"').next()?,
            None => rest.split(',').next()?,
        };
        return prefix(digits, name);
    }
    // oui.txt: 00-00-5E   (hex)    ICANN, IANA Department
    if let Some((digits, name)) = line.split_once("(hex)") {
        return prefix(digits.trim(), name);
    }
    // manuf: 00:00:5E or 00:1B:C5:00:00:00/36, a short name, in newer ones a long one.
    let mut columns = line.split('\t');
    let (digits, short) = (columns.next()?, columns.next()?);
    prefix(digits.trim(), columns.next().unwrap_or(short))
}

/// A prefix of so many hexadecimal digits, or of so many bits as are given after a slash.
fn prefix<'a>(text: &str, name: &'a str) -> Option<(u64, u32, &'a str)> {
    let (digits, len) = match text.split_once('/') {
        Some((digits, len)) => (digits, Some(len.parse::<u32>().ok()?)),
        None => (text, None),
    };
    let (mut bits, mut digit_count) = (0_u64, 0_u32);
    for digit in digits.chars().filter(|it| !matches!(it, ':' | '-')) {
        (bits, digit_count) = (bits << 4 | u64::from(digit.to_digit(16)?), digit_count + 1);
        if digit_count * 4 > ADDRESS_LEN {
            return None;
        }
    }
    let seen = digit_count * 4;
    let len = len.unwrap_or(seen);
    let name = name.trim();
    (len <= seen && !name.is_empty()).then(|| (bits >> (seen - len), len, name))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MANUF: &str = "# comment\n\n\
        00:00:5E\tICANNIANADep\tICANN, IANA Department\n\
        00:00:5E:00:53:00/40\tDoc\tnot a length that IEEE assigns\n\
        00:1B:C5\tIEEERegi\tIEEE Registration Authority\n\
        00:1B:C5:00:00:00/36\tConverging\tConverging Systems Inc.\n\
        70:B3:D5:10/28\tShort only\n\
        00:00:0C\tCisco\n";

    fn vendor<'a>(vendors: &'a Vendors, address: &str) -> Option<&'a str> {
        vendors.vendor(MacAddress::parse(address).unwrap())
    }

    #[test]
    fn the_longest_prefix_names_the_vendor() {
        let vendors = Vendors::of(MANUF).unwrap();
        for (address, wanted) in [
            ("00:00:5e:00:53:01", Some("ICANN, IANA Department")),
            ("00:1b:c5:00:0a:01", Some("Converging Systems Inc.")),
            ("00:1b:c5:00:1a:01", Some("IEEE Registration Authority")),
            ("70:b3:d5:1f:00:00", Some("Short only")),
            ("70:b3:d5:2f:00:00", None),
            ("00:00:0c:01:02:03", Some("Cisco")),
            ("02:00:5e:00:53:01", None),
            ("ff:ff:ff:ff:ff:ff", None),
        ] {
            assert_eq!(vendor(&vendors, address), wanted, "{address}");
        }
    }

    #[test]
    fn lists_of_ieee_are_read() {
        let text = "OUI/MA-L                    Organization\n\
            company_id                  Organization\n\
            00-00-5E   (hex)\t\tICANN, IANA Department\n\
            00005E     (base 16)\t\tICANN, IANA Department\n\
            \t\t\t\tINTERNET ASS'NED NOS.AUTHORITY\r\n";
        let csv = "Registry,Assignment,Organization Name,Organization Address\n\
            MA-L,00005E,\"ICANN, IANA Department\",\"12025 Waterfront, Los Angeles\"\n\
            MA-S,001BC5000,Converging Systems Inc.,somewhere\r\n";
        for text in [text, csv] {
            let vendors = Vendors::of(text).unwrap();
            let found = vendor(&vendors, "00:00:5e:00:53:01");
            assert_eq!(found, Some("ICANN, IANA Department"), "{text}");
        }
        let of_csv = Vendors::of(csv).unwrap();
        assert_eq!(vendor(&of_csv, "00:1b:c5:00:0f:ff"), Some("Converging Systems Inc."));
    }

    #[test]
    fn other_files_are_refused() {
        for text in ["", "# 00:00:5E\tA\n", "192.0.2.1\thost\n", "00:00:5E:00:53:01:02\tlong\n"] {
            let told = Vendors::of(text).unwrap_err();
            assert!(told.starts_with("no line names a vendor; wanted:"), "{told}");
        }
        let missing = Vendors::read(Path::new("/nowhere/manuf")).unwrap_err();
        assert!(missing.starts_with("/nowhere/manuf: "), "{missing}");
    }
}
