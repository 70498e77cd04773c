//! Which request is which, from its method and path.

use serde::de::DeserializeOwned;

/// A container that a request is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) namespace: String,
    pub(super) pod: String,
    pub(super) uid: String,
    /// Empty for a request about the whole Pod.
    pub(super) container: String,
}

/// What a request asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Route {
    Health,
    Logs(Place),
    Exec(Place),
    Attach(Place),
    PortForward(Place),
}

/// Reads a path. `None` is no path that the tunnel serves.
pub(super) fn route(path: &str) -> Option<Route> {
    let parts: Vec<String> = path.trim_start_matches('/').split('/').map(decode).collect::<Option<_>>()?;
    let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
    let place = |namespace: &str, pod: &str, uid: &str, container: &str| Place {
        namespace: namespace.to_owned(),
        pod: pod.to_owned(),
        uid: uid.to_owned(),
        container: container.to_owned(),
    };
    match parts.as_slice() {
        ["healthz"] => Some(Route::Health),
        ["logs", namespace, pod, uid, container] => Some(Route::Logs(place(namespace, pod, uid, container))),
        ["exec", namespace, pod, uid, container] => Some(Route::Exec(place(namespace, pod, uid, container))),
        ["attach", namespace, pod, uid, container] => Some(Route::Attach(place(namespace, pod, uid, container))),
        ["portforward", namespace, pod, uid] => Some(Route::PortForward(place(namespace, pod, uid, ""))),
        _ => None,
    }
}

/// The value of a query parameter, decoded.
pub(super) fn parameter(query: Option<&str>, name: &str) -> Option<String> {
    query?.split('&').find_map(|pair| {
        let (key, value) = pair.split_once('=')?;
        if key == name { decode(value) } else { None }
    })
}

/// The JSON in the parameter `options`; nothing is the default.
pub(super) fn options<T: DeserializeOwned + Default>(query: Option<&str>) -> Result<T, String> {
    match parameter(query, "options") {
        Some(text) => serde_json::from_str(&text).map_err(|error| format!("bad options: {error}")),
        None => Ok(T::default()),
    }
}

fn decode(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte == b'%' {
            let digit = |byte: u8| char::from(byte).to_digit(16);
            let value = digit(rest.next()?)? * 16 + digit(rest.next()?)?;
            bytes.push(u8::try_from(value).ok()?);
        } else {
            bytes.push(byte);
        }
    }
    String::from_utf8(bytes).ok()
}
