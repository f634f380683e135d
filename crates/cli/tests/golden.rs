//! Golden runs of the command on the capture that ships: `testdata/golden/`.

use std::path::Path;

use testkit::golden::check_all;

fn check(prefix: &str, case_count_min: usize) {
    let program = Path::new(env!("CARGO_BIN_EXE_wirelens"));
    match check_all(program, prefix, &[]) {
        Ok(count) => assert!(count >= case_count_min, "only {count} cases `{prefix}*`"),
        Err(complaints) => panic!("{complaints}"),
    }
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
fn refusals_say_what_is_expected() {
    check("error-", 7);
}
