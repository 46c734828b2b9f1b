//! `[[address]]`.

use std::net::IpAddr;

use trueup_diff::{Address, AddressFlags, FOREVER, Family, IfName, Kind, Lifetimes, Prefix};

use crate::value::{Fields, Node, Result, Table, Value};
use crate::{Declared, Form, words};

impl Form for Address<IfName> {
    const KIND: Kind = Kind::Address;
    const WHAT: &'static str = "an address";
    const KEYS: &'static [&'static str] = &[
        "dev",
        "address",
        "peer",
        "scope",
        "label",
        "broadcast",
        "valid_lft",
        "preferred_lft",
        "metric",
        "nodad",
        "home",
        "mngtmpaddr",
        "noprefixroute",
        "autojoin",
        "adopt",
    ];
    type Key<'a> = (IfName, IpAddr, Option<Prefix>);

    fn list(desired: &mut Declared) -> &mut Option<Vec<Self>> {
        &mut desired.addresses
    }

    fn read(fields: &Fields<'_>) -> Result<Self> {
        let dev = fields.required("dev", "dev = \"eth0\"", words::name)?;
        let example = "address = \"10.0.0.1/24\"";
        let mut address = Address::new(dev, fields.required("address", example, words::network)?);
        let family = address.family();
        let v4_alone = ["label", "scope", "broadcast"];
        if let Some(key) = v4_alone.into_iter().find(|key| fields.has(key))
            && family == Family::Inet6
        {
            let message = format!("IPv6 addresses have no {key} to set: leave `{key}` out");
            return fields.fault(key, message);
        }
        address.peer = peer(fields, &address)?;
        address.scope = fields.read("scope", words::scope)?.unwrap_or(address.scope);
        address.label = fields.read("label", words::label)?;
        address.broadcast = match fields.read("broadcast", words::address)? {
            Some(IpAddr::V4(broadcast)) => Some(broadcast),
            Some(IpAddr::V6(_)) => {
                return fields.fault("broadcast", "broadcast: write an inet address");
            }
            None => None,
        };
        address.lifetimes = lifetimes(fields)?;
        for (flag, word) in AddressFlags::ALL {
            if fields.read(word, words::flag)? == Some(true) {
                address.flags = address.flags | flag;
            }
        }
        let metric = fields.read("metric", words::number(0..=u32::MAX))?;
        address.metric = metric.unwrap_or(0);
        Ok(address)
    }

    fn write(&self, table: &mut Table<'static>) {
        table.push("dev", words::name_node(&self.dev));
        table.push("address", Node::Text(self.address.to_string().into()));
        if let Some(peer) = self.peer {
            table.push("peer", Node::Text(peer.to_string().into()));
        }
        if self.scope != Address::new(self.dev, self.address).scope {
            table.push("scope", words::scope_node(self.scope));
        }
        if let Some(label) = &self.label {
            table.push("label", words::bytes_node(label.as_bytes()));
        }
        if let Some(broadcast) = self.broadcast {
            table.push("broadcast", Node::Text(broadcast.to_string().into()));
        }
        let Lifetimes { valid, preferred } = self.lifetimes;
        if valid != FOREVER {
            table.push("valid_lft", words::lifetime_node(valid));
        }
        if preferred != valid {
            table.push("preferred_lft", words::lifetime_node(preferred));
        }
        if self.metric != 0 {
            table.push("metric", Node::Integer(self.metric.into()));
        }
        for (flag, word) in AddressFlags::ALL {
            if self.flags.contains(flag) {
                table.push(word, Node::Bool(true));
            }
        }
    }

    fn plain(&self) -> Self {
        let mut plain = self.clone();
        plain.protocol = 0;
        plain.secondary = false;
        plain
    }

    fn key(&self) -> Self::Key<'_> {
        let subnet = (self.family() == Family::Inet).then(|| self.subnet());
        (self.dev, self.address.ip(), subnet)
    }

    fn key_words(&self) -> (String, &'static str) {
        let words = match self.family() {
            Family::Inet => format!("address {} on {}", self.address, self.dev),
            Family::Inet6 => format!("address {} on {}", self.address.ip(), self.dev),
        };
        (words, "another address")
    }
}

/// The other end's address. iproute2 takes it with a length, which is that of both ends.
fn peer(fields: &Fields<'_>, address: &Address<IfName>) -> Result<Option<IpAddr>> {
    let with_length = |value: &Value<'_>| match words::text(value, "an address")? {
        text if text.contains('/') => {
            words::network(value).map(|network| (network.ip(), Some(network.prefix())))
        }
        _ => words::address(value).map(|peer| (peer, None)),
    };
    let Some((peer, length)) = fields.read("peer", with_length)? else {
        return Ok(None);
    };
    let family = address.family();
    if Family::of(peer) != family {
        let message = format!("peer: write an {family} address, as `address`");
        return fields.fault("peer", message);
    }
    let own = address.address.prefix();
    if let Some(length) = length.filter(|length| *length != own) {
        let ip = address.address.ip();
        let message = format!(
            "peer: the length /{length} is not that of the address, /{own}: write \"{peer}\", or \
             address = \"{ip}/{length}\""
        );
        return fields.fault("peer", message);
    }
    Ok(Some(peer))
}

/// The lifetimes; an address is preferred as long as it is valid unless said otherwise.
fn lifetimes(fields: &Fields<'_>) -> Result<Lifetimes> {
    let valid = fields
        .read("valid_lft", words::lifetime)?
        .unwrap_or(FOREVER);
    if valid == 0 {
        let message = "valid_lft: an address of no lifetime is none: write 1 or more";
        return fields.fault("valid_lft", message);
    }
    let preferred = fields
        .read("preferred_lft", words::lifetime)?
        .unwrap_or(valid);
    if preferred > valid {
        let message = "preferred_lft is longer than valid_lft: write at most as much";
        return fields.fault("preferred_lft", message);
    }
    Ok(Lifetimes { valid, preferred })
}
