//! When two states are one: where they decide alike from now on.

use super::model::Model;
use super::*;

impl State {
    /// What decides from now on: with what is past, and counters, left out.
    pub(super) fn differs(&self, now: u64) -> impl Iterator<Item = u8> {
        let rel = |it: Option<Instant>| relative(it, now);
        let running = match self.phase {
            Phase::Passing(run) => [
                1 + (at(now) - run.since).as_millis() as u8,
                run.extent as u8,
                run.ops.map_or(u8::MAX, |ops| ops as u8),
                u8::from(run.answering),
            ],
            _ => [0; 4],
        };
        let since = match self.phase {
            Phase::Passing(run) => run.since,
            _ => at(now),
        };
        let flags = [
            self.paused,
            self.stopping.is_some(),
            self.in_force == self.stats.desired,
            self.replaced,
        ];
        let due = &self.due;
        let dues = [
            due.at_once,
            due.interval,
            due.asked,
            due.again,
            due.doubtful,
            due.changed,
        ];
        let others = [self.resubscribe, self.deaf, self.rest, self.backoff.next()];
        let phase = match self.phase {
            Phase::New => 0,
            Phase::Subscribing => 1,
            Phase::Attending(cause) => 2 + cause as u8,
            Phase::Idle => 4,
            Phase::Passing(_) => 5,
            Phase::Ended => 6,
        };
        let attend = self.attend.map_or(0, |cause| 1 + cause as u8);
        let budget = self
            .budget
            .clone()
            .map_or(0, |mut it| it.differs(at(now), REFILL));
        let mut all = vec![phase, attend, self.hearing as u8, budget];
        all.extend(running);
        all.extend(flags.map(u8::from));
        all.extend(dues.map(rel));
        all.extend(others.map(rel));
        all.extend(self.backoff.differs(rel, since, self.last_whole));
        all.into_iter()
    }
}

impl Model {
    pub(super) fn differs(&self, now: u64) -> impl Iterator<Item = u8> {
        let rel = |it: Option<u64>| it.map_or(u8::MAX, |it| it.saturating_sub(now) as u8);
        let since = self.running.map_or(now, |run| run.since);
        let flags = [
            self.paused,
            self.stopped,
            self.ended,
            self.at_once,
            self.replaced,
            self.changed,
        ];
        let mut all: Vec<u8> = flags.map(u8::from).into();
        all.extend([
            rel(self.asked.map(|it| it + DEBOUNCE)),
            rel(self.doubtful.map(|it| it + DEBOUNCE)),
            rel(self.again),
            rel(self.last_whole_end.map(|it| it + INTERVAL)),
            rel(Some(self.rest)),
            self.running.map_or(0, |run| 1 + u8::from(run.offered)),
            self.hearing.map_or(0, |it| 1 + it as u8),
            (self.tokens.0 + now - self.tokens.1).min(BURST * REFILL) as u8,
        ]);
        if let Some(failing) = self.failing {
            let began = self.last_whole_began;
            all.extend([
                rel(Some(failing.at)),
                rel(Some(failing.late)),
                failing.level.min(2) as u8,
            ]);
            all.extend(
                [
                    failing.changed,
                    failing.freed,
                    failing.at > since,
                    began.is_none_or(|began| failing.at > began),
                    began.is_none_or(|began| failing.late > began),
                ]
                .map(u8::from),
            );
        }
        all.into_iter()
    }
}

/// In ticks from now; what is past is now.
fn relative(it: Option<Instant>, now: u64) -> u8 {
    let Some(it) = it else { return u8::MAX };
    let left = it.saturating_duration_since(at(now)).as_nanos();
    assert_eq!(
        left % TICK.as_nanos(),
        0,
        "all times of the setup are in ticks"
    );
    (left / TICK.as_nanos()) as u8
}
