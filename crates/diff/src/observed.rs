//! What was observed.

use std::collections::BTreeMap;

use crate::kinds::{ForwardingEntry, Kinds, LinkStatus};
use crate::{kinds, per_kind};

per_kind! {
    /// What the kernel reported, in canonical form and keyed by interface index.
    ///
    /// - Links: every link of the namespace, as names resolve against them.
    /// - Routes: all that bear our marker; of foreign ones at least those on a desired key.
    /// - Nexthop objects: all that bear our marker; of foreign ones at least those with a number of
    ///   ours ([`crate::Nexthop::ids`]), groups that lead to one, and those that lead out of a link
    ///   that the plan touches.
    #[derive(Clone, Debug, Default, PartialEq)]
    #[non_exhaustive]
    pub struct Observed[Vec] {
        /// The status of the links, by index. One that is not here counts as running.
        pub link_status: BTreeMap<u32, LinkStatus>,
        /// Forwarding entries on links that the plan touches.
        pub forwarding: Vec<ForwardingEntry>,
        /// The kinds of which every object in question is here. Of any other kind nothing is
        /// deleted.
        pub complete: Kinds,
    }
}

macro_rules! with_each_kind {
    ($({
        $(#[$doc:meta])*
        $field:ident: $kind:ident { with: $with:ident $columns:tt, $($rest:tt)* }
    })*) => {
        setters! { impl Observed {
            $($with($field: impl Into<Vec<crate::$kind>>);)*
            with_link_status(link_status: impl Into<BTreeMap<u32, LinkStatus>>);
            with_forwarding(forwarding: impl Into<Vec<ForwardingEntry>>);
            with_complete(complete: Kinds);
        } }
    };
}

kinds!([with_each_kind]);
