//! Devices and their names.

use std::collections::{BTreeMap, HashMap};
use std::fmt;

use crate::values::{Dev, IfName, LinkAddr};

/// The devices of a namespace and those that a plan will add, by name and by reference.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Devices {
    names: BTreeMap<Dev, IfName>,
    by_name: BTreeMap<IfName, Dev>,
    planned: u32,
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

    /// The devices that the plan creates.
    pub fn planned(&self) -> impl Iterator<Item = (Dev, &IfName)> {
        self.names
            .iter()
            .filter(|(dev, _)| dev.is_planned())
            .map(|(dev, name)| (*dev, name))
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
}

/// The ways in which a desired object can be wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Problem {
    /// No such interface, nor one that is declared.
    UnknownDevice(IfName),
    /// It has the key of another, at that position in the same list.
    Duplicate(usize),
    /// The kernel would refuse it, or store another thing than was meant.
    Invalid(&'static str),
    /// Links are stacked in a circle.
    Cycle,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Problem::UnknownDevice(name) => write!(
                f,
                "no interface `{name}`: declare it as a link, or name one that exists"
            ),
            Problem::Duplicate(first) => {
                write!(
                    f,
                    "the same key as item {first} of this kind: remove one of the two"
                )
            }
            Problem::Invalid(what) => f.write_str(what),
            Problem::Cycle => f.write_str("is stacked on itself through its parents"),
        }
    }
}

/// What authored objects are resolved with.
#[derive(Debug)]
pub(crate) struct Names<'a> {
    pub(crate) devices: &'a Devices,
    pub(crate) lengths: &'a AddressLengths,
    /// The protocol that desired objects bear.
    pub(crate) marker: u8,
    /// The kernel stores a protocol on rules, so that it is part of their key.
    pub(crate) rules_have_protocol: bool,
}

/// The lengths of the hardware addresses of the devices that are there, by index.
#[derive(Debug)]
pub(crate) struct AddressLengths(HashMap<u32, usize>);

impl AddressLengths {
    /// Collects the addresses of devices by their index.
    pub(crate) fn of(addresses: impl Iterator<Item = (u32, LinkAddr)>) -> AddressLengths {
        let length = |(index, address): (u32, LinkAddr)| (index, address.as_bytes().len());
        AddressLengths(addresses.map(length).collect())
    }

    /// Refuses an address of which the kernel would cut off the end, as it is longer than those of
    /// the device (`neigh_add` in net/core/neighbour.c, `do_setlink` in net/core/rtnetlink.c).
    pub(crate) fn check(&self, address: Option<LinkAddr>, dev: Option<Dev>) -> Result<(), Problem> {
        let longest = match dev.and_then(Dev::as_index) {
            // What is to be created is of Ethernet.
            None => Some(6),
            Some(index) => self.0.get(&index).copied(),
        };
        match (address, longest) {
            (Some(address), Some(longest)) if address.as_bytes().len() > longest => {
                let what = "the hardware address is longer than those of the device";
                Err(Problem::Invalid(what))
            }
            _ => Ok(()),
        }
    }
}
