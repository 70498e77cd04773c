//! Ages, as `kubectl` prints them.

use jiff::Timestamp;
use serde_json::Value;
use std::time::Duration;

/// `5m`, `3d4h`: a duration as `kubectl` prints it, two units at most.
#[must_use]
pub fn human_duration(duration: Duration) -> String {
    let seconds = duration.as_secs();
    let (minutes, hours) = (seconds / 60, seconds / 3600);
    let (days, years) = (hours / 24, hours / 24 / 365);
    let two = |major: u64, unit: char, minor: u64, sub: char| {
        if minor == 0 { format!("{major}{unit}") } else { format!("{major}{unit}{minor}{sub}") }
    };
    if seconds < 120 {
        format!("{seconds}s")
    } else if minutes < 10 {
        two(minutes, 'm', seconds % 60, 's')
    } else if minutes < 180 {
        format!("{minutes}m")
    } else if hours < 8 {
        two(hours, 'h', minutes % 60, 'm')
    } else if hours < 48 {
        format!("{hours}h")
    } else if days < 8 {
        two(days, 'd', hours % 24, 'h')
    } else if years < 2 {
        format!("{days}d")
    } else if years < 8 {
        two(years, 'y', days % 365, 'd')
    } else {
        format!("{years}y")
    }
}

/// The age of an RFC 3339 timestamp, or `<unknown>` for an absent or malformed one.
#[must_use]
pub fn translate_timestamp(timestamp: &Value, now: Timestamp) -> String {
    let Some(then) = timestamp.as_str().and_then(|text| text.parse::<Timestamp>().ok()) else {
        return "<unknown>".into();
    };
    let age = now.duration_since(then);
    match Duration::try_from(age) {
        Ok(age) => human_duration(age),
        // Clocks differ by a little.
        Err(_) if age.as_secs() >= -1 => "0s".into(),
        Err(_) => "<invalid>".into(),
    }
}
