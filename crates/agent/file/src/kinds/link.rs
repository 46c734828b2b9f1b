//! `[[link]]`.

mod kind;

use trueup_net::{IfName, Link, LinkKind};

use kind::KEYS_OF_KINDS;

use crate::element::{Element, FileObject};
use crate::fields::Fields;
use crate::parse;
use crate::value::{Node, Result, Table, Value, fault, text};

/// The keys that every link may have.
const COMMON_KEYS: [&str; 9] =
    ["name", "kind", "up", "mtu", "address", "addresses", "master", "alias", "group"];

const fn all_keys() -> [&'static str; COMMON_KEYS.len() + KEYS_OF_KINDS.len()] {
    let mut all = [""; COMMON_KEYS.len() + KEYS_OF_KINDS.len()];
    let mut at = 0;
    while at < all.len() {
        all[at] = if at < COMMON_KEYS.len() {
            COMMON_KEYS[at]
        } else {
            KEYS_OF_KINDS[at - COMMON_KEYS.len()].0
        };
        at += 1;
    }
    all
}

/// The longest alias in bytes (`IFALIASZ` less the NUL).
const MAX_ALIAS: usize = 255;

/// The kernel holds MTU and intervals as `int`.
const INT_MAX: u32 = i32::MAX as u32;

impl Element for Link<IfName> {
    const WITH_ARTICLE: &'static str = "a link";
    const KEYS: &'static [&'static str] = &all_keys();
    type Key = IfName;

    fn read(fields: &Fields<'_>) -> Result<Self> {
        let name = fields.required("name", "name = \"br0\"", own_name)?;
        let mut link = Link::must_exist(name);
        link.kind = kind::read(fields)?;
        link.up = fields.read("up", parse::flag)?;
        link.mtu = fields.read("mtu", parse::number(1..=INT_MAX))?;
        link.address = fields.read("address", parse::lladdr)?;
        link.only_addresses = fields.read("addresses", only)?.unwrap_or_default();
        link.master = fields.read("master", master)?;
        link.alias = fields.read("alias", alias)?;
        link.group = fields.read("group", parse::number(0..=u32::MAX))?;
        if let Some(key) = ["master", "link", "peer"].into_iter().find(
            |key| matches!(fields.get(key).map(parse::name), Some(Ok(other)) if other == name),
        ) {
            let message = format!("{key}: {name} cannot be its own {key}: write another name");
            return fields.fault(key, message);
        }
        Ok(link)
    }

    fn key(&self) -> IfName {
        self.name
    }

    fn describe(&self) -> String {
        format!("link {}", self.name)
    }
}

impl FileObject for Link<IfName> {
    fn write(&self, table: &mut Table<'static>) {
        table.set("name", parse::name_node(&self.name));
        if let Some(kind) = &self.kind {
            table.set("kind", text(kind.name()));
            kind::write(kind, table);
        }
        table.set_some("up", self.up);
        table.set_some("mtu", self.mtu);
        table.set_some("address", self.address.map(text));
        table.set_some("addresses", self.only_addresses.then(|| text("only")));
        let master = self.master.as_ref();
        table.set_some(
            "master",
            master.map(|name| name.as_ref().map_or(text(""), parse::name_node)),
        );
        table.set_some("alias", self.alias.as_deref().map(parse::bytes_node));
        table.set_some("group", self.group);
    }

    fn authored(&self) -> Self {
        let mut authored = self.clone().with_index(0);
        // A link of a kind that a file cannot name must exist.
        authored.kind.take_if(|kind| matches!(kind, LinkKind::Other(_)));
        authored
    }
}

/// Reads a declared link's name. Refuses a template, from which the kernel would make a name.
fn own_name(value: &Value<'_>) -> Result<IfName> {
    let name = parse::name(value)?;
    if name.is_template() {
        let message = format!(
            "`{name}` has a `%`, which the kernel takes for a template and replaces by a number: \
             write a name without"
        );
        return fault(value.at, message);
    }
    Ok(name)
}

/// Reads `only`: the link must have no addresses beside the declared ones.
fn only(value: &Value<'_>) -> Result<bool> {
    match &value.node {
        Node::Text(text) if text == "only" => Ok(true),
        _ => value.unexpected("\"only\", for the addresses of [[address]] and no others"),
    }
}

/// Reads a name, or an empty string for none.
fn master(value: &Value<'_>) -> Result<Option<IfName>> {
    match &value.node {
        Node::Text(text) if text.is_empty() => Ok(None),
        _ => parse::name(value).map(Some),
    }
}

fn alias(value: &Value<'_>) -> Result<Box<[u8]>> {
    let alias = parse::bytes(value, "an alias as a string")?;
    if alias.len() > MAX_ALIAS {
        let message = format!("{} bytes: write {MAX_ALIAS} at most", alias.len());
        return fault(value.at, message);
    }
    Ok(alias.into())
}
