//! The story's times, as medians.

use std::time::Duration;

/// Times by what they are of, in the order in which they were first noted.
#[derive(Default)]
pub(super) struct Figures(Vec<(&'static str, Vec<Duration>)>);

impl Figures {
    pub(super) fn note(&mut self, what: &'static str, took: Duration) {
        match self.0.iter_mut().find(|(name, _)| *name == what) {
            Some((_, times)) => times.push(took),
            None => self.0.push((what, vec![took])),
        }
    }

    pub(super) fn print(&self) {
        println!("{:<40} {:>9}   runs", "times on the host's clock", "median");
        for (what, times) in &self.0 {
            let mut sorted = times.clone();
            sorted.sort();
            let median = sorted[sorted.len() / 2];
            println!("{what:<40} {:>7.2} s   {}", median.as_secs_f32(), times.len());
        }
    }
}
