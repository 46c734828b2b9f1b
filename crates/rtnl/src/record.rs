//! What a record of the ledger is: its key, what stands in it, and its text. Not which records there are.
//!
//! Interface indexes are used again after an interface is gone. So every index is kept with the name that went with it, and
//! counts only while both are still seen together: what was ours on a vanished interface never matches a stranger's.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use trueup_diff::{
    AddressKey, Dev, IfName, Item, Kind, LinkKind, NeighbourKey, Object, RouteKey, Rule,
};
use trueup_reconcile::LedgerError;

/// What a record is about, whatever else there is by then.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum RecordKey {
    Link { name: IfName, index: u32 },
    Address { name: IfName, key: AddressKey },
    Neighbour { name: IfName, key: NeighbourKey },
    Route(RouteKey),
    Rule(Box<Rule>),
    Nexthop(u32),
}

/// What was last applied to a key that is ours.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Record {
    /// As it was last seen. Of a link: as it was made.
    pub(crate) object: Object,
    /// What was there before we took it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) former: Option<Former>,
}

/// What was on a key before we took it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Former {
    pub(crate) object: Object,
    /// The devices that it refers to: to another that has the index of one by now it is not given back.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    devices: BTreeMap<u32, IfName>,
}

impl Former {
    pub(crate) fn new(object: Object, name: impl Fn(Dev) -> Option<IfName>) -> Former {
        let devices = object.devices();
        let named = devices
            .iter()
            .filter_map(|dev| Some((dev.as_index()?, name(*dev)?)));
        Former {
            devices: named.collect(),
            object,
        }
    }

    /// Whether another device has the index of one of its by now.
    pub(crate) fn is_elsewhere(&self, names: &BTreeMap<u32, IfName>) -> bool {
        let mut devices = self.devices.iter();
        devices.any(|(index, name)| names.get(index).is_some_and(|now| now != name))
    }

    /// Whether all that it was on is there.
    pub(crate) fn has_devices(&self, names: &BTreeMap<u32, IfName>) -> bool {
        let mut devices = self.devices.iter();
        devices.all(|(index, name)| names.get(index) == Some(name))
    }
}

/// What keys are to be, or are: `None` for what is not ours.
pub(crate) type Records = BTreeMap<RecordKey, Option<Record>>;

impl RecordKey {
    /// The key of an object on devices of these names.
    pub(crate) fn of(object: &Object, name: impl Fn(Dev) -> Option<IfName>) -> Option<RecordKey> {
        Some(match object {
            Object::Link(link) => RecordKey::Link {
                name: link.name,
                index: link.index,
            },
            Object::Address(address) => RecordKey::Address {
                name: name(address.dev)?,
                key: address.key(),
            },
            Object::Neighbour(neighbour) => RecordKey::Neighbour {
                name: name(neighbour.dev)?,
                key: neighbour.key(),
            },
            Object::Route(route) => RecordKey::Route(route.key()),
            Object::Rule(rule) => RecordKey::Rule(Box::new(rule.key())),
            Object::Nexthop(nexthop) => RecordKey::Nexthop(nexthop.id),
        })
    }

    pub(crate) fn kind(&self) -> Kind {
        match self {
            RecordKey::Link { .. } => Kind::Link,
            RecordKey::Address { .. } => Kind::Address,
            RecordKey::Neighbour { .. } => Kind::Neighbour,
            RecordKey::Route(_) => Kind::Route,
            RecordKey::Rule(_) => Kind::Rule,
            RecordKey::Nexthop(_) => Kind::Nexthop,
        }
    }

    /// The interface that it is, or is on.
    pub(crate) fn interface(&self) -> Option<(IfName, u32)> {
        match self {
            RecordKey::Link { name, index } => Some((*name, *index)),
            RecordKey::Address { name, key } => Some((*name, key.dev.as_index()?)),
            RecordKey::Neighbour { name, key } => Some((*name, key.dev.as_index()?)),
            RecordKey::Route(_) | RecordKey::Rule(_) | RecordKey::Nexthop(_) => None,
        }
    }
}

impl Record {
    pub(crate) fn encode(&self) -> Vec<u8> {
        encode(self)
    }

    /// What we deleted so that what was there before can be made again. A link is never deleted for that.
    pub(crate) fn returning(former: &Former) -> Record {
        Record {
            object: former.object.clone(),
            former: Some(former.clone()),
        }
    }

    pub(crate) fn is_returning(&self) -> bool {
        let is_former = |former: &Former| former.object == self.object;
        self.object.kind() != Kind::Link && self.former.as_ref().is_some_and(is_former)
    }

    /// Whether what is there is still what was recorded, in whoever's hands.
    pub(crate) fn stands(&self, object: &Object) -> bool {
        match (&self.object, object) {
            // The kind of a link cannot change.
            (Object::Link(recorded), Object::Link(link)) => same_kind(&recorded.kind, &link.kind),
            _ => protocol(&self.object) == protocol(object),
        }
    }
}

fn same_kind(one: &Option<LinkKind>, other: &Option<LinkKind>) -> bool {
    match (one, other) {
        (Some(one), Some(other)) => std::mem::discriminant(one) == std::mem::discriminant(other),
        // What must exist, and what the kernel says nothing of.
        _ => true,
    }
}

/// The protocol that an object bears; of links 0, as they bear none.
pub(crate) fn protocol(object: &Object) -> u8 {
    object.protocol()
}

/// Whether an object is as wanted in every respect; of a link, whether it is of the kind.
pub(crate) fn agrees(wanted: &Object, object: &Object) -> bool {
    match (wanted, object) {
        (Object::Link(wanted), Object::Link(link)) => same_kind(&wanted.kind, &link.kind),
        (Object::Address(wanted), Object::Address(address)) => wanted.agrees(address),
        (Object::Neighbour(wanted), Object::Neighbour(neighbour)) => wanted.agrees(neighbour),
        (Object::Route(wanted), Object::Route(route)) => wanted.agrees(route),
        (Object::Rule(wanted), Object::Rule(rule)) => wanted.agrees(rule),
        (Object::Nexthop(wanted), Object::Nexthop(nexthop)) => wanted.agrees(nexthop),
        _ => false,
    }
}

/// Whether an object is what was there before we took it.
pub(crate) fn is_as_before(former: &Object, object: &Object) -> bool {
    let same = match (former, object) {
        (Object::Link(former), Object::Link(link)) => former.agrees(link),
        _ => agrees(former, object),
    };
    same && protocol(former) == protocol(object)
}

/// Keys and records are text, for whoever reads an export.
pub(crate) fn encode(what: &impl Serialize) -> Vec<u8> {
    // Writing to memory does not fail, and neither does any of our types.
    serde_json::to_vec(what).unwrap_or_default()
}

/// What nobody here would have written so is not guessed at: a later version may mean something else by it.
fn decode<'a, T: Deserialize<'a> + Serialize>(
    what: &str,
    bytes: &'a [u8],
) -> Result<T, LedgerError> {
    let unreadable = |why: &dyn std::fmt::Display| {
        let shown = String::from_utf8_lossy(bytes);
        LedgerError::new(format!(
            "a {what} in the ledger cannot be read: {why}: {shown}"
        ))
    };
    let decoded = serde_json::from_slice(bytes).map_err(|error| unreadable(&error))?;
    if encode(&decoded) != bytes {
        return Err(unreadable(&"this version does not write it so"));
    }
    Ok(decoded)
}

/// A key, and what is recorded of it.
pub(crate) fn entry(
    key: &[u8],
    record: Option<&[u8]>,
) -> Result<(RecordKey, Option<Record>), LedgerError> {
    let (shown, key): (_, RecordKey) = (key, decode("key", key)?);
    let record: Option<Record> = record.map(|bytes| decode("record", bytes)).transpose()?;
    let name = |_| key.interface().map(|(name, _)| name);
    let is_about = |object: &Object| RecordKey::of(object, name).as_ref() == Some(&key);
    let mut objects = record.iter().flat_map(|Record { object, former }| {
        let former = former.iter().map(|former| &former.object);
        std::iter::once(object).chain(former)
    });
    if !objects.all(is_about) {
        let shown = String::from_utf8_lossy(shown);
        return Err(LedgerError::new(format!(
            "a record in the ledger is not about its key: {shown}"
        )));
    }
    Ok((key, record))
}
