//! A stage whose model ONNX Runtime runs. `cascade.json` says for it what trees say in their own
//! file.

use model::onnx::{Library, OnnxError, OnnxFile, Wiring};
use model::{Block, FlowFeatures, Headers, Identity};
use serde_json::Value;

use super::object::Object;
use super::read::{StageDeclaration, check_features};
use super::reason::CascadeError;
use super::{Cascade, Model, Stage};

/// The stage with the model in `bytes`. The library is asked for here, since no one else needs it.
pub(super) fn stage(
    declared: StageDeclaration<'_>,
    bytes: Vec<u8>,
    cascade: &Cascade,
    library: &mut dyn FnMut() -> Result<Library, OnnxError>,
) -> Result<Stage, CascadeError> {
    if cascade.every.is_some() {
        return Err(CascadeError::model(
            declared.file,
            "a model for ONNX Runtime, which is not supported for windows; train the stage with \
             one of the families of trees",
        ));
    }
    let object = Object::new(declared.value, &declared.path)?;
    let (features, carried) = features(&object.object("features")?)?;
    check_features(&declared, &features, features.hash(), &carried, cascade)?;
    let wanted = "names of columns, in the order of the model's input";
    let name = |name: &str| object.text(name, "a name in the model").map(str::to_owned);
    let wiring = Wiring {
        features: features.clone(),
        columns: names(&object, "columns", wanted)?,
        class_count: cascade.classes.len(),
        input: name("input")?,
        output: name("output")?,
    };
    let StageDeclaration {
        name, family, file, uncertainty, thresholds, calibrations, names, ..
    } = declared;
    let model = library()
        .and_then(|library| OnnxFile::new(library, bytes, wiring))
        .map_err(|error| CascadeError::model(file, error))?;
    let model = Model::Onnx(model);
    Ok(Stage {
        name,
        family,
        features,
        window: None,
        model,
        uncertainty,
        thresholds,
        calibrations,
        names,
        unknown: cascade.unknown_class(),
    })
}

fn names(object: &Object<'_>, name: &str, wanted: &str) -> Result<Vec<String>, CascadeError> {
    let list = object.list(name, wanted)?;
    let names: Option<Vec<_>> = list.iter().map(|name| name.as_str().map(str::to_owned)).collect();
    names.ok_or_else(|| object.wrong(name, wanted))
}

/// What rows are, and the hash that the model carries of it.
fn features(object: &Object<'_>) -> Result<(FlowFeatures, String), CascadeError> {
    let identity = if object.get("identity").is_some() {
        object.one_of("identity", &Identity::ALL.map(|one| (one.name(), one)))?
    } else {
        Identity::Kept
    };
    let known = [("innermost", Headers::Innermost), ("outermost", Headers::Outermost)];
    let headers = object.one_of("headers", &known)?;
    let wanted = "some of ipv4, ipv6, tcp, udp and icmp";
    let block = |value: &Value| {
        let known = Block::ALL.into_iter().filter(|&block| block != Block::Payload);
        value.as_str().and_then(|name| known.into_iter().find(|block| block.name() == name))
    };
    let blocks: Option<Vec<_>> = object.list("blocks", wanted)?.iter().map(block).collect();
    let blocks = blocks.ok_or_else(|| object.wrong("blocks", wanted))?;
    let wanted = "bytes of payload, 0 or more";
    let payload_bytes = u16::try_from(object.count("payload_bytes", wanted)?);
    let payload_bytes = payload_bytes.map_err(|_| object.wrong("payload_bytes", wanted))?;
    let wanted = "a number of packets from 1 to 255";
    let packets = usize::try_from(object.count("packets", wanted)?);
    let packets = packets.map_err(|_| object.wrong("packets", wanted))?;
    let numbers = names(object, "numbers", "names of numbers")?;
    let features = FlowFeatures::new(headers, &blocks, payload_bytes, packets, &numbers)
        .map_err(CascadeError::field)?
        .with_identity(identity);
    Ok((features, object.text("schema", "the hash of the features")?.to_owned()))
}
