//! `[[neighbour]]`.

use std::net::IpAddr;

use trueup_diff::{IfName, Kind, Neighbour, NeighbourState};

use crate::value::{Fields, Node, Result, Table, fault};
use crate::{Declared, Form, words};

impl Form for Neighbour<IfName> {
    const KIND: Kind = Kind::Neighbour;
    const WHAT: &'static str = "a neighbour";
    const KEYS: &'static [&'static str] = &[
        "dev",
        "dst",
        "lladdr",
        "router",
        "ext_learn",
        "proxy",
        "adopt",
    ];
    type Key<'a> = (IfName, IpAddr, bool);

    fn list(desired: &mut Declared) -> &mut Option<Vec<Self>> {
        &mut desired.neighbours
    }

    fn read(fields: &Fields<'_>) -> Result<Self> {
        let flag = |key| Ok(fields.read(key, words::flag)?.unwrap_or(false));
        let neighbour = Neighbour {
            dev: fields.required("dev", "dev = \"eth0\"", words::name)?,
            dst: fields.required("dst", "dst = \"10.0.0.9\"", words::address)?,
            lladdr: fields.read("lladdr", words::lladdr)?,
            state: NeighbourState::Permanent,
            router: flag("router")?,
            ext_learn: flag("ext_learn")?,
            proxy: flag("proxy")?,
            protocol: 0,
        };
        if !neighbour.proxy {
            return match neighbour.lladdr {
                Some(_) => Ok(neighbour),
                None => fault(
                    fields.at,
                    "`lladdr` is missing: write lladdr = \"02:00:00:00:00:09\", or proxy = true \
                     to answer for the address",
                ),
            };
        }
        let not_proxied = ["lladdr", "ext_learn"];
        match not_proxied.into_iter().find(|key| fields.has(key)) {
            Some(key) => {
                let message = format!("a proxy entry has no {key}: leave `{key}` out");
                fields.fault(key, message)
            }
            None => Ok(neighbour),
        }
    }

    fn write(&self, table: &mut Table<'static>) {
        table.push("dev", words::name_node(&self.dev));
        table.push("dst", Node::Text(self.dst.to_string().into()));
        if let Some(lladdr) = self.lladdr {
            table.push("lladdr", Node::Text(lladdr.to_string().into()));
        }
        let flags = [
            ("router", self.router),
            ("ext_learn", self.ext_learn),
            ("proxy", self.proxy),
        ];
        for (word, _) in flags.into_iter().filter(|(_, set)| *set) {
            table.push(word, Node::Bool(true));
        }
    }

    fn plain(&self) -> Self {
        let mut plain = self.clone().canonical();
        plain.protocol = 0;
        plain
    }

    fn key(&self) -> Self::Key<'_> {
        (self.dev, self.dst, self.proxy)
    }

    fn key_words(&self) -> (String, &'static str) {
        let proxy = if self.proxy { "proxy " } else { "" };
        let words = format!("{proxy}neighbour {} on {}", self.dst, self.dev);
        (words, "another dst")
    }
}
