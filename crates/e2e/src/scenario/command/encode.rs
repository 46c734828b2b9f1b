//! From what a line asks for to the bytes of a message, once the devices are known by index.

use std::collections::BTreeMap;

use trueup_testkit::message::push_attribute;

/// A message whose devices are still names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Message {
    pub(crate) message_type: u16,
    pub(crate) flags: u16,
    pub(crate) header: Vec<u8>,
    /// The device of the header: at which byte its index goes.
    pub(crate) device: Option<(usize, String)>,
    pub(crate) attrs: Vec<(u16, Value)>,
}

/// An attribute's content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Value {
    Bytes(Vec<u8>),
    /// A device's index.
    Device(String),
    Nest(Vec<(u16, Value)>),
    /// Attributes behind a fixed part: a veth's peer.
    Behind(Vec<u8>, Vec<(u16, Value)>),
    /// The legs of a route, `struct rtnexthop`.
    Hops(Vec<Hop>),
}

/// One leg.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Hop {
    pub(crate) flags: u8,
    /// The weight less one.
    pub(crate) hops: u8,
    pub(crate) device: Option<String>,
    pub(crate) attrs: Vec<(u16, Value)>,
}

impl From<u32> for Value {
    fn from(number: u32) -> Value {
        Value::Bytes(number.to_ne_bytes().to_vec())
    }
}

impl From<u8> for Value {
    fn from(number: u8) -> Value {
        Value::Bytes(vec![number])
    }
}

impl Value {
    /// Text with its final NUL.
    pub(crate) fn text(text: &str) -> Value {
        let mut bytes = text.as_bytes().to_vec();
        bytes.push(0);
        Value::Bytes(bytes)
    }
}

/// Interfaces by name.
pub(crate) type Indexes = BTreeMap<String, u32>;

/// A device that is not there.
#[derive(Debug)]
pub(crate) struct NoDevice;

fn index(indexes: &Indexes, name: &str) -> Result<u32, NoDevice> {
    // As the kernel, and `ip`, name an interface that is known by number alone.
    let bare = name.strip_prefix("if").and_then(|n| n.parse().ok());
    indexes.get(name).copied().or(bare).ok_or(NoDevice)
}

impl Message {
    /// The body: header and attributes.
    pub(crate) fn body(&self, indexes: &Indexes) -> Result<Vec<u8>, NoDevice> {
        let mut body = self.header.clone();
        if let Some((at, name)) = &self.device {
            let index = index(indexes, name)?.to_ne_bytes();
            body[*at..at + 4].copy_from_slice(&index);
        }
        push_all(&mut body, &self.attrs, indexes)?;
        Ok(body)
    }
}

fn push_all(out: &mut Vec<u8>, attrs: &[(u16, Value)], indexes: &Indexes) -> Result<(), NoDevice> {
    for (number, value) in attrs {
        push_attribute(out, *number, &content(value, indexes)?);
    }
    Ok(())
}

fn content(value: &Value, indexes: &Indexes) -> Result<Vec<u8>, NoDevice> {
    let mut out = Vec::new();
    match value {
        Value::Bytes(bytes) => out.clone_from(bytes),
        Value::Device(name) => out.extend(index(indexes, name)?.to_ne_bytes()),
        Value::Nest(attrs) => push_all(&mut out, attrs, indexes)?,
        Value::Behind(head, attrs) => {
            out.clone_from(head);
            push_all(&mut out, attrs, indexes)?;
        }
        Value::Hops(hops) => {
            for hop in hops {
                let mut attrs = Vec::new();
                push_all(&mut attrs, &hop.attrs, indexes)?;
                let device = match &hop.device {
                    Some(name) => index(indexes, name)?,
                    None => 0,
                };
                out.extend((8 + attrs.len() as u16).to_ne_bytes());
                out.extend([hop.flags, hop.hops]);
                out.extend(device.to_ne_bytes());
                out.extend(attrs);
            }
        }
    }
    Ok(out)
}
