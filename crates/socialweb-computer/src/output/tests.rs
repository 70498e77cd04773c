//! Tables for people.

use super::table;

#[test]
fn columns_are_aligned_and_lines_have_no_trailing_blanks() {
    let rows = [vec!["a".to_owned(), String::new()], vec!["longer".to_owned(), "x".to_owned()]];
    assert_eq!(table(&["NAME", "B"], &rows), "NAME     B\na\nlonger   x\n");
}
