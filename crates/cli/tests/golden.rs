//! Golden runs of the command on the capture that ships: `testdata/golden/`.

use std::path::Path;

use testkit::golden::check_all;

fn check(prefix: &str, case_count_min: usize) {
    let program = Path::new(env!("CARGO_BIN_EXE_wirelens"));
    let count = check_all(program, prefix, &[]).map_err(|complaints| complaints.to_string());
    let is_enough = count.as_ref().is_ok_and(|&count| count >= case_count_min);
    assert!(is_enough, "{case_count_min} cases `{prefix}*` wanted: {count:?}");
}

#[test]
fn info_says_what_is_expected() {
    check("info-", 2);
}

#[test]
fn top_says_what_is_expected() {
    check("top-", 17);
}

#[test]
fn simulations_say_what_is_expected() {
    check("simulate-", 2);
}

#[test]
fn flows_say_what_is_expected() {
    check("flows-", 8);
}

#[test]
fn nprint_says_what_is_expected() {
    check("nprint-", 4);
}

#[test]
fn classify_says_what_is_expected() {
    check("classify-", 6);
}

#[test]
fn latencies_are_what_is_expected() {
    check("latency-", 8);
}

#[test]
fn re_marking_is_predicted_as_is_expected() {
    check("l4s-", 2);
}

#[test]
fn refusals_say_what_is_expected() {
    check("error-", 30);
}

#[test]
fn runs_say_what_is_expected() {
    check("run-", 8);
}

#[test]
fn recover_says_what_is_expected() {
    check("recover-", 2);
}
