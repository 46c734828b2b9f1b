//! The desired state: keys with their values, for all settings or part of them.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

use crate::value::is_same_value;
use crate::{Error, Key, Value};

/// The desired values by key. A key without a value is not managed.
///
/// ```
/// use trueup_sysctl::Desired;
///
/// let mut desired = Desired::default();
/// desired.insert("net.ipv4.ip_forward".parse()?, true.into())?;
/// let error = desired.insert("net/ipv4/conf/all/forwarding".parse()?, false.into());
/// assert!(error.is_err(), "they are one switch");
/// # Ok::<(), trueup_sysctl::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Desired {
    values: BTreeMap<Key, Value>,
    part: Part,
}

/// The settings that a desired state covers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
enum Part {
    #[default]
    All,
    /// The settings of the devices with these names.
    Of(BTreeSet<String>),
    /// All settings but these devices'.
    AllBut(BTreeSet<String>),
}

impl Desired {
    /// Splits a desired state in two: the settings of these devices, and all others. Each covers
    /// only its own part, also in the ledger. So two sources can share one ledger, and neither
    /// reverts the other's values.
    ///
    /// ```
    /// use trueup_sysctl::Desired;
    ///
    /// let desired = Desired::parse([
    ///     ("net.ipv4.ip_forward", "1"),
    ///     ("net.ipv4.conf.eth0.rp_filter", "2"),
    /// ])?;
    /// let (of_devices, others) = desired.split(["eth0"]);
    /// assert_eq!(of_devices.keys().next().and_then(|key| key.device()), Some("eth0"));
    /// assert!(others.covers(&"net.ipv4.conf.eth1.rp_filter".parse()?));
    /// assert!(!others.covers(&"net.ipv4.conf.eth0.arp_ignore".parse()?));
    /// # Ok::<(), trueup_sysctl::Error>(())
    /// ```
    pub fn split(self, devices: impl IntoIterator<Item = impl Into<String>>) -> (Desired, Desired) {
        let devices: BTreeSet<String> = devices.into_iter().map(Into::into).collect();
        let mut parts = [Part::Of(devices.clone()), Part::AllBut(devices)]
            .map(|part| Desired { values: BTreeMap::new(), part });
        for (key, value) in self.values {
            let at = usize::from(!parts[0].covers(&key));
            parts[at].values.insert(key, value);
        }
        parts.into()
    }

    /// Returns true if the desired state covers this key, declared or not.
    pub fn covers(&self, key: &Key) -> bool {
        let is_of =
            |devices: &BTreeSet<String>| key.device().is_some_and(|it| devices.contains(it));
        match &self.part {
            Part::All => true,
            Part::Of(devices) => is_of(devices),
            Part::AllBut(devices) => !is_of(devices),
        }
    }

    /// Parses pairs of key and value.
    ///
    /// ```
    /// use trueup_sysctl::Desired;
    ///
    /// let desired = Desired::parse([("net/ipv4/ip_forward", "1")])?; // either separator
    /// assert_eq!(desired.len(), 1);
    /// assert!(Desired::parse([("kernel.panic", "1")]).is_err()); // not of a network namespace
    /// # Ok::<(), trueup_sysctl::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The first error of [`Key`], [`Value`] or [`insert`](Self::insert). If a key is spelled in
    /// two ways, the error names both.
    pub fn parse<'a>(
        pairs: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Result<Desired, Error> {
        let mut desired = Desired::default();
        let mut spelled = BTreeMap::new();
        for (text, value) in pairs {
            let key: Key = text.parse()?;
            if let Some(other) = spelled.insert(key.clone(), text) {
                return Err(twice(other, text));
            }
            let parsed = value.parse().map_err(|error: Error| error.of(&key))?;
            desired.insert(key, parsed)?;
        }
        Ok(desired)
    }

    /// Declares the value of a key, in addition to the keys declared before.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Desired`](crate::ErrorKind::Desired) if the key is already declared, is not in
    /// [this part](Self::split), or is declared with another value under its other name:
    /// `net.ipv4.ip_forward` is `net.ipv4.conf.all.forwarding`.
    pub fn insert(&mut self, key: Key, value: Value) -> Result<(), Error> {
        if !self.covers(&key) {
            return Err(Error::desired(format!(
                "{key} is of another part of the settings: declare it there"
            )));
        }
        if let Some(alias) = key.alias()
            && let Some(other) = self.values.get(&alias)
            && !is_same_value(&key, value.as_str(), other.as_str())
        {
            return Err(Error::desired(format!(
                "{alias} = {other} and {key} = {value} cannot both be: they are one switch"
            )));
        }
        match self.values.entry(key) {
            Entry::Vacant(entry) => {
                entry.insert(value);
                Ok(())
            }
            Entry::Occupied(entry) => {
                let key = entry.key();
                Err(twice(&key.to_string(), &key.to_string()))
            }
        }
    }

    /// Returns the desired value of a key, if it is declared.
    ///
    /// ```
    /// use trueup_sysctl::Desired;
    ///
    /// let desired = Desired::parse([("net.ipv4.ip_forward", "1")])?;
    /// assert_eq!(desired.get(&"net.ipv4.ip_forward".parse()?).map(|it| it.as_str()), Some("1"));
    /// assert_eq!(desired.get(&"net.ipv4.tcp_syncookies".parse()?), None);
    /// # Ok::<(), trueup_sysctl::Error>(())
    /// ```
    pub fn get(&self, key: &Key) -> Option<&Value> {
        self.values.get(key)
    }

    /// Iterates over keys and values, in the order of the keys.
    pub fn iter(&self) -> impl Iterator<Item = (&Key, &Value)> {
        self.values.iter()
    }

    /// Returns the declared keys, in the order of their paths.
    pub fn keys(&self) -> impl Iterator<Item = &Key> {
        self.values.keys()
    }

    /// Returns the number of declared keys.
    pub fn len(&self) -> usize {
        self.values.len()
    }

    /// Returns true if no key is declared.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }
}

/// Returns the error for a key declared twice.
fn twice(one: &str, other: &str) -> Error {
    Error::desired(if one == other {
        format!("{one} is given twice")
    } else {
        format!("{one} and {other} are two spellings of one key: give it once")
    })
}

#[cfg(test)]
mod tests;
