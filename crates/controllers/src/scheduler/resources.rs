//! `Resources`: what a Pod asks for and what a Node has, in integers.

use apimachinery::quantity;
use k8s_openapi::api::core::v1::{Container, PodSpec, ResourceRequirements};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use std::collections::BTreeMap;

/// What a container without a request counts for when nodes are compared: 100 milli-CPU.
const PRESUMED_MILLI_CPU: i64 = 100;
/// What a container without a request counts for when nodes are compared: 200 MiB.
const PRESUMED_MEMORY_BYTES: i64 = 200 << 20;

/// Amounts of resources by name; CPU in thousandths, everything else in units.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Resources(pub BTreeMap<String, i64>);

impl Resources {
    /// The amounts of a map of quantities. What does not parse counts as nothing.
    #[must_use]
    pub fn of(quantities: Option<&BTreeMap<String, Quantity>>) -> Self {
        Self(
            quantities
                .into_iter()
                .flatten()
                .map(|(name, amount)| {
                    let amount = quantity::Quantity::parse(&amount.0).unwrap_or(quantity::Quantity::ZERO);
                    (name.clone(), if name == "cpu" { amount.milli_value() } else { amount.value() })
                })
                .collect(),
        )
    }

    /// One amount; zero when it is not named.
    #[must_use]
    pub fn get(&self, name: &str) -> i64 {
        self.0.get(name).copied().unwrap_or(0)
    }

    /// Adds, resource by resource.
    pub fn add(&mut self, other: &Self) {
        for (name, amount) in &other.0 {
            let sum = self.0.entry(name.clone()).or_insert(0);
            *sum = sum.saturating_add(*amount);
        }
    }

    /// Raises each amount to the other's.
    fn raise(&mut self, other: &Self) {
        for (name, amount) in &other.0 {
            let own = self.0.entry(name.clone()).or_insert(0);
            *own = (*own).max(*amount);
        }
    }
}

/// What a Pod asks for: its containers and sidecars together, or the most that it needs while it
/// initializes, whichever is more; its own request instead, where it states one; and its overhead.
#[must_use]
pub fn requests(spec: &PodSpec) -> Resources {
    total(spec, |container| asked(container.resources.as_ref()))
}

/// [`requests`], where a container without one counts for something, so that nodes can be compared.
#[must_use]
pub fn presumed(spec: &PodSpec) -> Resources {
    total(spec, |container| {
        let mut asked = asked(container.resources.as_ref());
        asked.0.entry("cpu".to_owned()).or_insert(PRESUMED_MILLI_CPU);
        asked.0.entry("memory".to_owned()).or_insert(PRESUMED_MEMORY_BYTES);
        asked
    })
}

fn asked(resources: Option<&ResourceRequirements>) -> Resources {
    Resources::of(resources.and_then(|resources| resources.requests.as_ref()))
}

fn total(spec: &PodSpec, of: impl Fn(&Container) -> Resources) -> Resources {
    let mut running = Resources::default();
    for container in &spec.containers {
        running.add(&of(container));
    }
    let (mut sidecars, mut initializing) = (Resources::default(), Resources::default());
    for container in spec.init_containers.iter().flatten() {
        let own = of(container);
        if container.restart_policy.as_deref() == Some("Always") {
            running.add(&own);
            sidecars.add(&own);
            initializing.raise(&sidecars);
        } else {
            let mut step = sidecars.clone();
            step.add(&own);
            initializing.raise(&step);
        }
    }
    running.raise(&initializing);
    running.0.extend(asked(spec.resources.as_ref()).0);
    running.add(&Resources::of(spec.overhead.as_ref()));
    running
}
