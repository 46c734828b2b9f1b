//! Devices and their names.

use std::collections::BTreeMap;

use crate::values::{Dev, IfName};

/// The devices of a namespace, by name and by reference: existing ones, those to be created by a
/// plan, and missing ones that objects refer to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Devices {
    names: BTreeMap<Dev, IfName>,
    by_name: BTreeMap<IfName, Dev>,
    planned: u32,
    missing: u32,
    macvlans: Macvlans,
}

/// The devices below macvlans. The kernel puts a macvlan on a macvlan onto the device below the
/// latter (`macvlan_common_newlink`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Macvlans {
    /// The declared ones, by name.
    pub(crate) declared: BTreeMap<IfName, IfName>,
    /// The observed ones. A [`Dev::index`] of 0 is a device in another namespace.
    pub(crate) observed: BTreeMap<Dev, Dev>,
}

impl Devices {
    /// Makes the devices of a namespace from their references and names.
    pub fn of(known: impl IntoIterator<Item = (Dev, IfName)>) -> Devices {
        let mut devices = Devices::default();
        for (dev, name) in known {
            devices.names.insert(dev, name);
            devices.by_name.insert(name, dev);
        }
        devices
    }

    /// Returns a device's name, or `None` if the device is unknown.
    pub fn name(&self, dev: Dev) -> Option<&IfName> {
        self.names.get(&dev)
    }

    /// Returns the device with a name: the planned one, if the plan creates the name anew.
    pub fn dev(&self, name: &IfName) -> Option<Dev> {
        self.by_name.get(name).copied()
    }

    /// Finds the device that an object refers to by name.
    pub(crate) fn find(&self, name: IfName) -> Result<Dev, Problem> {
        self.dev(&name).ok_or(Problem::UnknownDevice(name))
    }

    pub(crate) fn with_macvlans(self, macvlans: Macvlans) -> Devices {
        Devices { macvlans, ..self }
    }

    /// Returns the device onto which the kernel puts a macvlan on `name`.
    pub(crate) fn below_macvlans(&self, mut name: IfName) -> Option<Dev> {
        let Macvlans { declared, observed } = &self.macvlans;
        // Declared macvlans may form a cycle; that is reported elsewhere.
        for _ in 0..=declared.len() {
            match declared.get(&name) {
                Some(below) => name = *below,
                None => break,
            }
        }
        let dev = self.dev(&name)?;
        Some(observed.get(&dev).copied().unwrap_or(dev))
    }

    /// Returns the devices that the plan creates.
    pub fn planned(&self) -> impl Iterator<Item = (Dev, &IfName)> {
        self.names.iter().filter(|(dev, _)| dev.is_planned()).map(|(dev, name)| (*dev, name))
    }

    /// Returns the devices to which objects refer, but which neither exist nor are created.
    pub fn missing(&self) -> impl Iterator<Item = (Dev, &IfName)> {
        let last = self.names.range(Dev::missing(0)..);
        last.map(|(dev, name)| (*dev, name))
    }

    /// Returns the names of the devices that exist or are created.
    pub fn present(&self) -> impl Iterator<Item = &IfName> {
        let known = self.by_name.iter().filter(|(_, dev)| !dev.is_missing());
        known.map(|(name, _)| name)
    }

    /// Removes a device from the name index.
    pub(crate) fn forget(&mut self, dev: Dev) {
        self.by_name.retain(|_, known| *known != dev);
    }

    /// Adds a device that the plan creates.
    pub(crate) fn plan(&mut self, name: IfName) {
        let dev = Dev::planned(self.planned);
        self.planned += 1;
        self.names.insert(dev, name);
        self.by_name.insert(name, dev);
    }

    /// Adds a device that objects refer to, if none with the name exists or is created.
    pub(crate) fn miss(&mut self, name: IfName) {
        if self.by_name.contains_key(&name) {
            return;
        }
        let dev = Dev::missing(self.missing);
        self.missing += 1;
        self.names.insert(dev, name);
        self.by_name.insert(name, dev);
    }
}

/// The errors of a desired object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Problem {
    /// The interface neither exists nor is declared.
    UnknownDevice(IfName),
    /// The object has the same key as the one at that position in the list.
    Duplicate(usize),
    /// The kernel would refuse the object, or store something else.
    Invalid(&'static str),
    /// The link is stacked in a cycle, through the links at these positions in order.
    Cycle(Vec<usize>),
    /// The link is an end of a pair, but the one at that position is not its other end.
    Pair(usize),
}

impl Problem {
    /// See [`DesiredError::describe`](crate::DesiredError::describe).
    pub(crate) fn describe(&self, place: impl Fn(usize) -> String) -> String {
        match self {
            Problem::UnknownDevice(name) => {
                format!("no interface `{name}`: declare it as a link, or name one that exists")
            }
            Problem::Duplicate(first) => {
                let first = place(*first);
                format!("the same key as {first}: remove one of the two")
            }
            Problem::Invalid(what) => (*what).to_owned(),
            Problem::Cycle(others) => {
                let others: Vec<_> = others.iter().map(|other| place(*other)).collect();
                let through = if others.is_empty() {
                    String::new()
                } else {
                    format!(" through {}", others.join(" and "))
                };
                format!("is stacked on itself{through}: a link cannot be above and below another")
            }
            Problem::Pair(other) => {
                let other = place(*other);
                format!(
                    "this end of a veth pair does not fit {other}: the ends name each other as \
                     `peer`, or one of them alone is declared"
                )
            }
        }
    }
}

/// The context in which authored objects are resolved.
#[derive(Debug)]
pub(crate) struct Names<'a> {
    pub(crate) devices: &'a Devices,
    /// The protocol of desired objects.
    pub(crate) marker: u8,
    /// True if the kernel stores a protocol on rules, which makes it part of their key.
    pub(crate) rules_have_protocol: bool,
}
