//! What holds for a file as a whole: the keys at its top, and `[ownership]`. Not `[sysctl]`, though it is
//! a key at the top, too: see `sysctl.rs`.

use std::collections::BTreeMap;
use std::time::Duration;

use trueup_diff::{DEFAULT_PROTOCOL, Kind, NexthopMode, OnConflict, Ownership, Protocols};

use crate::value::{Fault, Fields, Node, Result, Table, Value, fault};
use crate::{Tables, words};

/// What a file says of a pass as a whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The marker that the kernel is to keep on each object, 5 to 255 but 9 (`rtm_protocol`).
    pub protocol: u8,
    /// Whether what is there already as declared becomes ours.
    pub adopt: bool,
    /// The protocols of other agents whose objects may be adopted.
    pub adopt_protocols: Protocols,
    /// What is done about a foreign object on a declared key.
    pub on_conflict: OnConflict,
    /// How long an object that bears our marker and is not declared is left alone, at most a day; `None` is the command's
    /// own default.
    pub grace: Option<Duration>,
    /// What proves objects of a kind to be ours, where it is said. The kernel stores no marker on links.
    pub ownership: BTreeMap<Kind, Ownership>,
    /// Whether a sysctl that is no longer declared gets its former value back.
    pub sysctl_revert: bool,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            protocol: DEFAULT_PROTOCOL,
            adopt: false,
            adopt_protocols: Protocols::NONE,
            on_conflict: OnConflict::Report,
            grace: None,
            ownership: BTreeMap::new(),
            sysctl_revert: false,
        }
    }
}

const KEYS: [(&str, &str); 9] = [
    ("protocol", "protocol = 116"),
    ("adopt", "adopt = true"),
    ("adopt_protocols", "adopt_protocols = [ 12 ]"),
    ("on_conflict", "on_conflict = \"take\""),
    ("grace", "grace = 10"),
    (NEXTHOPS, "nexthops = \"objects\""),
    (OWNERSHIP, "[ownership]"),
    (SYSCTL, "[sysctl]"),
    ("sysctl_revert", "sysctl_revert = true"),
];

/// A key at the top that is no section, with how it is written.
pub(crate) fn key(name: &str) -> Option<(&'static str, &'static str)> {
    KEYS.into_iter().find(|(known, _)| *known == name)
}

/// The names of those keys.
pub(crate) fn keys() -> impl Iterator<Item = &'static str> {
    KEYS.into_iter().map(|(name, _)| name)
}

/// How the kernel is told where routes lead: part of what is desired.
pub(crate) const NEXTHOPS: &str = "nexthops";

/// The shape that [`NEXTHOPS`] names.
pub(crate) fn shape(value: &Value<'_>) -> Result<NexthopMode> {
    let shape = words::one_of(value, "shape of next hops", &[(OBJECTS, ())]);
    shape.map(|()| NexthopMode::Objects).map_err(|fault| Fault {
        message: format!(
            "{NEXTHOPS}: {}; without this key they are written out in each route",
            fault.message
        ),
        ..fault
    })
}

const OBJECTS: &str = "objects";

/// Those of them that are tables.
pub(crate) const OWNERSHIP: &str = "ownership";
pub(crate) const SYSCTL: &str = "sysctl";

const ON_CONFLICT: [(&str, OnConflict); 2] =
    [("report", OnConflict::Report), ("take", OnConflict::Take)];

const PROOFS: [(&str, Ownership); 2] =
    [("marker", Ownership::Marker), ("ledger", Ownership::Ledger)];

/// The longest grace in seconds: a day.
const LONGEST_GRACE: u32 = 86_400;

impl Settings {
    /// Takes the value of one of [`keys`] but [`SYSCTL`] and [`NEXTHOPS`].
    pub(crate) fn read(&mut self, key: &str, value: &Value<'_>, tables: &Tables) -> Result<()> {
        let named = |fault: Fault| Fault {
            message: format!("{key}: {}", fault.message),
            ..fault
        };
        match key {
            "protocol" => self.protocol = words::marker(value)?,
            "adopt" => self.adopt = words::flag(value).map_err(named)?,
            "adopt_protocols" => {
                let Node::List(protocols) = &value.node else {
                    let expected = "a list of protocols, such as [ 12 ]";
                    return value.unexpected(expected).map_err(named);
                };
                let protocols = protocols.iter().map(words::number(5..=u8::MAX));
                self.adopt_protocols = protocols.collect::<Result<_>>().map_err(named)?;
            }
            "sysctl_revert" => self.sysctl_revert = words::flag(value).map_err(named)?,
            "on_conflict" => {
                let taken = words::one_of(value, "answer to a conflict", &ON_CONFLICT);
                self.on_conflict = taken.map_err(named)?;
            }
            "grace" => {
                let seconds = words::seconds(value, LONGEST_GRACE).map_err(named)?;
                self.grace = Some(seconds);
            }
            _ => {
                let Node::Table(table) = &value.node else {
                    let expected = "a table, such as { route = \"ledger\" }";
                    return value.unexpected(expected).map_err(named);
                };
                self.ownership = ownership(value.at, table, tables)?;
            }
        }
        Ok(())
    }

    /// The keys of what is not as it is unless said otherwise; the marker always.
    pub(crate) fn write(&self, shape: &NexthopMode) -> Table<'static> {
        let mut table = Table::default();
        table.push("protocol", Node::Integer(self.protocol.into()));
        if self.adopt {
            table.push("adopt", Node::Bool(true));
        }
        if self.adopt_protocols != Protocols::NONE {
            let number = |protocol: u8| Value {
                at: 0,
                node: Node::Integer(protocol.into()),
            };
            let numbers = self.adopt_protocols.iter().map(number).collect();
            table.push("adopt_protocols", Node::List(numbers));
        }
        if self.on_conflict != OnConflict::Report {
            table.push("on_conflict", word(self.on_conflict, &ON_CONFLICT));
        }
        if let Some(grace) = self.grace {
            table.push("grace", words::seconds_node(grace));
        }
        if *shape != NexthopMode::Inline {
            table.push(NEXTHOPS, Node::Text(OBJECTS.into()));
        }
        if self.sysctl_revert {
            table.push("sysctl_revert", Node::Bool(true));
        }
        if !self.ownership.is_empty() {
            let mut proofs = Table::default();
            for (kind, proof) in &self.ownership {
                proofs.push(kind.name(), word(*proof, &PROOFS));
            }
            table.push(OWNERSHIP, Node::Table(proofs));
        }
        table
    }
}

fn ownership(at: usize, table: &Table<'_>, tables: &Tables) -> Result<BTreeMap<Kind, Ownership>> {
    let fields = Fields::new(
        "[ownership]",
        at,
        table,
        &Kind::DECLARED.map(Kind::name),
        tables,
    )?;
    let mut ownership = BTreeMap::new();
    for kind in Kind::DECLARED {
        let read = |value| match words::one_of(value, "proof of ownership", &PROOFS)? {
            Ownership::Marker if kind == Kind::Link => fault(
                value.at,
                "the kernel stores no marker on links: write \"ledger\", or leave it out",
            ),
            proof => Ok(proof),
        };
        ownership.extend(fields.read(kind.name(), read)?.map(|proof| (kind, proof)));
    }
    Ok(ownership)
}

/// The word of a value; every value has one.
fn word<T: Copy + PartialEq>(value: T, words: &[(&'static str, T)]) -> Node<'static> {
    let found = words.iter().find(|(_, known)| *known == value);
    Node::Text(found.map_or("", |(word, _)| word).into())
}
