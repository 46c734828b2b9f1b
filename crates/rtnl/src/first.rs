//! How a pass begins: what it reads before its first plan, and of how much.

use trueup_diff::Owned;
use trueup_observe::DirtySet;
use trueup_reconcile::Ledger;

use crate::Error;
use crate::known::Known;
use crate::look::Planned;
use crate::pass::Pass;
use crate::region::Region;

/// A dump by device is refused so where there is no such device.
const ENODEV: i32 = 19;

/// A pass that has its first plan.
pub(crate) struct First<'a> {
    pub(crate) pass: Pass<'a>,
    pub(crate) planned: Planned,
    pub(crate) owned: Owned,
    /// Who sits on the keys of the routes that it creates was not asked.
    pub(crate) skip_conflict_check: bool,
}

/// The first plan of a pass: of what was doubtful, or of the whole where its consequences, or the interfaces, ask for it.
pub(crate) fn first<'a>(
    mut pass: Pass<'a>,
    known: Option<&Known>,
    heard: &DirtySet,
    ledger: &mut dyn Ledger,
) -> Result<First<'a>, Error> {
    if let (Region::Part(_), Some(known)) = (&pass.region, known) {
        // What else is doubtful they may need, and that is made first.
        let alone = !heard.links && heard.addresses.is_empty() && heard.routes.is_empty();
        let tracker = known.tracker.clone().filter(|_| alone).map(|mut tracker| {
            heard
                .deleted_routes
                .iter()
                .for_each(|key| tracker.mark_absent(*key));
            tracker
        });
        if let Some(tracker) = tracker.filter(|tracker| tracker.dirty_keys().next().is_some()) {
            let links = pass.links()?;
            if known.has_links(&links.observed)
                && let Ok((planned, owned)) = pass.plan_from_tracker(&tracker, links)
                && !planned.plan.is_empty()
                && !pass.is_beyond(&planned.plan)
            {
                if heard.is_empty() {
                    // All that is in question is what these ops do.
                    pass.hear_instead_of_looking();
                }
                return Ok(First {
                    pass,
                    planned,
                    owned,
                    skip_conflict_check: true,
                });
            }
        }
        let snapshot = match pass.read() {
            // A device of the part is gone.
            Err(error) if error.errno() == Some(ENODEV) => None,
            read => Some(read?),
        };
        if let Some(snapshot) = snapshot
            && known.has_links(&snapshot.observed)
        {
            let recovered = pass.recover(&snapshot.observed);
            pass.record(ledger, &recovered);
            let planned = pass.planned(snapshot, true);
            if let Ok((planned, owned)) = planned
                && !pass.is_beyond(&planned.plan)
            {
                return Ok(First {
                    pass,
                    planned,
                    owned,
                    skip_conflict_check: true,
                });
            }
        }
        pass = pass.widened(ledger)?;
    }
    let snapshot = pass.read()?;
    let recovered = pass.recover(&snapshot.observed);
    pass.record(ledger, &recovered);
    let (planned, owned) = pass.planned(snapshot, false)?;
    Ok(First {
        pass,
        planned,
        owned,
        skip_conflict_check: false,
    })
}
