//! [`Change`]: a change of one object, as its messages are encoded from it.

use trueup_net::{Action, Dev, IfName};

use super::Resolve;

/// A change of one object.
#[derive(Clone, Copy)]
#[non_exhaustive]
pub struct Change<'a, T> {
    /// The change: create, update or delete.
    pub action: Action,
    /// The desired object; of a delete the observed one.
    pub object: &'a T,
    /// The observed object, of an update.
    pub was: Option<&'a T>,
    /// The kernel stores no protocol on objects of the kind, so none is sent.
    pub is_unmarked: bool,
    /// The interface indexes.
    pub indexes: DeviceIndexes<'a>,
}

impl<'a, T> Change<'a, T> {
    /// Makes a change of an object.
    #[inline]
    pub fn new(action: Action, object: &'a T, indexes: DeviceIndexes<'a>) -> Change<'a, T> {
        Change { action, object, was: None, is_unmarked: false, indexes }
    }

    /// Sets the observed object, of an update.
    #[inline]
    #[must_use]
    pub fn with_was(mut self, was: Option<&'a T>) -> Change<'a, T> {
        self.was = was;
        self
    }

    /// Sets whether the kernel stores no protocol on objects of the kind.
    #[inline]
    #[must_use]
    pub fn with_is_unmarked(mut self, is_unmarked: bool) -> Change<'a, T> {
        self.is_unmarked = is_unmarked;
        self
    }
}

/// The sources of interface indexes for an encoder.
#[derive(Clone, Copy)]
pub struct DeviceIndexes<'a> {
    /// Returns the index of a device that exists.
    pub resolve: Resolve<'a>,
    /// Returns the device of a name.
    pub by_name: &'a dyn Fn(&IfName) -> Option<Dev>,
    /// Returns the index that was chosen for a device that is to be created.
    pub chosen: &'a dyn Fn(Dev) -> Option<u32>,
}

/// A message of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Part {
    /// The whole change.
    Whole,
    /// The master of a port alone.
    Master,
    /// The attributes of a link's kind, where the kernel refuses them beside the others.
    KindAttributes,
    /// The creation of a route behind the routes of its key.
    Append,
    /// An IPv6 address as it was, but without the route to its subnet.
    WithoutPrefixRoute,
    /// An IPv4 address with another metric: with that it gets a route to its subnet.
    OtherMetric,
}

/// The meaning of a kernel's refusal for an object of a kind, where it is more than the errno's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RefusalCause {
    /// An equal object exists already, or the object to delete does not.
    AlreadyDone,
    /// Something that the object needs does not exist yet.
    Dependency,
    /// The object can never be created as it is.
    Invalid,
}
