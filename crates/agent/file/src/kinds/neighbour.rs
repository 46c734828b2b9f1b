//! `[[neighbour]]`.

use trueup_net::{IfName, Neighbour, NeighbourKey};

use super::objects::FileObject;
use crate::fields::Fields;
use crate::parse;
use crate::section::Keyed;
use crate::value::{Result, Table, fault, text};

impl FileObject for Neighbour<IfName> {
    const WITH_ARTICLE: &'static str = "a neighbour";
    const KEYS: &'static [&'static str] = &["dev", "dst", "lladdr", "router", "ext_learn", "proxy"];

    fn read(fields: &Fields<'_>) -> Result<Self> {
        let flag = |key| Ok(fields.read(key, parse::flag)?.unwrap_or(false));
        let dev = fields.required("dev", "dev = \"eth0\"", parse::name)?;
        let dst = fields.required("dst", "dst = \"10.0.0.9\"", parse::address)?;
        let neighbour = Neighbour::proxy(dev, dst)
            .with_lladdr(fields.read("lladdr", parse::lladdr)?)
            .with_router(flag("router")?)
            .with_ext_learn(flag("ext_learn")?)
            .with_proxy(flag("proxy")?);
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
        table.set("dev", parse::name_node(&self.dev));
        table.set("dst", text(self.dst));
        table.set_some("lladdr", self.lladdr.map(text));
        table.set_true("router", self.router);
        table.set_true("ext_learn", self.ext_learn);
        table.set_true("proxy", self.proxy);
    }

    fn authored(&self) -> Self {
        self.clone().canonical().with_protocol(0)
    }
}

impl Keyed for Neighbour<IfName> {
    const REMEDY: &'static str = "another dst";
    type Key = NeighbourKey<IfName>;

    fn key(&self) -> NeighbourKey<IfName> {
        self.canonical_key()
    }

    fn describe(&self) -> String {
        let proxy = if self.proxy { "proxy " } else { "" };
        format!("{proxy}neighbour {} on {}", self.dst, self.dev)
    }
}
