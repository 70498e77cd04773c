//! Sets of completion indexes, written like `0-2,5`.

use std::collections::BTreeSet;

/// Reads a set; whatever is not below `completions` or not a number is left out.
pub(super) fn parse(text: &str, completions: i32) -> BTreeSet<i32> {
    let mut set = BTreeSet::new();
    for part in text.split(',').filter(|part| !part.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (Ok(first), Ok(last)) = (first.parse::<i32>(), last.parse::<i32>()) else { continue };
        set.extend(first.max(0)..=last.min(completions - 1));
    }
    set
}

/// Writes a set; three or more in a row become a range.
pub(super) fn format(set: &BTreeSet<i32>) -> String {
    let mut runs: Vec<(i32, i32)> = Vec::new();
    for &index in set {
        match runs.last_mut() {
            Some((_, last)) if *last + 1 == index => *last = index,
            _ => runs.push((index, index)),
        }
    }
    let parts: Vec<String> = runs
        .into_iter()
        .map(|(first, last)| match last - first {
            0 => first.to_string(),
            1 => format!("{first},{last}"),
            _ => format!("{first}-{last}"),
        })
        .collect();
    parts.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_survive_writing() {
        for text in ["", "0", "0,1", "0-2", "0-2,5", "1,3-9,11,12"] {
            assert_eq!(format(&parse(text, 100)), text);
        }
        assert_eq!(format(&parse("0-5,x,7-", 3)), "0-2");
    }
}
