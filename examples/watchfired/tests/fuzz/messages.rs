//! Messages for every call: valid ones by its descriptor with odd values, mutations of these, and bytes without any sense.

use std::collections::HashMap;

use prost::Message as _;
use prost::encoding::{WireType, encode_key, encode_varint};
use prost_types::field_descriptor_proto::{Label, Type};
use prost_types::{DescriptorProto, FileDescriptorSet};

use crate::random::Random;

/// Texts of which some mean something to some call.
const WORDS: &[&str] = &[
    "",
    "\0",
    "../../..",
    "/",
    "-",
    "*",
    "\u{202e}",
    "\u{1b}[2J",
    "all",
    "task",
    "chat",
    "start-all",
    "wildfire",
    "ready",
    "draft",
    "done",
    "active",
    "archived",
    "definition",
    "tasks",
    "day",
    "agent",
    "run",
    "session",
    "scripted",
    "auto",
    "none",
    "worktree",
    "fresh-worktree",
    "main",
    "HEAD",
    "watchfire/0001",
    "watchfire/0002",
    "refs/heads/main",
    "status:idle",
    "output:/(a+)+$/",
    "project:shop",
    "mode:task",
    "label:x",
    "{}",
    "{\"tasks\":[{\"title\":\"x\"}]}",
    "#ff0000",
    "1970-01-01T00:00:00Z",
];

/// A call of the daemon.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) path: String,
    /// Name of its request, or an empty one.
    request: String,
}

/// All calls, and the messages that they take.
#[derive(Debug)]
pub(crate) struct Schema {
    pub(crate) calls: Vec<Call>,
    messages: HashMap<String, DescriptorProto>,
}

impl Schema {
    pub(crate) fn new() -> Self {
        let set = FileDescriptorSet::decode(watchfire_api::DESCRIPTORS).unwrap();
        let (mut requests, mut messages) = (HashMap::new(), HashMap::new());
        for file in &set.file {
            for service in &file.service {
                for method in &service.method {
                    let path = format!("/{}.{}/{}", file.package(), service.name(), method.name());
                    requests.insert(path, method.input_type().to_owned());
                }
            }
            for message in &file.message_type {
                add(&mut messages, &format!(".{}", file.package()), message);
            }
        }
        let call = |path: String| Call { request: requests.remove(&path).unwrap_or_default(), path };
        Self { calls: crate::support::calls().into_iter().map(call).collect(), messages }
    }

    /// Returns bytes for a call. `known` are ids that the daemon knows.
    pub(crate) fn message(&self, call: &Call, random: &mut Random, known: &[String]) -> Vec<u8> {
        if random.once_in(10) {
            return random.bytes(200);
        }
        let mut bytes = self.valid(&call.request, random, known, 3);
        if random.once_in(4) {
            mutate(&mut bytes, random);
        }
        bytes
    }

    fn valid(&self, name: &str, random: &mut Random, known: &[String], depth: u8) -> Vec<u8> {
        let mut bytes = Vec::new();
        let Some(message) = self.messages.get(name) else { return bytes };
        for field in &message.field {
            let times = match field.label() {
                Label::Repeated => random.below(4),
                // Without the right project most calls do nothing.
                _ if field.name() == "project_id" => 1,
                _ => random.below(2),
            };
            for _ in 0..times {
                let number = u32::try_from(field.number()).unwrap();
                let value = match field.r#type() {
                    Type::String if field.name() == "project_id" && !random.once_in(8) => {
                        known.first().cloned().unwrap_or_default().into_bytes()
                    }
                    Type::String => text(random, known),
                    Type::Bytes => random.bytes(64),
                    Type::Message if depth > 0 => self.valid(field.type_name(), random, known, depth - 1),
                    Type::Message | Type::Group => continue,
                    Type::Double | Type::Fixed64 | Type::Sfixed64 => {
                        encode_key(number, WireType::SixtyFourBit, &mut bytes);
                        bytes.extend(random.next().to_le_bytes());
                        continue;
                    }
                    Type::Float | Type::Fixed32 | Type::Sfixed32 => {
                        encode_key(number, WireType::ThirtyTwoBit, &mut bytes);
                        bytes.extend(&random.next().to_le_bytes()[..4]);
                        continue;
                    }
                    _ => {
                        let numbers = [0, 1, 2, 3, 24, 80, 1000, u64::MAX, i32::MAX as u64, random.next()];
                        encode_key(number, WireType::Varint, &mut bytes);
                        encode_varint(*random.one(&numbers), &mut bytes);
                        continue;
                    }
                };
                put(&mut bytes, number, &value);
            }
        }
        bytes
    }
}

/// Appends a text or a message to a message. Of several texts the last one counts.
pub(crate) fn put(bytes: &mut Vec<u8>, field: u32, value: &[u8]) {
    encode_key(field, WireType::LengthDelimited, bytes);
    encode_varint(value.len() as u64, bytes);
    bytes.extend(value);
}

fn add(messages: &mut HashMap<String, DescriptorProto>, within: &str, message: &DescriptorProto) {
    let name = format!("{within}.{}", message.name());
    for nested in &message.nested_type {
        add(messages, &name, nested);
    }
    messages.insert(name, message.clone());
}

fn text(random: &mut Random, known: &[String]) -> Vec<u8> {
    match random.below(8) {
        0 => random.bytes(40),
        1 => vec![b'x'; random.below(20_000)],
        2..=4 if !known.is_empty() => random.one(known).clone().into_bytes(),
        _ => random.one(WORDS).as_bytes().to_vec(),
    }
}

fn mutate(bytes: &mut Vec<u8>, random: &mut Random) {
    for _ in 0..=random.below(4) {
        if bytes.is_empty() {
            return;
        }
        let at = random.below(bytes.len());
        match random.below(4) {
            0 => bytes[at] ^= 1 << random.below(8),
            1 => bytes.truncate(at),
            2 => bytes.insert(at, random.byte()),
            _ => {
                let part: Vec<_> = bytes[at..].iter().copied().take(random.below(16)).collect();
                bytes.splice(at..at, part);
            }
        }
    }
}
