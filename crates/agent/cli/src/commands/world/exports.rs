//! `ls`, `watch`, `collect`, `export`, `rm`: the exports of hosts.

use std::fmt;
use std::io::{self, Read as _};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use serde::Serialize;
use trueup::world::{Entry, Event, Export, Filter, Hosts, ResourceKey, Revision, WatchConfig};

use super::{Exports, Name, Opened, Store, print};
use crate::{Common, output};
use trueup_agent::exchange::Use;

/// The longest data that is read from the standard input, in bytes. A store takes less in one
/// transaction.
const LONGEST: u64 = 4 << 20;

/// An export, or a change of one.
#[derive(Serialize)]
#[serde(rename_all = "snake_case", tag = "event")]
enum Record {
    /// The export exists, is new, or has changed.
    Export {
        exporter: String,
        to: String,
        kind: String,
        name: String,
        revision: u64,
        /// True if it stays when its exporter ends.
        persists: bool,
        data: String,
    },
    Deleted {
        exporter: String,
        to: String,
        kind: String,
        name: String,
        revision: u64,
    },
    /// The entry is not an export, or cannot be read as one.
    Malformed {
        error: String,
    },
    /// All exports at this revision have been printed.
    Ready {
        revision: u64,
    },
    Interrupted {
        error: String,
    },
    /// The store is reachable again. Changes follow.
    Restored {
        revision: u64,
    },
}

impl Record {
    fn export(key: &ResourceKey, resource: &Entry) -> Record {
        Record::Export {
            exporter: key.exporter.clone(),
            to: key.recipient.to_string(),
            kind: key.kind.clone(),
            name: text(&key.name),
            revision: resource.modified.0,
            persists: resource.lease.is_none(),
            data: text(&resource.value),
        }
    }

    fn deleted(key: &ResourceKey, revision: Revision) -> Record {
        Record::Deleted {
            exporter: key.exporter.clone(),
            to: key.recipient.to_string(),
            kind: key.kind.clone(),
            name: text(&key.name),
            revision: revision.0,
        }
    }
}

impl fmt::Display for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Record::Export { exporter, to, kind, name, revision, persists, data } => {
                let persists = if *persists { " persists" } else { "" };
                write!(
                    f,
                    "{kind} {name} from {exporter} to {to} revision {revision}{persists}: {data}"
                )
            }
            Record::Deleted { exporter, to, kind, name, revision } => {
                write!(f, "{kind} {name} from {exporter} to {to} revision {revision}: deleted")
            }
            Record::Malformed { error } => write!(f, "malformed: {error}"),
            Record::Ready { revision } => write!(f, "ready at revision {revision}"),
            Record::Interrupted { error } => write!(f, "the store is not reached: {error}"),
            Record::Restored { revision } => {
                write!(f, "the store is reached again, revision {revision}")
            }
        }
    }
}

pub(super) fn ls(common: &Common, asked: &Exports) -> Result<()> {
    let opened = asked.store.open(common, Use::Read)?;
    let collected = opened.world.collect(&[asked.filter()])?;
    for (key, resource) in &collected.resources {
        print(common.format, &Record::export(key, resource))?;
    }
    for error in &collected.malformed {
        print(common.format, &Record::Malformed { error: error.to_string() })?;
    }
    for host in &collected.incomplete {
        output::note(format_args!("host {host} has not exported all that it declares yet"));
    }
    let granted = match opened.grants() {
        Ok(granted) => granted,
        Err(error) => {
            output::note(output::with_causes(error.as_ref()));
            return Ok(());
        }
    };
    let collection = opened.collection(granted, &collected.resources)?;
    for overlap in &collection.accepted(&opened.declared.file).overlaps {
        output::note(overlap);
    }
    Ok(())
}

pub(super) fn watch(common: &Common, asked: &Exports) -> Result<()> {
    let Opened { world, .. } = asked.store.open(common, Use::Read)?;
    let mut watch = world.watch_resources(&[asked.filter()], WatchConfig::default())?;
    loop {
        let Some(event) = watch.next(Duration::from_secs(60))? else {
            continue;
        };
        for record in records(event) {
            // The reader is gone and needs no more.
            if !print(common.format, &record)? {
                return Ok(());
            }
        }
    }
}

fn records(event: Event<ResourceKey, Arc<Entry>>) -> Vec<Record> {
    match event {
        Event::Ready(view) | Event::Resync(view) => {
            let exports = view.values.iter();
            let mut records: Vec<_> =
                exports.map(|(key, (resource, _))| Record::export(key, resource)).collect();
            let malformed = view.malformed.into_values();
            records.extend(malformed.map(|error| Record::Malformed { error }));
            records.push(Record::Ready { revision: view.revision.0 });
            records
        }
        Event::Changed { id, value, .. } => vec![Record::export(&id, &value)],
        Event::Deleted { id, revision } => vec![Record::deleted(&id, revision)],
        Event::Malformed { error, .. } => vec![Record::Malformed { error: error.to_string() }],
        Event::Interrupted { error, .. } => vec![Record::Interrupted { error: error.to_string() }],
        Event::Restored(revision) => vec![Record::Restored { revision: revision.0 }],
        _ => Vec::new(),
    }
}

pub(super) fn collect(common: &Common, store: &Store) -> Result<()> {
    let opened = store.open(common, Use::Read)?;
    let granted = opened.grants()?;
    let collected = opened.world.collect(&[Filter::kind("route")])?;
    let collection = opened.collection(granted, &collected.resources)?;
    for record in output::Collected::all(&collection.accepted(&opened.declared.file)) {
        print(common.format, &record)?;
    }
    Ok(())
}

pub(super) fn export(common: &Common, store: &Store, name: &Name, data: &str) -> Result<()> {
    let data = match data {
        "-" => {
            let mut read = Vec::new();
            let stdin = io::stdin().take(LONGEST + 1).read_to_end(&mut read);
            stdin.context("cannot read the standard input")?;
            if read.len() as u64 > LONGEST {
                bail!("the standard input has more than {LONGEST} bytes, which no store takes");
            }
            read
        }
        data => data.as_bytes().to_vec(),
    };
    if name.kind.is_empty() {
        bail!("the kind is empty: write one, such as `route`");
    }
    if let Err(error) = serde_json::from_slice::<serde_json::Value>(&data) {
        bail!(
            "the data is no JSON: {error}; write it such as '{{\"dst\": \"10.20.1.0/24\", \"via\": \
             \"10.0.0.11\"}}'"
        );
    }
    let Opened { world, .. } = store.open(common, Use::Write)?;
    let mut export = Export::new(&*name.kind, &*name.name, data).persist();
    export.to = recipient(name);
    world.put_export(&export)?;
    Ok(())
}

pub(super) fn rm(common: &Common, store: &Store, name: &Name) -> Result<()> {
    let Opened { world, .. } = store.open(common, Use::Write)?;
    let key = ResourceKey {
        exporter: world.host().to_owned(),
        recipient: recipient(name),
        kind: name.kind.clone(),
        name: name.name.clone().into_bytes(),
    };
    if !world.delete_export(&key)? {
        output::note(format_args!("there is no {key}"));
    }
    Ok(())
}

fn recipient(name: &Name) -> Hosts {
    name.to.clone().map_or(Hosts::Any, Hosts::One)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
