//! The scope of a pass over everything that is managed.
//!
//! Of routes only those that bear the marker are read, filtered in the kernel: a host may hold a
//! million that are not ours. Foreign routes are read by the conflict check, and of those only the
//! ones in question are kept.

use trueup_diff::{Kind, Kinds};
use trueup_observe::ReadScope;

/// Which routes of ours an observation of everything keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RouteRows {
    /// All, for those who ask about any of them.
    All,
    /// Those that are not in sync with what is desired.
    OutOfSync,
}

/// All that is managed but routes.
pub(super) fn read_scope(managed: Kinds, marker: u8) -> ReadScope {
    ReadScope::default()
        .with_kinds(managed.without(Kind::Route))
        .with_protocol(marker)
}

/// The routes that bear the marker.
pub(super) fn route_scope(marker: u8) -> ReadScope {
    ReadScope::default()
        .with_kinds(Kinds::NONE.with(Kind::Route))
        .with_protocol(marker)
}
