//! Files of trees: JSON, a line for each thing, and the SHA-256 of them on the last line.
//!
//! Nothing is reserved because a file says how much of it will come: memory grows with the bytes
//! that were read, to less than twenty times the file's length, and the names of a row's columns.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;

use serde_json::value::RawValue;
use sha2::{Digest, Sha256};

use super::nodes::Nodes;
use super::reason::shown;
use super::test::{Names, NumberTests};
use super::{Forest, ForestError, Kind};
use crate::block::Block;
use crate::identity::Identity;
use crate::layout::{Layout, PAYLOAD_LEN_MAX};
use crate::schema::Headers;
use crate::subscription::DEPTH_MAX;

/// Bytes of a file.
pub const FILE_LEN_MAX: usize = 256 << 20;
/// Classes.
pub const CLASS_COUNT_MAX: usize = 1024;
/// Trees.
pub const TREE_COUNT_MAX: usize = 1 << 16;
/// Numbers in addition to the records.
pub const NUMBER_COUNT_MAX: usize = 4096;
/// Bytes of the records of a row.
pub const ROW_LEN_MAX: usize = 1 << 16;

/// Comparisons of numbers: each takes a bit of every row.
const NUMBER_TEST_COUNT_MAX: usize = 1 << 18;

const FORMAT: &str = "wirelens trees";
const VERSION: u64 = 1;
const SEAL: &str = "{\"sha256\":\"";
const SEAL_END: &str = "\"}";
/// In a tree's nodes, a leaf.
const LEAF: i32 = -1;

/// A line: its number, and its fields as they are written.
struct Line<'a> {
    number: usize,
    fields: BTreeMap<String, &'a RawValue>,
}

/// A field of a line as a type, or why not.
macro_rules! field {
    ($line:expr, $name:literal, $type:ty) => {
        $line.text($name).and_then(|text| {
            serde_json::from_str::<$type>(text)
                .map_err(|error| $line.wrong(format_args!("`{}`: {error}", $name)))
        })
    };
}

impl<'a> Line<'a> {
    fn read(number: usize, text: &'a str) -> Result<Self, ForestError> {
        let fields = serde_json::from_str(text)
            .map_err(|error| ForestError::line(number, format_args!("{error}; wanted: JSON")))?;
        Ok(Self { number, fields })
    }

    fn text(&self, name: &str) -> Result<&'a str, ForestError> {
        let value = self.fields.get(name).map(|value| value.get());
        value.ok_or_else(|| self.wrong(format_args!("`{name}` is missing")))
    }

    fn wrong(&self, cause: impl std::fmt::Display) -> ForestError {
        ForestError::line(self.number, cause)
    }

    /// Where the rule does not hold, what was seen and what was wanted.
    fn check(&self, holds: bool, cause: impl std::fmt::Display) -> Result<(), ForestError> {
        if holds { Ok(()) } else { Err(self.wrong(cause)) }
    }
}

impl Forest {
    /// Reads a file of trees, all of it given, and checks everything that it says.
    ///
    /// # Errors
    /// [`ForestError`], with the line and what was wanted there.
    pub fn parse(file: &[u8]) -> Result<Self, ForestError> {
        if file.len() > FILE_LEN_MAX {
            return Err(ForestError::TooLong { size_bytes: file.len() });
        }
        let not_trees = || {
            let start = file.get(..64).unwrap_or(file);
            ForestError::NotTrees { start: shown(&String::from_utf8_lossy(start)) }
        };
        let text = str::from_utf8(file).map_err(|_| not_trees())?;
        let mut lines = text.split_inclusive('\n').enumerate();
        let (_, first) = lines.next().ok_or_else(not_trees)?;
        let head = Line::read(1, first).map_err(|_| not_trees())?;
        if field!(head, "format", String).as_deref() != Ok(FORMAT) {
            return Err(not_trees());
        }
        match field!(head, "version", u64)? {
            VERSION => {}
            version => return Err(ForestError::Version { version }),
        }
        let content = sealed(text)?;
        let mut lines = content.split_inclusive('\n').enumerate().skip(1);
        let tests = lines.next().ok_or(ForestError::Cut)?;
        let (mut forest, tree_count) = read_head(&head)?;
        let bits = forest.read_tests(&Line::read(tests.0 + 1, tests.1)?)?;
        let mut shared = Shared::default();
        for (index, line) in lines {
            forest.read_tree(&Line::read(index + 1, line)?, &bits, &mut shared)?;
        }
        forest.nodes.finish();
        head.check(
            forest.tree_count() == tree_count,
            format_args!("`trees` is {tree_count}; wanted: {}", forest.tree_count()),
        )?;
        Ok(forest)
    }

    /// The bits of a row that the tests of the file ask for.
    fn read_tests(&mut self, line: &Line<'_>) -> Result<Vec<usize>, ForestError> {
        let names = Names::new(self.layout, self.packet_count, &self.numbers);
        let tests = field!(line, "tests", Vec<String>)?;
        let (bits, number_tests) = names.bits(&tests).map_err(|cause| line.wrong(cause))?;
        line.check(
            number_tests.len() <= NUMBER_TEST_COUNT_MAX,
            format_args!(
                "{} comparisons of numbers; wanted: {NUMBER_TEST_COUNT_MAX} at most",
                number_tests.len()
            ),
        )?;
        let bit_count = self.records_len() * 8 + number_tests.len();
        self.nodes = Nodes::new(bit_count.div_ceil(32));
        self.number_tests = number_tests;
        Ok(bits)
    }

    fn read_tree(
        &mut self,
        line: &Line<'_>,
        bits: &[usize],
        shared: &mut Shared,
    ) -> Result<(), ForestError> {
        line.check(
            self.tree_count() < TREE_COUNT_MAX,
            format_args!("more than {TREE_COUNT_MAX} trees; wanted: fewer"),
        )?;
        let nodes = field!(line, "nodes", Vec<i32>)?;
        let bit = |&node: &i32| usize::try_from(node).ok().and_then(|test| bits.get(test)).copied();
        if let Some(node) = nodes.iter().find(|node| **node != LEAF && bit(node).is_none()) {
            let last = bits.len();
            return Err(line.wrong(format_args!(
                "node {node} asks for no test; wanted: below {last}, or {LEAF} for a leaf"
            )));
        }
        let leaves = if self.kind == Kind::Mean {
            let class_count = self.classes.len();
            let leaves = field!(line, "leaves", Vec<Vec<f64>>)?;
            line.check(
                leaves.iter().all(|values| values.len() == class_count),
                format_args!("a leaf without {class_count} values; wanted: one a class"),
            )?;
            leaves.iter().map(|values| shared.find(values, &mut self.values)).collect()
        } else {
            let leaves = field!(line, "leaves", Vec<f64>)?;
            let class = field!(line, "class", u32)?;
            let (lowest, class_count) = (u32::from(self.kind != Kind::Softmax), self.classes.len());
            line.check(
                class >= lowest && (class as usize) < class_count,
                format_args!("class {class}; wanted: from {lowest} to {}", class_count - 1),
            )?;
            self.tree_classes.push(class);
            let first = self.values.len();
            self.values.extend(&leaves);
            (first..self.values.len()).map(place).collect::<Vec<_>>()
        };
        self.nodes.push(nodes.iter().map(bit), &leaves).map_err(|cause| line.wrong(cause))
    }
}

/// Leaves that were met, by the bits of their values.
#[derive(Default)]
struct Shared {
    known: HashMap<Vec<u64>, u32>,
}

impl Shared {
    /// Where such values are, counted in leaves; they are added where they are not yet.
    fn find(&mut self, leaf: &[f64], values: &mut Vec<f64>) -> u32 {
        let bits = leaf.iter().map(|value| value.to_bits()).collect();
        *self.known.entry(bits).or_insert_with(|| {
            let index = place(values.len() / leaf.len());
            values.extend(leaf);
            index
        })
    }
}

/// A file is too short for more values than these numbers count.
fn place(index: usize) -> u32 {
    u32::try_from(index).unwrap_or_default()
}

/// What stands before the seal, where the seal is right.
fn sealed(text: &str) -> Result<&str, ForestError> {
    let whole = text.strip_suffix('\n').ok_or(ForestError::Cut)?;
    let at = whole.rfind('\n').ok_or(ForestError::Cut)? + 1;
    let (content, seal) = whole.split_at_checked(at).ok_or(ForestError::Cut)?;
    let hash = seal.strip_prefix(SEAL).and_then(|rest| rest.strip_suffix(SEAL_END));
    let hash = hash.filter(|hash| hash.len() == 64).ok_or(ForestError::Cut)?;
    let found = Sha256::digest(content).iter().fold(String::with_capacity(64), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    });
    if found == hash {
        Ok(content)
    } else {
        Err(ForestError::Changed { sealed: hash.to_owned(), found })
    }
}

/// All that the first line says, and how many trees there should be.
fn read_head(head: &Line<'_>) -> Result<(Forest, usize), ForestError> {
    let classes = field!(head, "classes", Vec<String>)?;
    head.check(
        (2..=CLASS_COUNT_MAX).contains(&classes.len()),
        format_args!("{} classes; wanted: from 2 to {CLASS_COUNT_MAX}", classes.len()),
    )?;
    let numbers = field!(head, "numbers", Vec<String>)?;
    head.check(
        numbers.len() <= NUMBER_COUNT_MAX,
        format_args!("{} numbers; wanted: {NUMBER_COUNT_MAX} at most", numbers.len()),
    )?;
    let (kind, start) = read_kind(head, classes.len())?;
    let schema_hash = field!(head, "schema", String)?;
    head.check(
        schema_hash.len() == 64 && schema_hash.bytes().all(|byte| byte.is_ascii_hexdigit()),
        format_args!("schema {}; wanted: a SHA-256 in hexadecimal", shown(&schema_hash)),
    )?;
    let headers = match field!(head, "headers", String)?.as_str() {
        "innermost" => Headers::Innermost,
        "outermost" => Headers::Outermost,
        other => {
            return Err(head
                .wrong(format_args!("headers {}; wanted: innermost or outermost", shown(other))));
        }
    };
    let (layout, packet_count) = read_layout(head)?;
    let tree_count = field!(head, "trees", usize)?;
    head.check(tree_count > 0, "no trees; wanted: one at least")?;
    let forest = Forest {
        kind,
        classes,
        schema_hash,
        layout,
        headers,
        packet_count,
        numbers,
        number_tests: NumberTests::default(),
        nodes: Nodes::new(0),
        tree_classes: Vec::new(),
        start,
        values: Vec::new(),
    };
    Ok((forest, tree_count))
}

fn read_kind(head: &Line<'_>, class_count: usize) -> Result<(Kind, Vec<f64>), ForestError> {
    let kind = match field!(head, "kind", String)?.as_str() {
        "mean" => return Ok((Kind::Mean, vec![0.0; class_count])),
        "softmax" => Kind::Softmax,
        "sigmoid" if class_count == 2 => Kind::Sigmoid { slope: field!(head, "slope", f64)? },
        other => {
            return Err(head.wrong(format_args!(
                "kind {} with {class_count} classes; wanted: mean, softmax, or sigmoid with 2",
                shown(other)
            )));
        }
    };
    let start = field!(head, "start", Vec<f64>)?;
    head.check(
        start.len() == class_count,
        format_args!("{} values of `start`; wanted: {class_count}", start.len()),
    )?;
    Ok((kind, start))
}

/// Files from before there was a choice do not have the field.
fn read_identity(head: &Line<'_>) -> Result<Identity, ForestError> {
    if !head.fields.contains_key("identity") {
        return Ok(Identity::Kept);
    }
    let name = field!(head, "identity", String)?;
    Identity::named(&name).ok_or_else(|| {
        head.wrong(format_args!("identity {}; wanted: kept or masked", shown(&name)))
    })
}

fn read_layout(head: &Line<'_>) -> Result<(Layout, usize), ForestError> {
    let names = field!(head, "blocks", Vec<String>)?;
    let mut blocks = Vec::new();
    for name in &names {
        let known = Block::ALL.into_iter().find(|block| block.name() == name);
        let Some(block) = known.filter(|&block| block != Block::Payload) else {
            let what = shown(name);
            let wanted = "ipv4, ipv6, tcp, udp or icmp, and `payload_bytes`";
            return Err(head.wrong(format_args!("no block is {what}; wanted: {wanted}")));
        };
        blocks.push(block);
    }
    let payload_len = field!(head, "payload_bytes", u16)?;
    head.check(
        payload_len <= PAYLOAD_LEN_MAX,
        format_args!("{payload_len} bytes of payload; wanted: {PAYLOAD_LEN_MAX} at most"),
    )?;
    let packet_count = field!(head, "packets", usize)?;
    head.check(
        (1..=DEPTH_MAX).contains(&packet_count),
        format_args!("{packet_count} packets; wanted: from 1 to {DEPTH_MAX}"),
    )?;
    let layout = Layout::new(&blocks, payload_len).with_identity(read_identity(head)?);
    let row_len = layout.record_len() * packet_count;
    head.check(
        (1..=ROW_LEN_MAX).contains(&row_len),
        format_args!("rows of {row_len} bytes; wanted: from 1 to {ROW_LEN_MAX}"),
    )?;
    Ok((layout, packet_count))
}
