//! [`DumpQuery`]: a dump of objects of one kind, and how to find out whether it is complete.

use trueup_net::Family;

use super::EncodeError;

/// A dump of objects of one kind.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DumpQuery {
    /// The request, one netlink message.
    pub request: Vec<u8>,
    /// The only table whose routes are wanted. A kernel without strict checking dumps all tables.
    pub table: Option<u32>,
    /// The way to find out whether the dump is complete.
    pub consistency: Consistency,
}

impl DumpQuery {
    /// Makes a query from the encoder of its request, which is small and of a fixed size. Sending a
    /// request that could not be encoded is an error.
    pub(crate) fn new(
        consistency: Consistency,
        encode: impl FnOnce(&mut Vec<u8>) -> Result<(), EncodeError>,
    ) -> DumpQuery {
        let mut request = Vec::new();
        if encode(&mut request).is_err() {
            request.clear();
        }
        DumpQuery { request, table: None, consistency }
    }
}

/// The way to find out whether a dump is complete. The kernel keeps a cursor between the parts of a
/// dump; a change before the cursor moves it, and rows are left out or repeated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Consistency {
    /// The kernel flags the dump as interrupted (`NLM_F_DUMP_INTR`).
    Flagged,
    /// The cursor moves with events of these message types about objects of the family.
    Events {
        /// The family.
        family: Family,
        /// The message types.
        moved_by: &'static [u16],
    },
    /// The cursor moves with changes of routes of the family, and with what removes routes without
    /// an event. A [`RowPosition`] tells which IPv4 routes move it.
    Routes {
        /// The family.
        family: Family,
        /// The only table that the kernel dumps.
        table: Option<u32>,
    },
    /// The kernel neither flags the dump nor announces changes: two dumps have to be equal.
    Unannounced,
}

/// The position of a row in a dump of IPv4 routes, which lists table after table, and in each the
/// destinations in ascending order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowPosition {
    /// The table.
    pub table: u32,
    /// The destination's address.
    pub dst: u32,
}
