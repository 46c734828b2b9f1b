//! The keys of objects: `web`, `web/disk/root`, `web/disk/root/backup/nightly`,
//! `web/disk/root/snapshot`, `web/nic/lan`. An object follows its dependencies, as actions begin in
//! the order of keys.

use std::fmt;

/// The parsed key of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key<'a> {
    /// A guest, by its name.
    Guest(&'a str),
    /// A disk: the names of guest and disk.
    Disk(&'a str, &'a str),
    /// A network interface: the names of guest and interface.
    Nic(&'a str, &'a str),
    /// A backup: the names of guest, disk and backup.
    Backup(&'a str, &'a str, &'a str),
    /// The snapshot of a disk: the names of guest and disk.
    Snapshot(&'a str, &'a str),
}

impl<'a> Key<'a> {
    /// Parses a key; `None` if it has none of these forms.
    pub fn parse(key: &'a str) -> Option<Key<'a>> {
        Some(match key.split('/').collect::<Vec<_>>()[..] {
            [guest] => Key::Guest(guest),
            [guest, "disk", disk] => Key::Disk(guest, disk),
            [guest, "nic", nic] => Key::Nic(guest, nic),
            [guest, "disk", disk, "backup", name] => Key::Backup(guest, disk, name),
            [guest, "disk", disk, "snapshot"] => Key::Snapshot(guest, disk),
            _ => return None,
        })
    }

    /// Returns the guest's name.
    pub fn guest(&self) -> &'a str {
        match self {
            Key::Guest(guest) | Key::Disk(guest, _) | Key::Nic(guest, _) => guest,
            Key::Backup(guest, _, _) | Key::Snapshot(guest, _) => guest,
        }
    }
}

impl fmt::Display for Key<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Key::Guest(guest) => f.write_str(guest),
            Key::Disk(guest, disk) => write!(f, "{guest}/disk/{disk}"),
            Key::Nic(guest, nic) => write!(f, "{guest}/nic/{nic}"),
            Key::Backup(guest, disk, name) => write!(f, "{guest}/disk/{disk}/backup/{name}"),
            Key::Snapshot(guest, disk) => write!(f, "{guest}/disk/{disk}/snapshot"),
        }
    }
}
