//! Processor and memory, as requested and as offered.

/// An amount of processor and memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Resources {
    /// Thousandths of a CPU.
    pub cpu_milli: u64,
    /// Bytes.
    pub memory: u64,
}

impl Resources {
    /// Whether `other` fits beside what is already `used`.
    #[must_use]
    pub fn holds(&self, used: Self, other: Self) -> bool {
        used.cpu_milli.saturating_add(other.cpu_milli) <= self.cpu_milli
            && used.memory.saturating_add(other.memory) <= self.memory
    }

    /// The sum.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            cpu_milli: self.cpu_milli.saturating_add(other.cpu_milli),
            memory: self.memory.saturating_add(other.memory),
        }
    }

    /// The larger of each.
    #[must_use]
    pub fn larger(self, other: Self) -> Self {
        Self { cpu_milli: self.cpu_milli.max(other.cpu_milli), memory: self.memory.max(other.memory) }
    }
}
