//! The serde formats that cannot be derived. Names are text. A value with an invariant is read
//! through the constructor that checks it, since the input may come from anywhere.

use std::fmt;

use serde::de::{Error, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::{IfName, InterfacePattern, Label, LinkAddr};

/// Bytes that are usually text: written as text if they are UTF-8, else as a list of numbers.
struct Text<'a>(&'a [u8]);

/// Such bytes, as read.
struct TextBuf(Vec<u8>);

impl Serialize for Text<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match std::str::from_utf8(self.0) {
            Ok(text) => serializer.serialize_str(text),
            Err(_) => serializer.collect_seq(self.0),
        }
    }
}

impl<'de> Deserialize<'de> for TextBuf {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<TextBuf, D::Error> {
        deserializer.deserialize_any(TextVisitor)
    }
}

struct TextVisitor;

impl<'de> Visitor<'de> for TextVisitor {
    type Value = TextBuf;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("text, or a list of bytes")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<TextBuf, E> {
        Ok(TextBuf(text.as_bytes().to_vec()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<TextBuf, A::Error> {
        let mut bytes = Vec::new();
        while let Some(byte) = seq.next_element()? {
            bytes.push(byte);
        }
        Ok(TextBuf(bytes))
    }
}

macro_rules! by_bytes {
    ($($type:ty),+) => {
        $(impl Serialize for $type {
            /// Writes text, or bytes if it is not UTF-8.
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                Text(self.as_bytes()).serialize(serializer)
            }
        }

        impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<$type, D::Error> {
                let TextBuf(bytes) = TextBuf::deserialize(deserializer)?;
                <$type>::from_bytes(&bytes).map_err(D::Error::custom)
            }
        })+
    };
}

by_bytes!(IfName, Label, InterfacePattern);

impl Serialize for LinkAddr {
    /// Writes text: `02:00:00:00:00:09`.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for LinkAddr {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<LinkAddr, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(D::Error::custom)
    }
}

/// Writes an enumeration as iproute2's word (`name`), and reads it by `from_name`.
macro_rules! by_word {
    ($($type:ty: $expected:literal),+) => {
        $(impl serde::Serialize for $type {
            /// Writes iproute2's word.
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.name())
            }
        }

        impl<'de> serde::Deserialize<'de> for $type {
            fn deserialize<D: serde::Deserializer<'de>>(
                deserializer: D,
            ) -> Result<$type, D::Error> {
                let word = <String as serde::Deserialize>::deserialize(deserializer)?;
                <$type>::from_name(&word).ok_or_else(|| {
                    let found = serde::de::Unexpected::Str(&word);
                    <D::Error as serde::de::Error>::invalid_value(found, &$expected)
                })
            }
        })+
    };
}

pub(crate) use by_word;

/// Reads a field that is given, perhaps as `null`. An absent one is left open.
pub(crate) fn stated<'de, T, D>(deserializer: D) -> Result<Option<T>, D::Error>
where
    T: Deserialize<'de>,
    D: Deserializer<'de>,
{
    T::deserialize(deserializer).map(Some)
}

/// The alias of a link.
pub(crate) mod alias {
    use super::{Deserialize, Deserializer, Serialize, Serializer, Text, TextBuf};

    type Alias = Option<Box<[u8]>>;

    pub(crate) fn serialize<S: Serializer>(alias: &Alias, to: S) -> Result<S::Ok, S::Error> {
        alias.as_deref().map(Text).serialize(to)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Alias, D::Error> {
        let alias = Option::<TextBuf>::deserialize(from)?;
        Ok(alias.map(|TextBuf(bytes)| bytes.into()))
    }
}
