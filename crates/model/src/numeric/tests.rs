use proptest::prelude::*;

use super::*;

/// As scikit-learn goes down its own arrays.
fn naive(trees: &[TreeArrays], row: &[f32], class_count: usize) -> Vec<f64> {
    let mut scores = vec![0.0; class_count];
    for tree in trees {
        let mut node = 0;
        while tree.left[node] != -1 {
            let value = f64::from(row[usize::try_from(tree.feature[node]).unwrap()]);
            let next = if value <= tree.threshold[node] { &tree.left } else { &tree.right };
            node = usize::try_from(next[node]).unwrap();
        }
        let sum: f64 = tree.value[node].iter().sum();
        for (score, weight) in scores.iter_mut().zip(&tree.value[node]) {
            *score += weight / sum;
        }
    }
    scores.iter().map(|score| score / trees.len() as f64).collect()
}

const COLUMNS: usize = 5;
const CLASSES: usize = 3;

/// A tree grown by splitting a leaf again and again, nodes in the order in which they come.
fn grow(splits: &[(usize, i64, f64)], weights: &[f64]) -> TreeArrays {
    let mut tree = TreeArrays::default();
    let push = |tree: &mut TreeArrays| {
        let at = tree.feature.len();
        tree.feature.push(-2);
        tree.threshold.push(-2.0);
        tree.left.push(-1);
        tree.right.push(-1);
        let weight = |class: usize| weights[(at * CLASSES + class) % weights.len()];
        tree.value.push((0..CLASSES).map(weight).collect());
        i64::try_from(at).unwrap()
    };
    push(&mut tree);
    for &(leaf, feature, threshold) in splits {
        let leaves: Vec<usize> = (0..tree.left.len()).filter(|&n| tree.left[n] == -1).collect();
        let node = leaves[leaf % leaves.len()];
        (tree.feature[node], tree.threshold[node]) = (feature, threshold);
        let (left, right) = (push(&mut tree), push(&mut tree));
        (tree.left[node], tree.right[node]) = (left, right);
    }
    tree
}

fn any_tree() -> impl Strategy<Value = TreeArrays> {
    // Numbers of 32 bits and what lies between two of them: where rounding would show.
    let threshold = prop_oneof![
        (-4i32..5).prop_map(f64::from),
        any::<f32>().prop_filter("finite", |x| x.is_finite()).prop_map(f64::from),
        (any::<f32>(), -1i32..2)
            .prop_filter("finite", |(x, _)| x.is_finite())
            .prop_map(|(x, step)| f64::from(x) + f64::from(step) * f64::from(x).abs() * 1e-9),
        any::<f64>().prop_filter("finite", |x| x.is_finite()),
    ];
    let column = 0..i64::try_from(COLUMNS).unwrap();
    (
        proptest::collection::vec((0usize..100, column, threshold), 0..40),
        proptest::collection::vec(0.001f64..10.0, 1..20),
    )
        .prop_map(|(splits, weights)| grow(&splits, &weights))
}

/// Rows whose numbers are often exactly a threshold.
fn rows_for(trees: &[TreeArrays], picks: &[Vec<(usize, i32)>]) -> Vec<Vec<f32>> {
    let thresholds: Vec<f64> =
        trees.iter().flat_map(|tree| tree.threshold.iter().copied()).collect();
    let number = |&(pick, step): &(usize, i32)| {
        let near = thresholds[pick % thresholds.len()] as f32;
        let number = match step {
            0 => near,
            1 => near.next_up(),
            2 => near.next_down(),
            other => other as f32,
        };
        if number.is_finite() { number } else { 0.0 }
    };
    picks.iter().map(|row| row.iter().map(number).collect()).collect()
}

proptest! {
    #[test]
    fn scores_are_those_of_walking_the_arrays(
        trees in proptest::collection::vec(any_tree(), 1..5),
        picks in proptest::collection::vec(
            proptest::collection::vec((0usize..200, -3i32..6), COLUMNS..=COLUMNS), 1..40),
    ) {
        let forest = NumericForest::new(CLASSES, COLUMNS, &trees).unwrap();
        let rows = rows_for(&trees, &picks);
        let mut columns = vec![f32::NAN; COLUMNS * BLOCK_ROWS];
        // Rows lie anywhere in the block.
        let place = |row: usize| (row * 37 + 11) % BLOCK_ROWS;
        for (at, row) in rows.iter().enumerate() {
            for (column, &value) in row.iter().enumerate() {
                columns[column * BLOCK_ROWS + place(at)] = value;
            }
        }
        let places: Vec<u16> = (0..rows.len()).map(|at| place(at) as u16).collect();
        let mut scores = vec![5.0];
        forest.score(&columns, &places, &mut scores);
        for (row, scores) in rows.iter().zip(scores.chunks(CLASSES)) {
            for (score, wanted) in scores.iter().zip(naive(&trees, row, CLASSES)) {
                prop_assert!((score - wanted).abs() < 1e-12, "{score} {wanted}");
            }
        }
    }

    /// Whatever arrays say, they are refused or can be walked.
    #[test]
    fn arrays_that_are_no_tree_are_refused(
        feature in proptest::collection::vec(-3i64..7, 0..6),
        left in proptest::collection::vec(-2i64..7, 0..6),
        right in proptest::collection::vec(-2i64..7, 0..6),
        threshold in proptest::collection::vec(any::<f64>(), 0..6),
        value in proptest::collection::vec(
            proptest::collection::vec(-0.1f64..1.0, 2..4), 0..6),
    ) {
        let tree = TreeArrays { feature, threshold, left, right, value };
        if let Ok(forest) = NumericForest::new(CLASSES, COLUMNS, &[tree]) {
            let mut scores = Vec::new();
            forest.score(&[f32::NAN; COLUMNS * BLOCK_ROWS], &[0, 63], &mut scores);
            prop_assert!(scores.iter().all(|score| (0.0..=1.0).contains(score)));
        }
    }
}

type Change = fn(&mut TreeArrays);

#[test]
fn what_is_wrong_is_named() {
    let stump = grow(&[(0, 1, 0.5)], &[1.0]);
    let refused = |change: Change| {
        let mut tree = stump.clone();
        change(&mut tree);
        NumericForest::new(CLASSES, COLUMNS, &[stump.clone(), tree]).unwrap_err().to_string()
    };
    let cases: [(Change, &str); 8] = [
        (|t| t.left[0] = 0, "trees[1].left[0]: 0; wanted: a node after this one and before 3"),
        (|t| t.right[0] = 1, "trees[1].right[0]: 1; wanted: a node with one parent"),
        (|t| t.feature[0] = 5, "trees[1].feature[0]: 5; wanted: 0 to 4"),
        (|t| t.threshold[0] = f64::NAN, "trees[1].threshold[0]: NaN; wanted: a finite number"),
        (|t| t.threshold.truncate(2), "trees[1].threshold: 2 nodes; wanted: 3, as in feature"),
        (|t| t.value[2] = vec![0.0; 3], "trees[1].value[2]: [0.0, 0.0, 0.0]; wanted: shares"),
        (|t| t.value[2] = vec![1.0; 2], "trees[1].value[2]: 2 classes; wanted: 3"),
        (|t| (t.left[0], t.right[0]) = (-1, -1), "trees[1].left: no parent of node 1; wanted: one"),
    ];
    for (change, wanted) in cases {
        let seen = refused(change);
        assert!(seen.starts_with(wanted), "{seen}");
    }
    let none = NumericForest::new(CLASSES, COLUMNS, &[]).unwrap_err().to_string();
    assert_eq!(none, "no trees; wanted: one at least");
    let forest = NumericForest::new(CLASSES, COLUMNS, &[stump]).unwrap();
    assert_eq!((forest.columns_read(), forest.tree_count()), (vec![1], 1));
}

/// Two trees over two columns, small enough to be counted by hand:
///
/// ```text
/// c0 <= 6.5 ? [.9 .1] : (c1 <= 2 ? [.4 .6] : [0 1])    root [.5 .5], right [.2 .8]
/// c1 <= 9   ? [.7 .3] : [.1 .9]                        root [.6 .4]
/// ```
fn by_hand() -> [TreeArrays; 2] {
    [
        TreeArrays {
            feature: vec![0, -2, 1, -2, -2],
            threshold: vec![6.5, -2.0, 2.0, -2.0, -2.0],
            left: vec![1, -1, 3, -1, -1],
            right: vec![2, -1, 4, -1, -1],
            // Counts, not shares, at the root.
            value: vec![
                vec![50.0, 50.0],
                vec![0.9, 0.1],
                vec![0.2, 0.8],
                vec![0.4, 0.6],
                vec![0.0, 1.0],
            ],
        },
        TreeArrays {
            feature: vec![1, -2, -2],
            threshold: vec![9.0, -2.0, -2.0],
            left: vec![1, -1, -1],
            right: vec![2, -1, -1],
            value: vec![vec![0.6, 0.4], vec![0.7, 0.3], vec![0.1, 0.9]],
        },
    ]
}

fn explained(forest: &NumericForest, row: [f32; 2], class: u16) -> (f64, Vec<SplitChange>) {
    let mut columns = vec![0.0; 2 * BLOCK_ROWS];
    // Another row than the first.
    (columns[5], columns[BLOCK_ROWS + 5]) = (row[0], row[1]);
    let mut changes = Vec::new();
    let before = forest.explain(&columns, 5, class, |change| changes.push(change));
    (before, changes)
}

#[test]
fn changes_on_the_way_are_those_counted_by_hand() {
    let forest = NumericForest::new(2, 2, &by_hand()).unwrap();
    let (before, changes) = explained(&forest, [41.0, 3.0], 1);
    assert!((before - 0.45).abs() < 1e-12);
    let wanted = [
        (0, 6.5, true, (0.8 - 0.5) / 2.0),
        (1, 2.0, true, (1.0 - 0.8) / 2.0),
        (1, 9.0, false, (0.3 - 0.4) / 2.0),
    ];
    assert_eq!(changes.len(), wanted.len());
    for (got, (column, threshold, is_above, change)) in changes.iter().zip(wanted) {
        assert_eq!((got.column, got.threshold, got.is_above), (column, threshold, is_above));
        assert!((got.change - change).abs() < 1e-12, "{got:?}: {change}");
    }
    // A leaf of the first tree is nearer than its depth; the other class changes by the opposite.
    let (before, changes) = explained(&forest, [6.5, 3.0], 0);
    assert!((before - 0.55).abs() < 1e-12);
    let seen: Vec<_> = changes.iter().map(|change| (change.column, change.is_above)).collect();
    assert_eq!(seen, [(0, false), (1, false)]);
    assert!((changes[0].change - 0.2).abs() < 1e-12 && (changes[1].change - 0.05).abs() < 1e-12);
}

#[test]
fn an_inner_node_without_weights_has_the_mean_of_its_children() {
    let mut trees = by_hand();
    trees[0].value[0] = vec![0.0, 0.0];
    trees[0].value[2] = vec![-1.0, f64::NAN];
    let forest = NumericForest::new(2, 2, &trees).unwrap();
    let (before, changes) = explained(&forest, [41.0, 3.0], 1);
    // (0.6 + 1) / 2 = 0.8 at the right, (0.1 + 0.8) / 2 = 0.45 at the root.
    assert!((before - f64::midpoint(0.45, 0.4)).abs() < 1e-12);
    assert!((changes[0].change - 0.35 / 2.0).abs() < 1e-12);
}

proptest! {
    #[test]
    fn changes_add_up_to_the_score(
        trees in proptest::collection::vec(any_tree(), 1..5),
        row in proptest::collection::vec(-5f32..5.0, COLUMNS),
    ) {
        let forest = NumericForest::new(CLASSES, COLUMNS, &trees).unwrap();
        let mut columns = vec![0.0; COLUMNS * BLOCK_ROWS];
        for (column, value) in row.iter().enumerate() {
            columns[column * BLOCK_ROWS] = *value;
        }
        let mut scores = Vec::new();
        forest.score(&columns, &[0], &mut scores);
        for (class, score) in (0u16..).zip(&scores) {
            let mut changes = 0.0;
            let sum = forest.explain(&columns, 0, class, |split| changes += split.change) + changes;
            prop_assert!((sum - score).abs() < 1e-9, "{sum} {score}");
        }
    }
}
