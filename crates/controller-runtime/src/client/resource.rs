//! The verbs on one kind, for typed objects and for JSON values alike.

use super::{Call, Client, ClientError, DeleteOptions, ListOptions, Patch};
use crate::ApiKind;
use crate::kind::encode;
use bytes::Bytes;
use http::Method;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ListMeta;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::marker::PhantomData;

/// The verbs on one kind. `namespace` is empty for cluster-scoped kinds, and for lists of every
/// namespace. Errors are as [`ClientError`] says.
#[derive(Debug)]
pub struct ResourceClient<'a, T> {
    client: &'a Client,
    kind: ApiKind,
    object: PhantomData<fn() -> T>,
}

#[derive(Deserialize)]
struct Page {
    #[serde(default)]
    metadata: ListMeta,
    items: Option<Vec<Value>>,
}

impl<'a, T: Serialize + DeserializeOwned + Send> ResourceClient<'a, T> {
    pub(super) fn new(client: &'a Client, kind: ApiKind) -> Self {
        Self { client, kind, object: PhantomData }
    }

    /// The kind.
    #[must_use]
    pub fn kind(&self) -> &ApiKind {
        &self.kind
    }

    fn path(&self, namespace: &str, name: &str, subresource: &str) -> String {
        let mut path = format!("{}/{}", self.kind.path(namespace), encode(name));
        if !subresource.is_empty() {
            path.push('/');
            path.push_str(subresource);
        }
        path
    }

    async fn send(&self, method: Method, path: String, body: &impl Serialize) -> Result<T, ClientError> {
        self.client.call(&Call::new(method, path, to_bytes(body)?)).await
    }

    /// Gets an object; `None` when there is none of that name.
    pub async fn get(&self, namespace: &str, name: &str) -> Result<Option<T>, ClientError> {
        match self.client.call(&Call::new(Method::GET, self.path(namespace, name, ""), Bytes::new())).await {
            Ok(object) => Ok(Some(object)),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Lists objects, page by page, all from one version.
    pub async fn list(&self, namespace: &str, options: &ListOptions) -> Result<Vec<T>, ClientError> {
        Ok(self.list_versioned(namespace, options).await?.0)
    }

    /// [`list`](Self::list) with the version that the list is of, from which a watch can start.
    pub async fn list_versioned(
        &self,
        namespace: &str,
        options: &ListOptions,
    ) -> Result<(Vec<T>, String), ClientError> {
        let mut objects = Vec::new();
        let version = self
            .for_each(namespace, options, &mut |item| {
                objects.push(serde_json::from_value(item)?);
                Ok(())
            })
            .await?;
        Ok((objects, version))
    }

    /// Hands every object of a list to `take`, page by page, and returns the list's version.
    pub(crate) async fn for_each(
        &self,
        namespace: &str,
        options: &ListOptions,
        take: &mut (dyn FnMut(Value) -> Result<(), serde_json::Error> + Send),
    ) -> Result<String, ClientError> {
        let base = self.kind.path(namespace);
        let api_version = self.kind.api_version();
        let mut token = String::new();
        loop {
            let mut parameters = options.parameters();
            parameters.push(format!("limit={}", self.client.options().page_size));
            if !token.is_empty() {
                parameters.push(format!("continue={}", encode(&token)));
            }
            let call = Call::new(Method::GET, format!("{base}?{}", parameters.join("&")), Bytes::new());
            let page: Page = self.client.call(&call).await?;
            for mut item in page.items.unwrap_or_default() {
                // Items of a list may leave out what the list itself says.
                if let Some(fields) = item.as_object_mut() {
                    fields.entry("apiVersion").or_insert_with(|| api_version.clone().into());
                    fields.entry("kind").or_insert_with(|| self.kind.kind.to_string().into());
                }
                take(item).map_err(|source| ClientError::Decode {
                    method: Method::GET,
                    path: call.path.clone(),
                    source,
                })?;
            }
            match page.metadata.continue_ {
                Some(next) if !next.is_empty() => token = next,
                _ => return Ok(page.metadata.resource_version.unwrap_or_default()),
            }
        }
    }

    /// Creates an object and returns it as stored.
    pub async fn create(&self, namespace: &str, object: &T) -> Result<T, ClientError> {
        self.send(Method::POST, self.kind.path(namespace), object).await
    }

    /// Replaces an object. With a `resourceVersion` it must still be at that version.
    pub async fn update(&self, namespace: &str, name: &str, object: &T) -> Result<T, ClientError> {
        self.send(Method::PUT, self.path(namespace, name, ""), object).await
    }

    /// Replaces an object's subresource, such as `status`.
    pub async fn update_subresource(
        &self,
        namespace: &str,
        name: &str,
        subresource: &str,
        object: &T,
    ) -> Result<T, ClientError> {
        self.send(Method::PUT, self.path(namespace, name, subresource), object).await
    }

    /// Patches an object.
    pub async fn patch(&self, namespace: &str, name: &str, patch: &Patch) -> Result<T, ClientError> {
        self.patch_subresource(namespace, name, "", patch).await
    }

    /// Patches an object's subresource, such as `status`.
    pub async fn patch_subresource(
        &self,
        namespace: &str,
        name: &str,
        subresource: &str,
        patch: &Patch,
    ) -> Result<T, ClientError> {
        let mut call = Call::new(Method::PATCH, self.path(namespace, name, subresource), to_bytes(patch.body())?);
        call.content_type = patch.content_type();
        self.client.call(&call).await
    }

    /// Deletes an object, or marks it for deletion when it has finalizers or a grace period.
    pub async fn delete(&self, namespace: &str, name: &str, options: &DeleteOptions) -> Result<(), ClientError> {
        let call = Call::new(Method::DELETE, self.path(namespace, name, ""), to_bytes(&with_kind(options)?)?);
        self.client.bytes(&call).await.map(drop)
    }

    /// Deletes every object that `which` selects.
    pub async fn delete_collection(
        &self,
        namespace: &str,
        which: &ListOptions,
        options: &DeleteOptions,
    ) -> Result<(), ClientError> {
        let parameters = which.parameters();
        let mut path = self.kind.path(namespace);
        if !parameters.is_empty() {
            path.push('?');
            path.push_str(&parameters.join("&"));
        }
        self.client.bytes(&Call::new(Method::DELETE, path, to_bytes(&with_kind(options)?)?)).await.map(drop)
    }

    /// Creates a subresource such as `binding`, `eviction` or `token` and returns the answer.
    pub async fn create_subresource(
        &self,
        namespace: &str,
        name: &str,
        subresource: &str,
        body: &Value,
    ) -> Result<Value, ClientError> {
        self.client.call(&Call::new(Method::POST, self.path(namespace, name, subresource), to_bytes(body)?)).await
    }
}

fn to_bytes(body: &impl Serialize) -> Result<Bytes, ClientError> {
    serde_json::to_vec(body).map(Bytes::from).map_err(ClientError::Encode)
}

fn with_kind(options: &DeleteOptions) -> Result<Value, ClientError> {
    let mut value = serde_json::to_value(options).map_err(ClientError::Encode)?;
    value["kind"] = "DeleteOptions".into();
    value["apiVersion"] = "v1".into();
    Ok(value)
}
