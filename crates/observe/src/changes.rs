//! The changes that the kernel announces while one writes: whether an object was ever as it was written, and who made it what
//! it is, no dump can tell.

use trueup_diff::Object;
use trueup_netlink::codec::{Undecodable, address, link, neighbour, nexthop, route, rule};
use trueup_netlink::wire::Message;

/// An object as the kernel announced it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The object; a link without the name of its other end.
    pub object: Object,
    /// It was deleted.
    pub is_deleted: bool,
    /// It was announced after [`Observer::mark_writes_done`](crate::Observer::written).
    pub is_after_writes: bool,
}

/// What is kept of them.
#[derive(Debug)]
pub(crate) struct ChangeLog {
    changes: Vec<Change>,
    most: usize,
    is_after_writes: bool,
    is_whole: bool,
}

impl ChangeLog {
    pub(crate) fn new(most: usize) -> ChangeLog {
        ChangeLog {
            changes: Vec::new(),
            most,
            is_after_writes: false,
            is_whole: true,
        }
    }

    pub(crate) fn add(&mut self, message: &Message<'_>) {
        if !self.is_whole {
            return;
        }
        match decoded(message) {
            Ok(None) => {}
            Ok(Some((object, is_deleted))) if self.changes.len() < self.most => {
                self.changes.push(Change {
                    object,
                    is_deleted,
                    is_after_writes: self.is_after_writes,
                });
            }
            _ => self.lose(),
        }
    }

    /// Something was not heard, or is too much to keep.
    pub(crate) fn lose(&mut self) {
        self.is_whole = false;
        self.changes = Vec::new();
    }

    pub(crate) fn written(&mut self) {
        self.is_after_writes = true;
    }

    /// All that there was, if it was kept.
    pub(crate) fn end(self) -> Option<Vec<Change>> {
        self.is_whole.then_some(self.changes)
    }
}

fn decoded(message: &Message<'_>) -> Result<Option<(Object, bool)>, Undecodable> {
    let body = message.body;
    let kind = message.header.kind;
    let object = match kind {
        link::NEW | link::DELETE => link::decode(body)?.map(|decoded| decoded.link.into()),
        address::NEW | address::DELETE => address::decode(body)?.map(Object::from),
        neighbour::NEW | neighbour::DELETE => neighbour::decode(body)?.map(Object::from),
        route::NEW | route::DELETE => route::decode(body)?.map(Object::from),
        rule::NEW | rule::DELETE => rule::decode(body)?.map(Object::from),
        nexthop::NEW | nexthop::DELETE => nexthop::decode(body)?.map(Object::from),
        _ => None,
    };
    let is_deleted = matches!(
        kind,
        link::DELETE
            | address::DELETE
            | neighbour::DELETE
            | route::DELETE
            | rule::DELETE
            | nexthop::DELETE
    );
    Ok(object.map(|object| (object, is_deleted)))
}
