//! microvm
