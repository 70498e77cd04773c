//! Clients in the same process: requests without connection, with a given identity.

use crate::respond;
use crate::service::{Caller, Service};
use apimachinery::auth::UserInfo;
use async_trait::async_trait;
use bytes::Bytes;
use controller_runtime::{Body, BoxError, Transport};
use http::{Request, Response};
use std::sync::Arc;

/// A [`Transport`] that hands requests to the server in this process.
#[derive(Clone)]
pub struct LocalTransport {
    service: Arc<Service>,
    user: UserInfo,
}

impl std::fmt::Debug for LocalTransport {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LocalTransport").field("user", &self.user).finish_non_exhaustive()
    }
}

impl LocalTransport {
    pub(crate) fn new(service: Arc<Service>, user: UserInfo) -> Self {
        Self { service, user }
    }
}

#[async_trait]
impl Transport for LocalTransport {
    async fn send(&self, request: Request<Bytes>) -> Result<Response<Body>, BoxError> {
        Ok(self.service.answer(Caller::Local(&self.user), request.map(respond::whole)).await)
    }
}
