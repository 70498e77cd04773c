//! Requests and limits as what the kernel takes.

use apimachinery::quantity::Quantity;
use k8s_openapi::api::core::v1::Container;

/// Limits of one container.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Limits {
    pub(crate) cpu_shares: u64,
    /// Microseconds in each 100 ms.
    pub(crate) cpu_quota: Option<i64>,
    pub(crate) memory: Option<u64>,
}

fn amount(container: &Container, limits: bool, name: &str) -> Option<Quantity> {
    let resources = container.resources.as_ref()?;
    let map = if limits { &resources.limits } else { &resources.requests };
    map.as_ref()?.get(name)?.0.parse().ok()
}

/// CPU of a request or limit in thousandths.
pub(crate) fn milli_cpu(container: &Container, limits: bool) -> Option<i64> {
    amount(container, limits, "cpu").map(|quantity| quantity.milli_value())
}

/// A request or limit in whole units, such as bytes.
pub(crate) fn value(container: &Container, limits: bool, name: &str) -> Option<i64> {
    amount(container, limits, name).map(|quantity| quantity.value())
}

/// The limits of a container.
pub(crate) fn limits(container: &Container) -> Limits {
    let request = milli_cpu(container, false).or_else(|| milli_cpu(container, true)).unwrap_or(0);
    let shares = u64::try_from(request.saturating_mul(1024) / 1000).unwrap_or(0).clamp(2, 262_144);
    Limits {
        cpu_shares: shares,
        cpu_quota: milli_cpu(container, true).filter(|m| *m > 0).map(|milli| milli.saturating_mul(100).max(1000)),
        memory: value(container, true, "memory").and_then(|bytes| u64::try_from(bytes).ok()).filter(|b| *b > 0),
    }
}
