//! Kubernetes' own controllers and the scheduler, for every logical cluster at once.

pub mod endpoints;
pub mod node_lifecycle;
pub mod scheduler;
