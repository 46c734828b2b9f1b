//! The accepted exports of other hosts, and their contests.

mod confined;
mod contests;
mod kept;
mod protected;

use std::sync::Arc;

use trueup_file::{File, TableNames, exported_route};
use trueup_world::{Acceptance, Accepted, Collect, Entry, Hosts, ResourceKey, Revision};

/// Reads sections of a file of a host with an embedded store.
fn read(host: &str, sections: &str) -> File {
    let text = format!("[world]\nstore = \"embedded\"\nhost = \"{host}\"\n{sections}");
    let file = File::parse("f", text.as_bytes(), &TableNames::default());
    file.unwrap_or_else(|error| panic!("{error}"))
}

/// Makes an acceptance without any export.
fn acceptance(collects: &[Collect], host: &str) -> Acceptance {
    Acceptance::new(collects, host, exported_route)
}

/// Makes an export of the kind `route`. `number` becomes its recipient, which makes it differ from
/// others with the same host and name.
fn exported(
    exporter: &str,
    name: &str,
    number: u64,
    created: u64,
    data: &str,
) -> (ResourceKey, Arc<Entry>) {
    let key = ResourceKey {
        exporter: exporter.to_owned(),
        recipient: Hosts::One(format!("{number:08}")),
        kind: "route".to_owned(),
        name: name.into(),
    };
    let created = Revision(created);
    let value = data.into();
    (key, Arc::new(Entry { key: Vec::new(), value, created, modified: created, lease: None }))
}

/// Accepts these exports and no others.
fn accept<'a>(
    collects: &[Collect],
    host: &str,
    exports: impl IntoIterator<Item = &'a (ResourceKey, Arc<Entry>)>,
) -> Accepted {
    let mut acceptance = acceptance(collects, host);
    for (key, resource) in exports {
        acceptance.insert(key, resource);
    }
    acceptance.settle();
    acceptance.accepted()
}

fn reasons(accepted: &Accepted) -> Vec<&str> {
    accepted.refused.iter().map(|it| &*it.reason).collect()
}
