//! Settings of a rule, bound to the columns of its table.

use std::collections::BTreeMap;

use engine::columns::{Kind, Schema};
use packet::Span;
use store::query::Filter;

use super::seen::RecentSet;
use super::window::{GROUPS_MAX, Window};
use super::{Facts, Limit, Rule, States, Test};
use crate::alert::FlowColumns;
use crate::settings::{AlertSettings, span_or};
use crate::text::{Template, VALUE_LEN_MAX, push_clean};

/// Columns by which alerts are distinguished, the first that a table has.
const KEYS: [&[&str]; 5] =
    [&["community_id"], &["host"], &["src_ip", "dst_ip"], &["src_ip"], &["dst_ip"]];

/// Combinations that are remembered, unless another number is given.
const NEW_MAX: usize = 100_000;

/// Rows before a share is taken, unless another number is given.
const LEAST_ROWS: u64 = 10;

/// What is wrong: the key of the settings, and what was seen and wanted.
pub(crate) type Wrong = (&'static str, String);

/// Collects what is wrong, so that all of it is reported together.
struct Binding<'a> {
    schema: Schema,
    wrong: &'a mut Vec<Wrong>,
}

impl Binding<'_> {
    fn place(&mut self, key: &'static str, name: &str) -> Option<usize> {
        let found = place(self.schema, name);
        if found.is_none() {
            let names: Vec<_> = self.schema.iter().map(|field| field.name).collect();
            let told = format!("no column {name:?}; the table has: {}", names.join(", "));
            self.wrong.push((key, told));
        }
        found
    }

    fn places(&mut self, key: &'static str, names: &[String]) -> Vec<usize> {
        names.iter().filter_map(|name| self.place(key, name)).collect()
    }

    fn number(&mut self, key: &'static str, name: &str) -> Option<usize> {
        let found = self.place(key, name)?;
        let kind = self.schema.get(found).map(|field| field.kind);
        if matches!(kind, Some(Kind::Text | Kind::Bytes | Kind::TimestampNs) | None) {
            self.wrong.push((key, format!("{name} is not a number; wanted: a column of numbers")));
        }
        Some(found)
    }

    fn template(&mut self, key: &'static str, text: &str) -> Option<Template> {
        Template::new(text, self.schema).map_err(|why| self.wrong.push((key, why))).ok()
    }
}

fn place(schema: Schema, name: &str) -> Option<usize> {
    schema.iter().position(|field| field.name == name)
}

impl Rule {
    /// Binds a rule to a table.
    ///
    /// # Errors
    /// All that is wrong with it.
    pub(crate) fn bind(settings: &AlertSettings, schema: Schema) -> Result<Self, Vec<Wrong>> {
        let mut wrong = Vec::new();
        check_kind(settings, &mut wrong);
        check_labels(&settings.labels, &mut wrong);
        let filter = Filter::new(&settings.when, schema);
        let filter = filter.map_err(|why| wrong.push(("when", why.0))).ok();
        let mut binding = Binding { schema, wrong: &mut wrong };
        let names = key_names(settings, schema);
        let key_name = if settings.new.is_empty() { "key" } else { "new" };
        let key = binding.places(key_name, &names);
        let value = settings.value.as_deref().and_then(|name| binding.number("value", name));
        let test = test(settings, &mut binding);
        let text = settings.text.clone().unwrap_or_else(|| default_text(settings, &names));
        let text = binding.template("text", &text);
        let annotations = &settings.annotations;
        let annotations = annotations.iter().filter_map(|(name, text)| {
            Some((name.clone(), binding.template("annotations", text)?))
        });
        let annotations = annotations.collect();
        let label_columns: Vec<_> =
            key.iter().filter_map(|&place| Some((schema.get(place)?.name, place))).collect();
        if let Some((name, _)) =
            label_columns.iter().find(|(name, _)| settings.labels.contains_key(*name))
        {
            let told = format!("{name} is a column of the key, which is a label already");
            wrong.push(("labels", told));
        }
        let (Some(filter), Some(text), true) = (filter, text, wrong.is_empty()) else {
            return Err(wrong);
        };
        let (labels, severity) = labels(&settings.name, &settings.labels, "warning");
        let host = place(schema, "host").or_else(|| place(schema, "src_ip"));
        let facts = Facts {
            name: settings.name.as_str().into(),
            table: settings.table.as_str().into(),
            severity: severity.as_str().into(),
            labels,
            label_columns,
            text,
            annotations,
            community_id: place(schema, "community_id"),
            host: host.or_else(|| place(schema, "dst_ip")),
            flow: FlowColumns::find(|name| place(schema, name)),
        };
        let hold = settings.hold.unwrap_or_default();
        let states = States::new(hold, span_or(settings.resolve_after, 60));
        let is_open = settings.open.unwrap_or(true);
        let settings = settings.clone();
        Ok(Self { settings, facts, filter, key, test, states, value, is_open })
    }
}

/// Labels that an alert has besides its key, and its severity.
pub(crate) fn labels(
    name: &str,
    given: &BTreeMap<String, String>,
    severity: &str,
) -> (BTreeMap<String, String>, String) {
    let clean = |value: &String| {
        let mut text = String::new();
        push_clean(&mut text, value, VALUE_LEN_MAX);
        text
    };
    let given = given.iter().map(|(name, value)| (name.clone(), clean(value)));
    let mut labels: BTreeMap<String, String> = given.collect();
    labels.insert("alertname".into(), name.into());
    let severity = labels.entry("severity".into()).or_insert_with(|| severity.into()).clone();
    (labels, severity)
}

/// Names of labels are those of Prometheus, so that every receiver takes them.
pub(crate) fn check_labels(labels: &BTreeMap<String, String>, wrong: &mut Vec<Wrong>) {
    for name in labels.keys() {
        let mut bytes = name.bytes();
        let begins = |byte: u8| byte.is_ascii_alphabetic() || byte == b'_';
        let is_name = bytes.next().is_some_and(begins)
            && bytes.all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        if !is_name || name == "alertname" {
            let wanted = "wanted: letters, digits and _, no digit first, and not alertname";
            wrong.push(("labels", format!("{name:?} is not a label name; {wanted}")));
        }
    }
}

fn key_names(settings: &AlertSettings, schema: Schema) -> Vec<String> {
    let is_window = settings.share_above.is_some() || settings.above.is_some();
    let owned = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
    match &settings.key {
        _ if !settings.new.is_empty() => settings.new.clone(),
        Some(key) => key.clone(),
        None if is_window => Vec::new(),
        None => {
            let has = |names: &&&[&str]| names.iter().all(|name| place(schema, name).is_some());
            KEYS.iter().find(has).map_or_else(Vec::new, |names| owned(names))
        }
    }
}

fn default_text(settings: &AlertSettings, key: &[String]) -> String {
    let name = settings.name.replace('{', "{{").replace('}', "}}");
    let columns: Vec<_> = key.iter().map(|column| format!("{column} {{{column}}}")).collect();
    let is_window = settings.share_above.is_some() || settings.above.is_some();
    let value = if is_window || settings.value.is_some() { " ({value})" } else { "" };
    match columns.is_empty() {
        true => format!("{name}{value}"),
        false => format!("{name}: {}{value}", columns.join(", ")),
    }
}

fn test(settings: &AlertSettings, binding: &mut Binding<'_>) -> Test {
    let AlertSettings { new, learn, new_max, over, share_above, above, .. } = settings;
    if !new.is_empty() {
        let seen = RecentSet::new(new_max.unwrap_or(NEW_MAX));
        return Test::New { seen, learn: span_or(*learn, 3_600), began: None };
    }
    let least_rows = settings.least_rows.unwrap_or(LEAST_ROWS);
    let limit = match (*share_above, *above) {
        (Some(above), _) => Limit::Share { above, least_rows },
        (_, Some(above)) => Limit::Sum { above },
        (None, None) => return Test::Row,
    };
    let among = binding.places("among", &settings.among);
    let weight = settings.weight.iter().filter_map(|name| binding.number("weight", name)).collect();
    let window = Window::new(over.unwrap_or_default(), settings.groups_max.unwrap_or(GROUPS_MAX));
    Test::Window { window, limit, among, weight }
}

/// What does not go together.
fn check_kind(settings: &AlertSettings, wrong: &mut Vec<Wrong>) {
    let AlertSettings { name, new, share_above, above, over, among, .. } = settings;
    let is_window = share_above.is_some() || above.is_some();
    let mut refuse = |is_wrong: bool, key, told: &str| {
        if is_wrong {
            wrong.push((key, told.to_owned()));
        }
    };
    refuse(name.trim().is_empty(), "name", "wanted: a name");
    let is_long = name.len() > VALUE_LEN_MAX || name.chars().any(char::is_control);
    refuse(is_long, "name", "wanted: 256 bytes at most, without control characters");
    refuse(
        [!new.is_empty(), share_above.is_some(), above.is_some()].iter().filter(|&&is| is).count()
            > 1,
        "name",
        "only one of new, share-above and above can be given",
    );
    refuse(is_window && over.is_none(), "over", "share-above and above need it, such as \"60s\"");
    let has_no_use = "has an effect with share-above or above only";
    refuse(!is_window && over.is_some(), "over", has_no_use);
    refuse(!is_window && !settings.weight.is_empty(), "weight", has_no_use);
    refuse(!is_window && settings.groups_max.is_some(), "groups-max", has_no_use);
    refuse(share_above.is_none() && !among.is_empty(), "among", "needs share-above");
    refuse(share_above.is_none() && settings.least_rows.is_some(), "least-rows", has_no_use);
    let is_share = share_above.is_none_or(|share| (0.0..1.0).contains(&share));
    refuse(!is_share, "share-above", "wanted: 0 or more, and less than 1");
    refuse(above.is_some_and(|above| !above.is_finite()), "above", "wanted: a number");
    refuse(new.is_empty() && settings.learn.is_some(), "learn", "needs new");
    refuse(new.is_empty() && settings.new_max.is_some(), "new-max", "needs new");
    refuse(!new.is_empty() && settings.key.is_some(), "key", "new is the key");
    let holds = settings.hold.is_some_and(|hold| hold > Span::default());
    refuse(!new.is_empty() && holds, "for", "a new key is new only once");
    let is_in_key = |column| settings.key.as_ref().is_some_and(|key| key.contains(column));
    refuse(!among.iter().all(is_in_key), "among", "wanted: columns of key");
}
