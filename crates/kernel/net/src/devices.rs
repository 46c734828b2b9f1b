//! Devices and their names.

use std::collections::BTreeMap;

use crate::values::{Dev, IfName};

/// The devices of a namespace, those that a plan will add, and missing ones that objects refer to,
/// by name and by reference.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Devices {
    names: BTreeMap<Dev, IfName>,
    by_name: BTreeMap<IfName, Dev>,
    planned: u32,
    missing: u32,
    macvlans: Macvlans,
}

/// The devices below macvlans. The kernel puts a macvlan on another one on the device below that
/// (`macvlan_common_newlink`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Macvlans {
    /// As declared, by name.
    pub(crate) declared: BTreeMap<IfName, IfName>,
    /// As observed; [`Dev::index`] of 0 is a device in another namespace.
    pub(crate) observed: BTreeMap<Dev, Dev>,
}

impl Devices {
    /// Devices and their names.
    pub fn of(known: impl IntoIterator<Item = (Dev, IfName)>) -> Devices {
        let mut devices = Devices::default();
        for (dev, name) in known {
            devices.names.insert(dev, name);
            devices.by_name.insert(name, dev);
        }
        devices
    }

    /// The name of a device.
    pub fn name(&self, dev: Dev) -> Option<&IfName> {
        self.names.get(&dev)
    }

    /// The device of a name: the planned one, where the plan creates the name anew.
    pub fn dev(&self, name: &IfName) -> Option<Dev> {
        self.by_name.get(name).copied()
    }

    /// The device of a name that an object refers to.
    pub(crate) fn find(&self, name: IfName) -> Result<Dev, Problem> {
        self.dev(&name).ok_or(Problem::UnknownDevice(name))
    }

    pub(crate) fn with_macvlans(self, macvlans: Macvlans) -> Devices {
        Devices { macvlans, ..self }
    }

    /// Returns the device that the kernel puts a macvlan on this one on.
    pub(crate) fn below_macvlans(&self, mut name: IfName) -> Option<Dev> {
        let Macvlans { declared, observed } = &self.macvlans;
        // What is declared may be a circle, which is found elsewhere.
        for _ in 0..=declared.len() {
            match declared.get(&name) {
                Some(below) => name = *below,
                None => break,
            }
        }
        let dev = self.dev(&name)?;
        Some(observed.get(&dev).copied().unwrap_or(dev))
    }

    /// The devices that the plan creates.
    pub fn planned(&self) -> impl Iterator<Item = (Dev, &IfName)> {
        self.names.iter().filter(|(dev, _)| dev.is_planned()).map(|(dev, name)| (*dev, name))
    }

    /// The devices that objects refer to, and that neither exist nor are created.
    pub fn missing(&self) -> impl Iterator<Item = (Dev, &IfName)> {
        let last = self.names.range(Dev::missing(0)..);
        last.map(|(dev, name)| (*dev, name))
    }

    /// The names of the devices that exist or are created.
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

    /// Adds a device that objects refer to, if none of that name exists or is created.
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

/// The ways in which a desired object can be wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Problem {
    /// No such interface, nor one that is declared.
    UnknownDevice(IfName),
    /// It has the key of another, at that position in the same list.
    Duplicate(usize),
    /// The kernel would refuse it, or store another thing than was meant.
    Invalid(&'static str),
    /// It is stacked in a circle, in this order with the links at these positions.
    Cycle(Vec<usize>),
    /// It is an end of a pair, and the link at that position is another one than its other end.
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

/// What authored objects are resolved with.
#[derive(Debug)]
pub(crate) struct Names<'a> {
    pub(crate) devices: &'a Devices,
    /// The protocol that desired objects bear.
    pub(crate) marker: u8,
    /// The kernel stores a protocol on rules, so that it is part of their key.
    pub(crate) rules_have_protocol: bool,
}
