//! Links in iproute2's words.

use std::collections::BTreeSet;
use std::fmt::{self, Display as _};

use super::{BondAttrs, BondMode, Link, LinkKind, MacvlanAttrs, MacvlanMode, VlanAttrs};
use crate::devices::Devices;
use crate::kinds::{Action, ObjectKind as _, Render, Words, or_none, words_or_none};
use crate::words::{Name, Word};

impl Render for Link {
    const IP_OBJECT: &'static str = "link";

    fn verb(&self, action: Action) -> String {
        let verb = match action {
            Action::Create => "add name",
            Action::Update => "set dev",
            Action::Delete => "del dev",
        };
        format!("{} {verb}", Self::IP_OBJECT)
    }

    /// Netlink cannot create these kinds, but `ip` can, through a device file.
    fn own_command(&self, action: Action) -> Option<String> {
        let mode = match (action, &self.kind) {
            (Action::Create, Some(LinkKind::Tun)) => "tun",
            (Action::Create, Some(LinkKind::Tap)) => "tap",
            _ => return None,
        };
        let name = Word(self.name.as_bytes());
        Some(format!("tuntap add dev {name} mode {mode}"))
    }

    fn write_words(
        &self,
        f: &mut fmt::Formatter<'_>,
        words: &Words<'_, Link>,
        devices: &Devices,
    ) -> fmt::Result {
        let which = match words {
            Words::All => Which::All,
            Words::Key => Which::Key,
            Words::Create => Which::New,
            Words::Update(Some(was)) => Which::These(self.written(was)),
            Words::Update(None) => Which::Setup,
        };
        self.words(which, devices).fmt(f)
    }

    fn field(&self, field: &str, devices: &Devices) -> Option<String> {
        match field {
            "up" => self.up.map(|up| if up { "up" } else { "down" }.to_owned()),
            "mtu" => or_none(self.mtu),
            "address" => or_none(self.address),
            "group" => or_none(self.group),
            "master" => or_none(self.master.flatten().map(|dev| Name(dev, devices).to_string())),
            "alias" => words_or_none(self.alias.as_deref().map_or_else(String::new, |alias| {
                if alias.is_empty() { String::new() } else { Word(alias).to_string() }
            })),
            _ => {
                let words = self.words(Which::Only(field), devices).to_string();
                let attribute = words.split_once(" type ");
                or_none(attribute.and_then(|(_, rest)| Some(rest.rsplit_once(' ')?.1.to_owned())))
            }
        }
    }
}

impl Link {
    fn words<'a>(&'a self, which: Which<'a>, devices: &'a Devices) -> LinkWords<'a> {
        LinkWords { link: self, which, devices }
    }

    /// Returns the fields in which two links differ, as words for this one and for the other.
    pub(crate) fn differing_words(&self, other: &Link, devices: &Devices) -> (String, String) {
        let differing = self.differences(other).into_iter();
        let fields: BTreeSet<_> = differing.map(|difference| difference.field).collect();
        let [own, others] =
            [self, other].map(|link| link.words(Which::These(fields.clone()), devices).to_string());
        (own, others)
    }
}

/// The part of a link to write.
enum Which<'a> {
    /// Every declared field.
    All,
    /// Only the name.
    Key,
    /// The fields of the message that creates the link. Master, alias and state follow later.
    New,
    /// The fields set after creation, without those of the kind.
    Setup,
    /// These fields, by the names that [`ObjectKind::compare`](crate::ObjectKind::compare) uses.
    These(BTreeSet<&'static str>),
    /// A single field.
    Only(&'a str),
}

impl Which<'_> {
    fn says(&self, field: &str) -> bool {
        match self {
            Which::All => true,
            Which::Key => false,
            Which::New => !matches!(field, "master" | "alias" | "up"),
            Which::Setup => {
                matches!(field, "address" | "mtu" | "group" | "master" | "alias" | "up")
            }
            Which::These(fields) => fields.contains(field),
            Which::Only(one) => field == *one,
        }
    }
}

/// Writes a link, starting at its name.
struct LinkWords<'a> {
    link: &'a Link,
    which: Which<'a>,
    devices: &'a Devices,
}

impl fmt::Display for LinkWords<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let LinkWords { link, which, devices } = self;
        write!(f, "{}", Word(link.name.as_bytes()))?;
        let whole = matches!(which, Which::All | Which::New);
        let below = match &link.kind {
            Some(
                LinkKind::Vlan(VlanAttrs { link, .. })
                | LinkKind::Macvlan(MacvlanAttrs { link, .. }),
            ) => Some(*link),
            _ => None,
        };
        if let Some(below) = below.filter(|_| whole) {
            write!(f, " link {}", Name(below, devices))?;
        }
        if let Some(address) = link.address.filter(|_| which.says("address")) {
            write!(f, " address {address}")?;
        }
        if let Some(mtu) = link.mtu.filter(|_| which.says("mtu")) {
            write!(f, " mtu {mtu}")?;
        }
        if let Some(group) = link.group.filter(|_| which.says("group")) {
            write!(f, " group {group}")?;
        }
        match link.master.filter(|_| which.says("master")) {
            Some(Some(master)) => write!(f, " master {}", Name(master, devices))?,
            Some(None) => f.write_str(" nomaster")?,
            None => {}
        }
        if let Some(alias) = link.alias.as_deref().filter(|_| which.says("alias")) {
            write!(f, " alias {}", Word(alias))?;
        }
        if let Some(up) = link.up.filter(|_| which.says("up")) {
            f.write_str(if up { " up" } else { " down" })?;
        }
        let Some(kind) = &link.kind else { return Ok(()) };
        let mut attributes = Attributes { which, words: String::new() };
        attributes.say_all(kind, devices);
        // Write the kind with its attributes, or for the whole link.
        if whole || !attributes.words.is_empty() {
            write!(f, " type {}", Word(kind.name().as_bytes()))?;
        }
        f.write_str(&attributes.words)
    }
}

/// Writes a kind's attributes, each after a space.
struct Attributes<'a> {
    which: &'a Which<'a>,
    words: String,
}

impl Attributes<'_> {
    fn say(&mut self, field: &str, word: &str, value: Option<impl fmt::Display>) {
        if let Some(value) = value.filter(|_| self.which.says(field)) {
            self.words.push_str(&format!(" {word} {value}"));
        }
    }

    fn say_all(&mut self, kind: &LinkKind, devices: &Devices) {
        match kind {
            LinkKind::Bridge(bridge) => {
                self.say("stp", "stp_state", bridge.stp.map(u8::from));
                self.say("vlan_filtering", "vlan_filtering", bridge.vlan_filtering.map(u8::from));
                self.say("forward_delay", "forward_delay", bridge.forward_delay);
                self.say("ageing_time", "ageing_time", bridge.ageing_time);
            }
            LinkKind::Veth { peer } => {
                self.say("peer", "peer name", peer.as_ref().map(|peer| Word(peer.as_bytes())));
            }
            LinkKind::Vxlan(vxlan) => {
                self.say("id", "id", Some(vxlan.id));
                self.say("local", "local", vxlan.local);
                let is_group = vxlan.remote.is_some_and(|remote| remote.is_multicast());
                self.say("remote", if is_group { "group" } else { "remote" }, vxlan.remote);
                // Not `link`, which `ip` silently drops for this kind.
                self.say("link", "dev", vxlan.link.map(|dev| Name(dev, devices)));
                self.say("port", "dstport", vxlan.port);
                self.say("ttl", "ttl", vxlan.ttl);
                if let Some(learning) = vxlan.learning.filter(|_| self.which.says("learning")) {
                    self.words.push_str(if learning { " learning" } else { " nolearning" });
                }
            }
            LinkKind::Vlan(VlanAttrs { id, protocol, .. }) => {
                self.say("protocol", "protocol", Some(protocol.name()));
                self.say("id", "id", Some(id));
            }
            LinkKind::Macvlan(MacvlanAttrs { mode, .. }) => {
                self.say("mode", "mode", mode.map(MacvlanMode::name));
            }
            LinkKind::Bond(BondAttrs { mode, miimon }) => {
                self.say("mode", "mode", mode.map(BondMode::name));
                self.say("miimon", "miimon", *miimon);
            }
            LinkKind::Vrf { table } => self.say("table", "table", Some(table)),
            LinkKind::Ifb
            | LinkKind::Dummy
            | LinkKind::Tun
            | LinkKind::Tap
            | LinkKind::Other(_) => {}
        }
    }
}
