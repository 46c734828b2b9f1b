//! Passes over announced changes, compared with the whole. Whatever the other writer does between
//! them: once a pass reports that all is in place, a full pass has nothing to do either. If the
//! other writer is quiet, the passes end: none is announced by the next.

use std::thread;
use std::time::Duration;

use trueup_e2e::property;
use trueup_net::{Action, Desired, Kind, Object, Observed, Op};
use trueup_reconcile::{Drained, Extent, Hints, PassInput, PassLimits, Report as _, Source as _};
use trueup_rtnl::{MemoryLedger, Namespace, Options, Ownership, Rtnl};
use trueup_testkit::quiet_netns;

use crate::act::{self, Case};
use crate::actor::Actor;
use crate::oracle::lines;
use crate::ours::describe;
use crate::run::desired;

/// The number of passes that suffice after the other writer has acted.
const MANY: usize = 10;
/// The number of waits for the kernel's asynchronous work, and the length of each.
const PATIENCE: (usize, Duration) = (20, Duration::from_millis(25));

pub(crate) fn what_was_not_announced_of_needed_no_look() {
    property::run("doubtful", 16, act::case, |case| {
        quiet_netns();
        let mut run = Run::start(case);
        run.turns(case).map_err(|wrong| {
            format!("{wrong}\n\nwhat happened:\n{}", run.other_writer.journal.join("\n"))
        })
    });
}

struct Run {
    other_writer: Actor,
    source: Rtnl,
    ledger: MemoryLedger,
    options: Options,
    /// True if the last pass reported convergence.
    converged: bool,
}

impl Run {
    fn start(case: &Case) -> Run {
        let other_writer = Actor::settle();
        let mut options = Options::default().with_contention(u32::MAX, Duration::from_secs(60));
        if case.ledger {
            for kind in Kind::ALL {
                options = options.with_ownership(kind, Ownership::Ledger);
            }
        }
        let mut source = Rtnl::new();
        let subscribed = source.subscribe(&Namespace::current(), Hints::new(|| {}));
        assert!(subscribed.is_active(), "{subscribed:?}");
        Run { other_writer, source, ledger: MemoryLedger::default(), options, converged: false }
    }

    fn turns(&mut self, case: &Case) -> Result<(), String> {
        let desired = case.desired.each_ref().map(desired);
        self.other_writer.say("desired:");
        self.other_writer.journal.extend(lines(&desired[0]));
        self.pass(&desired[0], Extent::Everything)?;
        self.comes_to_rest(&desired[0])?;
        for turn in &case.turns {
            // One act at a time: the announcement of one must not cover another.
            for act in &turn.acts {
                self.other_writer.say("the other writer:");
                self.other_writer.renamed.clear();
                self.other_writer.act(act);
                self.comes_to_rest(&desired[0])?;
            }
        }
        Ok(())
    }

    /// Makes a pass; returns true if it wants another at once.
    fn pass(&mut self, desired: &Desired, extent: Extent) -> Result<bool, String> {
        let limits = PassLimits::default().with_extent(extent);
        let here = Namespace::current();
        let (ledger, options) = (&mut self.ledger, &self.options);
        let report = self
            .source
            .reconcile(PassInput::new(&here, desired, ledger, options).with_limits(limits))
            .map_err(|error| error.to_string())?;
        self.other_writer.say(format!("{extent:?}"));
        self.other_writer.journal.extend(describe(&report));
        self.converged = report.converged();
        Ok(report.requeue_after().is_some_and(|after| after.is_zero()))
    }

    /// Makes the passes of a driver, except those by its timer.
    fn comes_to_rest(&mut self, desired: &Desired) -> Result<(), String> {
        for _ in 0..MANY {
            let extent = match self.sees(desired)? {
                Drained::Nothing => return Ok(()),
                Drained::Hint => Extent::Dirty,
                Drained::Lost => Extent::Everything,
            };
            if self.pass(desired, extent)? {
                self.pass(desired, Extent::Everything)?;
            }
        }
        Err(format!("{MANY} passes, and each was announced"))
    }

    /// Drains the announcements. If there are none, and the last pass converged, checks that
    /// everything is in place.
    fn sees(&mut self, desired: &Desired) -> Result<Drained, String> {
        let here = Namespace::current();
        let mut wrong = Vec::new();
        for _ in 0..PATIENCE.0 {
            let announced = self.source.drain().map_err(|error| error.to_string())?;
            if announced != Drained::Nothing || !self.converged {
                return Ok(announced);
            }
            // A new source, without a memory.
            let (plan, seen) = Rtnl::new()
                .plan(&here, desired, &self.ledger, &self.options)
                .map_err(|error| error.to_string())?;
            let ops = plan.ops.iter();
            let ops = ops.filter(|op| !is_silent(op, &seen.observed));
            if ops.clone().next().is_none() && seen.is_complete() {
                return Ok(Drained::Nothing);
            }
            let devices = &plan.devices;
            let ops = ops.map(|op| op.command(devices));
            wrong = ops.chain(seen.incomplete.iter().map(|doubt| format!("{doubt:?}"))).collect();
            // The kernel may be about to announce something.
            thread::sleep(PATIENCE.1);
        }
        Err(format!("nothing was announced, but there is to do:\n{}", wrong.join("\n")))
    }
}

/// Returns true if an op restores an unannounced change, so that only the timer finds it. These are
/// neighbour proxies (`pneigh_delete` in net/core/neighbour.c), a neighbour of which only the
/// protocol changed (`__neigh_update`), and a setting of a link that is down (`netdev_state_change`
/// in net/core/dev.c).
fn is_silent(op: &Op, observed: &Observed) -> bool {
    match (&op.object, op.action) {
        (Object::Neighbour(neighbour), action) => neighbour.proxy || action == Action::Delete,
        (Object::Link(link), Action::Update) => {
            let mut links = observed.links.iter();
            let there = links.find(|there| there.name == link.name);
            there.is_some_and(|there| there.up == Some(false))
        }
        _ => false,
    }
}
