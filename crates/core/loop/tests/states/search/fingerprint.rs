//! Fingerprints: two states with equal fingerprints make the same decisions from now on.

use super::model::Model;
use super::*;
use crate::state::backoff::Backoff;
use crate::state::budget::{Bucket, OP};

/// The numbers on which later decisions depend.
pub(super) trait Fingerprint {
    fn fingerprint(&self, now: u64) -> impl Iterator<Item = u8>;
}

impl Fingerprint for State {
    /// Returns everything on which later decisions depend, without the past and the counters.
    fn fingerprint(&self, now: u64) -> impl Iterator<Item = u8> {
        let rel = |it: Option<Instant>| relative(it, now);
        let running = match self.phase {
            Phase::InPass(run) => [
                1 + (at(now) - run.since).as_millis() as u8,
                run.extent as u8,
                run.ops.map_or(u8::MAX, |ops| ops as u8),
                u8::from(run.answers_request),
            ],
            _ => [0; 4],
        };
        let since = match self.phase {
            Phase::InPass(run) => run.since,
            _ => at(now),
        };
        let flags = [
            self.paused,
            self.stopping.is_some(),
            self.revision == self.stats.desired,
            self.replaced,
            self.schedule.is_rare,
            self.overrun.is_some(),
            self.overrun == Some(true),
        ];
        let due = &self.schedule;
        let dues = [
            due.immediate,
            due.interval,
            due.requested,
            due.follow_up,
            due.dirty,
            due.change,
            due.uncovered,
        ];
        let others = [self.resubscribe, self.cooldown, self.hints_wait_until, self.backoff.next()];
        let phase = match self.phase {
            Phase::New => 0,
            Phase::Subscribing => 1,
            Phase::Draining(cause) => 2 + cause as u8,
            Phase::Idle => 4,
            Phase::InPass(_) => 5,
            Phase::Ended => 6,
        };
        let drain = self.drain.map_or(0, |cause| 1 + cause as u8);
        let budget = self.budget.clone().map_or(0, |mut it| it.with(|it| level(it, at(now))));
        let mut all = vec![phase, drain, self.subscription as u8, budget];
        all.extend(running);
        all.extend(flags.map(u8::from));
        all.extend(dues.map(rel));
        all.extend(others.map(rel));
        all.extend(failures(&self.backoff, rel, since));
        all.into_iter()
    }
}

/// Returns a budget's level, in units of 1/[`REFILL`] of an op.
fn level(bucket: &mut Bucket, now: Instant) -> u8 {
    bucket.fill(now);
    (bucket.level * i128::from(REFILL) / OP) as u8
}

fn failures(backoff: &Backoff, rel: impl Fn(Option<Instant>) -> u8, since: Instant) -> Vec<u8> {
    let mut all = vec![u8::from(backoff.answers_hint), backoff.due.len() as u8];
    for (key, op) in &backoff.failed {
        all.extend([
            rel(Some(op.retry_at)),
            rel(Some(op.latest_retry_at)),
            rel(Some(op.due_at)),
            op.doublings.min(2) as u8,
        ]);
        let flags =
            [backoff.waiting.contains(key), op.is_freed, op.retry_at > since, op.due_at > since];
        all.extend(flags.map(u8::from));
    }
    all
}

impl Model {
    pub(super) fn fingerprint(&self, now: u64) -> impl Iterator<Item = u8> {
        let rel = |it: Option<u64>| it.map_or(u8::MAX, |it| it.saturating_sub(now) as u8);
        let since = self.running.map_or(now, |run| run.since);
        let flags = [
            self.paused,
            self.stopped,
            self.ended,
            self.immediate,
            self.replaced,
            self.changed,
            self.is_rare,
            self.lost.is_some(),
            self.lost == Some(true),
        ];
        let mut all: Vec<u8> = flags.map(u8::from).into();
        all.extend([
            rel(self.requested.map(|it| it + DEBOUNCE)),
            rel(self.dirty.map(|it| it + DEBOUNCE)),
            rel(self.follow_up),
            rel(self.timer),
            rel(self.uncovered),
            rel(Some(self.rest)),
            self.running.map_or(0, |run| 1 + u8::from(run.offered)),
            self.subscription.map_or(0, |it| 1 + it as u8),
            (self.tokens.0 + now - self.tokens.1).min(BURST * REFILL) as u8,
        ]);
        if let Some(failing) = self.failing {
            all.extend([
                rel(Some(failing.at)),
                rel(Some(failing.late)),
                rel(failing.put_off),
                failing.level.min(2) as u8,
            ]);
            all.extend(
                [
                    failing.changed,
                    failing.freed,
                    failing.at > since,
                    failing.put_off.is_some(),
                    self.running.is_some_and(|run| run.is_turn),
                ]
                .map(u8::from),
            );
        }
        all.into_iter()
    }
}

/// Returns the number of ticks from now; the past counts as now.
fn relative(it: Option<Instant>, now: u64) -> u8 {
    let Some(it) = it else { return u8::MAX };
    let left = it.saturating_duration_since(at(now)).as_nanos();
    assert_eq!(left % TICK.as_nanos(), 0, "all times of the setup are in ticks");
    (left / TICK.as_nanos()) as u8
}
