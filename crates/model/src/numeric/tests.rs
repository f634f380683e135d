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
