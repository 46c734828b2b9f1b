//! The scope of a pass over everything that is managed.
//!
//! Of routes only those that bear the marker are read, filtered in the kernel: a host may hold a
//! million that are not ours. Foreign routes are read by the conflict check, and of those only the
//! ones in question are kept. Where many routes are desired and the first ones that the kernel
//! dumps have to be replaced, the check needs a dump of all routes anyway: then that is the only
//! one. IPv4 routes are read whoever wrote them until it is known what is on our keys: another's
//! may be in front of ours there. From then on the subscription reports that.

use trueup_net::{Desired, Kind, Kinds};
use trueup_observe::ReadScope;

/// Which routes of ours an observation of everything keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RouteRows {
    /// All, for those who ask about any of them.
    All,
    /// Those that are not in sync with what is desired.
    OutOfSync,
}

/// With fewer desired routes the first part of a dump is too large a part of the whole to be read
/// beforehand.
const MIN_SAMPLED: usize = 1 << 14;

/// Returns true if the first routes that the kernel dumps tell what to expect of all.
pub(super) fn is_worth_sample(desired: &Desired) -> bool {
    let routes = desired.routes.as_ref();
    routes.is_some_and(|routes| routes.len() >= MIN_SAMPLED)
}

/// All that is managed but routes.
pub(super) fn read_scope(managed: Kinds, marker: u8) -> ReadScope {
    ReadScope::default().with_kinds(managed.without(Kind::Route)).with_protocol(marker)
}

/// The routes that bear the marker.
pub(super) fn route_scope(marker: u8) -> ReadScope {
    ReadScope::default().with_kinds(Kinds::NONE.with(Kind::Route)).with_protocol(marker)
}
