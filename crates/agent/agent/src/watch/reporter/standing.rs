//! The state of the namespace's parts, each and together.

use std::collections::BTreeSet;

use trueup_loop::{Event, Events, Revision};
use trueup_reconcile::OpKey;

use super::{Inner, Reporter};
use crate::graph::named;
use crate::part::Part;
use crate::report::verdict_of;
use crate::source::AnySource;
use crate::status::{StatusChanges, StatusCounts, StatusEntry};
use crate::watch::world_status::WorldStatus;

/// The state of a part of the namespace.
pub(crate) struct Standing {
    /// The changes of statuses that are not reported yet.
    pub(crate) status_events: Events,
    /// The revision of the file in force.
    pub(crate) declared: Revision,
    /// The findings of the last pass that ran. `None` before the first.
    pub(crate) last: Option<Found>,
    /// Why the last pass could not run. `None` if it ran.
    pub(crate) failure: Option<String>,
}

/// The findings of a pass.
pub(crate) struct Found {
    /// The desired state that the pass was for.
    pub(crate) revision: Revision,
    pub(crate) is_converged: bool,
    pub(crate) errors: Vec<String>,
}

/// The state of all parts together, with files, commands and the world.
pub(crate) struct Overall {
    pub(crate) counts: StatusCounts,
    /// True if all parts, files and commands are converged. The world does not matter.
    pub(crate) is_converged: bool,
    /// Why they are not converged, as far as is known.
    pub(crate) why_not: Option<String>,
    /// True if each file and command has been tried.
    pub(crate) is_whole: bool,
}

impl Overall {
    /// Returns why they are not converged, or `Some(None)` if they are. `None` before this is
    /// known.
    pub(crate) fn verdict(&self) -> Option<Option<String>> {
        (self.is_whole || self.why_not.is_some()).then(|| self.why_not.clone())
    }
}

impl Standing {
    /// Returns the findings of the last pass, if it was for the file in force.
    fn found(&self) -> Option<&Found> {
        let last = self.last.as_ref();
        last.filter(|found| found.revision >= self.declared)
    }
}

impl Reporter {
    /// Adds a part of the namespace. Nothing is converged before its first pass.
    pub(crate) fn part_joined(&self, part: Part, source: &dyn AnySource) {
        let standing = Standing {
            status_events: source.events(),
            declared: Revision::default(),
            last: None,
            failure: None,
        };
        self.lock().parts.insert(part, standing);
    }

    /// Ignores findings for a part that predate this revision.
    pub(crate) fn part_declared(&self, part: Part, revision: Revision) {
        let mut inner = self.lock();
        // The file may say something new about them.
        inner.missing.clear();
        inner.noticed.clear();
        if let Some(standing) = inner.parts.get_mut(&part) {
            standing.declared = revision;
        }
    }

    /// Removes a part that has left. Its statuses will be reported as cleared.
    pub(crate) fn part_left(&self, part: Part, source: &dyn AnySource) {
        let mut inner = self.lock();
        inner.parts.remove(&part);
        let statuses = source.exceptions().into_iter().filter(|it| it.key != OpKey::SCOPE);
        inner.left.extend(statuses.map(|it| it.status));
    }
}

impl Inner {
    /// Returns the state of all parts together. `None` before each part had a pass for the file in
    /// force.
    pub(crate) fn overall(&self) -> Option<Overall> {
        let parts = self.parts.values();
        let failures: Vec<&String> = parts.clone().filter_map(|it| it.failure.as_ref()).collect();
        let found = parts.map(Standing::found).collect::<Option<Vec<&Found>>>()?;
        let counts = StatusCounts::of(&self.loops.exception_counts());
        let are_parts = failures.is_empty() && found.iter().all(|it| it.is_converged);
        let unconverged = (!are_parts).then(|| {
            let errors = found.iter().flat_map(|it| it.errors.iter().cloned());
            let failed = failures.iter().map(|why| format!("the pass could not run: {why}"));
            verdict_of(counts, errors.chain(failed))
        });
        let unknown = self.world.as_ref().and_then(WorldStatus::unknown);
        let failed = named(self.failed_vertices.keys().map(String::as_str), "failed");
        let is_whole = self.untried.as_ref().is_some_and(BTreeSet::is_empty);
        let is_converged = are_parts && failed.is_none() && is_whole;
        let why_not: Vec<String> = [unconverged, failed, unknown].into_iter().flatten().collect();
        Some(Overall {
            counts,
            is_converged,
            why_not: (!why_not.is_empty()).then(|| why_not.join("; ")),
            is_whole,
        })
    }

    /// Returns how the statuses of a part have changed since the last call. Includes the statuses
    /// of parts that have left.
    pub(crate) fn status_changes(&mut self, part: Part) -> StatusChanges {
        let (mut changed, mut cleared) = (Vec::new(), std::mem::take(&mut self.left));
        let found = self.parts.get_mut(&part).zip(self.loops.of(part));
        let Some((standing, source)) = found.filter(|_| part != Part::LINKS) else {
            return StatusChanges::new(Vec::new(), cleared);
        };
        while let Some(event) = standing.status_events.try_next() {
            match event {
                // A pass that cannot run is reported by itself.
                Event::Changed { key, .. } | Event::Cleared { key, .. } if key == OpKey::SCOPE => {}
                // If the object no longer has a status, another event follows.
                Event::Changed { key, .. } => {
                    changed.extend(source.status(key).map(StatusEntry::from));
                }
                Event::Cleared { status, .. } => cleared.push(status),
                // Some changes were not kept, so all current statuses take their place.
                _ => {
                    standing.status_events = source.events();
                    let all = self.loops.exceptions().into_iter();
                    return StatusChanges::snapshot(all.map(StatusEntry::from).collect());
                }
            }
        }
        StatusChanges::new(changed, cleared)
    }
}
