//! `[[neighbour]]`.

use trueup_net::{IfName, Neighbour, NeighbourKey};

use crate::element::{Element, FileObject};
use crate::fields::Fields;
use crate::parse;
use crate::value::{Result, Table, fault, text};

impl Element for Neighbour<IfName> {
    const WITH_ARTICLE: &'static str = "a neighbour";
    const KEYS: &'static [&'static str] = &["dev", "dst", "lladdr", "router", "ext_learn", "proxy"];
    const REMEDY: &'static str = "another dst";
    type Key = NeighbourKey<IfName>;

    fn read(fields: &Fields<'_>) -> Result<Self> {
        let dev = fields.required("dev", "dev = \"eth0\"", parse::name)?;
        let dst = fields.required("dst", "dst = \"10.0.0.9\"", parse::address)?;
        let mut neighbour = Neighbour::proxy(dev, dst)
            .with_router(fields.flag("router")?)
            .with_ext_learn(fields.flag("ext_learn")?)
            .with_proxy(fields.flag("proxy")?);
        neighbour.lladdr = fields.read("lladdr", parse::lladdr)?;
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
        match ["lladdr", "ext_learn"].into_iter().find(|key| fields.has(key)) {
            Some(key) => {
                fields.fault(key, format!("a proxy entry has no {key}: leave `{key}` out"))
            }
            None => Ok(neighbour),
        }
    }

    fn key(&self) -> NeighbourKey<IfName> {
        self.canonical_key()
    }

    fn describe(&self) -> String {
        let proxy = if self.proxy { "proxy " } else { "" };
        format!("{proxy}neighbour {} on {}", self.dst, self.dev)
    }
}

impl FileObject for Neighbour<IfName> {
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
