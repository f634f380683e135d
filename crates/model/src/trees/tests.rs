//! Trees as a trainer has them, over values −1, 0 and 1, walked one by one; and files that lie.

use std::collections::VecDeque;
use std::fmt::Write as _;

use proptest::prelude::*;
use sha2::{Digest, Sha256};

use super::*;
use crate::block::Block;
use crate::subscription::{Subscription, SubscriptionRequest};

/// Numbers from a seed.
struct Dice(u64);

impl Dice {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % end
    }

    fn fraction(&mut self) -> f64 {
        self.below(1 << 30) as f64 / f64::from(1 << 30)
    }
}

enum Tree {
    Split { feature: usize, threshold: f64, children: Box<[Tree; 2]> },
    Leaf(Vec<f64>),
}

/// What a trainer would have, and the names of its columns: those of all packets, then numbers.
struct Trained {
    kind: Kind,
    layout: Layout,
    packet_count: usize,
    numbers: Vec<String>,
    class_count: usize,
    start: Vec<f64>,
    trees: Vec<(usize, Tree)>,
}

impl Tree {
    fn random(dice: &mut Dice, trained: &Trained, depth_max: usize) -> Self {
        if depth_max == 0 || dice.below(7) == 0 {
            let value_count = if trained.kind == Kind::Mean { trained.class_count } else { 1 };
            return Self::Leaf((0..value_count).map(|_| dice.fraction() - 0.3).collect());
        }
        let header_count = trained.layout.column_count() * trained.packet_count;
        let feature = dice.below(header_count + trained.numbers.len());
        let threshold = if feature < header_count {
            [-1.0, -0.5, -1e-35, 0.0, 1e-35, 0.5, 0.999, 2.0 * dice.fraction() - 1.0][dice.below(8)]
        } else {
            dice.below(20) as f64 / 2.0
        };
        let mut child = || Self::random(dice, trained, depth_max - 1);
        Self::Split { feature, threshold, children: Box::new([child(), child()]) }
    }

    fn leaf(&self, values: &[f64]) -> &[f64] {
        match self {
            Self::Leaf(leaf) => leaf,
            Self::Split { feature, threshold, children } => {
                children[usize::from(values[*feature] > *threshold)].leaf(values)
            }
        }
    }
}

impl Trained {
    fn random(seed: u64, layout: Layout, packet_count: usize, tree_count: usize) -> Self {
        let mut dice = Dice(seed | 1);
        let kind = [Kind::Mean, Kind::Softmax, Kind::Sigmoid { slope: 1.5 }][dice.below(3)];
        let class_count = if matches!(kind, Kind::Sigmoid { .. }) { 2 } else { 2 + dice.below(5) };
        let numbers = (0..dice.below(6)).map(|index| format!("size_{index}")).collect();
        let start = (0..class_count)
            .map(|_| if kind == Kind::Mean { 0.0 } else { dice.fraction() })
            .collect();
        let trees = Vec::new();
        let mut trained = Self { kind, layout, packet_count, numbers, class_count, start, trees };
        for index in 0..tree_count {
            let class = if kind == Kind::Softmax { index % class_count } else { 1 };
            let depth_max = dice.below(9);
            let tree = Tree::random(&mut dice, &trained, depth_max);
            trained.trees.push((class, tree));
        }
        trained
    }

    /// A row's scores, straight from its values.
    fn score(&self, values: &[f64]) -> Vec<f64> {
        let mut scores = self.start.clone();
        for (class, tree) in &self.trees {
            match (self.kind, tree.leaf(values)) {
                (Kind::Mean, leaf) => scores.iter_mut().zip(leaf).for_each(|(s, v)| *s += v),
                (_, leaf) => scores[*class] += leaf[0],
            }
        }
        match self.kind {
            Kind::Mean => scores.iter().map(|score| score / self.trees.len() as f64).collect(),
            Kind::Softmax => {
                let largest = scores.iter().copied().fold(f64::MIN, f64::max);
                let terms: Vec<_> = scores.iter().map(|score| (score - largest).exp()).collect();
                let sum = terms.iter().fold(0.0, |sum, term| sum + term);
                terms.iter().map(|term| term / sum).collect()
            }
            Kind::Sigmoid { slope } => {
                let second = 1.0 / (1.0 + (-slope * scores[1]).exp());
                vec![1.0 - second, second]
            }
        }
    }

    fn test(&self, feature: usize, threshold: f64) -> String {
        let column_count = self.layout.column_count();
        let (packet, column) = (feature / column_count, feature % column_count);
        if packet >= self.packet_count {
            let number = &self.numbers[feature - self.packet_count * column_count];
            // Both signs, for one row in two ways.
            let asks_greater = threshold.to_bits() & 1 << 51 == 0;
            return match asks_greater {
                true => format!("{number} > {threshold:?}"),
                false => format!("{number} >= {:?}", threshold.next_up()),
            };
        }
        let name = self.layout.columns().nth(column).unwrap();
        let asks = if threshold < 0.0 { "is there" } else { "is 1" };
        format!("pkt{packet}_{name} {asks}")
    }

    fn file(&self) -> String {
        let (mut tests, mut lines) = (Vec::new(), String::new());
        for (class, tree) in &self.trees {
            let (mut nodes, mut leaves) = (Vec::new(), Vec::new());
            let mut waiting = VecDeque::from([tree]);
            while let Some(node) = waiting.pop_front() {
                match node {
                    Tree::Leaf(values) if self.kind == Kind::Mean => {
                        nodes.push(-1);
                        leaves.push(format!("{values:?}"));
                    }
                    Tree::Leaf(values) => {
                        nodes.push(-1);
                        leaves.push(format!("{:?}", values[0]));
                    }
                    Tree::Split { feature, threshold, children } => {
                        nodes.push(tests.len() as i64);
                        tests.push(self.test(*feature, *threshold));
                        waiting.extend(children.iter());
                    }
                }
            }
            let leaves = leaves.join(",");
            let _ = writeln!(lines, r#"{{"class":{class},"nodes":{nodes:?},"leaves":[{leaves}]}}"#);
        }
        let (kind, slope) = match self.kind {
            Kind::Mean => ("mean", 1.0),
            Kind::Softmax => ("softmax", 1.0),
            Kind::Sigmoid { slope } => ("sigmoid", slope),
        };
        let classes: Vec<_> = (0..self.class_count).map(|class| format!("class {class}")).collect();
        let blocks: Vec<_> = self.layout.blocks().map(Block::name).collect();
        let head = format!(
            "{{\"format\":\"wirelens trees\",\"version\":1,\"kind\":\"{kind}\",\"slope\":{slope},\
             \"classes\":{classes:?},\"start\":{:?},\"schema\":\"{}\",\"headers\":\"innermost\",\
             \"blocks\":{blocks:?},\"payload_bytes\":0,\"packets\":{},\"numbers\":{:?},\
             \"trees\":{}}}\n",
            self.start,
            "0f".repeat(32),
            self.packet_count,
            self.numbers,
            self.trees.len(),
        );
        sealed(&format!("{head}{{\"tests\":{tests:?}}}\n{lines}"))
    }
}

fn sealed(content: &str) -> String {
    let hash = Sha256::digest(content).iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    });
    format!("{content}{{\"sha256\":\"{hash}\"}}\n")
}

/// Records of a row, some bytes there and some not, and the values that they mean.
fn random_row(dice: &mut Dice, trained: &Trained) -> (Vec<u8>, Vec<f64>, Vec<f64>) {
    let layout = trained.layout;
    let blocks: Vec<_> = layout.blocks().collect();
    let wanted =
        SubscriptionRequest { layout: Layout::new(&blocks, 0), ..SubscriptionRequest::default() };
    let subscription = Subscription::new(&wanted).unwrap();
    let (mut records, mut values) = (Vec::new(), Vec::new());
    let present_count = dice.below(trained.packet_count + 1);
    for packet in 0..trained.packet_count {
        if packet >= present_count {
            subscription.absent_values(&mut values);
            continue;
        }
        let mut record = vec![0; layout.record_len()];
        for index in 0..layout.data_len() {
            if dice.below(4) > 0 {
                record[index] = dice.below(256) as u8;
                record[layout.data_len() + index / 8] |= 0x80 >> (index % 8);
            }
        }
        subscription.values(&record, &mut values);
        records.extend(record);
    }
    let numbers: Vec<_> = trained.numbers.iter().map(|_| dice.below(24) as f64 / 2.0).collect();
    let values = values.iter().map(|&value| f64::from(value)).chain(numbers.iter().copied());
    (records, values.collect(), numbers)
}

fn bits_of(scores: &[f64]) -> Vec<u64> {
    scores.iter().map(|score| score.to_bits()).collect()
}

const LAYOUTS: [&[Block]; 4] = [
    &[Block::Ipv4, Block::Tcp, Block::Udp],
    &[Block::Icmp],
    &[Block::Ipv6, Block::Udp, Block::Icmp],
    &Block::ALL,
];

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn every_way_gives_what_the_trainers_trees_give(
        seed in 1_u64..,
        layout in 0..LAYOUTS.len(),
        packet_count in 1_usize..=20,
        tree_count in 1_usize..150,
        row_count in 1_usize..140,
    ) {
        let layout = Layout::new(LAYOUTS[layout], 0);
        let trained = Trained::random(seed, layout, packet_count, tree_count);
        let forest = Forest::parse(trained.file().as_bytes()).unwrap();
        let mut dice = Dice(seed.rotate_left(9) | 1);
        let mut rows = Rows::for_forest(&forest, row_count);
        let mut wanted = Vec::new();
        let mut alone = Rows::for_forest(&forest, 1);
        // Some rows come again, as in a flood, a few others after they did.
        let mut before = VecDeque::from([random_row(&mut dice, &trained)]);
        for _ in 0..row_count {
            let again = dice.below(12);
            let made = || random_row(&mut dice, &trained);
            let row = before.get(again).cloned().unwrap_or_else(made);
            let (records, values, numbers) = &row;
            forest.push_with(&mut rows, records, numbers).unwrap();
            let expected = trained.score(values);
            alone.clear();
            forest.push_with(&mut alone, records, numbers).unwrap();
            for path in Path::ALL {
                let mut scores = vec![0.0; forest.classes().len()];
                forest.score_on(path, &alone, &mut scores).unwrap();
                prop_assert_eq!(bits_of(&scores), bits_of(&expected), "alone, {:?}", path);
            }
            wanted.extend(expected);
            before.push_front(row);
            before.truncate(6);
        }
        for path in Path::ALL {
            let mut scores = vec![0.0; wanted.len()];
            forest.score_on(path, &rows, &mut scores).unwrap();
            prop_assert_eq!(bits_of(&scores), bits_of(&wanted), "together, {:?}", path);
        }
    }

    #[test]
    fn rows_that_no_tree_distinguishes_are_kept_once(seed in 1_u64.., row_count in 1_usize..20) {
        let trained = Trained::random(seed, Layout::default(), 2, 3);
        let forest = Forest::parse(trained.file().as_bytes()).unwrap();
        let (records, _, numbers) = random_row(&mut Dice(seed | 1), &trained);
        let mut rows = Rows::for_forest(&forest, row_count);
        for _ in 0..row_count {
            forest.push_with(&mut rows, &records, &numbers).unwrap();
        }
        prop_assert_eq!(rows.len(), row_count);
        prop_assert_eq!(rows.words().len(), rows.row_words());
        // One bit that trees test, and one that none does, of another row.
        let bit = |row: &mut Vec<u32>, bit: usize| row[bit / 32] ^= 1 << (bit % 32);
        let (first, mut other) = (rows.words().to_vec(), rows.words().to_vec());
        for at in 0..32 * rows.row_words() {
            bit(&mut other, at);
            let is_tested = forest.nodes.tests(at);
            prop_assert_eq!(forest.nodes.are_alike(&first, &other), !is_tested);
            bit(&mut other, at);
        }
    }

    /// Sealed again, so that what lies behind the seal is reached.
    #[test]
    fn a_changed_file_is_read_or_refused(
        seed in 1_u64..,
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>(), 0..4), 1..6),
    ) {
        const WORDS: [&str; 8] = ["-1", "9", "]", ",", "\"", "1e400", "4294967295", "-2147483648"];
        let file = Trained::random(seed, Layout::default(), 2, 3).file();
        let mut content = file[..file.trim_end().rfind('\n').unwrap() + 1].to_owned().into_bytes();
        for (at, byte, how) in changes {
            let at = at.index(content.len());
            match how {
                0 => content[at] = byte & 0x7f,
                1 => drop(content.remove(at)),
                2 => drop(content.drain(at..)),
                _ => {
                    let word = WORDS[usize::from(byte) % WORDS.len()];
                    drop(content.splice(at..at, word.bytes()));
                }
            }
            if content.is_empty() {
                content.push(b'\n');
            }
        }
        let content = String::from_utf8(content).unwrap();
        if let Ok(forest) = Forest::parse(sealed(&content).as_bytes()) {
            let mut rows = Rows::for_forest(&forest, 1);
            let numbers = vec![1.0; forest.numbers().len()];
            forest.push_with(&mut rows, &[0x5a; 64], &numbers).unwrap();
            let mut scores = vec![0.0; forest.classes().len()];
            for path in Path::ALL {
                forest.score_on(path, &rows, &mut scores).unwrap();
            }
        }
    }

    #[test]
    fn every_bit_is_under_the_seal(at in any::<prop::sample::Index>(), bit in 0..7) {
        let file = Trained::random(77, Layout::default(), 1, 4).file();
        let mut bytes = file.into_bytes();
        let at = at.index(bytes.len());
        bytes[at] ^= 1_u8 << bit;
        prop_assert!(Forest::parse(&bytes).is_err());
        prop_assert!(Forest::parse(&bytes[..at]).is_err());
    }
}

/// One tree of one split.
const SMALL: &str = concat!(
    r#"{"format":"wirelens trees","version":1,"kind":"mean","classes":["a","b"],"schema":""#,
    "0101010101010101010101010101010101010101010101010101010101010101",
    r#"","headers":"innermost","blocks":["ipv4","tcp","udp"],"payload_bytes":0,"packets":1,"#,
    r#""numbers":["size_bytes"],"trees":1}
{"tests":["pkt0_tcp_syn_0 is 1"]}
{"nodes":[0,-1,-1],"leaves":[[1,0],[0.25,0.75]]}
"#
);

fn refusal(from: &str, to: &str) -> String {
    assert!(SMALL.contains(from), "{from}");
    Forest::parse(sealed(&SMALL.replace(from, to)).as_bytes()).unwrap_err().to_string()
}

#[test]
fn a_small_file_is_read() {
    let forest = Forest::parse(sealed(SMALL).as_bytes()).unwrap();
    assert_eq!((forest.tree_count(), forest.node_count()), (1, 3));
    assert_eq!((forest.classes(), forest.records_len()), (&["a".into(), "b".into()][..], 144));
    let mut rows = Rows::for_forest(&forest, 2);
    let mut record = [0; 144];
    forest.push_with(&mut rows, &record, &[0.0]).unwrap();
    record[60 + 13] = 2;
    forest.push_with(&mut rows, &record, &[0.0]).unwrap();
    let mut scores = [0.0; 4];
    forest.score(&rows, &mut scores).unwrap();
    assert_eq!(scores.map(f64::to_bits), [1.0, 0.0, 0.25, 0.75].map(f64::to_bits));
}

#[test]
fn what_cannot_be_is_named() {
    for (from, to, wanted) in [
        ("\"version\":1", "\"version\":2", "trees of format version 2, this Wirelens reads"),
        ("wirelens trees", "zebra trees", "not a file of trees (starts with"),
        ("\"mean\"", "\"vote\"", "line 1: kind \"vote\" with 2 classes; wanted: mean, softmax"),
        ("\"a\",\"b\"", "\"a\"", "line 1: 1 classes; wanted: from 2 to 1024"),
        ("\"0101010101", "\"x", "line 1: schema \"x010101010101010101010101010101010101010\"…"),
        ("innermost", "inner", "line 1: headers \"inner\"; wanted: innermost or outermost"),
        ("\"udp\"", "\"http\"", "line 1: no block is \"http\"; wanted: ipv4, ipv6"),
        ("\"packets\":1", "\"packets\":0", "line 1: 0 packets; wanted: from 1 to 255"),
        ("\"payload_bytes\":0", "\"payload_bytes\":9001", "line 1: 9001 bytes of payload"),
        ("\"trees\":1", "\"trees\":2", "line 1: `trees` is 2; wanted: 1"),
        ("\"trees\":1", "\"woods\":1", "line 1: `trees` is missing"),
        ("tcp_syn_0", "tcp_sin_0", "line 2: \"pkt0_tcp_sin_0\" is not a column of these blocks"),
        ("pkt0", "pkt1", "line 2: \"pkt1_tcp_syn_0\" is of packet 1; wanted: below 1"),
        ("pkt0_tcp_syn_0 is 1", "ttl > 5", "line 2: \"ttl\" is none of `numbers`"),
        ("pkt0_tcp_syn_0 is 1", "size_bytes > x", "line 2: \"x\" is not a threshold"),
        ("is 1", "is 2", "line 2: \"pkt0_tcp_syn_0 is 2\" is not a test; wanted: `COLUMN is 1`"),
        ("[0,-1,-1]", "[1,-1,-1]", "line 3: node 1 asks for no test; wanted: below 1, or -1"),
        ("[0,-1,-1]", "[-1,-1,0]", "line 3: node 1 has no parent; wanted: 1 nodes"),
        ("[0,-1,-1]", "[0,0,-1]", "line 3: 3 nodes with 2 splits; wanted: two children"),
        ("[0,-1,-1]", "[]", "line 3: 0 nodes with 0 splits; wanted: two children"),
        ("[1,0],", "", "line 3: 1 values for 2 leaves; wanted: one each"),
        ("[1,0],", "[1],", "line 3: a leaf without 2 values; wanted: one a class"),
        ("[1,0],", "[1,1e999],", "line 3: `leaves`: number out of range"),
        ("\"nodes\":", "\"nodes\"", "line 3: expected `:`"),
    ] {
        let refusal = refusal(from, to);
        assert!(refusal.starts_with(wanted), "{refusal}\n{wanted}");
    }
}

#[test]
fn a_cut_or_changed_file_is_named() {
    let file = sealed(SMALL);
    let cut = Forest::parse(SMALL.as_bytes()).unwrap_err();
    assert_eq!(cut, ForestError::Cut);
    assert!(matches!(
        Forest::parse(file.replace("0.25", "0.26").as_bytes()),
        Err(ForestError::Changed { .. })
    ));
    for bad in ["", "\n", "{}", "Dear", "[[[[[[[[", "{\"sha256\":\"\"}\n", "\u{feff}"] {
        let error = Forest::parse(bad.as_bytes()).unwrap_err();
        assert!(matches!(error, ForestError::NotTrees { .. }), "{bad}: {error}");
    }
    assert!(matches!(Forest::parse(b"\xff\xfe"), Err(ForestError::NotTrees { .. })));
}

#[test]
fn rows_that_do_not_fit_are_refused() {
    let forest = Forest::parse(sealed(SMALL).as_bytes()).unwrap();
    let other = SMALL.replace("\"packets\":1", "\"packets\":2");
    let other = Forest::parse(sealed(&other).as_bytes()).unwrap();
    let mut rows = Rows::for_forest(&forest, 1);
    let long = RowError::RecordsLen { seen: 145, wanted: 144 };
    assert_eq!(forest.push_with(&mut rows, &[0; 145], &[0.0]), Err(long));
    let none = RowError::NumberCount { seen: 0, wanted: 1 };
    assert_eq!(forest.push(&mut rows, &[0; 144]), Err(none));
    assert_eq!(other.push_with(&mut rows, &[], &[0.0]), Err(RowError::OtherForest));
    assert!(rows.is_empty());
    forest.push_with(&mut rows, &[], &[0.0]).unwrap();
    let few = RowError::ScoreCount { seen: 1, wanted: 2 };
    assert_eq!(forest.score(&rows, &mut [0.0]), Err(few));
    assert_eq!(other.score(&rows, &mut [0.0; 2]), Err(RowError::OtherForest));
}
