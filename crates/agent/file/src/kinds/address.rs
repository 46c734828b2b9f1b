//! `[[address]]`.

use std::net::IpAddr;

use trueup_net::{Address, AddressFlags, AddressKey, FOREVER, Family, IfName, Lifetimes};

use crate::element::{Element, FileObject};
use crate::fields::Fields;
use crate::parse;
use crate::value::{Result, Table, Value, text};

impl Element for Address<IfName> {
    const WITH_ARTICLE: &'static str = "an address";
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
    ];
    const REMEDY: &'static str = "another address";
    type Key = AddressKey<IfName>;

    fn read(fields: &Fields<'_>) -> Result<Self> {
        let dev = fields.required("dev", "dev = \"eth0\"", parse::name)?;
        let network = fields.required("address", "address = \"10.0.0.1/24\"", parse::network)?;
        let mut address = Address::new(dev, network);
        if let Some(key) = ["label", "scope", "broadcast"].into_iter().find(|key| fields.has(key))
            && address.family() == Family::Inet6
        {
            let message = format!("IPv6 addresses have no {key} to set: leave `{key}` out");
            return fields.fault(key, message);
        }
        address.peer = peer(fields, &address)?;
        address.scope = fields.read("scope", parse::scope)?.unwrap_or(address.scope);
        address.label = fields.read("label", parse::label)?;
        address.broadcast = match fields.read("broadcast", parse::address)? {
            Some(IpAddr::V4(broadcast)) => Some(broadcast),
            Some(IpAddr::V6(_)) => {
                return fields
                    .fault("broadcast", "broadcast: only IPv4 has one: write an IPv4 address");
            }
            None => None,
        };
        address.lifetimes = lifetimes(fields)?;
        for (flag, word) in AddressFlags::ALL {
            if fields.read(word, parse::flag)? == Some(true) {
                address.flags = address.flags | flag;
            }
        }
        address.metric = fields.read("metric", parse::number(0..=u32::MAX))?.unwrap_or(0);
        Ok(address)
    }

    fn key(&self) -> AddressKey<IfName> {
        self.canonical_key()
    }

    fn describe(&self) -> String {
        match self.family() {
            Family::Inet => format!("address {} on {}", self.address, self.dev),
            Family::Inet6 => format!("address {} on {}", self.address.ip(), self.dev),
        }
    }
}

impl FileObject for Address<IfName> {
    fn write(&self, table: &mut Table<'static>) {
        table.set("dev", parse::name_node(&self.dev));
        table.set("address", text(self.address));
        table.set_some("peer", self.peer.map(text));
        if self.scope != Address::new(self.dev, self.address).scope {
            table.set("scope", parse::scope_node(self.scope));
        }
        table.set_some("label", self.label.map(|label| parse::bytes_node(label.as_bytes())));
        table.set_some("broadcast", self.broadcast.map(text));
        let Lifetimes { valid, preferred } = self.lifetimes;
        if valid != FOREVER {
            table.set("valid_lft", parse::lifetime_node(valid));
        }
        if preferred != valid {
            table.set("preferred_lft", parse::lifetime_node(preferred));
        }
        table.set_nonzero("metric", self.metric);
        for (flag, word) in AddressFlags::ALL {
            table.set_true(word, self.flags.contains(flag));
        }
    }

    fn authored(&self) -> Self {
        self.clone().with_protocol(0).with_secondary(false)
    }
}

/// Reads the other end's address. As in iproute2 it may have a length, which then applies to both
/// ends.
fn peer(fields: &Fields<'_>, address: &Address<IfName>) -> Result<Option<IpAddr>> {
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

/// Reads an address with or without a length.
fn with_length(value: &Value<'_>) -> Result<(IpAddr, Option<u8>)> {
    if parse::text(value, "an address")?.contains('/') {
        parse::network(value).map(|network| (network.ip(), Some(network.prefix())))
    } else {
        parse::address(value).map(|peer| (peer, None))
    }
}

/// Reads the lifetimes. By default, an address is preferred as long as it is valid.
fn lifetimes(fields: &Fields<'_>) -> Result<Lifetimes> {
    let valid = fields.read("valid_lft", parse::lifetime)?.unwrap_or(FOREVER);
    if valid == 0 {
        let message = "valid_lft: with 0 the kernel deletes the address: write 1 or more";
        return fields.fault("valid_lft", message);
    }
    let preferred = fields.read("preferred_lft", parse::lifetime)?.unwrap_or(valid);
    if preferred > valid {
        let message = "preferred_lft is longer than valid_lft: write at most that";
        return fields.fault("preferred_lft", message);
    }
    Ok(Lifetimes { valid, preferred })
}
