//! The possible next events.

use trueup_reconcile::ErrorClass;

use super::super::model::{KIND_A, KIND_B};
use super::{Budget, Event, World};

impl World<'_> {
    /// Returns the events that may happen next.
    pub(in super::super) fn events(&self) -> Vec<Event> {
        let mut events = self.work();
        let Budget {
            events: drifts,
            failures,
            pauses,
            kills,
            replacements,
            departures,
            exchanges,
            recorded: _,
            announcing: _,
            ports: _,
            silences,
        } = self.budget;
        if failures > 0 {
            for (vertex, reverse, context) in self.model.running() {
                let fail = |class, effect| Event::Failure(vertex, reverse, class, effect);
                events.push(fail(ErrorClass::Busy, false));
                events.push(fail(ErrorClass::Invalid, false));
                let may_act = self.model.may_act(vertex);
                if context.apply && !reverse && may_act {
                    events.push(fail(ErrorClass::Unknown, true));
                }
            }
            for vertex in self.model.announcing() {
                events.push(Event::Failure(vertex, false, ErrorClass::Busy, false));
            }
            events.extend(self.writing.iter().map(|_| Event::Persisted(false)));
        }
        let present = (0..self.shape.vertices).filter(|&at| self.present[at]);
        if drifts > 0 {
            events.extend(present.clone().map(Event::Drift));
        }
        if pauses > 0 && !self.paused {
            events.push(Event::Pause);
        }
        if self.paused {
            events.push(Event::Resume);
        }
        if kills > 0 {
            events.extend([Event::Kill(false, false), Event::Kill(true, false)]);
            if self.writing.is_some() {
                events.extend([Event::Kill(false, true), Event::Kill(true, true)]);
            }
        }
        if silences > 0 {
            let runs = self.model.running().filter(|it| !it.1);
            events.extend(runs.map(|it| Event::Silence(it.0)));
        }
        if departures > 0 {
            let missing = (1..1u8 << self.shape.vertices)
                .map(|set| std::array::from_fn(|at| set & (1 << at) != 0));
            for left in missing {
                events.extend([false, true].map(|effects| Event::Depart(left, effects, false)));
                let written = self.writing.iter();
                events.extend(written.map(|_| Event::Depart(left, true, true)));
            }
        }
        if exchanges > 0 {
            events.extend(present.clone().map(Event::Exchange));
        }
        if replacements > 0 {
            events.extend(present.clone().map(Event::Change));
            events.extend(present.map(Event::Remove));
            let absent = (0..self.shape.vertices).filter(|&at| !self.present[at]);
            events.extend(absent.map(Event::Add));
        }
        events
    }

    /// Returns the next events if nothing comes from outside.
    pub(super) fn work(&self) -> Vec<Event> {
        let runs = self.model.running();
        let ends =
            |(at, reverse, _): (usize, bool, _)| match !reverse && self.model.must_announce(at) {
                true => vec![Event::Announce(at, KIND_A), Event::Announce(at, KIND_B)],
                false => vec![Event::Success(at, reverse)],
            };
        let mut work: Vec<_> = runs.flat_map(ends).collect();
        work.extend(self.writing.iter().map(|_| Event::Persisted(true)));
        work.extend(self.state.poll_timeout().map(|_| Event::Time));
        work
    }
}
