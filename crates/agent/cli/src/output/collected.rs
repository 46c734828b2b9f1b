//! Routes of other hosts: which are made of their exports, and which are refused.

use std::fmt;

use serde::Serialize;
use trueup::net::Prefix;
use trueup::world::{Accepted, Origin, Overlap};

/// A route that another host exports.
#[derive(Serialize)]
pub(crate) struct Collected {
    pub(crate) exporter: String,
    name: String,
    /// The revision that made it.
    revision: u64,
    /// The destination, if it has a valid one.
    dst: Option<Prefix>,
    /// Why it is not taken.
    refused: Option<String>,
    /// The prefix of another host that it takes, or takes a part of, and that host.
    part_of: Option<(Prefix, String)>,
}

impl Collected {
    /// Returns all of them, those that are taken first.
    pub(crate) fn all(accepted: &Accepted) -> Vec<Collected> {
        let taken = accepted.routes.values().map(|(route, origin)| {
            let overlaps = &mut accepted.overlaps.iter();
            let inner = (route.dst, origin);
            let overlap = overlaps.find(|it| (it.inner.0, &it.inner.1) == inner);
            Collected::new(origin, Some(route.dst), None, overlap)
        });
        let mut all: Vec<_> = taken.collect();
        all.extend(
            accepted
                .refused
                .iter()
                .map(|it| Collected::new(&it.origin, it.dst, Some(it.reason.clone()), None)),
        );
        all
    }

    fn new(
        origin: &Origin,
        dst: Option<Prefix>,
        refused: Option<String>,
        overlap: Option<&Overlap>,
    ) -> Collected {
        Collected {
            exporter: origin.exporter.clone(),
            name: origin.name.clone(),
            revision: origin.created.0,
            dst,
            refused,
            part_of: overlap.map(|it| (it.outer.0, it.outer.1.exporter.clone())),
        }
    }

    /// True if it is to this destination, or to a part of that.
    pub(crate) fn concerns(&self, dst: Prefix) -> bool {
        self.dst == Some(dst) || self.part_of.as_ref().is_some_and(|(outer, _)| *outer == dst)
    }
}

impl fmt::Display for Collected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Collected { exporter, name, revision, dst, refused, part_of } = self;
        match dst {
            Some(dst) => write!(f, "{dst}")?,
            None => write!(f, "no valid destination")?,
        }
        write!(f, " exported by host {exporter} as `{name}`, revision {revision}: ")?;
        match (refused, part_of) {
            (Some(why), _) => write!(f, "refused, as {why}"),
            (None, None) => write!(f, "collected"),
            (None, Some((outer, host))) if Some(outer) == dst.as_ref() => write!(
                f,
                "collected; takes {outer} from host {host}, as the kernel prefers the lower metric"
            ),
            (None, Some((outer, host))) => write!(
                f,
                "collected; takes its part of {outer} from host {host}, as the kernel prefers the \
                 longer prefix"
            ),
        }
    }
}
