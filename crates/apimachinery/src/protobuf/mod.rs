//! Kubernetes' protobuf encoding, as clients send built-in kinds in request bodies: read into JSON.
//!
//! `messages.txt` says what is on the wire: a line per message and an indented line per field with
//! its number, its JSON name (`.` when its fields are the message's own in JSON) and its type: `[]`
//! is a list, `{}` a map with string keys. On the wire a plain field that was not set looks like
//! one that was set to zero, and only the latter is left out in JSON; `!` marks the fields whose
//! zero value says something.

mod wire;

#[cfg(test)]
mod tests;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};
use std::collections::HashMap;
use std::sync::OnceLock;
use wire::{Payload, Reader};

/// Media type of the encoding.
pub const MEDIA_TYPE: &str = "application/vnd.kubernetes.protobuf";

const TABLE: &str = include_str!("messages.txt");
/// First bytes of every body.
const MAGIC: &[u8] = b"k8s\0";
/// Deepest nesting of messages.
const MAX_DEPTH: usize = 64;

/// Why a body cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// It is malformed, or of a type whose fields it does not respect.
    Malformed(String),
    /// Its type is not one that is known in this encoding.
    UnknownType(String),
}

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Malformed(why) => write!(f, "protobuf body: {why}"),
            Self::UnknownType(name) => write!(f, "no protobuf encoding of {name} is known"),
        }
    }
}

impl std::error::Error for Error {}

fn malformed(why: impl Into<String>) -> Error {
    Error::Malformed(why.into())
}

/// Reads a whole body: the envelope, and in it an object of a built-in kind, as the JSON object
/// that a client would have sent.
///
/// # Errors
/// When it is malformed, has a field that is not known, or is of a kind that is not known.
pub fn decode(body: &[u8]) -> Result<Value, Error> {
    let envelope = body.strip_prefix(MAGIC).ok_or_else(|| malformed("it does not start as one"))?;
    let (mut api_version, mut kind, mut raw) = (String::new(), String::new(), &[][..]);
    let mut fields = Reader::new(envelope);
    while let Some((number, payload)) = fields.next_field().map_err(malformed)? {
        match (number, payload) {
            (1, Payload::Bytes(bytes)) => {
                let mut type_meta = Reader::new(bytes);
                while let Some((number, payload)) = type_meta.next_field().map_err(malformed)? {
                    match (number, payload) {
                        (1, Payload::Bytes(bytes)) => api_version = text(bytes)?,
                        (2, Payload::Bytes(bytes)) => kind = text(bytes)?,
                        _ => {}
                    }
                }
            }
            (2, Payload::Bytes(bytes)) => raw = bytes,
            (3, Payload::Bytes(encoding)) if !encoding.is_empty() => return Err(malformed("its content is encoded")),
            _ => {}
        }
    }
    let name = message_name(&api_version, &kind);
    let Some((name, fields)) = table().get_key_value(name.as_str()) else {
        return Err(Error::UnknownType(format!("{api_version} {kind}")));
    };
    let mut object = Map::new();
    object.insert("apiVersion".into(), api_version.into());
    object.insert("kind".into(), kind.into());
    message(name, fields, raw, &mut object, 0)?;
    Ok(Value::Object(object))
}

/// The message of a kind: the package is the first label of its group. Options of a deletion are
/// sent in the group of what is deleted.
fn message_name(api_version: &str, kind: &str) -> String {
    if kind == "DeleteOptions" {
        return "meta.v1.DeleteOptions".into();
    }
    let (group, version) = api_version.split_once('/').unwrap_or(("core", api_version));
    format!("{}.{version}.{kind}", group.split('.').next().unwrap_or_default())
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Type {
    String,
    Int,
    Bool,
    Bytes,
    Double,
    Time,
    MicroTime,
    Quantity,
    IntOrString,
    /// A message with JSON in its first field.
    Json,
    /// A message with strings in its first field.
    Strings,
    Message(&'static str),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    One,
    List,
    Map,
}

#[derive(Debug)]
struct Field {
    name: &'static str,
    type_: Type,
    shape: Shape,
    keeps_zero: bool,
}

type Fields = HashMap<u32, Field>;

fn table() -> &'static HashMap<&'static str, Fields> {
    static MESSAGES: OnceLock<HashMap<&'static str, Fields>> = OnceLock::new();
    MESSAGES.get_or_init(|| {
        let mut messages = HashMap::new();
        let mut current: Option<&mut Fields> = None;
        for line in TABLE.lines() {
            match (line.strip_prefix("  "), current.as_mut()) {
                (Some(line), Some(fields)) => {
                    if let Some((number, field)) = parse_field(line) {
                        fields.insert(number, field);
                    }
                }
                _ => current = Some(messages.entry(line).or_default()),
            }
        }
        messages
    })
}

fn parse_field(line: &'static str) -> Option<(u32, Field)> {
    let mut words = line.split(' ');
    let (number, name, code) = (words.next()?.parse().ok()?, words.next()?, words.next()?);
    let (code, keeps_zero) = code.strip_suffix('!').map_or((code, false), |code| (code, true));
    let (shape, code) = match (code.strip_prefix("[]"), code.strip_prefix("{}")) {
        (Some(code), _) => (Shape::List, code),
        (_, Some(code)) => (Shape::Map, code),
        _ => (Shape::One, code),
    };
    let type_ = match code {
        "string" => Type::String,
        "int" => Type::Int,
        "bool" => Type::Bool,
        "bytes" => Type::Bytes,
        "double" => Type::Double,
        "time" => Type::Time,
        "microtime" => Type::MicroTime,
        "quantity" => Type::Quantity,
        "intorstring" => Type::IntOrString,
        "json" => Type::Json,
        "strings" => Type::Strings,
        message => Type::Message(message),
    };
    Some((number, Field { name, type_, shape, keeps_zero }))
}

/// Reads a message's fields into `object`.
fn message(
    name: &str,
    fields: &Fields,
    bytes: &[u8],
    object: &mut Map<String, Value>,
    depth: usize,
) -> Result<(), Error> {
    if depth > MAX_DEPTH {
        return Err(malformed("it nests too deep"));
    }
    let mut reader = Reader::new(bytes);
    while let Some((number, payload)) = reader.next_field().map_err(malformed)? {
        let field = fields.get(&number).ok_or_else(|| malformed(format!("{name} has no field {number}")))?;
        let mistyped = || malformed(format!("{name}.{} is of another type", field.name));
        match field.shape {
            Shape::One => {
                if let (".", Type::Message(inner)) = (field.name, field.type_) {
                    let Payload::Bytes(bytes) = payload else { return Err(mistyped()) };
                    message(inner, known(inner)?, bytes, object, depth + 1)?;
                    continue;
                }
                let value = value(field.type_, &payload, depth)?.ok_or_else(mistyped)?;
                if field.keeps_zero || !is_zero(field.type_, &value) {
                    object.insert(field.name.into(), value);
                }
            }
            Shape::List => {
                let list = object.entry(field.name).or_insert_with(|| Value::Array(Vec::new()));
                let Value::Array(list) = list else { return Err(mistyped()) };
                match (field.type_, &payload) {
                    (Type::Int, Payload::Bytes(packed)) => {
                        let mut packed = Reader::new(packed);
                        while let Some(number) = packed.next_varint().map_err(malformed)? {
                            list.push(signed(number).into());
                        }
                    }
                    (type_, payload) => list.push(value(type_, payload, depth)?.ok_or_else(mistyped)?),
                }
            }
            Shape::Map => {
                let Payload::Bytes(entry) = payload else { return Err(mistyped()) };
                let (key, value) = entry_of(field.type_, entry, depth)?.ok_or_else(mistyped)?;
                let map = object.entry(field.name).or_insert_with(|| Value::Object(Map::new()));
                let Value::Object(map) = map else { return Err(mistyped()) };
                map.insert(key, value);
            }
        }
    }
    Ok(())
}

/// A map's entry: the key in field 1, the value in field 2; what is absent is empty.
fn entry_of(type_: Type, bytes: &[u8], depth: usize) -> Result<Option<(String, Value)>, Error> {
    let (mut key, mut found) = (String::new(), None);
    let mut reader = Reader::new(bytes);
    while let Some((number, payload)) = reader.next_field().map_err(malformed)? {
        match (number, &payload) {
            (1, Payload::Bytes(bytes)) => key = text(bytes)?,
            (2, payload) => found = value(type_, payload, depth)?,
            _ => return Ok(None),
        }
    }
    let found = match found {
        Some(found) => Some(found),
        None => value(type_, &Payload::Bytes(&[]), depth)?,
    };
    Ok(found.map(|found| (key, found)))
}

/// A single value; `None` when the payload is of another type.
fn value(type_: Type, payload: &Payload<'_>, depth: usize) -> Result<Option<Value>, Error> {
    Ok(Some(match (type_, payload) {
        (Type::Int, Payload::Varint(number)) => signed(*number).into(),
        (Type::Bool, Payload::Varint(number)) => (*number != 0).into(),
        (Type::Double, Payload::Fixed64(bits)) => json!(f64::from_bits(*bits)),
        (Type::String, Payload::Bytes(bytes)) => text(bytes)?.into(),
        (Type::Bytes, Payload::Bytes(bytes)) => STANDARD.encode(bytes).into(),
        (Type::Time | Type::MicroTime, Payload::Bytes(bytes)) => time(type_, bytes)?,
        (Type::Quantity, Payload::Bytes(bytes)) => match first(bytes)? {
            Some(quantity) => text(quantity)?.into(),
            None => "0".into(),
        },
        (Type::IntOrString, Payload::Bytes(bytes)) => int_or_string(bytes)?,
        (Type::Json, Payload::Bytes(bytes)) => match first(bytes)? {
            Some(raw) if !raw.is_empty() => crate::parse::value(raw).map_err(malformed)?.0,
            _ => Value::Null,
        },
        (Type::Strings, Payload::Bytes(bytes)) => {
            let (mut reader, mut list) = (Reader::new(bytes), Vec::new());
            while let Some((number, payload)) = reader.next_field().map_err(malformed)? {
                let (1, Payload::Bytes(item)) = (number, payload) else { return Ok(None) };
                list.push(Value::from(text(item)?));
            }
            list.into()
        }
        (Type::Message(name), Payload::Bytes(bytes)) => {
            let mut object = Map::new();
            message(name, known(name)?, bytes, &mut object, depth + 1)?;
            Value::Object(object)
        }
        _ => return Ok(None),
    }))
}

fn known(name: &str) -> Result<&'static Fields, Error> {
    table().get(name).ok_or_else(|| Error::UnknownType(name.to_owned()))
}

/// Whether a value is what a field that was not set looks like.
fn is_zero(type_: Type, value: &Value) -> bool {
    match (type_, value) {
        (_, Value::Null) => true,
        (Type::String | Type::Bytes, Value::String(text)) => text.is_empty(),
        (Type::Int | Type::IntOrString, value) => value.as_i64() == Some(0),
        (Type::Bool, value) => *value == Value::Bool(false),
        _ => false,
    }
}

/// A message of seconds and nanoseconds; the zero time is no time.
fn time(type_: Type, bytes: &[u8]) -> Result<Value, Error> {
    let (mut seconds, mut nanoseconds) = (0, 0);
    let mut reader = Reader::new(bytes);
    while let Some((number, payload)) = reader.next_field().map_err(malformed)? {
        match (number, payload) {
            (1, Payload::Varint(number)) => seconds = signed(number),
            (2, Payload::Varint(number)) => nanoseconds = signed(number),
            _ => return Err(malformed("a time is malformed")),
        }
    }
    if (seconds, nanoseconds) == (0, 0) {
        return Ok(Value::Null);
    }
    let nanoseconds = i32::try_from(nanoseconds).map_err(|_| malformed("a time is out of range"))?;
    let time = jiff::Timestamp::new(seconds, nanoseconds).map_err(|_| malformed("a time is out of range"))?;
    let form = if type_ == Type::MicroTime { "%Y-%m-%dT%H:%M:%S%.6fZ" } else { "%Y-%m-%dT%H:%M:%SZ" };
    Ok(time.strftime(form).to_string().into())
}

fn int_or_string(bytes: &[u8]) -> Result<Value, Error> {
    let (mut is_string, mut number, mut string) = (false, 0, String::new());
    let mut reader = Reader::new(bytes);
    while let Some((field, payload)) = reader.next_field().map_err(malformed)? {
        match (field, payload) {
            (1, Payload::Varint(kind)) => is_string = kind == 1,
            (2, Payload::Varint(value)) => number = signed(value),
            (3, Payload::Bytes(bytes)) => string = text(bytes)?,
            _ => return Err(malformed("an IntOrString is malformed")),
        }
    }
    Ok(if is_string { string.into() } else { number.into() })
}

/// The bytes in a message's first field.
fn first(bytes: &[u8]) -> Result<Option<&[u8]>, Error> {
    let (mut reader, mut found) = (Reader::new(bytes), None);
    while let Some((number, payload)) = reader.next_field().map_err(malformed)? {
        match (number, payload) {
            (1, Payload::Bytes(bytes)) => found = Some(bytes),
            _ => return Err(malformed("a value is malformed")),
        }
    }
    Ok(found)
}

fn text(bytes: &[u8]) -> Result<String, Error> {
    String::from_utf8(bytes.to_vec()).map_err(|_| malformed("a string is not UTF-8"))
}

/// Integers are two's complement, also when they are narrower in the type.
fn signed(number: u64) -> i64 {
    number.cast_signed()
}
