//! The settings of the whole file: the keys at its top except `sysctl`, and `[ownership]`,
//! `[domain]` and `[world]`.

use std::collections::BTreeMap;
use std::time::Duration;

use trueup_net::{
    DEFAULT_PROTOCOL, Domain, Kind, MaxDeletes, NexthopMode, Ownership, Protocols, setters,
};

use crate::domain;
use crate::fields::Fields;
use crate::file_keys::{
    ADOPT, ADOPT_PROTOCOLS, DOMAIN, GRACE, MAX_DELETES, NEXTHOPS, ON_CONFLICT, OWNERSHIP, PROTOCOL,
    PROTOCOL_IS_MINE, SYSCTL_REVERT, WORLD,
};
use crate::parse;
use crate::tables::TableNames;
use crate::value::{Node, Result, Table, Value, fault};
use crate::world::{self, World};

const CONFLICT_WORDS: [(&str, bool); 2] = [("report", false), ("take", true)];

const PROOF_WORDS: [(&str, Ownership); 2] =
    [("marker", Ownership::Marker), ("ledger", Ownership::Ledger)];

/// The value that asks for nexthop objects. Without them, each route has its next hops written out.
const OBJECTS: &str = "objects";

/// The longest grace in seconds: a day.
const MAX_GRACE: u32 = 86_400;

/// The settings of a file, which apply to all of its objects.
///
/// ```
/// use std::time::Duration;
/// use trueup_file::Settings;
///
/// let settings = Settings::default().with_grace(Duration::from_secs(60));
/// assert_eq!((settings.protocol, settings.adopt), (116, false));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Settings {
    /// The marker that the kernel keeps on each object (`rtm_protocol`): 5 to 255 except 9.
    pub protocol: u8,
    /// True if the marker may be a number that is registered for another program.
    pub protocol_is_mine: bool,
    /// True if we adopt foreign objects that exist as declared.
    pub adopt: bool,
    /// The protocols of other agents whose objects may be adopted.
    pub adopt_protocols: Protocols,
    /// True if we replace a foreign object on a declared key.
    pub take: bool,
    /// The time that an undeclared object with our marker stays, at most a day. If `None`, the
    /// caller decides.
    pub grace: Option<Duration>,
    /// The most objects of a kind that one pass deletes because they are no longer declared. If
    /// `None`, the caller decides.
    pub max_deletes: Option<MaxDeletes>,
    /// The proof that objects are ours, for the kinds in `[ownership]`. The kernel stores no marker
    /// on links.
    pub ownership: BTreeMap<Kind, Ownership>,
    /// The part of the namespace that the file manages.
    pub domain: Domain,
    /// True if a sysctl that is no longer declared gets its former value back.
    pub sysctl_revert: bool,
    /// The store through which hosts exchange resources. `None` without `[world]`.
    pub world: Option<World>,
}

setters! { impl Settings {
    with_protocol(protocol: u8);
    with_protocol_is_mine(protocol_is_mine: bool);
    with_adopt(adopt: bool);
    with_adopt_protocols(adopt_protocols: Protocols);
    with_take(take: bool);
    with_grace(grace: Duration);
    with_max_deletes(max_deletes: MaxDeletes);
    with_ownership(ownership: impl Into<BTreeMap<Kind, Ownership>>);
    with_domain(domain: Domain);
    with_sysctl_revert(sysctl_revert: bool);
    with_world(world: World);
} }

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            protocol: DEFAULT_PROTOCOL,
            protocol_is_mine: false,
            adopt: false,
            adopt_protocols: Protocols::NONE,
            take: false,
            grace: None,
            max_deletes: None,
            ownership: BTreeMap::new(),
            domain: Domain::default(),
            sysctl_revert: false,
            world: None,
        }
    }
}

impl Settings {
    /// Takes the value of a key at the top, except `sysctl` and `nexthops`.
    pub(crate) fn read(&mut self, key: &str, value: &Value<'_>, tables: &TableNames) -> Result<()> {
        self.set(key, value, tables).map_err(|fault| match (key, &value.node) {
            // Faults within the table already name their keys.
            (OWNERSHIP | DOMAIN | WORLD, Node::Table(_)) => fault,
            _ => fault.in_key(key),
        })
    }

    fn set(&mut self, key: &str, value: &Value<'_>, tables: &TableNames) -> Result<()> {
        match key {
            PROTOCOL => self.protocol = parse::marker(value)?,
            PROTOCOL_IS_MINE => self.protocol_is_mine = parse::flag(value)?,
            ADOPT => self.adopt = parse::flag(value)?,
            ADOPT_PROTOCOLS => {
                let expected = "a list of protocols, such as [ 12 ]";
                let protocols = parse::list(value, expected, parse::number(5..=u8::MAX))?;
                self.adopt_protocols = protocols.into_iter().collect();
            }
            SYSCTL_REVERT => self.sysctl_revert = parse::flag(value)?,
            ON_CONFLICT => {
                self.take = parse::one_of(value, "answer to a conflict", &CONFLICT_WORDS)?;
            }
            GRACE => self.grace = Some(parse::seconds(value, MAX_GRACE)?),
            MAX_DELETES => self.max_deletes = Some(max_deletes(value)?),
            DOMAIN => {
                let Node::Table(table) = &value.node else {
                    return value.unexpected("a table, such as { interfaces = [ \"veth*\" ] }");
                };
                self.domain = domain::read(value.at, table, tables)?;
            }
            WORLD => {
                let Node::Table(table) = &value.node else {
                    return value
                        .unexpected("a table, such as { store = \"embedded\", host = \"a\" }");
                };
                self.world = Some(world::read(value.at, table, tables)?);
            }
            _ => {
                let Node::Table(table) = &value.node else {
                    return value.unexpected("a table, such as { route = \"ledger\" }");
                };
                self.ownership = ownership(value.at, table, tables)?;
            }
        }
        Ok(())
    }

    /// Returns the keys that differ from their defaults, and always the marker.
    pub(crate) fn write(&self, nexthops: &NexthopMode) -> Table<'static> {
        let mut table = Table::default();
        table.set(PROTOCOL, u32::from(self.protocol));
        table.set_true(PROTOCOL_IS_MINE, self.protocol_is_mine);
        table.set_true(ADOPT, self.adopt);
        if self.adopt_protocols != Protocols::NONE {
            let numbers: Node<'_> =
                self.adopt_protocols.iter().map(|number| u32::from(number).into()).collect();
            table.set(ADOPT_PROTOCOLS, numbers);
        }
        if self.take {
            table.set(ON_CONFLICT, parse::word(self.take, &CONFLICT_WORDS));
        }
        table.set_some(GRACE, self.grace.map(parse::seconds_node));
        table.set_some(MAX_DELETES, self.max_deletes.map(max_deletes_node));
        if *nexthops != NexthopMode::Inline {
            table.set(NEXTHOPS, Node::Text(OBJECTS.into()));
        }
        table.set_true(SYSCTL_REVERT, self.sysctl_revert);
        if !self.ownership.is_empty() {
            let mut proofs = Table::default();
            for (kind, proof) in &self.ownership {
                proofs.set(kind.name(), parse::word(*proof, &PROOF_WORDS));
            }
            table.set(OWNERSHIP, Node::Table(proofs));
        }
        if self.domain.is_limited() {
            table.set(DOMAIN, Node::Table(domain::write(&self.domain)));
        }
        table.set_some(WORLD, self.world.as_ref().map(|world| Node::Table(world::write(world))));
        table
    }
}

/// Reads the value of `nexthops`, which says how routes reach their next hops.
pub(crate) fn nexthops(value: &Value<'_>) -> Result<NexthopMode> {
    let found = parse::one_of(value, "mode of next hops", &[(OBJECTS, NexthopMode::Objects)]);
    found.map_err(|mut fault| {
        fault.message += "; without this key they are written out in each route";
        fault.in_key(NEXTHOPS)
    })
}

fn ownership(
    at: usize,
    table: &Table<'_>,
    tables: &TableNames,
) -> Result<BTreeMap<Kind, Ownership>> {
    let kinds = Kind::DECLARED.map(Kind::name);
    let fields = Fields::new("[ownership]", at, table, &[&kinds], tables)?;
    let mut ownership = BTreeMap::new();
    for kind in Kind::DECLARED {
        let proof = fields.read(kind.name(), |value| {
            match parse::one_of(value, "proof of ownership", &PROOF_WORDS)? {
                Ownership::Marker if !kind.bears_protocol() => fault(
                    value.at,
                    format!(
                        "the kernel stores no marker on {kind}s: write \"ledger\", or leave it out"
                    ),
                ),
                proof => Ok(proof),
            }
        })?;
        ownership.extend(proof.map(|proof| (kind, proof)));
    }
    Ok(ownership)
}

/// Reads a number, or a percentage as text.
fn max_deletes(value: &Value<'_>) -> Result<MaxDeletes> {
    match &value.node {
        Node::Integer(_) => parse::number(0..=u32::MAX)(value).map(MaxDeletes::Number),
        Node::Text(text) => {
            let share = text.strip_suffix('%').and_then(|share| share.parse().ok());
            match share.filter(|share| *share <= 100) {
                Some(share) => Ok(MaxDeletes::Percent(share)),
                None => fault(
                    value.at,
                    format!("`{text}` is no share: write \"0%\" to \"100%\", or a number"),
                ),
            }
        }
        _ => value.unexpected("a number of objects, or a share such as \"50%\""),
    }
}

fn max_deletes_node(max_deletes: MaxDeletes) -> Node<'static> {
    match max_deletes {
        MaxDeletes::Number(most) => most.into(),
        MaxDeletes::Percent(share) => Node::Text(format!("{share}%").into()),
        _ => Node::Text("100%".into()),
    }
}
