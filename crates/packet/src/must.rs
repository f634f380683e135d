//! States that cannot be: a test that meets one stops, a run of a user passes over it.

/// What must be there. Its absence is a fault of ours and never of the traffic: where debug
/// assertions are on, as in `make test-checked` and in fuzzing, it ends the run here; elsewhere the
/// caller continues without it.
#[inline(always)]
#[track_caller]
pub fn must<T>(found: Option<T>, what: &str) -> Option<T> {
    debug_assert!(found.is_some(), "{what}");
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_there_is_handed_on() {
        assert_eq!(must(Some(1), "there"), Some(1));
    }

    #[test]
    #[cfg(debug_assertions)]
    #[should_panic(expected = "a slot has a flow")]
    fn what_is_missing_ends_a_checked_test() {
        must::<u8>(None, "a slot has a flow");
    }
}
