//! clusters
