//! os-linux
