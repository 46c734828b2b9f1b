//! What follows from a pass that is over.

use std::time::{Duration, Instant};

use trueup_reconcile::Extent;

use super::backoff::Over;
use super::due::nearer;
use super::{Cause, Converged, Hearing, Phase, State};
use crate::{Config, Passed};

/// The least rest between a pass that left something and the one that goes on with it.
pub(super) const REST: Duration = Duration::from_millis(10);

impl State {
    /// The running pass is over, with a report, or none if it could not run. What was asked for during the pass leads to another
    /// one.
    pub fn handle_pass_over(&mut self, now: Instant, passed: Option<&Passed>) {
        let Phase::Passing(running) = self.phase else {
            return;
        };
        let lasted = now.saturating_duration_since(running.since);
        self.phase = Phase::Idle;
        self.over = self.started;
        self.rest = now.checked_add(lasted);
        self.deaf = None;
        self.attend = (self.hearing == Hearing::Polled).then_some(Cause::PassOver);
        if running.extent == Extent::Everything {
            let jitter = self.config.jitter();
            let interval = self.random.spread(self.config.interval(), jitter);
            nearer(
                &mut self.due.interval,
                now,
                interval.max(Config::MIN_INTERVAL),
            );
        }
        self.stats.last_pass = Some(lasted);
        self.count(running.extent, passed);
        self.backoff.over(
            &Over {
                since: running.since,
                now,
                last_whole: self.last_whole,
                passed,
                whole: running.extent == Extent::Everything,
            },
            &self.config,
            &mut self.random,
        );
        let Some(passed) = passed else {
            if running.extent == Extent::Dirty {
                // What was doubtful still is, and the source may no longer know what that was.
                self.ask(now);
            }
            return;
        };
        if passed.converged {
            self.converged = Some(Converged {
                pass: self.over,
                revision: self.in_force,
                at: now,
            });
        }
        let tried = passed.tried();
        if let Some(budget) = &mut self.budget {
            budget.spend(now, tried);
        }
        // Where nothing comes of it, no more than half of the time is spent on it.
        let idle_rest = REST.max(lasted);
        if let Some(after) = passed.requeue_after {
            nearer(&mut self.due.again, now, after.max(idle_rest));
        }
        if passed.cut {
            let rest = if tried > 0 { REST } else { idle_rest };
            let left = passed.pending();
            let refilled = match &mut self.budget {
                Some(budget) if running.ops.is_some_and(|ops| ops <= tried) => {
                    budget.refilled(now, left)
                }
                _ => None,
            };
            let refill = refilled.map_or(Duration::ZERO, |at| at - now);
            nearer(&mut self.due.again, now, refill.max(rest));
        }
    }

    fn count(&mut self, extent: Extent, passed: Option<&Passed>) {
        match extent {
            Extent::Everything => self.stats.whole += 1,
            Extent::Dirty => self.stats.doubtful += 1,
        }
        let Some(passed) = passed else {
            self.stats.failed += 1;
            return;
        };
        self.stats.cut += u64::from(passed.cut);
        for (kind, ops) in &passed.ops {
            *self.stats.ops.entry(kind).or_default() += *ops;
        }
    }
}
