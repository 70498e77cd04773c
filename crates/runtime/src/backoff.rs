//! Exponential backoff with jitter, bounded, without I/O.

use std::time::Duration;

/// How delays grow.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BackoffOptions {
    /// Delay before the first retry.
    pub initial: Duration,
    /// No delay is longer than this.
    pub max: Duration,
    /// Each delay is this many times the one before; values below 1 count as 1.
    pub factor: f64,
    /// Up to this fraction of a delay is taken off at random, 0 to 1, so that clients spread.
    pub jitter: f64,
}

impl Default for BackoffOptions {
    fn default() -> Self {
        Self { initial: Duration::from_millis(50), max: Duration::from_secs(30), factor: 2.0, jitter: 0.2 }
    }
}

impl BackoffOptions {
    /// The delay before retry `attempt` (0 is the first), for a random number in 0..1.
    ///
    /// Never longer than `max`, and never longer for a smaller attempt and the same `random`.
    #[must_use]
    pub fn delay(&self, attempt: u32, random: f64) -> Duration {
        let factor = if self.factor >= 1.0 { self.factor } else { 1.0 };
        let jitter = if self.jitter >= 0.0 { self.jitter.min(1.0) } else { 0.0 };
        let random = if random >= 0.0 { random.min(1.0) } else { 0.0 };
        let max = self.max.as_secs_f64();
        let exponent = i32::try_from(attempt).unwrap_or(i32::MAX);
        // 0 * infinity is not a number: an initial delay of zero stays zero.
        let grown = self.initial.as_secs_f64() * factor.powi(exponent);
        let grown = if grown.is_nan() { 0.0 } else { grown.min(max) };
        Duration::try_from_secs_f64(grown * (1.0 - jitter * random)).map_or(self.max, |delay| delay.min(self.max))
    }
}

/// Counts attempts and draws the jitter.
#[derive(Clone, Debug)]
pub struct Backoff {
    options: BackoffOptions,
    attempt: u32,
}

impl Backoff {
    /// A backoff that has not failed yet.
    #[must_use]
    pub fn new(options: BackoffOptions) -> Self {
        Self { options, attempt: 0 }
    }

    /// The next delay; each is longer than the last until `max`.
    pub fn next_delay(&mut self) -> Duration {
        let delay = self.options.delay(self.attempt, rand::random::<f64>());
        self.attempt = self.attempt.saturating_add(1);
        delay
    }

    /// Failures since the last success.
    #[must_use]
    pub fn attempts(&self) -> u32 {
        self.attempt
    }

    /// Starts over after a success.
    pub fn reset(&mut self) {
        self.attempt = 0;
    }
}

#[cfg(test)]
mod tests;
