//! A trained model: two forests, and how the features that they read are made.
//!
//! The file is JSON, one object: `format`, `classes`, `features` (the options), `columns`,
//! `schema` (the hash of what these mean), `flow_forest`, `packet_forest` and `training`, which is
//! ignored. Everything else that it says is checked.

use std::fmt;

use model::numeric::{CLASS_COUNT_MAX, COLUMN_COUNT_MAX};
use model::{NumericError, NumericForest, TreeArrays};
use packet::Span;
use serde_json::{Map, Value};

use crate::features::{Column, CounterStore, FeatureOptions, Key, schema_hash};
use crate::reuse::{GROWTH_PERCENT_MAX, REUSE_FLOWS_MAX, REUSE_FLOWS_MIN, VerdictReuse};

/// Bytes of a file at most.
pub const FILE_LEN_MAX: usize = 64 << 20;

/// Trees of a forest at most.
pub const TREE_COUNT_MAX: usize = 4096;

/// What stands first in a file.
pub const FORMAT: &str = "wirelens-packetlog 1";

const FIELDS: [&str; 9] = [
    "format",
    "classes",
    "features",
    "columns",
    "schema",
    "flow_forest",
    "packet_forest",
    "verdict_reuse",
    "training",
];

/// A model that was read.
#[derive(Clone, Debug)]
pub struct Model {
    classes: Vec<String>,
    options: FeatureOptions,
    columns: Vec<Column>,
    schema: String,
    flow_forest: NumericForest,
    packet_forest: NumericForest,
    verdict_reuse: Option<VerdictReuse>,
}

/// Why a file is refused: what is at fault, what was seen and what was wanted.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ModelError {
    /// The field, such as `flow_forest.trees[2].left[14]`; nothing where it is the file.
    pub field: String,
    /// What was seen and what was wanted.
    pub cause: String,
}

impl ModelError {
    fn new(field: impl Into<String>, cause: impl Into<String>) -> Self {
        Self { field: field.into(), cause: cause.into() }
    }
}

impl fmt::Display for ModelError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.field.is_empty() {
            return f.write_str(&self.cause);
        }
        write!(f, "{}: {}", self.field, self.cause)
    }
}

impl std::error::Error for ModelError {}

impl Model {
    /// Reads a file, all of it given.
    ///
    /// # Errors
    /// [`ModelError`], for the first thing that cannot be.
    pub fn parse(text: &[u8]) -> Result<Self, ModelError> {
        if text.len() > FILE_LEN_MAX {
            let cause = format!("{} bytes; wanted: {FILE_LEN_MAX} at most", text.len());
            return Err(ModelError::new("", cause));
        }
        let value: Value = serde_json::from_slice(text)
            .map_err(|error| ModelError::new("", format!("{error}; wanted: JSON")))?;
        let file = Object::of(&value, "")?;
        let format = file.text("format")?;
        if format != FORMAT {
            let seen = shown(file.get("format")?);
            return Err(file.wrong("format", format_args!("{seen}; wanted: {FORMAT:?}")));
        }
        file.only(&FIELDS)?;
        let classes = read_classes(&file)?;
        let options = read_options(&file)?;
        let columns = read_columns(&file, &options)?;
        let schema = schema_hash(&options, &columns);
        let named = file.text("schema")?;
        if named != schema {
            let seen = shown(file.get("schema")?);
            let cause = format_args!(
                "{seen}; wanted: {schema:?}, what this version means by these columns; train \
                 the model with it"
            );
            return Err(file.wrong("schema", cause));
        }
        let flow_forest = read_forest(&file, "flow_forest", classes.len(), columns.len())?;
        let packet_forest = read_forest(&file, "packet_forest", classes.len(), columns.len())?;
        if let Some(key) = options.main_key() {
            let mut read =
                packet_forest.columns_read().into_iter().filter_map(|at| columns.get(at));
            if let Some(column) = read.find(|column| column.key() == Some(key)) {
                let name = key.name();
                let cause = format_args!(
                    "it reads `{column}`; wanted: columns that need no state of the {name}"
                );
                return Err(file.wrong("packet_forest", cause));
            }
        }
        let verdict_reuse = read_reuse(&file)?;
        Ok(Self { classes, options, columns, schema, flow_forest, packet_forest, verdict_reuse })
    }

    /// Names of the classes; the first is traffic that is known and unimportant.
    #[must_use]
    pub fn classes(&self) -> &[String] {
        &self.classes
    }

    /// How its features are made.
    #[must_use]
    pub const fn options(&self) -> &FeatureOptions {
        &self.options
    }

    /// The columns that its forests read.
    #[must_use]
    pub fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// The hash of what its numbers mean.
    #[must_use]
    pub fn schema(&self) -> &str {
        &self.schema
    }

    /// Judges packets of whose flow something is kept.
    #[must_use]
    pub const fn flow_forest(&self) -> &NumericForest {
        &self.flow_forest
    }

    /// Judges the others.
    #[must_use]
    pub const fn packet_forest(&self) -> &NumericForest {
        &self.packet_forest
    }

    /// When the last verdict of a flow is used again; never where there is nothing.
    #[must_use]
    pub const fn verdict_reuse(&self) -> Option<VerdictReuse> {
        self.verdict_reuse
    }
}

/// An object of the file and where it stands.
struct Object<'a> {
    path: &'a str,
    fields: &'a Map<String, Value>,
}

/// Of a value of unknown origin so many characters are shown.
const SHOWN_LEN_MAX: usize = 70;

/// The beginning of a value of unknown origin, fit for a message.
fn shown(value: &Value) -> String {
    shown_text(&value.to_string())
}

/// The beginning of a text of unknown origin, in one line and without what moves a cursor.
fn shown_text(text: &str) -> String {
    let one_line = |c: char| if c.is_control() { ' ' } else { c };
    let short: String = text.chars().take(SHOWN_LEN_MAX).map(one_line).collect();
    let dots = if text.chars().nth(SHOWN_LEN_MAX).is_some() { "…" } else { "" };
    format!("{short}{dots}")
}

impl<'a> Object<'a> {
    fn of(value: &'a Value, path: &'a str) -> Result<Self, ModelError> {
        match value {
            Value::Object(fields) => Ok(Self { path, fields }),
            other => Err(ModelError::new(path, format!("{}; wanted: an object", shown(other)))),
        }
    }

    fn name(&self, field: &str) -> String {
        if self.path.is_empty() { field.to_owned() } else { format!("{}.{field}", self.path) }
    }

    fn wrong(&self, field: &str, cause: impl fmt::Display) -> ModelError {
        ModelError::new(self.name(field), cause.to_string())
    }

    fn get(&self, field: &str) -> Result<&'a Value, ModelError> {
        self.fields.get(field).ok_or_else(|| self.wrong(field, "missing"))
    }

    /// Where there is a field that is not read, it was meant for another program.
    fn only(&self, known: &[&str]) -> Result<(), ModelError> {
        match self.fields.keys().find(|field| !known.contains(&field.as_str())) {
            Some(other) => {
                Err(self.wrong(&shown_text(other), format_args!("wanted: one of {known:?}")))
            }
            None => Ok(()),
        }
    }

    fn wanted<T>(
        &self,
        field: &str,
        wanted: &str,
        read: impl FnOnce(&'a Value) -> Option<T>,
    ) -> Result<T, ModelError> {
        let value = self.get(field)?;
        read(value)
            .ok_or_else(|| self.wrong(field, format_args!("{}; wanted: {wanted}", shown(value))))
    }

    fn text(&self, field: &str) -> Result<&'a str, ModelError> {
        self.wanted(field, "text", Value::as_str)
    }

    fn whole(&self, field: &str) -> Result<i64, ModelError> {
        self.wanted(field, "a whole number", Value::as_i64)
    }

    fn size(&self, field: &str) -> Result<usize, ModelError> {
        self.wanted(field, "a whole number from 0 on", |value| {
            value.as_u64().and_then(|number| usize::try_from(number).ok())
        })
    }

    fn list(&self, field: &str, len_max: usize) -> Result<&'a [Value], ModelError> {
        let list = self.wanted(field, "a list", Value::as_array)?;
        if list.len() > len_max {
            let cause = format_args!("{} of them; wanted: {len_max} at most", list.len());
            return Err(self.wrong(field, cause));
        }
        Ok(list)
    }

    /// A list, each of its values read.
    fn each<T>(
        &self,
        field: &str,
        len_max: usize,
        wanted: &str,
        read: impl Fn(&'a Value) -> Option<T>,
    ) -> Result<Vec<T>, ModelError> {
        let list = self.list(field, len_max)?.iter().enumerate();
        let one = |(at, value)| {
            read(value).ok_or_else(|| {
                let cause = format_args!("{}; wanted: {wanted}", shown(value));
                self.wrong(&format!("{field}[{at}]"), cause)
            })
        };
        list.map(one).collect()
    }
}

fn read_classes(file: &Object<'_>) -> Result<Vec<String>, ModelError> {
    let classes = file.each("classes", CLASS_COUNT_MAX, "a name", |value| {
        value.as_str().filter(|name| !name.is_empty()).map(str::to_owned)
    })?;
    if classes.is_empty() {
        return Err(file.wrong("classes", "none; wanted: one at least"));
    }
    let twice = classes.iter().enumerate().find(|(at, name)| classes[..*at].contains(name));
    match twice {
        Some((_, name)) => {
            let name = shown_text(name);
            Err(file.wrong("classes", format_args!("\"{name}\" twice; wanted: once")))
        }
        None => Ok(classes),
    }
}

fn read_options(file: &Object<'_>) -> Result<FeatureOptions, ModelError> {
    let features = Object::of(file.get("features")?, "features")?;
    features.only(&[
        "source",
        "window_ns",
        "layers",
        "buckets",
        "keys",
        "idle_timeout_ns",
        "flow_count_max",
        "states",
    ])?;
    let source = features.wanted("source", "\"sketch\" or \"exact\"", |value| {
        [CounterStore::Sketch, CounterStore::Exact].into_iter().find(|kept| value == kept.name())
    })?;
    let keys = features.each("keys", Key::COUNT, "flow, source or destination", |value| {
        value.as_str().and_then(Key::named)
    })?;
    let options = FeatureOptions {
        source,
        window: Span::from_ns(features.whole("window_ns")?),
        layers: features.size("layers")?,
        buckets: features.size("buckets")?,
        keys,
        idle_timeout: Span::from_ns(features.whole("idle_timeout_ns")?),
        flow_count_max: features.size("flow_count_max")?,
        // Models from before there were states do not say it.
        states: if features.fields.contains_key("states") { features.size("states")? } else { 0 },
    };
    options.check().map_err(|error| features.wrong(error.name, error.cause)).map(|()| options)
}

/// Models without it classify every packet for itself.
fn read_reuse(file: &Object<'_>) -> Result<Option<VerdictReuse>, ModelError> {
    const NAME: &str = "verdict_reuse";
    if !file.fields.contains_key(NAME) {
        return Ok(None);
    }
    let reuse = Object::of(file.get(NAME)?, NAME)?;
    reuse.only(&["flows", "growth_percent"])?;
    let (least, most) = (REUSE_FLOWS_MIN, REUSE_FLOWS_MAX);
    let wanted = format!("a power of two from {least} to {most}");
    let flows = reuse.wanted("flows", &wanted, |value| {
        let flows = usize::try_from(value.as_u64()?).ok()?;
        (flows.is_power_of_two() && (least..=most).contains(&flows)).then_some(flows)
    })?;
    let wanted = format!("1 to {GROWTH_PERCENT_MAX}");
    let growth_percent = reuse.wanted("growth_percent", &wanted, |value| {
        let percent = u32::try_from(value.as_u64()?).ok()?;
        (1..=GROWTH_PERCENT_MAX).contains(&percent).then_some(percent)
    })?;
    Ok(Some(VerdictReuse { flows, growth_percent }))
}

fn read_columns(file: &Object<'_>, options: &FeatureOptions) -> Result<Vec<Column>, ModelError> {
    let wanted = "the name of a column that there is with these keys";
    let columns = file.each("columns", COLUMN_COUNT_MAX, wanted, |value| {
        value.as_str().and_then(|name| Column::named(name, options))
    })?;
    if columns.is_empty() {
        return Err(file.wrong("columns", "none; wanted: one at least"));
    }
    Ok(columns)
}

fn read_forest(
    file: &Object<'_>,
    name: &str,
    class_count: usize,
    column_count: usize,
) -> Result<NumericForest, ModelError> {
    let forest = Object::of(file.get(name)?, name)?;
    forest.only(&["trees"])?;
    let trees = forest.list("trees", TREE_COUNT_MAX)?.iter().enumerate();
    let trees = trees.map(|(at, tree)| {
        let path = format!("{name}.trees[{at}]");
        read_tree(&Object::of(tree, &path)?)
    });
    let trees = trees.collect::<Result<Vec<_>, _>>()?;
    NumericForest::new(class_count, column_count, &trees).map_err(|error: NumericError| {
        let within = error.cause.split_once(": ");
        match (error.tree, within) {
            (Some(tree), Some((field, cause))) => {
                ModelError::new(format!("{name}.trees[{tree}].{field}"), cause)
            }
            _ => ModelError::new(format!("{name}.trees"), error.cause),
        }
    })
}

fn read_tree(tree: &Object<'_>) -> Result<TreeArrays, ModelError> {
    tree.only(&["feature", "threshold", "left", "right", "value"])?;
    let max = usize::MAX;
    let whole = |field| tree.each(field, max, "a whole number", Value::as_i64);
    Ok(TreeArrays {
        feature: whole("feature")?,
        threshold: tree.each("threshold", max, "a number", Value::as_f64)?,
        left: whole("left")?,
        right: whole("right")?,
        value: tree.each("value", max, "a list of numbers", |value| {
            value.as_array()?.iter().map(Value::as_f64).collect()
        })?,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn text() -> String {
        let options = FeatureOptions::default();
        let columns = [Column::named("ip_bytes", &options).unwrap()];
        let tree = r#"{"feature":[0,-2,-2],"threshold":[9.5,-2.0,-2.0],"left":[1,-1,-1],
            "right":[2,-1,-1],"value":[[1,1],[1,0],[0,1]]}"#;
        format!(
            r#"{{"format":"wirelens-packetlog 1","classes":["a","b"],
            "features":{{"source":"sketch","window_ns":10000000,"layers":2,"buckets":65536,
            "keys":["flow"],"idle_timeout_ns":120000000000,"flow_count_max":1048576}},
            "columns":["ip_bytes"],"schema":"{}","flow_forest":{{"trees":[{tree}]}},
            "packet_forest":{{"trees":[{tree}]}}}}"#,
            schema_hash(&options, &columns)
        )
    }

    #[test]
    fn what_is_wrong_is_named_with_where_it_stands() {
        assert!(Model::parse(text().as_bytes()).is_ok());
        let cases = [
            ("wirelens-packetlog 1", "wirelens-packetlog 2", "format: \"wirelens-packetlog 2\""),
            ("[\"a\",\"b\"]", "[\"a\",7]", "classes[1]: 7; wanted: a name"),
            ("\"layers\":2", "\"layers\":0", "features.layers: 0; wanted: 1 to 8"),
            ("\"layers\":2", "\"layers\":-2", "features.layers: -2; wanted: a whole number"),
            ("\"layers\":2,", "", "features.layers: missing"),
            ("\"source\":\"sketch\"", "\"source\":\"x\"", "features.source: \"x\"; wanted"),
            ("10000000,", "20000000,", "schema: "),
            ("\"left\":[1", "\"left\":[0", "flow_forest.trees[0].left[0]: 0; wanted"),
            ("[9.5", "[\"9\"", "flow_forest.trees[0].threshold[0]: \"9\"; wanted: a number"),
            ("{\"trees\":[", "{\"tree\":[", "flow_forest.tree: wanted: one of [\"trees\"]"),
        ];
        for (from, to, wanted) in cases {
            let seen = Model::parse(text().replacen(from, to, 1).as_bytes()).unwrap_err();
            assert!(seen.to_string().starts_with(wanted), "{seen}");
        }
        let seen = Model::parse(b"{").unwrap_err().to_string();
        assert!(seen.contains("wanted: JSON"), "{seen}");
    }

    #[test]
    fn whatever_a_file_says_a_message_is_one_short_line() {
        let odd = format!("a\\nb\\u001b[2J\u{9b}{}", "c".repeat(5000));
        for (from, to) in [
            ("\"classes\":", format!("\"{odd}\":1,\"classes\":")),
            ("{\"trees\":", format!("{{\"{odd}\":1,\"trees\":")),
            ("\"a\",\"b\"", format!("\"{odd}\",\"{odd}\"")),
            ("\"sketch\"", format!("\"{odd}\"")),
            ("wirelens-packetlog 1", odd.clone()),
            ("\"schema\":\"", format!("\"schema\":\"{odd}")),
        ] {
            let changed = text().replacen(from, &to, 1);
            let seen = Model::parse(changed.as_bytes()).unwrap_err().to_string();
            assert!(!seen.contains(char::is_control) && seen.len() < 400, "{from}: {seen:?}");
        }
    }

    proptest! {
        #[test]
        fn a_damaged_file_is_refused_or_read_but_no_panic(
            at in 0usize..900, byte: u8, cut in 0usize..900,
        ) {
            let mut bytes = text().into_bytes();
            let len = bytes.len();
            bytes[at % len] = byte;
            let _ = Model::parse(&bytes);
            bytes.truncate(cut % len);
            prop_assert!(Model::parse(&bytes).is_err());
        }
    }
}
