//! Kinds that are answered and forgotten: who am I, what may I do, whose token is this.

use crate::authentication::Authenticator;
use crate::authentication::tokens::ISSUER;
use crate::authorization::rbac::Rule;
use crate::authorization::{Attributes, Authorizer};
use crate::respond;
use apimachinery::auth::{GROUP_MASTERS, UserInfo};
use apimachinery::definition::ResourceDefinition;
use apimachinery::status::ApiError;
use bytes::Bytes;
use controller_runtime::Body;
use http::{Response, StatusCode};
use serde_json::{Map, Value, json};

/// Groups of the kinds that are answered here.
const AUTHENTICATION: &str = "authentication.k8s.io";
const AUTHORIZATION: &str = "authorization.k8s.io";

/// Whether a kind is a review.
pub(crate) fn is_review(definition: &ResourceDefinition) -> bool {
    matches!(definition.gvk.group.as_str(), AUTHENTICATION | AUTHORIZATION)
}

/// Who asks, and where.
pub(crate) struct Asker<'a> {
    pub(crate) authenticator: &'a Authenticator,
    pub(crate) authorizer: &'a Authorizer,
    pub(crate) cluster: &'a str,
    pub(crate) user: &'a UserInfo,
    /// The namespace of the path, for a local review.
    pub(crate) namespace: Option<&'a str>,
}

impl Asker<'_> {
    /// Answers a review.
    pub(crate) async fn answer(
        &self,
        definition: &ResourceDefinition,
        body: &Bytes,
    ) -> Result<Response<Body>, ApiError> {
        let kind = definition.gvk.kind.as_str();
        let mut review = read(definition, body)?;
        let status = match kind {
            "SelfSubjectReview" => json!({"userInfo": user_json(self.user)}),
            "TokenReview" => self.token(&mut review).await?,
            "SelfSubjectAccessReview" => self.access(&review, self.user).await?,
            "SelfSubjectRulesReview" => self.rules(&review).await?,
            _ => {
                let user = subject(&review["spec"]);
                if user.name.is_empty() && user.groups.is_empty() {
                    return Err(ApiError::bad_request(
                        "spec.user: Invalid value: \"\": at least one of user or group must be specified",
                    ));
                }
                if let Some(namespace) = self.namespace
                    && review["spec"]["resourceAttributes"]["namespace"] != namespace
                {
                    return Err(ApiError::bad_request(format!(
                        "spec.resourceAttributes.namespace must match namespace: {namespace}"
                    )));
                }
                self.access(&review, &user).await?
            }
        };
        review["status"] = status;
        Ok(respond::json(StatusCode::CREATED, &review))
    }

    async fn access(&self, review: &Value, user: &UserInfo) -> Result<Value, ApiError> {
        let spec = &review["spec"];
        let text = |value: &Value, field: &str| value[field].as_str().unwrap_or_default().to_owned();
        let (resource, path) = (&spec["resourceAttributes"], &spec["nonResourceAttributes"]);
        let asked = match (resource.is_object(), path.is_object()) {
            (true, false) => Attributes {
                verb: text(resource, "verb"),
                path: None,
                group: text(resource, "group"),
                version: text(resource, "version"),
                resource: text(resource, "resource"),
                subresource: text(resource, "subresource"),
                namespace: text(resource, "namespace"),
                name: text(resource, "name"),
            },
            (false, true) => {
                Attributes { verb: text(path, "verb"), path: Some(text(path, "path")), ..Attributes::default() }
            }
            _ => {
                return Err(ApiError::bad_request(
                    "exactly one of nonResourceAttributes or resourceAttributes must be specified",
                ));
            }
        };
        let allowed = self.authorizer.allows(self.cluster, user, &asked, None).await?;
        let mut status = json!({"allowed": allowed});
        if allowed {
            status["reason"] = if user.in_group(GROUP_MASTERS) { "" } else { "allowed by the cluster's rules" }.into();
        }
        Ok(status)
    }

    async fn rules(&self, review: &Value) -> Result<Value, ApiError> {
        let namespace = review["spec"]["namespace"].as_str().unwrap_or_default();
        if namespace.is_empty() {
            return Err(ApiError::bad_request("no namespace on request"));
        }
        let any = || vec!["*".to_owned()];
        let everything = [
            Rule { verbs: any(), groups: any(), resources: any(), ..Rule::default() },
            Rule { verbs: any(), urls: any(), ..Rule::default() },
        ];
        let compiled = self.authorizer.rules(self.cluster).await?;
        let all = self.user.in_group(GROUP_MASTERS).then_some(everything.iter());
        let held = compiled.rules_of(self.user, Some(namespace)).chain(all.into_iter().flatten());
        let (mut resources, mut paths) = (Vec::new(), Vec::new());
        for rule in held {
            let (list, value) = if rule.urls.is_empty() {
                let mut value = json!({"verbs": rule.verbs, "apiGroups": rule.groups, "resources": rule.resources});
                if !rule.names.is_empty() {
                    value["resourceNames"] = json!(rule.names);
                }
                (&mut resources, value)
            } else {
                (&mut paths, json!({"verbs": rule.verbs, "nonResourceURLs": rule.urls}))
            };
            if !list.contains(&value) {
                list.push(value);
            }
        }
        Ok(json!({"resourceRules": resources, "nonResourceRules": paths, "incomplete": false}))
    }

    async fn token(&self, review: &mut Value) -> Result<Value, ApiError> {
        let Some(token) = review["spec"]["token"].as_str().filter(|token| !token.is_empty()) else {
            return Err(ApiError::bad_request("token is required for TokenReview in authentication"));
        };
        let asked: Vec<&str> =
            review["spec"]["audiences"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        let audiences = if asked.is_empty() { vec![ISSUER] } else { asked };
        let found = self.authenticator.token(token, &audiences).await?;
        Ok(match found.filter(|(identity, _)| identity.cluster == self.cluster) {
            Some((identity, matched)) => {
                json!({"authenticated": true, "user": user_json(&identity.user), "audiences": matched})
            }
            None => json!({"authenticated": false, "user": {}, "error": "invalid bearer token"}),
        })
    }
}

/// Reads a review's body and checks that it is one.
fn read(definition: &ResourceDefinition, body: &Bytes) -> Result<Value, ApiError> {
    let (mut review, _) = apimachinery::parse::strict(body).map_err(ApiError::bad_request)?;
    let (kind, version) = (&definition.gvk.kind, definition.gvk.api_version());
    let same = |value: &Value, wanted: &str| value.as_str().is_none_or(|text| text.is_empty() || text == wanted);
    if !review.is_object() || !same(&review["kind"], kind) || !same(&review["apiVersion"], &version) {
        return Err(ApiError::bad_request(format!("the object provided is no {kind} of {version}")));
    }
    review["kind"] = kind.clone().into();
    review["apiVersion"] = version.into();
    if !review["metadata"].is_object() {
        review["metadata"] = json!({});
    }
    if !review["spec"].is_object() {
        review["spec"] = json!({});
    }
    Ok(review)
}

fn subject(spec: &Value) -> UserInfo {
    let texts =
        |value: &Value| value.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect();
    let extra = spec["extra"].as_object().into_iter().flatten().map(|(key, values)| (key.clone(), texts(values)));
    UserInfo {
        name: spec["user"].as_str().unwrap_or_default().to_owned(),
        uid: spec["uid"].as_str().unwrap_or_default().to_owned(),
        groups: texts(&spec["groups"]),
        extra: extra.collect(),
    }
}

/// A user as the authentication kinds tell it.
fn user_json(user: &UserInfo) -> Value {
    let mut value = Map::new();
    value.insert("username".into(), user.name.clone().into());
    if !user.uid.is_empty() {
        value.insert("uid".into(), user.uid.clone().into());
    }
    value.insert("groups".into(), json!(user.groups));
    if !user.extra.is_empty() {
        value.insert("extra".into(), json!(user.extra));
    }
    Value::Object(value)
}
