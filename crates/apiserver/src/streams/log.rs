//! `GET pods/<name>/log`.

use super::hub::{TunnelHub, empty};
use super::pod::{Target, flag};
use crate::connect::ConnectHandler;
use crate::request::RequestContext;
use apimachinery::status::ApiError;
use async_trait::async_trait;
use controller_runtime::Body;
use http::{Request, Response, header};
use http_body_util::BodyExt;
use node_api::tunnel::LogOptions;
use serde_json::Value;
use std::sync::Arc;

pub(super) struct Log(pub(super) Arc<TunnelHub>);

#[async_trait]
impl ConnectHandler for Log {
    async fn connect(
        &self,
        context: &RequestContext,
        pod: Value,
        _request: Request<Body>,
    ) -> Result<Response<Body>, ApiError> {
        let target = Target::of(context, &pod)?;
        let options = options(context)?;
        let container = target.container(context.info.query("container"))?;
        // A Pod that is nowhere has said nothing, which is what Kubernetes answers.
        let Some(node) = target.node else { return text(empty()) };
        let path = target.path("logs", Some(&container), &options);
        let request = Request::get(path).body(empty()).map_err(ApiError::internal)?;
        let answer = self.0.send(target.cluster, node, request).await?;
        text(answer.into_body().map_err(Into::into).boxed_unsync())
    }
}

fn text(body: Body) -> Result<Response<Body>, ApiError> {
    Response::builder().header(header::CONTENT_TYPE, "text/plain").body(body).map_err(ApiError::internal)
}

/// Reads `PodLogOptions` from the query.
fn options(context: &RequestContext) -> Result<LogOptions, ApiError> {
    let number = |name: &str, least: u64| -> Result<Option<u64>, ApiError> {
        let Some(value) = context.info.query(name) else { return Ok(None) };
        match value.parse::<u64>() {
            Ok(number) if number >= least => Ok(Some(number)),
            _ => Err(ApiError::bad_request(format!("{name}: Invalid value: {value:?}: must be an integer >= {least}"))),
        }
    };
    let since_time = context.info.query("sinceTime").map(str::to_owned);
    if let Some(time) = &since_time {
        time.parse::<jiff::Timestamp>().map_err(|_| {
            ApiError::bad_request(format!("sinceTime: Invalid value: {time:?}: must be an RFC 3339 time"))
        })?;
    }
    let options = LogOptions {
        follow: flag(context, "follow"),
        previous: flag(context, "previous"),
        timestamps: flag(context, "timestamps"),
        tail_lines: number("tailLines", 0)?,
        since_seconds: number("sinceSeconds", 1)?,
        since_time,
        limit_bytes: number("limitBytes", 1)?,
    };
    if options.since_seconds.is_some() && options.since_time.is_some() {
        return Err(ApiError::bad_request("at most one of `sinceTime` or `sinceSeconds` may be specified"));
    }
    Ok(options)
}
