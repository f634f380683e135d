//! From the files of an artifact to a cascade, everything checked.

use std::io;
use std::sync::Arc;

use model::sums::{SUMS_FILE, Sums, SumsError, sha256};
use model::trees::{CLASS_COUNT_MAX, FILE_LEN_MAX};
use model::{FlowFeatures, Forest, WindowError, WindowFeatures};
use packet::Span;
use serde_json::Value;

use super::calibration::{Calibration, calibrations, unknown_below};
use super::card::Card;
use super::names::{self, StageNames};
use super::object::Object;
use super::reason::CascadeError;
use super::remembers;
use super::{Cascade, FlowTimeouts, Model, Segmentation, Stage, StageName};
use crate::evidence::NameList;
use crate::uncertainty::Uncertainty;

/// What the cascade itself is called in its artifact.
pub const CASCADE_FILE: &str = "cascade.json";

/// Bytes of `cascade.json` and of `SHA256SUMS`.
pub const CASCADE_LEN_MAX: usize = 16 << 20;

const FORMAT: &str = "wirelens cascade";
/// Version 2 added calibration, `unknown` and flows named by their protocol, version 3 names as
/// evidence and a memory of hosts; one without them means what version 1 did.
const VERSIONS: std::ops::RangeInclusive<u64> = 1..=3;
/// Bytes of a list of names.
const LIST_LEN_MAX: usize = 16 << 20;
const NAME_LEN_MAX: usize = 40;
/// How the file of a model in ONNX ends.
const ONNX_SUFFIX: &str = ".onnx";
/// Digits of the hash in a cascade's id.
const ID_DIGITS: usize = 12;

/// What a stage says of its model.
pub(super) struct StageDeclaration<'a> {
    pub(super) name: StageName,
    pub(super) family: String,
    pub(super) file: &'a str,
    packets: usize,
    pub(super) uncertainty: Uncertainty,
    pub(super) thresholds: Vec<f64>,
    pub(super) calibrations: Vec<Calibration>,
    pub(super) names: Option<StageNames>,
    /// All that it says, and what messages call it.
    #[cfg_attr(not(feature = "onnx"), expect(dead_code, reason = "trees say the rest themselves"))]
    pub(super) value: &'a Value,
    pub(super) path: String,
}

impl Cascade {
    /// Reads an artifact whose models are trees. `read` gives the bytes of a file by its name, and
    /// refuses what is longer than the bound that it is given; only plain names are asked for.
    ///
    /// # Errors
    /// [`CascadeError`], with the file at fault, what was seen there and what was wanted.
    pub fn read(
        mut read: impl FnMut(&str, usize) -> io::Result<Vec<u8>>,
    ) -> Result<Self, CascadeError> {
        read_all(&mut read, &mut |declared, bytes, cascade| stage(declared, &bytes, cascade))
    }

    /// The same where models may be in ONNX; `library` is asked when the first of them is.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    #[cfg(feature = "onnx")]
    pub fn read_with(
        mut read: impl FnMut(&str, usize) -> io::Result<Vec<u8>>,
        mut library: impl FnMut() -> Result<model::onnx::Library, model::onnx::OnnxError>,
    ) -> Result<Self, CascadeError> {
        read_all(&mut read, &mut |declared, bytes, cascade| {
            if declared.file.ends_with(ONNX_SUFFIX) {
                super::onnx::stage(declared, bytes, cascade, &mut library)
            } else {
                stage(declared, &bytes, cascade)
            }
        })
    }
}

/// What `cascade.json` says: the cascade, its stages, and the file of its list of names.
type Head<'a> = (Cascade, Vec<StageDeclaration<'a>>, Option<&'a str>);

/// Makes a stage of what is declared and the bytes of its file.
type MakeStage<'a> =
    &'a mut dyn FnMut(StageDeclaration<'_>, Vec<u8>, &Cascade) -> Result<Stage, CascadeError>;

fn read_all(
    read: &mut dyn FnMut(&str, usize) -> io::Result<Vec<u8>>,
    make: MakeStage<'_>,
) -> Result<Cascade, CascadeError> {
    let mut file = |name: &str, len_max| {
        read(name, len_max).map_err(|error| CascadeError::Unreadable {
            file: name.to_owned(),
            cause: error.to_string(),
            is_missing: error.kind() == io::ErrorKind::NotFound,
        })
    };
    let json = file(CASCADE_FILE, CASCADE_LEN_MAX)?;
    let sums = Sums::read(&file(SUMS_FILE, CASCADE_LEN_MAX)?)?;
    let mut lines = id_line(&sums, CASCADE_FILE, &json)?;
    let value = serde_json::from_slice::<Value>(&json)
        .map_err(|error| CascadeError::NotCascade { seen: error.to_string() })?;
    let (mut cascade, declared, list) = head(&value)?;
    if let Some(name) = list {
        let bytes = file(name, LIST_LEN_MAX)?;
        lines += &id_line(&sums, name, &bytes)?;
        let list = NameList::parse(&bytes, &cascade.classes);
        let list = list.map_err(|error| CascadeError::model(name, error))?;
        cascade.names = Some(Arc::new(list));
    }
    for declared in declared {
        let bytes = file(declared.file, FILE_LEN_MAX)?;
        lines += &id_line(&sums, declared.file, &bytes)?;
        let stage = make(declared, bytes, &cascade)?;
        cascade.stages.push(stage);
    }
    let hash = sha256(lines.as_bytes());
    cascade.id = format!("{}@{}", cascade.name, hash.get(..ID_DIGITS).unwrap_or(&hash));
    let all = FlowFeatures::of_all(cascade.stages.iter().map(Stage::features));
    cascade.features = all.map_err(CascadeError::field)?;
    if cascade.every.is_some() {
        let all = WindowFeatures::of_all(cascade.stages.iter().filter_map(Stage::window));
        cascade.window = Some(all.map_err(CascadeError::field)?);
    }
    Ok(cascade)
}

/// The line of a file in what the id is the hash of: its hash and length, as it was read, and its
/// name. It covers all that answers depend on, so workers and reloads see each file that changes.
fn id_line(sums: &Sums, name: &str, bytes: &[u8]) -> Result<String, SumsError> {
    let hash = sums.check(name, bytes)?;
    Ok(format!("{hash} {} {name}\n", bytes.len()))
}

/// All but the id, the models and the list of names, of which the file is named; the features are
/// still those of nothing.
fn head(value: &Value) -> Result<Head<'_>, CascadeError> {
    let root = Object::new(value, "")
        .map_err(|_| CascadeError::NotCascade { seen: String::from("no JSON object") })?;
    if root.get("format").and_then(Value::as_str) != Some(FORMAT) {
        let seen = root.get("format").map_or_else(|| "no `format`".into(), super::object::shown);
        return Err(CascadeError::NotCascade { seen });
    }
    let version = root.count("version", "1, 2 or 3")?;
    if !VERSIONS.contains(&version) {
        return Err(CascadeError::Version { version });
    }
    let wanted = "1 to 40 of a-z, 0-9 and -";
    let name = root.text("name", wanted)?;
    let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    if !(1..=NAME_LEN_MAX).contains(&name.len()) || !name.bytes().all(is_plain) {
        return Err(root.wrong("name", wanted));
    }
    let is_of_windows = root.one_of("kind", &[("flows", false), ("windows", true)])?;
    let every = is_of_windows.then(|| span(&root, "window_ns")).transpose()?;
    let classes = classes(&root)?;
    let flows = root.object("flows")?;
    let timeouts = FlowTimeouts {
        idle: span(&flows, "idle_timeout_ns")?,
        active: span(&flows, "active_timeout_ns")?,
    };
    let list = names::file(&root, version)?;
    if list.is_some() && every.is_some() {
        return Err(root.wrong("names", "none of windows"));
    }
    let memory = remembers::rule(&root, version, classes.len())?;
    if memory.is_some() && every.is_some() {
        return Err(root.wrong("memory", "none of windows"));
    }
    let stages = stages(&root, &classes, list.is_some())?;
    let known = [("single", Segmentation::Single), ("merged", Segmentation::Merged)];
    let names_protocols = match root.get("portless") {
        None => false,
        Some(_) if every.is_some() => return Err(root.wrong("portless", "none of windows")),
        Some(_) => root.one_of("portless", &[("named", true), ("asked", false)])?,
    };
    let cascade = Cascade {
        name: name.to_owned(),
        id: String::new(),
        unknown_below: unknown_below(&root, &classes)?,
        names_protocols,
        card: Card::of(value, &classes),
        classes,
        flows: timeouts,
        wait: span(&root, "wait_ns")?,
        segmentation: root.one_of("segmentation", &known)?,
        features: nothing()?,
        every,
        window: None,
        names: None,
        memory,
        stages: Vec::new(),
    };
    Ok((cascade, stages, list))
}

/// Features until those of the stages are known.
fn nothing() -> Result<FlowFeatures, CascadeError> {
    let layout = model::Layout::default();
    FlowFeatures::of_layout(model::Headers::Innermost, layout, 1, &[]).map_err(CascadeError::field)
}

pub(super) fn span(object: &Object<'_>, name: &str) -> Result<Span, CascadeError> {
    let wanted = "nanoseconds, more than 0";
    let ns = i64::try_from(object.count(name, wanted)?).ok().filter(|&ns| ns > 0);
    ns.map(Span::from_ns).ok_or_else(|| object.wrong(name, wanted))
}

fn classes(root: &Object<'_>) -> Result<Vec<String>, CascadeError> {
    let wanted = format!("2 to {CLASS_COUNT_MAX} names without control characters, each once");
    let list = root.list("classes", &wanted)?;
    let names: Option<Vec<_>> = list.iter().map(|name| name.as_str().map(str::to_owned)).collect();
    let names = names.ok_or_else(|| root.wrong("classes", &wanted))?;
    let mut sorted: Vec<_> = names.iter().collect();
    sorted.sort_unstable();
    sorted.dedup();
    let is_fine = (2..=CLASS_COUNT_MAX).contains(&names.len())
        && sorted.len() == names.len()
        && names.iter().all(|name| !name.is_empty() && !name.contains(char::is_control));
    if is_fine { Ok(names) } else { Err(root.wrong("classes", &wanted)) }
}

fn stages<'a>(
    root: &Object<'a>,
    classes: &[String],
    has_list: bool,
) -> Result<Vec<StageDeclaration<'a>>, CascadeError> {
    let wanted = "some of fastest, fast and slow, in this order";
    let list = root.list("stages", wanted)?;
    let mut stages: Vec<StageDeclaration<'a>> = Vec::new();
    for (index, value) in list.iter().enumerate() {
        let path = format!("stages[{index}].");
        let is_last = index + 1 == list.len();
        let mut stage = declared(value, path, classes, is_last)?;
        let object = Object::new(value, &stage.path)?;
        if let Some(before) = stages.last() {
            if before.name >= stage.name {
                return Err(object.wrong("stage", wanted));
            }
            if before.packets > stage.packets {
                let wanted = format!("{} at least, as of the stage before", before.packets);
                return Err(object.wrong("packets", &wanted));
            }
        }
        stage.names = names::stage(&object, has_list, classes)?;
        stages.push(stage);
    }
    if stages.is_empty() { Err(root.wrong("stages", wanted)) } else { Ok(stages) }
}

fn declared<'a>(
    value: &'a Value,
    path: String,
    classes: &[String],
    is_last: bool,
) -> Result<StageDeclaration<'a>, CascadeError> {
    let object = &Object::new(value, &path)?;
    let name = object.one_of("stage", &StageName::ALL.map(|stage| (stage.name(), stage)))?;
    let wanted = "the name of a file of the artifact";
    let file = object.text("file", wanted)?;
    if !is_file_name(file) {
        return Err(object.wrong("file", wanted));
    }
    let packets = depth(object)?;
    let family = object.text("family", "the kind of model")?.to_owned();
    let known = Uncertainty::ALL.map(|uncertainty| (uncertainty.name(), uncertainty));
    let uncertainty = match object.get("uncertainty") {
        // The last stage's answer stands, however uncertain.
        None if is_last => Uncertainty::LeastConfidence,
        _ => object.one_of("uncertainty", &known)?,
    };
    let thresholds = thresholds(object, classes, is_last)?;
    let calibrations = calibrations(object, classes)?;
    Ok(StageDeclaration {
        name,
        family,
        file,
        packets,
        uncertainty,
        thresholds,
        calibrations,
        names: None,
        value,
        path,
    })
}

/// How many packets of a flow are examined.
pub(super) fn depth(object: &Object<'_>) -> Result<usize, CascadeError> {
    let wanted = "a number of packets from 1 to 255";
    let packets = usize::try_from(object.count("packets", wanted)?).unwrap_or(usize::MAX);
    let is_fine = (1..=model::DEPTH_MAX).contains(&packets);
    if is_fine { Ok(packets) } else { Err(object.wrong("packets", wanted)) }
}

/// Whether a name is plain, so that nothing outside the artifact is read.
pub(super) fn is_file_name(name: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    !name.is_empty() && !name.starts_with('.') && name.bytes().all(is_plain)
}

/// One for each class; none of the last stage.
fn thresholds(
    object: &Object<'_>,
    classes: &[String],
    is_last: bool,
) -> Result<Vec<f64>, CascadeError> {
    let finite = |value: &Value| value.as_f64().filter(|threshold| threshold.is_finite());
    let given = (object.get("threshold"), object.get("thresholds"));
    match given {
        (None, None) if is_last => Ok(Vec::new()),
        (Some(_), _) if is_last => Err(object.wrong("threshold", "none of the last stage")),
        (_, Some(_)) if is_last => Err(object.wrong("thresholds", "none of the last stage")),
        (Some(value), None) => {
            let threshold =
                finite(value).ok_or_else(|| object.wrong("threshold", "a finite number"))?;
            Ok(vec![threshold; classes.len()])
        }
        (None, Some(_)) => {
            let by_class = object.object("thresholds")?;
            let wanted = "a finite number";
            let of = |class: &String| {
                let value = by_class.get(class).and_then(finite);
                value.ok_or_else(|| by_class.wrong(class, wanted))
            };
            classes.iter().map(of).collect()
        }
        (None, None) => Err(object.wrong("threshold", "it, or `thresholds`, one a class")),
        (Some(_), Some(_)) => Err(object.wrong("thresholds", "one of it and `threshold`")),
    }
}

/// What rows of a stage are, with their hash, compared with what was declared and what the first
/// stage reads.
pub(super) fn check_features(
    declared: &StageDeclaration<'_>,
    features: &FlowFeatures,
    own: String,
    carried: &str,
    cascade: &Cascade,
) -> Result<(), CascadeError> {
    let &StageDeclaration { file, packets, .. } = declared;
    if features.packets() != packets {
        return Err(CascadeError::model(
            file,
            format_args!("reads {} packets; cascade.json says {packets}", features.packets()),
        ));
    }
    if own != carried {
        let (file, carried) = (file.to_owned(), carried.to_owned());
        return Err(CascadeError::OtherSchema { file, carried, own });
    }
    if let Some(first) = cascade.stages.first()
        && (first.features.headers(), first.features.layout())
            != (features.headers(), features.layout())
    {
        return Err(CascadeError::model(
            file,
            "reads other headers, blocks or bytes of payload than the first stage; train all \
             stages together",
        ));
    }
    Ok(())
}

/// The trees of a stage, compared with what was declared.
fn stage(
    declared: StageDeclaration<'_>,
    bytes: &[u8],
    cascade: &Cascade,
) -> Result<Stage, CascadeError> {
    let file = declared.file;
    if file.ends_with(ONNX_SUFFIX) {
        return Err(CascadeError::model(
            file,
            "a model for ONNX Runtime, which is not built into this program; train the stage with \
             one of the families of trees, or build with the feature `onnx`",
        ));
    }
    let forest = Forest::parse(bytes)
        .map_err(|cause| CascadeError::Trees { file: file.to_owned(), cause })?;
    if forest.classes() != cascade.classes {
        return Err(CascadeError::model(
            file,
            format_args!(
                "its {} classes are not the {} of cascade.json, in the same order; train all \
                 stages together",
                forest.classes().len(),
                cascade.classes.len()
            ),
        ));
    }
    let (features, window, own) =
        read_by(&forest, cascade.every).map_err(|error| CascadeError::model(file, error))?;
    check_features(&declared, &features, own, forest.schema_hash(), cascade)?;
    let StageDeclaration { name, family, uncertainty, thresholds, calibrations, names, .. } =
        declared;
    let model = Model::Trees(Box::new(forest));
    Ok(Stage {
        name,
        family,
        features,
        window,
        model,
        uncertainty,
        thresholds,
        calibrations,
        names,
        unknown: cascade.unknown_class(),
    })
}

/// What a forest reads, of flows or of windows, and the hash of it.
fn read_by(
    forest: &Forest,
    every: Option<Span>,
) -> Result<(FlowFeatures, Option<WindowFeatures>, String), WindowError> {
    let Some(every) = every else {
        let features = FlowFeatures::of_forest(forest)?;
        let hash = features.hash();
        return Ok((features, None, hash));
    };
    let window = WindowFeatures::of_forest(every, forest)?;
    let hash = window.hash();
    Ok((window.first().clone(), Some(window), hash))
}
