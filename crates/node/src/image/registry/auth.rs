//! Logging in to a registry: what it asks for, and what is sent.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::{HeaderMap, HeaderValue, header};
use serde::Deserialize;

/// What a registry asks for.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Challenge {
    Basic,
    Bearer { realm: String, service: Option<String> },
}

/// Reads `WWW-Authenticate`.
pub(super) fn challenge(headers: &HeaderMap) -> Option<Challenge> {
    let values = headers.get_all(header::WWW_AUTHENTICATE).iter().filter_map(|value| value.to_str().ok());
    values.filter_map(parse).max_by_key(|challenge| matches!(challenge, Challenge::Bearer { .. }))
}

fn parse(value: &str) -> Option<Challenge> {
    let (scheme, rest) = value.trim().split_once(' ').unwrap_or((value.trim(), ""));
    if scheme.eq_ignore_ascii_case("basic") {
        return Some(Challenge::Basic);
    }
    if !scheme.eq_ignore_ascii_case("bearer") {
        return None;
    }
    let (mut realm, mut service) = (None, None);
    let mut rest = rest;
    while let Some((name, after)) = rest.split_once('=') {
        let (value, after) = match after.strip_prefix('"') {
            Some(quoted) => quoted.split_once('"')?,
            None => after.split_once(',').map_or((after, ""), |(value, after)| (value, after)),
        };
        match name.trim().trim_start_matches(',').trim() {
            "realm" => realm = Some(value.to_owned()),
            "service" => service = Some(value.to_owned()),
            _ => {}
        }
        rest = after.trim_start_matches([',', ' ']);
    }
    Some(Challenge::Bearer { realm: realm?, service })
}

/// Where to ask for a token to pull from a repository.
pub(super) fn token_url(realm: &str, service: Option<&str>, repository: &str) -> String {
    let mut url = format!("{realm}{}scope=repository:{repository}:pull", if realm.contains('?') { '&' } else { '?' });
    if let Some(service) = service {
        url.push_str("&service=");
        for byte in service.bytes() {
            match byte {
                b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => url.push(char::from(byte)),
                _ => url.push_str(&format!("%{byte:02X}")),
            }
        }
    }
    url
}

/// The token of a token service's answer.
pub(super) fn token(body: &[u8]) -> Option<HeaderValue> {
    #[derive(Deserialize)]
    struct Answer {
        token: Option<String>,
        access_token: Option<String>,
    }
    let answer: Answer = serde_json::from_slice(body).ok()?;
    bearer(&answer.token.or(answer.access_token)?)
}

/// `Authorization` with a token.
pub(super) fn bearer(token: &str) -> Option<HeaderValue> {
    secret(&format!("Bearer {token}"))
}

/// `Authorization` with a password.
pub(super) fn basic(username: &str, password: &str) -> Option<HeaderValue> {
    secret(&format!("Basic {}", STANDARD.encode(format!("{username}:{password}"))))
}

fn secret(text: &str) -> Option<HeaderValue> {
    let mut value = HeaderValue::from_str(text).ok()?;
    value.set_sensitive(true);
    Some(value)
}
