//! Numbers that a workload's spec gives as a count or as a percentage.

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

/// How a percentage becomes a count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Round {
    Up,
    Down,
}

/// The count that a value means out of `total`; anything that is no count is zero.
pub(crate) fn resolve(value: &IntOrString, total: i32, round: Round) -> i32 {
    match value {
        IntOrString::Int(count) => (*count).max(0),
        IntOrString::String(text) => {
            let Some(percent) = text.strip_suffix('%').and_then(|text| text.parse::<i64>().ok()) else { return 0 };
            let scaled = percent.clamp(0, i64::from(i32::MAX)) * i64::from(total.max(0));
            let count = match round {
                Round::Up => scaled.div_euclid(100) + i64::from(scaled % 100 != 0),
                Round::Down => scaled / 100,
            };
            i32::try_from(count).unwrap_or(i32::MAX)
        }
    }
}

/// `maxSurge` and `maxUnavailable` as counts; never both zero, for nothing could move then.
pub(crate) fn fenceposts(surge: Option<&IntOrString>, unavailable: Option<&IntOrString>, total: i32) -> (i32, i32) {
    let quarter = IntOrString::String("25%".to_owned());
    let surge = resolve(surge.unwrap_or(&quarter), total, Round::Up);
    let unavailable = resolve(unavailable.unwrap_or(&quarter), total, Round::Down);
    if surge == 0 && unavailable == 0 { (0, 1) } else { (surge, unavailable) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentages_round_as_asked() {
        let percent = |text: &str| IntOrString::String(text.to_owned());
        for (value, total, up, down) in [
            (percent("25%"), 10, 3, 2),
            (percent("100%"), 7, 7, 7),
            (percent("0%"), 7, 0, 0),
            (IntOrString::Int(4), 2, 4, 4),
            (IntOrString::Int(-4), 2, 0, 0),
            (percent("many"), 7, 0, 0),
        ] {
            assert_eq!(resolve(&value, total, Round::Up), up, "{value:?}");
            assert_eq!(resolve(&value, total, Round::Down), down, "{value:?}");
        }
    }

    #[test]
    fn something_can_always_move() {
        let zero = IntOrString::Int(0);
        assert_eq!(fenceposts(Some(&zero), Some(&zero), 5), (0, 1));
        assert_eq!(fenceposts(None, None, 1), (1, 0));
        assert_eq!(fenceposts(None, None, 4), (1, 1));
    }
}
