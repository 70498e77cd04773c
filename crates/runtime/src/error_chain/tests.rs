use super::*;

#[derive(Debug, thiserror::Error)]
#[error("cannot open the store")]
struct Outer(#[source] Middle);

#[derive(Debug, thiserror::Error)]
#[error("read failed: {0}")]
struct Middle(#[source] std::io::Error);

#[test]
fn names_every_cause_once() {
    let error = Outer(Middle(std::io::Error::other("disk on fire")));
    assert_eq!(error_chain(&error), "cannot open the store: read failed: disk on fire");
}
