//! The whole server: over TLS and in process, one module per concern.

mod connections;
mod credentials;
mod documents;
mod nodes;
mod permissions;
mod support;
