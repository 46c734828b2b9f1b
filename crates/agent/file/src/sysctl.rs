//! `[sysctl]`: values of `/proc/sys/net` by key, as in sysctl(8).
//!
//! A key is written whole (`"net.ipv4.conf.eth0/100.rp_filter" = 1`), or in parts, which TOML turns
//! into nested tables (`net.ipv4.ip_forward = 1`). In parts, a name with a dot is quoted.

use std::collections::BTreeMap;

use trueup_sysctl::{Desired, Error, Key as SysctlKey, Value as SysctlValue};

use crate::error::MAX_PROBLEMS;
use crate::location::{Cursor, Location};
use crate::value::{Fault, Key, Node, Result, Table, Value, fault};

/// The sysctls of a file, and their locations.
#[derive(Default)]
pub(crate) struct Sysctls {
    pub(crate) desired: Desired,
    pub(crate) locations: BTreeMap<SysctlKey, Location>,
}

impl Sysctls {
    /// Reads the section. Adds its faults to `faults`.
    pub(crate) fn read(
        section: &Value<'_>,
        cursor: &mut Cursor<'_>,
        faults: &mut Vec<Fault>,
    ) -> Sysctls {
        let mut sysctls = Sysctls::default();
        let Node::Table(table) = &section.node else {
            let expected = "sysctls as a table, such as { \"net.ipv4.ip_forward\" = 1 }";
            faults.extend(section.unexpected::<()>(expected).err());
            return sysctls;
        };
        let mut entries = Vec::new();
        flatten(table, &mut Vec::new(), &mut entries);
        // Dotted keys may have added values to an earlier table.
        entries.sort_by_key(|(path, _)| path.last().map_or(0, |key| key.at));
        for (path, value) in entries {
            // If a file has a fault in every line, only the first ones are reported.
            if faults.len() > MAX_PROBLEMS {
                break;
            }
            faults.extend(sysctls.add(&path, value, cursor).err());
        }
        sysctls
    }

    fn add(&mut self, path: &[&Key<'_>], value: &Value<'_>, cursor: &mut Cursor<'_>) -> Result<()> {
        let (key, value) = entry(path, value)?;
        let at = path.last().map_or(0, |last| last.at);
        if let Some(first) = self.locations.get(&key) {
            let message = format!("a second {key}: the first is at {first}; remove one");
            return fault(at, message);
        }
        self.locations.insert(key.clone(), cursor.location(at));
        self.desired.insert(key, value).or_else(|error| fault(at, error.to_string()))
    }
}

type Entry<'t, 'a> = (Vec<&'t Key<'a>>, &'t Value<'a>);

/// Lists the values of a table and its nested tables, each with its path.
fn flatten<'t, 'a>(
    table: &'t Table<'a>,
    path: &mut Vec<&'t Key<'a>>,
    entries: &mut Vec<Entry<'t, 'a>>,
) {
    for (key, value) in table.iter() {
        path.push(key);
        match &value.node {
            // An empty table is not a value; `entry` reports it.
            Node::Table(table) if table.iter().next().is_some() => flatten(table, path, entries),
            _ => entries.push((path.clone(), value)),
        }
        path.pop();
    }
}

fn entry(path: &[&Key<'_>], value: &Value<'_>) -> Result<(SysctlKey, SysctlValue)> {
    let key = key(path)?;
    let read = match &value.node {
        Node::Text(text) => {
            text.parse().or_else(|error: Error| fault(value.at, format!("{key}: {error}")))?
        }
        Node::Integer(number) => (*number).into(),
        Node::Bool(flag) => (*flag).into(),
        _ => {
            let expected = format_args!("a string, a number, true or false for {key}");
            return value.unexpected(expected);
        }
    };
    Ok((key, read))
}

fn key(path: &[&Key<'_>]) -> Result<SysctlKey> {
    let (text, at) = match path {
        [whole] => (whole.name.to_string(), whole.at),
        [first, .., last] => {
            // Only a device's name has dots, and it is neither the first nor the last part.
            let mut ends = [first, last].into_iter();
            if let Some(part) = ends
                .find(|part| part.name.contains('.'))
                .or_else(|| path.iter().find(|part| part.name.contains('/')))
            {
                let message = format!(
                    "`{}` is more than one part of a key: write each part alone, or the whole key \
                     as one string, such as \"net/ipv4/conf/eth0.100/rp_filter\"",
                    part.name,
                );
                return fault(last.at, message);
            }
            let parts: Vec<&str> = path.iter().map(|part| &*part.name).collect();
            (parts.join("/"), last.at)
        }
        [] => (String::new(), 0),
    };
    text.parse().or_else(|error: Error| fault(at, error.to_string()))
}
