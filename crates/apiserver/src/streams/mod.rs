//! Streams between clients and containers: log, exec, attach and port-forward, over the tunnels that
//! nodes hold open.
//!
//! No node has an inbound port. Its agent opens one connection ([`TunnelHub`] serves that end), over
//! which requests go the other way. Clients speak WebSocket (KEP-4006) or, for port-forward, also
//! SPDY/3.1 inside or instead of it, as kubectl does.

mod command;
mod hub;
mod log;
mod options;
mod pod;
mod port_forward;
mod spdy;
mod websocket;

pub use hub::TunnelHub;
pub use options::StreamOptions;

use crate::connect::ConnectHandler;
use std::sync::Arc;

/// The `log` subresource of Pods.
#[must_use]
pub fn log(hub: &Arc<TunnelHub>) -> Arc<dyn ConnectHandler> {
    Arc::new(log::Log(hub.clone()))
}

/// The `exec` subresource of Pods.
#[must_use]
pub fn exec(hub: &Arc<TunnelHub>) -> Arc<dyn ConnectHandler> {
    Arc::new(command::Remote { hub: hub.clone(), verb: command::Verb::Exec })
}

/// The `attach` subresource of Pods.
#[must_use]
pub fn attach(hub: &Arc<TunnelHub>) -> Arc<dyn ConnectHandler> {
    Arc::new(command::Remote { hub: hub.clone(), verb: command::Verb::Attach })
}

/// The `portforward` subresource of Pods.
#[must_use]
pub fn port_forward(hub: &Arc<TunnelHub>) -> Arc<dyn ConnectHandler> {
    Arc::new(port_forward::PortForward(hub.clone()))
}
