//! The keys of one table, read by name.

use trueup_net::Kind;

use crate::file_keys;
use crate::parse;
use crate::suggest::unknown;
use crate::tables::TableNames;
use crate::value::{Key, Result, Table, Value, fault};

/// A table whose keys are all known.
pub(crate) struct Fields<'t> {
    /// The byte of the file at which the table starts.
    pub(crate) at: usize,
    table: &'t Table<'t>,
    /// The names of routing tables.
    pub(crate) tables: &'t TableNames,
}

impl<'t> Fields<'t> {
    /// Checks the keys of `table`, which starts at the byte `at`. Messages call it `of`.
    ///
    /// # Errors
    ///
    /// Fails at the first key that is not among `keys`.
    pub(crate) fn new(
        of: &str,
        at: usize,
        table: &'t Table<'t>,
        keys: &[&[&str]],
        tables: &'t TableNames,
    ) -> Result<Fields<'t>> {
        for (key, _) in table.iter() {
            if keys.iter().any(|keys| keys.contains(&&*key.name)) {
                continue;
            }
            let message = match file_keys::find(&key.name) {
                Some((name, _)) => {
                    format!("`{name}` is a key of the file, not of {of}: write it at the top")
                }
                None if is_section(&key.name) => format!(
                    "`{}` is a section of the file, not a key of {of}: a list of it comes above \
                     the first header, or write [[{}]]",
                    key.name, key.name
                ),
                None => unknown("key", &key.name, of, &keys.concat()),
            };
            return fault(key.at, message);
        }
        Ok(Fields { at, table, tables })
    }

    /// Returns the value of a key. `None` if the key is not given.
    pub(crate) fn get(&self, name: &str) -> Option<&'t Value<'t>> {
        self.table.iter().find(|(key, _)| key.name == name).map(|(_, value)| value)
    }

    /// Returns true if a key is given.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    /// Iterates over all pairs, in the order of the file.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &'t (Key<'t>, Value<'t>)> {
        self.table.iter()
    }

    /// Returns the position of a key's value, or of the table if the key is not given.
    pub(crate) fn position(&self, name: &str) -> usize {
        self.get(name).map_or(self.at, |value| value.at)
    }

    /// Reads a key if it is given. A fault names the key.
    pub(crate) fn read<T>(
        &self,
        name: &str,
        read: impl FnOnce(&'t Value<'t>) -> Result<T>,
    ) -> Result<Option<T>> {
        self.get(name).map(read).transpose().map_err(|fault| fault.in_key(name))
    }

    /// Reads a boolean key. Its default is `false`.
    pub(crate) fn flag(&self, name: &str) -> Result<bool> {
        Ok(self.read(name, parse::flag)?.unwrap_or(false))
    }

    /// Reads a required key. `example` shows how to write it.
    pub(crate) fn required<T>(
        &self,
        name: &str,
        example: &str,
        read: impl FnOnce(&'t Value<'t>) -> Result<T>,
    ) -> Result<T> {
        match self.read(name, read)? {
            Some(value) => Ok(value),
            None => fault(self.at, format!("`{name}` is missing: write {example}")),
        }
    }

    /// Returns a fault at the value of a key, or at the table if the key is not given.
    pub(crate) fn fault<T>(&self, name: &str, message: impl Into<String>) -> Result<T> {
        fault(self.position(name), message)
    }
}

/// True if the name is the name of a section of objects.
fn is_section(name: &str) -> bool {
    Kind::DECLARED.map(Kind::name).contains(&name)
        || ["file", "exec", "collect", "export"].contains(&name)
}
