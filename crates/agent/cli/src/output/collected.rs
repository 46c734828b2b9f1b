//! Other hosts' exports as routes: the accepted and the refused ones.

use std::fmt;

use serde::Serialize;
use trueup::net::Prefix;
use trueup::world::{Accepted, Origin, Overlap};

/// Another host's exported route, and this host's decision.
#[derive(Serialize)]
pub(crate) struct Collected {
    pub(crate) exporter: String,
    name: String,
    /// The store's revision of the export.
    revision: u64,
    /// The destination. `None` if it is not valid.
    dst: Option<Prefix>,
    /// Why the route is refused. `None` if it is taken.
    refused: Option<String>,
    /// Another host's prefix, and this host, if the route takes traffic of all or part of the
    /// prefix.
    part_of: Option<(Prefix, String)>,
}

impl Collected {
    /// Returns all routes, the accepted ones first.
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

    /// True if the destination is `dst` or a part of it.
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
