//! Licence expressions, as a table.

use super::allowed;

#[test]
fn expressions_are_judged_by_what_may_be_chosen() {
    for good in ["MIT", "MIT/Apache-2.0", "GPL-3.0 OR MIT", "(MIT OR Apache-2.0) AND Unicode-3.0", "MIT AND (ISC)"] {
        assert!(allowed(good), "{good}");
    }
    for bad in ["GPL-3.0", "MIT AND GPL-3.0", "", "(GPL-2.0 OR AGPL-3.0) AND MIT", "((MIT)"] {
        assert!(!allowed(bad), "{bad}");
    }
}
