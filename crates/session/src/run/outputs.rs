//! Where an application's rows go, as its table in a file of settings says.

use std::borrow::Cow;
use std::ops::Range;
use std::path::PathBuf;

use serde::Deserialize;
use sink::Format;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::application::{Entry, Site};
use crate::applications::APPLICATIONS;
use crate::choice::Choice as _;
use crate::exports::{Export, Form, OPTION_KEYS, Options, Style};
use crate::toml_text::{Mistakes, read_table, suggestion};

/// Where an application's rows go.
#[derive(Clone, Debug)]
pub struct OutputSettings {
    /// The file; `-` is standard output.
    pub path: PathBuf,
    /// How rows are written.
    pub format: Format,
    /// Whether a file that exists is replaced.
    pub force: bool,
}

impl OutputSettings {
    /// Whether rows go to standard output.
    #[must_use]
    pub fn is_stdout(&self) -> bool {
        self.path.as_os_str() == "-"
    }
}

/// The keys that every application with rows has.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct WrittenOutput {
    output: Option<PathBuf>,
    format: Option<String>,
    force: bool,
}

const OUTPUT_KEYS: [&str; 3] = ["output", FORMAT, "force"];

/// The key that says how rows are written. An application that can write records of other tools has
/// one of the same name.
const FORMAT: &str = "format";

/// The formats by name.
const FORMATS: [Format; 4] = [Format::Csv, Format::Jsonl, Format::Parquet, Format::Arrow];

/// Where rows go.
pub(super) enum OutputTarget {
    /// Into one file, or to standard output.
    One(OutputSettings),
    /// Elsewhere.
    Exported(Export),
}

/// Takes the keys of its output out of an application's table, and reads them.
pub(super) fn take_output<'t>(
    entry: &Entry,
    at: &Range<usize>,
    own: &mut DeTable<'t>,
    site: Site<'_>,
    mistakes: &mut Mistakes,
) -> Option<Option<OutputTarget>> {
    let (mut shared, mut divided) = (DeTable::default(), DeTable::default());
    if entry.has_rows {
        for key in OUTPUT_KEYS {
            shared.extend(own.remove_entry(key));
        }
        for key in OPTION_KEYS {
            divided.extend(own.remove_entry(key));
        }
        // Which of both was meant by any other key, the application alone cannot say. The form of
        // rows may be its own to know as well.
        let own_keys = (entry.keys)().iter().filter(|key| !OUTPUT_KEYS.contains(key));
        let names: Vec<&str> =
            OUTPUT_KEYS.iter().chain(own_keys).chain(&OPTION_KEYS).copied().collect();
        mistakes.take_unknown(entry.name, own, &names);
    }
    let shared = Spanned::new(at.clone(), shared);
    let output = output(entry, &shared, &Spanned::new(at.clone(), divided), site, mistakes);
    if let Some(Some(OutputTarget::Exported(Export { form: Form::Records(style), .. }))) = &output {
        // It has to know that its rows become records.
        let (key, value) = (Cow::Borrowed(FORMAT), DeValue::String(Cow::Borrowed(style.name())));
        own.insert(Spanned::new(at.clone(), key), Spanned::new(at.clone(), value));
    }
    output
}

/// Where rows go; the outer none is a mistake.
fn output(
    entry: &Entry,
    table: &Spanned<DeTable<'_>>,
    divided: &Spanned<DeTable<'_>>,
    site: Site<'_>,
    mistakes: &mut Mistakes,
) -> Option<Option<OutputTarget>> {
    if !entry.has_rows {
        return Some(None);
    }
    let name = entry.name;
    let written: WrittenOutput = read_table(name, table, mistakes)?;
    let options: Options = read_table(name, divided, mistakes)?;
    let mut refuse = |key: &str, message: String| {
        let place = table.get_ref().get_key_value(key);
        let place = place.or_else(|| divided.get_ref().get_key_value(key));
        let at = place.map_or_else(|| table.span(), |(key, _)| key.span());
        mistakes.add(at, format_args!("[{name}] {message}"));
        None
    };
    let Some(path) = written.output else {
        let idle = [(FORMAT, written.format.is_some()), ("force", written.force)];
        let given = idle.into_iter().find_map(|(key, is_given)| is_given.then_some(key));
        let divides = |key: &&str| divided.get_ref().contains_key(*key);
        if site.takes_rows {
            let Some(key) = given.or_else(|| OPTION_KEYS.into_iter().find(divides)) else {
                return Some(None);
            };
            return refuse(key, format!("{key} has no effect without output; give both or none"));
        }
        let wanted = format!("output = \"{name}.parquet\", or \"-\" for standard output");
        return refuse("", format!("its rows have no output; give {wanted}"));
    };
    let asked = match written.format.as_deref().map(|seen| form_named(entry, seen)).transpose() {
        Ok(asked) => asked,
        Err(told) => return refuse(FORMAT, format!("format: {told}")),
    };
    let form = match Export::form(&path, asked, &options) {
        Ok(form) => form,
        Err(error) => return refuse("output", format!("output: {error}")),
    };
    let export = Export { path, form, force: written.force, options };
    if let Err(refusal) = export.check() {
        return refuse(refusal.key.unwrap_or_default(), refusal.to_string());
    }
    let is_needed = export.is_needed();
    let Export { path, form, force, options } = export;
    Some(Some(match form {
        Form::Rows(format) if !is_needed => {
            OutputTarget::One(OutputSettings { path, format, force })
        }
        Form::Records(_) if !has_records(entry) => {
            return refuse("output", format!("output: {}", other_records()));
        }
        form => OutputTarget::Exported(Export { path, form, force, options }),
    }))
}

/// Whether rows of an application can be records of other tools.
fn has_records(entry: &Entry) -> bool {
    (entry.keys)().contains(&FORMAT)
}

fn other_records() -> String {
    let able: Vec<_> = APPLICATIONS.iter().filter(|entry| has_records(entry)).collect();
    let able: Vec<_> = able.iter().map(|entry| format!("[{}]", entry.name)).collect();
    format!(
        "records of other tools are those of {}; give csv, jsonl, parquet or arrow",
        able.join(", ")
    )
}

/// The form of a name; an error is what to say instead.
fn form_named(entry: &Entry, seen: &str) -> Result<Form, String> {
    if let Some(format) = FORMATS.into_iter().find(|format| format.name() == seen) {
        return Ok(Form::Rows(format));
    }
    let style = Style::named(seen).ok();
    if !has_records(entry) {
        let plain = || suggestion(seen, &FORMATS.map(Format::name));
        return Err(style.map_or_else(plain, |_| other_records()));
    }
    let styles = Style::ALL.iter().map(|style| style.name());
    let names: Vec<_> = FORMATS.iter().map(|format| format.name()).chain(styles).collect();
    style.map(Form::Records).ok_or_else(|| suggestion(seen, &names))
}
