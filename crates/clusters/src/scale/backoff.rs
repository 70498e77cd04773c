//! Waiting longer each time the provider declines, so that an answer of no is not asked for again
//! at once.

/// The wait of a cluster whose provider declined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    /// Declines in a row.
    pub declines: u32,
    /// Nothing is asked for before this time, seconds since the epoch.
    pub until: i64,
}

impl Backoff {
    /// The wait after one more decline, seen at `now`: the base, doubled for each earlier one, at
    /// most the cap.
    #[must_use]
    pub fn after_decline(before: Option<Self>, now: i64, base: i64, cap: i64) -> Self {
        let declines = before.map_or(0, |b| b.declines).saturating_add(1);
        let factor = 1_i64 << (declines - 1).min(30);
        Self { declines, until: now.saturating_add(base.max(1).saturating_mul(factor).min(cap.max(1))) }
    }
}
