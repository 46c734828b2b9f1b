//! A state machine and its model, driven together.

use super::model::{Model, Run};
use super::*;
use crate::PassSummary;

#[derive(Clone)]
pub(super) struct World {
    pub(super) setup: Setup,
    pub(super) state: State,
    pub(super) now: u64,
    pub(super) model: Model,
}

impl World {
    pub(super) fn new(setup: Setup) -> World {
        let ticks = |ticks: u64| TICK * ticks as u32;
        let mut config = Config::default()
            .with_interval(ticks(INTERVAL))
            .with_interval_factor(FACTOR as u32)
            .with_debounce(ticks(DEBOUNCE))
            .with_deadline(ticks(DEADLINE))
            .with_backoff(ticks(FIRST), ticks(LAST))
            .with_jitter(0);
        if setup.budget {
            let limit = 1_000 / (REFILL as u32 * TICK.as_millis() as u32);
            config = config.with_budget(
                NonZeroU32::new(limit).unwrap(),
                NonZeroU32::new(BURST as u32).unwrap(),
            );
        }
        let mut world = World {
            setup,
            state: State::new(config),
            now: 0,
            model: Model { tokens: (BURST * REFILL, 0), ..Model::default() },
        };
        world.drive();
        world
    }

    /// Returns the events that are possible now.
    pub(super) fn events(&self) -> Vec<Event> {
        let mut events = vec![Event::Stop, Event::Hint];
        match self.model.awaiting {
            Some(Action::Subscribe) => {
                events.extend(self.setup.subscribed.iter().map(|&it| Event::Subscribed(it)));
                return events;
            }
            Some(Action::Drain) => {
                let heard = [Drained::Nothing, Drained::Hint, Drained::Lost];
                events.extend(heard.map(|it| Event::Attended(Some(it))));
                events.push(Event::Attended(None));
                return events;
            }
            _ => {}
        }
        events.extend([Event::Desired, Event::Force, Event::Pause, Event::Resume]);
        if self.setup.changes {
            events.push(Event::Change);
        }
        if self.model.subscription == Some(SubscriptionState::Pushed) {
            events.push(Event::Heard);
        }
        if self.state.is_listening() {
            events.push(Event::Readable);
        }
        let Some(run) = self.model.running else {
            events.push(Event::Tick);
            return events;
        };
        if run.since + LONGEST > self.now {
            events.push(Event::Tick);
        }
        let results = [Result::Error, Result::Converged, Result::Again];
        events.extend(results.map(Event::Over));
        if self.setup.budget || self.setup.fails.is_none() {
            events.push(Event::Over(Result::Truncated));
        }
        if let Some(class) = self.setup.fails {
            if run.offered {
                events.push(Event::Over(Result::Op(Outcome::Applied)));
                events.push(Event::Over(Result::Op(Outcome::Failed(class))));
            }
            events.push(Event::Over(Result::Op(Outcome::Pending(()))));
        }
        events
    }

    pub(super) fn event(&mut self, event: Event) {
        let now = at(self.now);
        let Model { paused, .. } = self.model;
        match event {
            Event::Tick => return self.tick(),
            Event::Hint => {
                self.state.handle_hint(now);
                self.model.requested.get_or_insert(self.now);
            }
            Event::Heard => {
                self.state.handle_notification(now, Drained::Hint);
                self.model.dirty.get_or_insert(self.now);
            }
            Event::Readable => self.state.handle_readable(),
            Event::Desired => {
                self.state.handle_desired(now);
                self.model.requested.get_or_insert(self.now);
                self.model.replaced = true;
            }
            Event::Change => {
                self.state.handle_change(now);
                self.model.changed = true;
            }
            Event::Force => {
                let pass = self.state.handle_force(now);
                assert!(!self.state.is_started(pass), "one that starts after it");
                self.model.immediate = true;
            }
            Event::Pause => {
                let last = self.state.handle_pause();
                assert_eq!(self.state.is_done(last), self.model.running.is_none());
                self.model.paused = true;
            }
            Event::Resume => {
                self.state.handle_resume(now);
                self.model.paused = false;
                self.model.immediate |= paused;
            }
            Event::Stop => {
                self.state.handle_stop(now);
                self.model.stopped = true;
            }
            Event::Subscribed(subscription) => {
                self.state.handle_subscribed(now, subscription);
                self.model.awaiting = None;
                self.model.subscription = Some(subscription);
                self.model.immediate = true;
            }
            Event::Attended(heard) => self.attended(heard),
            Event::Over(result) => self.over(result),
        }
        self.drive();
    }

    fn tick(&mut self) {
        self.now += 1;
        let due = self.state.poll_timeout().is_some_and(|due| due <= at(self.now));
        let before = (self.state.phase, self.state.is_listening());
        self.drive();
        let after = (self.state.phase, self.state.is_listening());
        assert_eq!(due, before != after, "each wake-up has a reason, and none is missed");
    }

    fn attended(&mut self, heard: Option<Drained>) {
        self.state.handle_drained(at(self.now), heard);
        self.model.awaiting = None;
        match heard {
            Some(Drained::Nothing) => {}
            Some(Drained::Hint) => drop(self.model.dirty.get_or_insert(self.now)),
            Some(Drained::Lost) => {
                self.model.requested.get_or_insert(self.now);
                self.model.lost = Some(true);
            }
            None => {
                self.model.requested.get_or_insert(self.now);
                self.model.subscription = Some(SubscriptionState::Failed);
            }
        }
        if heard.is_some() {
            self.model.lost = self.model.lost.filter(|lost| *lost);
        }
    }

    fn over(&mut self, result: Result) {
        let run = self.model.running.take().unwrap();
        let lasted = self.now - run.since;
        let mut passed = PassSummary {
            converged: result == Result::Converged,
            truncated: result == Result::Truncated,
            coverage: self.setup.coverage,
            requeue_after: (result == Result::Again).then_some(Duration::ZERO),
            ..PassSummary::default()
        };
        let ops = passed.ops.entry("thing").or_default();
        match result {
            Result::Op(outcome) => {
                ops.count(outcome);
                if self.state.is_tracked(KEY) || matches!(outcome, Outcome::Failed(_)) {
                    passed.objects.insert(KEY, outcome);
                }
            }
            Result::Truncated => {
                (0..run.ops.unwrap_or(1)).for_each(|_| ops.count(Outcome::Applied));
                ops.count(Outcome::Pending(()));
            }
            _ => {}
        }
        let passed = (result != Result::Error).then_some(&passed);
        let tried = passed.map_or(0, PassSummary::tried);
        self.fill();
        self.model.tokens.0 =
            self.model.tokens.0.checked_sub(tried * REFILL).unwrap_or_else(|| {
                assert!(!self.setup.budget, "more ops than the burst and the limit allow");
                0
            });
        // Taking the outcomes beforehand makes no difference.
        let mut other = self.state.clone();
        other.handle_pass_done(at(self.now), passed);
        if let Some(passed) = passed {
            self.state.handle_outcomes(at(self.now), passed);
        }
        self.state.handle_pass_done(at(self.now), passed);
        assert!(self.state.fingerprint(self.now).eq(other.fingerprint(self.now)));
        self.model.rest = self.now + lasted;
        if result == Result::Error && run.extent == Extent::Dirty {
            self.model.requested.get_or_insert(self.now);
        }
        self.failing(&run, result);
        self.timer(&run, result);
        let after = match result {
            Result::Again => Some(lasted.max(1)),
            Result::Truncated => {
                let refill = REFILL.saturating_sub(self.model.tokens.0);
                let rest = if tried > 0 { 1 } else { lasted.max(1) };
                Some(rest.max(if self.setup.budget { refill } else { 0 }))
            }
            _ => None,
        };
        if let Some(after) = after {
            let by = self.now + after;
            self.model.follow_up = Some(self.model.follow_up.map_or(by, |at| at.min(by)));
        }
    }

    /// Carries out actions until one needs an answer or there is none, and checks that nothing is
    /// overdue.
    fn drive(&mut self) {
        for round in 0.. {
            assert!(round < 3, "actions without end at one moment");
            let Some(action) = self.state.poll_action(at(self.now)) else {
                break;
            };
            assert!(!self.model.ended, "nothing follows the end");
            assert!(self.model.running.is_none() && self.model.awaiting.is_none(), "one at a time");
            match action {
                Action::Subscribe => {
                    assert!(matches!(
                        self.model.subscription,
                        None | Some(SubscriptionState::Failed)
                    ));
                    assert!(!self.model.paused || self.model.subscription.is_none());
                    self.model.awaiting = Some(action);
                }
                Action::Drain => {
                    assert_eq!(self.model.subscription, Some(SubscriptionState::Polled));
                    self.model.awaiting = Some(action);
                }
                Action::Pass { extent, ops, .. } => self.begin(extent, ops),
                Action::End => {
                    assert!(self.model.stopped, "no end without a stop");
                    self.model.ended = true;
                }
            }
        }
        let model = &self.model;
        assert_eq!(model.ended, self.state.is_ended());
        if let Some(run) = model.running {
            let goes_on = self.now < run.since + DEADLINE && !model.paused && !model.stopped;
            assert_eq!(self.state.should_continue(at(self.now)), goes_on);
        }
        if model.running.is_none() && model.awaiting.is_none() && !model.ended {
            assert!(!model.stopped, "a stop ends it as soon as nothing runs");
            assert!(model.paused || self.called_for().is_none(), "a pass is overdue");
        }
    }

    fn begin(&mut self, extent: Extent, ops: Option<u64>) {
        assert!(!self.model.paused, "no pass while paused");
        assert!(!self.model.stopped, "no pass after a stop");
        assert_eq!(self.called_for(), Some(extent), "no pass without a cause");
        self.fill();
        assert_eq!(ops.is_some(), self.setup.budget);
        assert!(ops.is_none_or(|ops| ops * REFILL <= self.model.tokens.0), "more than there is");
        let model = &mut self.model;
        let changed = std::mem::take(&mut model.changed);
        model.uncovered = None;
        let mut answers_request = model.dirty.take().is_some() || changed;
        if extent == Extent::Everything {
            answers_request |= model.requested.take().is_some() | model.immediate;
            model.immediate = false;
            model.follow_up = None;
            model.timer = None;
            model.is_rare = false;
            model.lost = model.lost.map(|_| false);
        }
        let class = self.setup.fails;
        // A new desired state does not free an op that needs time.
        let is_timed = class == Some(ErrorClass::Busy);
        if std::mem::take(&mut model.replaced) && !is_timed {
            model.failing = None;
        }
        if let Some(failing) = &mut model.failing {
            failing.changed |= answers_request;
            failing.freed |= changed;
        }
        if changed {
            self.state.handle_changed_keys(Some(&[KEY]));
        }
        let freed = answers_request && class == Some(ErrorClass::Dependency)
            || model.failing.is_some_and(|failing| failing.freed);
        let offered = self.retry().is_none_or(|retry| retry <= self.now) && {
            self.model.failing.is_none() || self.retry().is_some()
        };
        let held = self.state.backoff(at(self.now), KEY);
        assert_eq!(held.is_none(), offered || freed, "offered at its distance, and not before");
        let turn = self.retry().map(|retry| match extent {
            Extent::Everything => retry,
            Extent::Dirty => (retry + DEBOUNCE).max(self.model.rest),
        });
        let is_turn = turn.is_some_and(|turn| turn <= self.now);
        let due = self.state.due();
        assert_eq!(!due.is_empty(), is_turn && extent == Extent::Dirty);
        self.model.running =
            Some(Run { since: self.now, extent, ops, offered: held.is_none(), is_turn });
    }
}
