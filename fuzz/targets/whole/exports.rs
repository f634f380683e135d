//! Flows and verdicts with names that strangers chose, as records of other tools: EVE and Zeek's
//! logs parse again, and messages of IPFIX are as long as they say.

use std::fs;
use std::path::Path;

use fuzz::outputs::{Form, check};

use super::applications::Case;

/// Forms of records: the format, what is written, and how it is read back.
const FORMS: [(&str, &str, Form); 4] = [
    ("eve", "records.json", Form::JsonLines),
    ("zeek", "records", Form::ZeekLog),
    ("zeek-json", "records", Form::JsonLines),
    ("ipfix", "records.ipfix", Form::Ipfix),
];

pub(crate) fn exports(bytes: &[u8]) {
    let case = Case::new(bytes);
    let (format, name, wanted) = FORMS[usize::from(case.choice & 3)];
    let output = case.folder.join(name);
    let table = match case.choice >> 2 & 3 {
        0 | 1 => "[flows]\nread-names = true\nmax-flows = 64\n",
        2 => "[flows]\nmacs = true\n",
        _ => "[classify]\nmodel = \"services\"\nmax-flows = 64\n",
    };
    let mut settings = case.head() + table;
    settings
        .push_str(&format!("output = {:?}\nformat = {format:?}\n", output.display().to_string()));
    for (number, line) in [(4, "biflow = true\n"), (5, "rotate-time = \"1s\"\n")] {
        if case.bit(number) {
            settings.push_str(line);
        }
    }
    let ran = case.run(&settings);
    let rows = rows_below(&output, wanted);
    assert!(rows == 0 || ran.is_some(), "records of a run that was refused");
}

/// The rows of a file, or of the files of a folder.
fn rows_below(path: &Path, wanted: Form) -> usize {
    match fs::read_dir(path) {
        Ok(entries) => entries.flatten().map(|entry| rows_below(&entry.path(), wanted)).sum(),
        Err(_) => check(path, wanted),
    }
}
