//! Cluster DNS without I/O: a zone of Services, and the answer to one query.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

/// Longest answer over UDP when the client does not say otherwise.
const UDP_LIMIT: usize = 512;
const TTL: u32 = 5;
const A: u16 = 1;
const CNAME: u16 = 5;
const AAAA: u16 = 28;
const SRV: u16 = 33;
const OPT: u16 = 41;
const ANY: u16 = 255;

/// An endpoint behind a headless Service.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Endpoint {
    /// Its host name, if it has one.
    pub(crate) hostname: Option<String>,
    /// Its address.
    pub(crate) address: Ipv4Addr,
}

/// A named Service port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NamedPort {
    pub(crate) name: String,
    /// `tcp` or `udp`.
    pub(crate) protocol: &'static str,
    pub(crate) port: u16,
}

/// What a Service's name means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// Its cluster address.
    Address(Ipv4Addr),
    /// Its endpoints.
    Headless(Vec<Endpoint>),
    /// Another name.
    Name(String),
}

/// A Service in DNS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) target: Target,
    pub(crate) ports: Vec<NamedPort>,
}

/// Everything that the cluster's domain holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Zone {
    /// Such as `cluster.local`, lower case.
    pub(crate) domain: String,
    /// By namespace and name.
    pub(crate) services: BTreeMap<(String, String), Record>,
}

/// What to do with a query.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Send this.
    Reply(Vec<u8>),
    /// It is about a name outside the cluster.
    Forward,
    /// It is not a query.
    Drop,
}

#[derive(Debug, PartialEq, Eq)]
enum Found {
    Addresses(Vec<Ipv4Addr>),
    Alias(String),
    /// Port and target names with their addresses.
    Ports(Vec<(u16, String, Ipv4Addr)>),
}

struct Query {
    name: String,
    kind: u16,
    /// Where the question ends.
    end: usize,
    udp_limit: usize,
}

/// Answers a query from the zone. `udp` bounds the answer's size.
pub(crate) fn answer(query: &[u8], zone: &Zone, udp: bool) -> Outcome {
    if query.len() < 12 || query[2] & 0x80 != 0 {
        return Outcome::Drop;
    }
    let Some(question) = parse(query) else {
        return Outcome::Reply(reply(query, 12, 1, &[], 0, false));
    };
    let limit = if udp { question.udp_limit } else { usize::from(u16::MAX) };
    let name = question.name.to_ascii_lowercase();
    let Some(inner) = within(&name, &zone.domain) else { return Outcome::Forward };
    let Some(found) = zone.find(inner) else {
        return Outcome::Reply(reply(query, question.end, 3, &[], 0, false));
    };
    let mut records = Vec::new();
    match found {
        Found::Addresses(addresses) if matches!(question.kind, A | ANY) => {
            records.extend(addresses.iter().map(|address| record(&[0xc0, 12], A, &address.octets())));
        }
        Found::Alias(target) if matches!(question.kind, A | AAAA | CNAME | ANY) => {
            records.extend(encode_name(&target).map(|target| record(&[0xc0, 12], CNAME, &target)));
        }
        Found::Ports(ports) if matches!(question.kind, SRV | ANY) => {
            for (port, target, _) in &ports {
                let weight = u16::try_from(100 / ports.len().max(1)).unwrap_or(1);
                if let Some(target) = encode_name(target) {
                    let mut data = vec![0, 0];
                    data.extend_from_slice(&weight.to_be_bytes());
                    data.extend_from_slice(&port.to_be_bytes());
                    data.extend_from_slice(&target);
                    records.push(record(&[0xc0, 12], SRV, &data));
                }
            }
        }
        _ => {}
    }
    let mut fit = Vec::new();
    let mut count = 0u16;
    let mut truncated = false;
    for bytes in records {
        if question.end + fit.len() + bytes.len() > limit {
            truncated = true;
            break;
        }
        fit.extend(bytes);
        count += 1;
    }
    Outcome::Reply(reply(query, question.end, 0, &fit, count, truncated))
}

/// An answer that only says how it went wrong.
pub(crate) fn failure(query: &[u8], code: u8) -> Option<Vec<u8>> {
    let question = parse(query)?;
    Some(reply(query, question.end, code, &[], 0, false))
}

impl Zone {
    /// What a name means, given without the zone's domain.
    fn find(&self, name: &str) -> Option<Found> {
        let labels: Vec<&str> = if name.is_empty() { Vec::new() } else { name.split('.').collect() };
        let service = |name: &str, namespace: &str| self.services.get(&(namespace.to_owned(), name.to_owned()));
        match labels.as_slice() {
            // Names that only have names below them exist, but hold nothing.
            [] | ["svc" | "pod"] => Some(Found::Addresses(Vec::new())),
            [namespace, "svc"] => {
                let exists = self.services.keys().any(|(found, _)| found == namespace);
                exists.then(|| Found::Addresses(Vec::new()))
            }
            [address, _, "pod"] => {
                address.replace('-', ".").parse().ok().map(|address| Found::Addresses(vec![address]))
            }
            [name, namespace, "svc"] => Some(match &service(name, namespace)?.target {
                Target::Address(address) => Found::Addresses(vec![*address]),
                Target::Headless(endpoints) => Found::Addresses(endpoints.iter().map(|e| e.address).collect()),
                Target::Name(name) => Found::Alias(name.clone()),
            }),
            [port, protocol, name, namespace, "svc"] if port.starts_with('_') && protocol.starts_with('_') => {
                let record = service(name, namespace)?;
                let port =
                    record.ports.iter().find(|found| found.name == port[1..] && found.protocol == &protocol[1..])?.port;
                let base = format!("{name}.{namespace}.svc.{}", self.domain);
                Some(Found::Ports(match &record.target {
                    Target::Address(address) => vec![(port, base, *address)],
                    Target::Headless(endpoints) => {
                        endpoints.iter().map(|e| (port, format!("{}.{base}", e.label()), e.address)).collect()
                    }
                    Target::Name(_) => return None,
                }))
            }
            [host, name, namespace, "svc"] => match &service(name, namespace)?.target {
                Target::Headless(endpoints) => {
                    let found: Vec<_> = endpoints.iter().filter(|e| e.label() == *host).map(|e| e.address).collect();
                    (!found.is_empty()).then_some(Found::Addresses(found))
                }
                _ => None,
            },
            _ => None,
        }
    }
}

impl Endpoint {
    fn label(&self) -> String {
        self.hostname.clone().unwrap_or_else(|| self.address.to_string().replace('.', "-"))
    }
}

/// The part of a name below a domain; `None` outside it.
fn within<'a>(name: &'a str, domain: &str) -> Option<&'a str> {
    let rest = name.strip_suffix(domain)?;
    if rest.is_empty() { Some(rest) } else { rest.strip_suffix('.') }
}

fn parse(query: &[u8]) -> Option<Query> {
    let word = |at: usize| query.get(at..at + 2).map(|pair| u16::from_be_bytes([pair[0], pair[1]]));
    if word(4)? != 1 {
        return None;
    }
    let (name, after) = parse_name(query, 12)?;
    let kind = word(after)?;
    let end = after + 4;
    if query.len() < end {
        return None;
    }
    // The client's own limit is in a pseudo record right after the question, if anywhere.
    let extended = word(10)? > 0 && query.get(end) == Some(&0) && word(end + 1) == Some(OPT);
    let udp_limit = if extended { usize::from(word(end + 3)?).clamp(UDP_LIMIT, 4096) } else { UDP_LIMIT };
    Some(Query { name, kind, end, udp_limit })
}

fn parse_name(message: &[u8], mut at: usize) -> Option<(String, usize)> {
    let mut name = String::new();
    loop {
        let length = usize::from(*message.get(at)?);
        at += 1;
        if length == 0 {
            return Some((name, at));
        }
        // A question comes first, so there is nothing that it could point to.
        if length > 63 || name.len() + length > 254 {
            return None;
        }
        if !name.is_empty() {
            name.push('.');
        }
        name.push_str(std::str::from_utf8(message.get(at..at + length)?).ok()?);
        at += length;
    }
}

fn encode_name(name: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(name.len() + 2);
    for label in name.trim_end_matches('.').split('.') {
        let length = u8::try_from(label.len()).ok().filter(|length| (1..64).contains(length))?;
        bytes.push(length);
        bytes.extend_from_slice(label.as_bytes());
    }
    bytes.push(0);
    (bytes.len() <= 255).then_some(bytes)
}

fn record(name: &[u8], kind: u16, data: &[u8]) -> Vec<u8> {
    let mut bytes = name.to_vec();
    bytes.extend_from_slice(&kind.to_be_bytes());
    bytes.extend_from_slice(&1u16.to_be_bytes());
    bytes.extend_from_slice(&TTL.to_be_bytes());
    bytes.extend_from_slice(&u16::try_from(data.len()).unwrap_or(u16::MAX).to_be_bytes());
    bytes.extend_from_slice(data);
    bytes
}

fn reply(query: &[u8], question_end: usize, code: u8, records: &[u8], count: u16, truncated: bool) -> Vec<u8> {
    let mut bytes = query[..question_end].to_vec();
    // Answer, authoritative, recursion wanted as asked; recursion available.
    bytes[2] = 0x84 | (query[2] & 0x79) | if truncated { 2 } else { 0 };
    bytes[3] = 0x80 | code;
    let questions: u16 = u16::from(question_end > 12);
    bytes[4..6].copy_from_slice(&questions.to_be_bytes());
    bytes[6..8].copy_from_slice(&count.to_be_bytes());
    bytes[8..12].fill(0);
    bytes.extend_from_slice(records);
    bytes
}
