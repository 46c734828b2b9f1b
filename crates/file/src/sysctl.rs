//! `[sysctl]`: values of `/proc/sys/net` by key, as sysctl(8) has them.
//!
//! A key is written whole (`"net.ipv4.conf.eth0/100.rp_filter" = 1`), or its parts are what TOML makes of dots, tables in tables
//! (`net.ipv4.ip_forward = 1`). In the latter form each part stands for itself, so that a name with a dot is quoted.

use trueup_sysctl::{self as sysctl, Desired};

use crate::value::{Key, Node, Result, Table, Value, fault};
use crate::{Collector, error};

impl Collector<'_> {
    /// Takes the section's value.
    pub(crate) fn sysctls(&mut self, section: &Value<'_>) {
        let desired = self.sysctl.insert(Desired::default());
        let Node::Table(table) = &section.node else {
            let expected = "sysctls as a table, such as { \"net.ipv4.ip_forward\" = 1 }";
            self.faults.extend(section.unexpected::<()>(expected).err());
            return;
        };
        let mut entries = Vec::new();
        flatten(table, &mut Vec::new(), &mut entries);
        // Keys with dots may have been added to a table above others.
        entries.sort_by_key(|(path, _)| path.last().map_or(0, |key| key.at));
        for (path, value) in entries {
            // A file of which every line is wrong is not judged to its end.
            if self.faults.len() > error::SHOWN {
                return;
            }
            let read = entry(&path, value).and_then(|(key, value)| {
                let at = path.last().map_or(0, |last| last.at);
                if let Some(first) = self.places.sysctls.get(&key) {
                    let message = format!("a second {key}: the first is at {first}; remove one");
                    return fault(at, message);
                }
                let place = self.cursor.place(at);
                self.places.sysctls.insert(key.clone(), place);
                desired
                    .insert(key, value)
                    .or_else(|error| fault(at, error.to_string()))
            });
            self.faults.extend(read.err());
        }
    }
}

type Entry<'t, 'a> = (Vec<&'t Key<'a>>, &'t Value<'a>);

/// What is in a table and in those in it, each with the way to it.
fn flatten<'t, 'a>(
    table: &'t Table<'a>,
    path: &mut Vec<&'t Key<'a>>,
    entries: &mut Vec<Entry<'t, 'a>>,
) {
    for (key, value) in table.iter() {
        path.push(key);
        match &value.node {
            // An empty one is no key and no value, and told as that.
            Node::Table(table) if table.iter().next().is_some() => flatten(table, path, entries),
            _ => entries.push((path.clone(), value)),
        }
        path.pop();
    }
}

fn entry(path: &[&Key<'_>], value: &Value<'_>) -> Result<(sysctl::Key, sysctl::Value)> {
    let key = key(path)?;
    let read = match &value.node {
        Node::Text(text) => text.parse(),
        Node::Integer(number) => Ok((*number).into()),
        Node::Bool(flag) => Ok((*flag).into()),
        _ => {
            let expected = format!("a string, a number, true or false for {key}");
            return value.unexpected(expected);
        }
    };
    let read = read.or_else(|error| fault(value.at, format!("{key}: {error}")))?;
    Ok((key, read))
}

fn key(path: &[&Key<'_>]) -> Result<sysctl::Key> {
    let (text, at) = match path {
        [whole] => (whole.name.to_string(), whole.at),
        [first, between @ .., last] => {
            // Only a device's name has dots in it, and that is never the first or the last part.
            let dotted = [first, last]
                .into_iter()
                .find(|part| part.name.contains('.'));
            let slashed = || path.iter().find(|part| part.name.contains('/'));
            if let Some(part) = dotted.or_else(slashed) {
                let message = format!(
                    "`{}` is more than one part of a key: write each part alone, or the whole key as one string, such as \
                     \"net/ipv4/conf/eth0.100/rp_filter\"",
                    part.name,
                );
                return fault(last.at, message);
            }
            let mut parts = vec![&*first.name];
            parts.extend(between.iter().map(|part| &*part.name));
            parts.push(&last.name);
            (parts.join("/"), last.at)
        }
        [] => (String::new(), 0),
    };
    text.parse()
        .or_else(|error: sysctl::Error| fault(at, error.to_string()))
}
