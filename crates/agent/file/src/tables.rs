//! The names of routing tables and protocols, from the system's configuration.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use trueup_net::{Protocols, table};
use trueup_netlink::is_transient;
use trueup_path::{ErrorKind, open_any, read};

use crate::error::Error;

/// The largest file of names that is read, in bytes.
const MAX_BYTES: u64 = 1 << 20;

/// The names of numbers on a system: of routing tables, and of the protocols that programs have
/// registered.
///
/// ```
/// use trueup_file::TableNames;
///
/// let mut names = TableNames::default();
/// names.add("100 pods # a comment\n");
/// assert_eq!(names.number("pods"), Some(100));
/// assert_eq!(names.number("main"), Some(254)); // built in
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableNames {
    tables: BTreeMap<String, u32>,
    protocols: BTreeMap<u8, String>,
}

/// The name under which trueup's own marker may be registered.
const OURS: &str = "trueup";

impl Default for TableNames {
    /// Returns `main`, `default` and `local`, which every system has, and the protocols that are
    /// registered everywhere ([`Protocols::REGISTERED`]).
    fn default() -> TableNames {
        let fixed = [("main", table::MAIN), ("default", table::DEFAULT), ("local", table::LOCAL)];
        let registered = Protocols::REGISTERED;
        TableNames {
            tables: fixed.map(|(name, id)| (name.to_owned(), id)).into(),
            protocols: registered.map(|(id, name)| (id, name.to_owned())).into(),
        }
    }
}

impl TableNames {
    /// Reads the system's names. They are in `rt_tables` and `rt_tables.d/*.conf`, and for
    /// protocols in `rt_protos` and `rt_protos.d/*.conf`. Files in `/etc/iproute2` override those
    /// in `/usr/share/iproute2`. Like iproute2, this skips a file that is missing, unreadable, or
    /// not a regular file.
    ///
    /// # Errors
    ///
    /// Fails if a file is larger than 1 MiB, or cannot be read for lack of a resource that may
    /// become free again, such as a descriptor. If it were skipped, its names would be unknown. The
    /// error names the file.
    pub fn system() -> Result<TableNames, Error> {
        let mut tables = TableNames::default();
        for base in ["/usr/share/iproute2", "/etc/iproute2"] {
            let base = Path::new(base);
            for path in name_files(base, "rt_tables")? {
                tables.add(&names_of(&path)?);
            }
            for path in name_files(base, "rt_protos")? {
                tables.add_protocols(&names_of(&path)?);
            }
        }
        Ok(tables)
    }

    /// Adds names from a text in the format of `rt_tables`: a number, white space, a name. Comments
    /// start with `#`. Skips other lines, and number 0, which is not a table.
    pub fn add(&mut self, text: &str) {
        for (number, name) in numbered_names(text) {
            if number != 0 {
                self.tables.insert(name.to_owned(), number);
            }
        }
    }

    /// Adds protocols from a text in the format of `rt_protos`, which equals that of `rt_tables`.
    /// The number belongs to the named program alone.
    pub fn add_protocols(&mut self, text: &str) {
        for (number, name) in numbered_names(text) {
            if let Ok(number) = number.try_into() {
                self.protocols.insert(number, name.to_owned());
            }
        }
    }

    /// Returns why a number must not be our marker, with the free numbers. `None` unless it is
    /// registered for another program.
    pub(crate) fn claim_on(&self, protocol: u8) -> Option<String> {
        let name = self.protocols.get(&protocol).filter(|name| *name != OURS)?;
        Some(format!(
            "protocol: {protocol} is registered as `{name}` (linux/rtnetlink.h, FRR, or rt_protos \
             of iproute2), whose objects would count as ours and be deleted: {} are free; if it is \
             registered for this agent, write protocol_is_mine = true",
            self.free_protocols(),
        ))
    }

    /// Returns the unassigned numbers that this system has not registered either: `100 to 115, 117
    /// to 185`.
    fn free_protocols(&self) -> String {
        let mut ranges: Vec<(u8, u8)> = Vec::new();
        for number in Protocols::UNASSIGNED {
            match (self.protocols.get(&number), ranges.last_mut()) {
                (Some(name), _) if name != OURS => {}
                (_, Some((_, last))) if *last + 1 == number => *last = number,
                _ => ranges.push((number, number)),
            }
        }
        let words = ranges.into_iter().map(|(first, last)| {
            if first == last { format!("{first}") } else { format!("{first} to {last}") }
        });
        Vec::from_iter(words).join(", ")
    }

    /// Returns a protocol's number. `None` if the name is unknown.
    pub(crate) fn protocol(&self, name: &str) -> Option<u8> {
        self.protocols.iter().find(|(_, known)| *known == name).map(|(number, _)| *number)
    }

    /// Returns a table's number. `None` if the name is unknown.
    pub fn number(&self, name: &str) -> Option<u32> {
        self.tables.get(name).copied()
    }

    /// Iterates over all table names in alphabetical order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.tables.keys().map(String::as_str)
    }
}

/// Reads a file of names. It counts as empty if it is missing, unreadable or not a regular file.
fn names_of(path: &Path) -> Result<String, Error> {
    match open_any(path).and_then(|file| read(path, &file, MAX_BYTES)) {
        Ok(bytes) => Ok(String::from_utf8_lossy(&bytes).into_owned()),
        Err(error) if error.kind() == ErrorKind::TooLarge => {
            let why = "it is larger than 1 MiB: split it, or remove what is no name";
            Err(unreadable(path, &io::Error::other(why)))
        }
        Err(error) if error.raw_os_error().is_some_and(is_transient) => {
            Err(Error::unopened(&path.display().to_string(), &error))
        }
        Err(_) => Ok(String::new()),
    }
}

/// Returns the numbers and names from a text with a number, white space and a name on each line.
/// Comments start with `#`. Skips other lines.
fn numbered_names(text: &str) -> impl Iterator<Item = (u32, &str)> {
    text.lines().filter_map(|line| {
        let mut words = line.split('#').next().unwrap_or_default().split_whitespace();
        let (Some(number), Some(name), None) = (words.next(), words.next(), words.next()) else {
            return None;
        };
        let number = match number.strip_prefix("0x") {
            Some(hex) => u32::from_str_radix(hex, 16),
            None => number.parse(),
        };
        Some((number.ok()?, name))
    })
}

/// Turns an error into `None`, unless it is transient.
fn skip_unreadable<T>(path: &Path, read: io::Result<T>) -> Result<Option<T>, Error> {
    match read {
        Err(error) if error.raw_os_error().is_some_and(is_transient) => {
            Err(unreadable(path, &error))
        }
        read => Ok(read.ok()),
    }
}

fn unreadable(path: &Path, error: &io::Error) -> Error {
    Error::unreadable(&path.display().to_string(), error)
}

/// Returns a folder's files that name numbers: `rt_tables` and its drop-ins.
#[expect(
    clippy::disallowed_methods,
    reason = "names alone: who can write a file is asked when it is read"
)]
fn name_files(base: &Path, name: &str) -> Result<Vec<PathBuf>, Error> {
    let more = base.join(format!("{name}.d"));
    let entries = skip_unreadable(&more, fs::read_dir(&more))?;
    let mut more: Vec<PathBuf> = entries
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|ext| ext == "conf"))
        .collect();
    more.sort();
    more.insert(0, base.join(name));
    Ok(more)
}

#[cfg(test)]
mod tests;
