//! A namespace at one moment, keyed by the kernel's identity of objects, read from raw bytes.

use std::collections::BTreeMap;

use trueup_testkit::fields::{Fields, Names, fields, line};
use trueup_testkit::{Kind, RawMessage, Snapshot};

/// The identity of an object and its protocol: an object with another protocol is another object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Id {
    pub kind: Kind,
    /// The index of its device, or of the link itself; 0 if it names none.
    pub device: u32,
    pub key: Vec<u8>,
    pub protocol: u8,
}

/// An object's key in the kernel, regardless of its maker: kind, device, key.
pub type Place = (Kind, u32, Vec<u8>);

impl Id {
    pub fn place(&self) -> Place {
        (self.kind, self.device, self.key.clone())
    }

    pub fn of(row: &RawMessage) -> Id {
        let attr = |number: u16| row.attrs.get(&number).cloned().unwrap_or_default();
        let header = &row.header;
        let v4 = row.family() == 2;
        let mut key = vec![row.family()];
        let device = match row.kind {
            Kind::Route | Kind::Rule | Kind::Nexthop => 0,
            _ => row.device(),
        };
        match row.kind {
            Kind::Link => key.clear(),
            Kind::Address => {
                key.extend(if row.attrs.contains_key(&2) { attr(2) } else { attr(1) });
                if v4 {
                    key.push(header[1]);
                    key.extend(attr(1));
                }
            }
            Kind::Neighbour => {
                key.push(header[10] & 8);
                key.extend(attr(1));
            }
            Kind::Route => {
                key.extend(row.table().unwrap_or(0).to_ne_bytes());
                key.extend([header[1], header[2], header[3]]);
                key.extend(row.attr_u32(6).unwrap_or(0).to_ne_bytes());
                key.extend(attr(1));
                key.extend(attr(2));
            }
            Kind::Rule | Kind::Nexthop => {
                key.extend(header);
                for (number, value) in row.attrs.iter().filter(|(number, _)| **number != 21) {
                    key.extend(number.to_ne_bytes());
                    key.extend(value);
                }
            }
        }
        Id { kind: row.kind, device, key, protocol: row.protocol().unwrap_or(0) }
    }
}

/// The rows of a namespace at one moment.
#[derive(Clone)]
pub struct World {
    /// Several IPv4 routes may share a key.
    pub rows: BTreeMap<Id, Vec<RawMessage>>,
    pub names: Names,
}

impl World {
    /// Reads the namespace. Concurrent writes are seen in part.
    pub fn look() -> World {
        let snapshot = Snapshot::take();
        let mut rows = BTreeMap::new();
        let mut names = Names::new();
        for row in Kind::ALL.into_iter().flat_map(|kind| snapshot.of(kind)) {
            if row.kind == Kind::Link {
                names.insert(row.device(), row.ifname().unwrap());
            }
            rows.entry(Id::of(row)).or_insert_with(Vec::new).push(row.clone());
        }
        World { rows, names }
    }

    pub fn of(&self, kind: Kind) -> impl Iterator<Item = (&Id, &RawMessage)> {
        let rows = self.rows.iter().filter(move |(id, _)| id.kind == kind);
        rows.flat_map(|(id, rows)| rows.iter().map(move |row| (id, row)))
    }

    /// Returns the objects declared by other writers, without the kernel's own.
    pub fn declared(&self) -> impl Iterator<Item = (&Id, &Vec<RawMessage>)> {
        self.rows.iter().filter(|(_, rows)| !derived(&rows[0]))
    }

    /// Returns name and kind of the link with an index.
    pub fn link(&self, index: u32) -> Option<(String, String)> {
        let (_, row) = self.of(Kind::Link).find(|(id, _)| id.device == index)?;
        let mut fields = fields(row, &self.names);
        Some((fields.remove("name")?, fields.remove("kind")?))
    }

    pub fn fields(&self, row: &RawMessage) -> Fields {
        fields(row, &self.names)
    }

    /// Formats a row for messages.
    pub fn line(&self, row: &RawMessage) -> String {
        format!("{} #{}", line(row.kind.word(), &self.fields(row)), row.device())
    }

    /// Returns the parts of a row that must be kept. A link's MTU and hardware address may follow
    /// from its lower device and its ports; a route with a nexthop object leads where the object
    /// leads.
    pub fn kept(&self, row: &RawMessage) -> (String, Option<RawMessage>) {
        const RTA_NH_ID: u16 = 30;
        const LEADS: [u16; 4] = [4, 5, 9, 18];
        if row.kind != Kind::Link {
            let mut row = row.clone();
            if row.kind == Kind::Route && row.attrs.contains_key(&RTA_NH_ID) {
                row.attrs.retain(|number, _| !LEADS.contains(number));
                // `rtm_flags`: on link.
                row.header[8..12].fill(0);
            }
            return (String::new(), Some(row));
        }
        let mut fields = self.fields(row);
        let bridge = fields["kind"] == "bridge";
        if bridge || fields.contains_key("lower") {
            fields.remove("mtu");
        }
        if bridge || fields["kind"] == "macvlan" {
            fields.remove("lladdr");
        }
        (line("link", &fields), None)
    }

    /// Returns the parts to keep of all rows of an object.
    pub fn kept_of(&self, id: &Id) -> Vec<(String, Option<RawMessage>)> {
        let rows = self.rows.get(id).into_iter().flatten();
        rows.map(|row| self.kept(row)).collect()
    }

    /// Returns all rows at a place.
    pub fn at(&self, place: &Place) -> Vec<&RawMessage> {
        let rows = self.rows.iter().filter(|(id, _)| id.place() == *place);
        rows.flat_map(|(_, rows)| rows).collect()
    }

    /// Returns the differences of this one from `other`, one a line: missing and changed rows.
    pub fn lacks(&self, other: &World) -> String {
        let mut text = String::new();
        for (id, theirs) in other.declared() {
            if self.kept_of(id) != other.kept_of(id) {
                for row in theirs {
                    text += &format!("{}   {row}\n", other.line(row));
                }
            }
        }
        text
    }
}

/// Returns true if the kernel made a row by itself. Tests never use the kernel's marker.
pub fn derived(row: &RawMessage) -> bool {
    match row.kind {
        Kind::Link => row.device() == 1,
        Kind::Address => matches!(row.protocol(), Some(1..=3)),
        Kind::Neighbour => row.device() == 1 || !is_declared_neighbour(row),
        Kind::Route => row.header[5] == 2,
        Kind::Rule => matches!(row.attr_u32(6).unwrap_or(0), 0 | 32_766 | 32_767),
        Kind::Nexthop => false,
    }
}

/// Returns true for a permanent entry, one without resolution or learnt from outside, and a proxy.
fn is_declared_neighbour(row: &RawMessage) -> bool {
    let flags = row.header[10];
    row.header[8] & 0xc0 != 0 || flags & 0x18 != 0
}
