//! Resources, which hosts export and collect.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use crate::keys::check_part;
use crate::session::Mark;
use crate::watch::Decoded;
use crate::world::ATTEMPTS;
use crate::{Entry, Error, ErrorKind, LeaseId, Revision, Watch, WatchConfig, World};

/// The hosts that an export is for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Hosts {
    /// Any host, including hosts that join later.
    Any,
    /// Only the host with this name.
    One(String),
}

impl Hosts {
    /// Returns true for [`Any`](Self::Any), or if the host has this name.
    pub fn contains(&self, host: &str) -> bool {
        match self {
            Hosts::Any => true,
            Hosts::One(name) => name == host,
        }
    }
}

/// The key of an exported resource, unique in a world.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ResourceKey {
    /// The name of the host that exports it.
    pub exporter: String,
    /// The hosts that may collect it.
    pub recipient: Hosts,
    /// The kind, such as `route`.
    pub kind: String,
    /// The name, which may be any bytes.
    pub name: Vec<u8>,
}

impl ResourceKey {
    /// Checks that each part can be stored.
    pub(crate) fn check(&self) -> Result<(), Error> {
        check_part("a kind", self.kind.as_bytes())?;
        check_part("a name", &self.name)?;
        match &self.recipient {
            Hosts::One(host) => check_part("a recipient", host.as_bytes()),
            Hosts::Any => Ok(()),
        }
    }

    /// Checks that the resource is `host`'s export.
    pub(crate) fn check_exporter(&self, host: &str) -> Result<(), Error> {
        if self.exporter == host {
            return Ok(());
        }
        let message = format!("{self}: only its exporter deletes it, and this is {host}");
        Err(Error::new(ErrorKind::Denied, message))
    }
}

/// Writes the name of the host, or `any`.
impl fmt::Display for Hosts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Hosts::Any => f.write_str("any"),
            Hosts::One(host) => f.write_str(host),
        }
    }
}

impl fmt::Display for ResourceKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (kind, name) = (&self.kind, self.name.escape_ascii());
        write!(f, "{kind} {name} of {} for {}", self.exporter, self.recipient)
    }
}

/// An export, as its host declares it.
///
/// ```
/// use trueup_world::{Export, Hosts};
///
/// let export = Export::new("route", "pods", "10.20.1.0/24 via 10.0.0.11").to("b");
/// let key = export.key("a");
/// assert_eq!(key.exporter, "a");
/// assert_eq!(key.recipient, Hosts::One("b".to_owned()));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Export {
    /// The kind, such as `route`.
    pub kind: String,
    /// The name, which may be any bytes. Kind, name and recipient identify an export of a host.
    pub name: Vec<u8>,
    /// The hosts that may collect it.
    pub to: Hosts,
    /// The content, in a form that depends on the kind.
    pub data: Vec<u8>,
    /// True if it outlives its exporter, until it is deleted.
    pub persist: bool,
}

impl Export {
    /// Makes an export for any host, which lives as long as its exporter.
    pub fn new(
        kind: impl Into<String>,
        name: impl Into<Vec<u8>>,
        data: impl Into<Vec<u8>>,
    ) -> Export {
        Export {
            kind: kind.into(),
            name: name.into(),
            to: Hosts::Any,
            data: data.into(),
            persist: false,
        }
    }

    /// Limits the export to one host.
    #[must_use]
    pub fn to(self, host: impl Into<String>) -> Export {
        let to = Hosts::One(host.into());
        Export { to, ..self }
    }

    /// Makes the export outlive its exporter.
    #[must_use]
    pub fn persist(self) -> Export {
        Export { persist: true, ..self }
    }

    /// Returns the key that the export has in the store when the host `exporter` exports it.
    pub fn key(&self, exporter: &str) -> ResourceKey {
        ResourceKey {
            exporter: exporter.to_owned(),
            recipient: self.to.clone(),
            kind: self.kind.clone(),
            name: self.name.clone(),
        }
    }
}

/// A filter of resources. A part that is `None` matches all.
///
/// ```
/// use trueup_world::{Export, Filter};
///
/// let key = Export::new("route", "pods", "").key("a");
/// assert!(Filter::all().matches(&key));
/// assert!(Filter::kind("route").matches(&key));
/// assert!(!Filter::kind("address").matches(&key));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// The kind to match, such as `route`.
    pub kind: Option<String>,
    /// The exact bytes of the name to match.
    pub name: Option<Vec<u8>>,
    /// The name of the exporting host to match.
    pub exporter: Option<String>,
}

impl Filter {
    /// Returns the filter that matches all resources.
    pub fn all() -> Filter {
        Filter::default()
    }

    /// Returns the filter that matches all names and exporters of one kind.
    pub fn kind(kind: impl Into<String>) -> Filter {
        let kind = Some(kind.into());
        Filter { kind, ..Filter::default() }
    }

    /// Returns true if each stated part equals the key's.
    pub fn matches(&self, key: &ResourceKey) -> bool {
        self.kind.as_ref().is_none_or(|it| *it == key.kind)
            && self.name.as_ref().is_none_or(|it| *it == key.name)
            && self.exporter.as_ref().is_none_or(|it| *it == key.exporter)
    }
}

/// The collected resources, at one revision.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Collected {
    /// The store's revision of all this.
    pub revision: Revision,
    /// The resources that match a filter.
    pub resources: BTreeMap<ResourceKey, Arc<Entry>>,
    /// The hosts that have a session and have not declared all of their exports with its lease.
    /// Their missing resources may still come. Includes hosts whose session has no lease.
    pub incomplete: BTreeSet<String>,
    /// The errors of malformed resources. They are another host's fault, and affect nothing else.
    pub malformed: Vec<Error>,
}

impl World {
    /// Returns the resources for this host and for any host that match one of the filters, at one
    /// revision. Without filters, nothing matches.
    pub fn collect(&self, filters: &[Filter]) -> Result<Collected, Error> {
        let (revision, entries) = self.read_all(&self.collected_prefixes())?;
        let mut collected = Collected { revision, ..Collected::default() };
        let (mut alive, mut marked) = (BTreeMap::new(), BTreeMap::new());
        let hosts = self.keys.hosts();
        for entry in entries {
            if entry.key.starts_with(&hosts) {
                match self.keys.parse_host(&entry.key) {
                    Ok((host, word, None)) if word == "session" => {
                        alive.insert(host, session_lease(&entry));
                    }
                    Ok((host, word, None)) if word == "generation" => {
                        marked.insert(host, entry.lease);
                    }
                    Ok(_) => {}
                    Err(error) => collected.malformed.push(error),
                }
                continue;
            }
            match self.keys.parse_resource(&entry.key) {
                Ok(key) if filters.iter().any(|it| it.matches(&key)) => {
                    collected.resources.insert(key, Arc::new(entry));
                }
                Ok(_) => {}
                Err(error) => collected.malformed.push(error),
            }
        }
        collected.incomplete = (alive.into_iter())
            .filter(|(host, lease)| lease.is_none() || marked.get(host) != Some(lease))
            .map(|(host, _)| host)
            .collect();
        Ok(collected)
    }

    /// Watches the resources for this host and for any host that match one of the filters.
    ///
    /// # Errors
    ///
    /// Fails if the operating system refuses a thread. Any other error is an event.
    pub fn watch_resources(
        &self,
        filters: &[Filter],
        config: WatchConfig,
    ) -> Result<Watch<ResourceKey, Arc<Entry>>, Error> {
        let (keys, filters) = (self.keys.clone(), filters.to_vec());
        let [any, own, _] = self.collected_prefixes();
        Watch::new(self, [any, own], config, move |key, entry| {
            match (keys.parse_resource(key), entry) {
                (Err(error), _) => Decoded::Malformed(None, error),
                (Ok(id), _) if !filters.iter().any(|it| it.matches(&id)) => Decoded::Other,
                (Ok(id), Some(entry)) => Decoded::Value(id, Arc::clone(entry)),
                (Ok(id), None) => Decoded::Gone(id),
            }
        })
    }

    /// Returns the prefixes of the keys that this host can collect.
    pub(crate) fn collected_prefixes(&self) -> [Vec<u8>; 3] {
        let own = Hosts::One(self.host().to_owned());
        [self.keys.resources_for(&Hosts::Any), self.keys.resources_for(&own), self.keys.hosts()]
    }

    /// Returns this host's exports, at one revision.
    pub fn exports(&self) -> Result<BTreeMap<ResourceKey, Arc<Entry>>, Error> {
        let entries = self.own_entries(&BTreeSet::new())?.1;
        let own = (entries.into_iter())
            .filter_map(|it| Some((self.keys.parse_resource(&it.key).ok()?, Arc::new(it))));
        Ok(own.collect())
    }

    /// Reads one export of this host. If the recipient is not granted, there is none.
    pub(crate) fn own_entry(&self, key: &ResourceKey) -> Result<Option<Entry>, Error> {
        match self.entry(&self.keys.resource(key)) {
            Err(error) if error.kind() == ErrorKind::Denied && key.recipient != Hosts::Any => {
                Ok(None)
            }
            read => read,
        }
    }

    /// Exports without a session, for example from a command that ends. The export must outlive its
    /// exporter.
    ///
    /// # Errors
    ///
    /// [`Invalid`](ErrorKind::Invalid) if the export does not [persist](Export::persist), or if its
    /// key is too long. [`Denied`](ErrorKind::Denied) if the recipient is not granted. Also the
    /// store's errors.
    pub fn put_export(&self, export: &Export) -> Result<bool, Error> {
        if !export.persist {
            let message = "without a session an export has to outlive its exporter: let it persist";
            return Err(Error::new(ErrorKind::Invalid, message));
        }
        let key = export.key(self.host());
        key.check()?;
        if let Hosts::One(recipient) = &export.to {
            let record = self.keys.recipient(self.host(), recipient);
            self.update(&record, None, |_| Ok(Some(Vec::new())))?;
        }
        let encoded = self.keys.resource(&key);
        self.update(&encoded, None, |_| Ok(Some(export.data.clone())))
    }

    /// Deletes an export of this host without a session. It is no error if it is missing. A session
    /// that still declares it exports it again.
    ///
    /// # Errors
    ///
    /// [`Denied`](ErrorKind::Denied) for another host's key, and the store's errors.
    pub fn delete_export(&self, key: &ResourceKey) -> Result<bool, Error> {
        key.check_exporter(self.host())?;
        self.update(&self.keys.resource(key), None, |_| Ok(None))
    }

    /// Returns the entries of this host's exports, and its recorded recipients. `also` are further
    /// recipients that may have some.
    pub(crate) fn own_entries(
        &self,
        also: &BTreeSet<String>,
    ) -> Result<(BTreeSet<String>, Vec<Entry>), Error> {
        let mut attempt = 0;
        loop {
            attempt += 1;
            match self.own_entries_at_once(also) {
                Err(error) if error.kind() == ErrorKind::Compacted && attempt < ATTEMPTS => {}
                result => return result,
            }
        }
    }

    fn own_entries_at_once(
        &self,
        also: &BTreeSet<String>,
    ) -> Result<(BTreeSet<String>, Vec<Entry>), Error> {
        let (at, named) = self.store.read(&self.keys.recipients(self.host()), None)?;
        let hosts: BTreeSet<String> = (named.iter())
            .filter_map(|entry| self.keys.parse_recipient(self.host(), &entry.key))
            .collect();
        let of_any = self.keys.resources_of(&Hosts::Any, self.host());
        let (_, mut own) = self.store.read(&of_any, Some(at))?;
        for host in hosts.union(also) {
            let recipient = Hosts::One(host.clone());
            let prefix = self.keys.resources_of(&recipient, self.host());
            match self.store.read(&prefix, Some(at)) {
                Ok((_, entries)) => own.extend(entries),
                // If a recipient is not granted, or no longer, only the exports to it are affected.
                Err(error) if error.kind() == ErrorKind::Denied => {}
                Err(error) => return Err(error),
            }
        }
        Ok((hosts, own))
    }
}

/// Returns true if it is cheaper to read these exports one by one than all of the host's exports
/// together.
pub(crate) fn is_few(some: usize, all: usize) -> bool {
    some <= 4 + all / 1000
}

/// Returns the lease of a session. `None` if it has none, or is malformed.
pub(crate) fn session_lease(entry: &Entry) -> Option<LeaseId> {
    Mark::parse(entry).and(entry.lease)
}
