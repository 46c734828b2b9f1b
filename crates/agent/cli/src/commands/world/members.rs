//! `members`: the hosts that have a session, and their ideal number.

use std::fmt;
use std::time::Duration;

use anyhow::Result;
use serde::Serialize;
use trueup::world::{Event, WatchConfig};

use super::{Opened, Store, print};
use crate::Common;
use crate::output;
use trueup_agent::exchange::Use;

/// A host, or a change of one.
#[derive(Serialize)]
#[serde(rename_all = "snake_case", tag = "event")]
enum Record {
    Member { host: String, owner: String },
    Left { host: String },
    Interrupted { error: String },
    Size { ideal: u64, members: usize },
}

impl fmt::Display for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Record::Member { host, owner } => write!(f, "{host}: session of {owner}"),
            Record::Left { host } => write!(f, "{host}: its session has ended"),
            Record::Interrupted { error } => write!(f, "the store is not reached: {error}"),
            Record::Size { ideal, members } => write!(f, "{members} of {ideal}"),
        }
    }
}

pub(super) fn members(
    common: &Common,
    store: &Store,
    set_size: Option<u64>,
    is_watched: bool,
) -> Result<()> {
    let with = if set_size.is_some() { Use::Write } else { Use::Read };
    let Opened { world, .. } = store.open(common, with)?;
    if set_size.is_some() {
        world.set_ideal_size(set_size)?;
    }
    if !is_watched {
        let members = world.members()?;
        let size = world.ideal_size()?.map(|ideal| Record::Size { ideal, members: members.len() });
        let records = members.into_iter().map(|(host, owner)| Record::Member { host, owner });
        for record in records.chain(size) {
            print(common.format, &record)?;
        }
        return Ok(());
    }
    let mut watch = world.watch_members(WatchConfig::default())?;
    loop {
        let records: Vec<Record> = match watch.next(Duration::from_secs(60))? {
            Some(Event::Ready(view) | Event::Resync(view)) => {
                let members = view.values.into_iter();
                members.map(|(host, (owner, _))| Record::Member { host, owner }).collect()
            }
            Some(Event::Changed { id, value, .. }) => {
                vec![Record::Member { host: id, owner: value }]
            }
            Some(Event::Deleted { id, .. }) => vec![Record::Left { host: id }],
            Some(Event::Interrupted { error, .. }) => {
                vec![Record::Interrupted { error: error.to_string() }]
            }
            Some(Event::Malformed { error, .. }) => {
                output::note(error);
                continue;
            }
            _ => continue,
        };
        for record in records {
            if !print(common.format, &record)? {
                return Ok(());
            }
        }
    }
}
