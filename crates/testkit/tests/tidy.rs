//! The repository obeys its rules; see `testkit::tidy` for them.

use testkit::{repository, tidy};

#[test]
fn the_repository_is_tidy() {
    let files = repository::files().expect("the repository can be read");
    assert!(files.len() > 10, "{} files are too few to be the repository", files.len());
    let complaints = tidy::complaints(&files, tidy::RULES, tidy::EXCEPTIONS);
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
}
