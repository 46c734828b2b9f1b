//! Links in iproute2's words.

use std::collections::BTreeSet;
use std::fmt::{self, Display as _};

use super::{BondAttrs, Link, LinkKind, MacvlanAttrs, VethAttrs, VlanAttrs};
use crate::devices::Devices;
use crate::kinds::{Action, ObjectKind as _, Render, Words, or_none, words_or_none};
use crate::values::Dev;
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

    /// Netlink cannot create these, `ip` can: through a device file of its own.
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
            Words::Update(Some(was)) => Which::ChangedFrom(was),
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

    /// The fields in which another link differs, of this one and of that.
    pub(crate) fn differing_words(&self, other: &Link, devices: &Devices) -> (String, String) {
        let differing = self.differences(other).into_iter();
        let fields = differing.map(|difference| difference.field).collect();
        let words = |link: &Link| link.words(Which::These(&fields), devices).to_string();
        (words(self), words(other))
    }
}

/// Which of a link's words are said.
#[derive(Clone, Copy)]
pub(crate) enum Which<'a> {
    /// Every one that is stated.
    All,
    /// The name.
    Key,
    /// What goes into the message that creates the link: master, alias and state follow later.
    New,
    /// What sets up a link that was just created: its kind's own attributes are set already.
    Setup,
    /// Some fields, as stated, by the words that
    /// [`ObjectKind::compare`](crate::ObjectKind::compare) has for them.
    These(&'a BTreeSet<&'static str>),
    /// What is written over what it was.
    ChangedFrom(&'a Link),
    /// One field, by the word that [`ObjectKind::compare`](crate::ObjectKind::compare) has for it.
    Only(&'a str),
}

/// A link, from its name on.
pub(crate) struct LinkWords<'a> {
    pub(crate) link: &'a Link,
    pub(crate) which: Which<'a>,
    pub(crate) devices: &'a Devices,
}

impl fmt::Display for LinkWords<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let LinkWords { link, which, devices } = *self;
        write!(f, "{}", Word(link.name.as_bytes()))?;
        let changed = match which {
            Which::ChangedFrom(was) => link.written(was),
            _ => BTreeSet::new(),
        };
        let says = |field: &str| match which {
            Which::All => true,
            Which::Key => false,
            Which::New => !matches!(field, "master" | "alias" | "up"),
            Which::Setup => {
                matches!(field, "address" | "mtu" | "group" | "master" | "alias" | "up")
            }
            Which::ChangedFrom(_) => changed.contains(field),
            Which::These(fields) => fields.contains(field),
            Which::Only(one) => field == one,
        };
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
        if let Some(address) = link.address.filter(|_| says("address")) {
            write!(f, " address {address}")?;
        }
        if let Some(mtu) = link.mtu.filter(|_| says("mtu")) {
            write!(f, " mtu {mtu}")?;
        }
        if let Some(group) = link.group.filter(|_| says("group")) {
            write!(f, " group {group}")?;
        }
        match link.master.filter(|_| says("master")) {
            Some(Some(master)) => write!(f, " master {}", Name(master, devices))?,
            Some(None) => f.write_str(" nomaster")?,
            None => {}
        }
        if let Some(alias) = link.alias.as_deref().filter(|_| says("alias")) {
            write!(f, " alias {}", Word(alias))?;
        }
        if let Some(up) = link.up.filter(|_| says("up")) {
            f.write_str(if up { " up" } else { " down" })?;
        }
        match &link.kind {
            Some(kind) => kind_words(f, kind, whole, &says, devices),
            None => Ok(()),
        }
    }
}

/// ` type KIND` and its attributes; only where an attribute is said, unless the whole link is.
fn kind_words(
    f: &mut fmt::Formatter<'_>,
    kind: &LinkKind,
    whole: bool,
    says: &dyn Fn(&str) -> bool,
    devices: &Devices,
) -> fmt::Result {
    let mut words = Vec::new();
    let mut say = |field: &str, word: &str, value: Option<String>| {
        if let Some(value) = value.filter(|_| says(field)) {
            words.push(format!(" {word} {value}"));
        }
    };
    let number = |value: Option<u32>| value.map(|value| value.to_string());
    let switch = |value: Option<bool>| value.map(|on| u8::from(on).to_string());
    let name = |dev: Option<Dev>| dev.map(|dev| Name(dev, devices).to_string());
    match kind {
        LinkKind::Bridge(bridge) => {
            say("stp", "stp_state", switch(bridge.stp));
            say("vlan_filtering", "vlan_filtering", switch(bridge.vlan_filtering));
            say("forward_delay", "forward_delay", number(bridge.forward_delay));
            say("ageing_time", "ageing_time", number(bridge.ageing_time));
        }
        LinkKind::Veth(VethAttrs { peer }) => {
            let named = peer.as_ref().map(|peer| Word(peer.as_bytes()).to_string());
            say("peer", "peer name", named);
        }
        LinkKind::Vxlan(vxlan) => {
            say("id", "id", Some(vxlan.id.to_string()));
            say("local", "local", vxlan.local.map(|ip| ip.to_string()));
            let word = match vxlan.remote {
                Some(remote) if remote.is_multicast() => "group",
                _ => "remote",
            };
            say("remote", word, vxlan.remote.map(|ip| ip.to_string()));
            // Not `link`, which `ip` drops for this kind without a word.
            say("link", "dev", name(vxlan.link));
            say("port", "dstport", vxlan.port.map(|port| port.to_string()));
            say("ttl", "ttl", vxlan.ttl.map(|ttl| ttl.to_string()));
            if let Some(learning) = vxlan.learning.filter(|_| says("learning")) {
                let word = if learning { " learning" } else { " nolearning" };
                words.push(word.to_owned());
            }
        }
        LinkKind::Vlan(VlanAttrs { id, protocol, .. }) => {
            say("protocol", "protocol", Some(protocol.name().to_owned()));
            say("id", "id", Some(id.to_string()));
        }
        LinkKind::Macvlan(MacvlanAttrs { mode, .. }) => {
            say("mode", "mode", mode.map(|mode| mode.name().to_owned()));
        }
        LinkKind::Bond(BondAttrs { mode, miimon }) => {
            say("mode", "mode", mode.map(|mode| mode.name().to_owned()));
            say("miimon", "miimon", number(*miimon));
        }
        LinkKind::Vrf { table } => say("table", "table", Some(table.to_string())),
        LinkKind::Ifb | LinkKind::Dummy | LinkKind::Tun | LinkKind::Tap | LinkKind::Other(_) => {}
    }
    if whole || !words.is_empty() {
        write!(f, " type {}", Word(kind.name().as_bytes()))?;
    }
    words.iter().try_for_each(|word| f.write_str(word))
}
