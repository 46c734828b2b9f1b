//! The state machine under a simulated clock, over random orders of events. A model receives the
//! same events, knows only the loop's promises, and checks the loop against them.

use std::time::{Duration, Instant};

use proptest::prelude::*;
use trueup_loop::{Action, Config, PassSummary, State, SubscriptionState};
use trueup_reconcile::{Drained, Extent};

const INTERVAL: Duration = Duration::from_secs(5);
const DEBOUNCE: Duration = Duration::from_millis(100);

#[derive(Clone, Copy, Debug)]
enum Event {
    Hint,
    /// A hint of the subscription.
    Heard,
    Lost,
    Desired,
    Change,
    Force,
    Pause,
    Resume,
    Stop,
    PassOver,
    /// Time passes, and the driver wakes up whenever the state asked for it.
    Wait(Duration),
}

/// Drives a state as a driver would, and checks the promises.
struct Simulation {
    state: State,
    base: Instant,
    now: Instant,
    ended: bool,
    starts: Vec<Instant>,
    wakeups: usize,
    // The model: the promised effects of the requests.
    paused: bool,
    stopped: bool,
    /// The first unanswered hint that calls for a full pass.
    hinted: Option<Instant>,
    /// The first unanswered hint of the subscription.
    doubtful: Option<Instant>,
    /// The first unanswered change.
    changed: Option<Instant>,
    /// The time since when a pass is due at once: the first, a forced one, or the one after a
    /// resume.
    at_once: Option<Instant>,
    /// The end of the last full pass.
    last_end: Option<Instant>,
    /// The end of the hints' wait.
    rest: Instant,
    running: Option<(Instant, Extent)>,
    forced: Vec<(u64, usize)>,
    // The counts of events that may cause a pass.
    hints: usize,
    changes: usize,
    forces: usize,
    resumes: usize,
}

impl Simulation {
    fn new() -> Self {
        let config =
            Config::default().with_interval(INTERVAL).with_debounce(DEBOUNCE).with_jitter(0);
        let base = Instant::now();
        let mut state = State::new(config);
        assert_eq!(state.poll_action(base), Some(Action::Subscribe));
        state.handle_subscribed(base, SubscriptionState::Pushed);
        let mut simulation = Simulation {
            state,
            base,
            now: base,
            ended: false,
            starts: Vec::new(),
            wakeups: 0,
            paused: false,
            stopped: false,
            hinted: None,
            doubtful: None,
            changed: None,
            at_once: Some(base),
            last_end: None,
            rest: base,
            running: None,
            forced: Vec::new(),
            hints: 0,
            changes: 0,
            forces: 0,
            resumes: 0,
        };
        simulation.drive();
        assert_eq!(simulation.starts, [base], "the first pass comes at once");
        simulation
    }

    fn run(events: &[Event]) {
        let mut simulation = Simulation::new();
        for &event in events {
            simulation.event(event);
        }
        simulation.finish();
    }

    fn event(&mut self, event: Event) {
        let now = self.now;
        match event {
            Event::Hint => {
                self.state.handle_hint(now);
                self.hinted.get_or_insert(now);
                self.hints += 1;
            }
            Event::Heard => {
                self.state.handle_notification(now, Drained::Hint);
                self.doubtful.get_or_insert(now);
                self.hints += 1;
            }
            Event::Lost => {
                self.state.handle_notification(now, Drained::Lost);
                self.hinted.get_or_insert(now);
                self.hints += 1;
            }
            Event::Desired => {
                self.state.handle_desired(now);
                self.hinted.get_or_insert(now);
                self.hints += 1;
            }
            Event::Change => {
                let before = self.state.stats(now).desired;
                assert!(self.state.handle_change(now) > before);
                self.changed.get_or_insert(now);
                self.changes += 1;
            }
            Event::Force => {
                let pass = self.state.handle_force(now);
                self.forced.push((pass, self.starts.len()));
                self.at_once.get_or_insert(now);
                self.forces += 1;
            }
            Event::Pause => {
                let last = self.state.handle_pause();
                assert_eq!(last, self.starts.len() as u64);
                assert_eq!(
                    self.state.is_done(last),
                    self.running.is_none(),
                    "pause waits for the running pass, and only for it"
                );
                self.paused = true;
            }
            Event::Resume => {
                self.state.handle_resume(now);
                if self.paused {
                    self.at_once.get_or_insert(now);
                    self.resumes += 1;
                }
                self.paused = false;
            }
            Event::Stop => {
                self.state.handle_stop(now);
                self.stopped = true;
            }
            Event::PassOver => {
                if let Some((since, extent)) = self.running.take() {
                    self.state.handle_pass_done(now, Some(&PassSummary::default()));
                    self.rest = now + (now - since);
                    if extent == Extent::Everything {
                        self.last_end = Some(now);
                    }
                }
            }
            Event::Wait(time) => return self.wait(time),
        }
        self.drive();
    }

    fn wait(&mut self, time: Duration) {
        let until = self.now + time;
        while let Some(wakeup) = self.state.poll_timeout().filter(|&at| at <= until) {
            assert!(wakeup >= self.now, "a driver that asks for nothing is not busy");
            let just_before = wakeup - Duration::from_nanos(1);
            if just_before >= self.now {
                assert_eq!(
                    self.state.poll_action(just_before),
                    None,
                    "nothing before the time it gave"
                );
            }
            self.now = wakeup;
            let before = (self.starts.len(), self.ended);
            self.wakeups += 1;
            self.drive();
            assert_ne!(before, (self.starts.len(), self.ended), "a wake-up is for something");
        }
        self.now = until;
        self.drive();
    }

    /// Carries out actions until there are none, then checks that no promise is overdue.
    fn drive(&mut self) {
        while let Some(action) = self.state.poll_action(self.now) {
            assert!(!self.ended, "nothing follows the end");
            assert!(self.running.is_none(), "one action at a time");
            match action {
                Action::Pass { extent, .. } => {
                    assert!(!self.paused && !self.stopped, "no pass while paused or stopped");
                    assert_eq!(self.called_for(), Some(extent), "no pass without a cause");
                    self.running = Some((self.now, extent));
                    self.starts.push(self.now);
                    (self.doubtful, self.changed) = (None, None);
                    if extent == Extent::Everything {
                        self.hinted = None;
                        self.at_once = None;
                    }
                }
                Action::End => {
                    assert!(self.stopped);
                    self.ended = true;
                }
                Action::Subscribe | Action::Drain => panic!("{action:?}"),
            }
        }
        if self.running.is_none() && !self.ended {
            assert!(!self.stopped, "stop ends as soon as no pass runs");
            assert!(self.paused || self.called_for().is_none(), "a pass is overdue");
        }
    }

    /// Returns the pass that the promises call for now; assumes that none runs.
    fn called_for(&self) -> Option<Extent> {
        let is_due = |first: Option<Instant>| {
            first.is_some_and(|first| (first + DEBOUNCE).max(self.rest) <= self.now)
        };
        let by_timer = self.last_end.is_some_and(|end| end + INTERVAL <= self.now);
        // A change does not wait, except for the rest if a full pass is requested too.
        let with_hint = self.changed.is_some() && self.hinted.is_some() && self.rest <= self.now;
        if self.at_once.is_some() || by_timer || is_due(self.hinted) || with_hint {
            Some(Extent::Everything)
        } else {
            let alone = self.changed.is_some() && self.hinted.is_none();
            (is_due(self.doubtful) || alone).then_some(Extent::Dirty)
        }
    }

    /// Lets all pending events happen, and checks the result.
    fn finish(&mut self) {
        self.event(Event::PassOver);
        if self.stopped {
            assert!(self.ended && self.state.is_ended(), "stop terminates");
            assert_eq!(self.state.poll_timeout(), None);
        } else {
            self.event(Event::Resume);
            for _ in 0..2 {
                self.event(Event::PassOver);
                self.wait(DEBOUNCE.max(self.rest.saturating_duration_since(self.now)));
            }
            self.event(Event::PassOver);
            assert_eq!(
                (self.hinted, self.doubtful, self.changed),
                (None, None, None),
                "every hint and every change was followed by a pass"
            );
            for &(pass, started_before) in &self.forced {
                assert!(pass as usize > started_before, "a forced pass starts after the request");
                assert!(self.state.is_done(pass), "every forced pass was run");
            }
        }
        let elapsed = self.now - self.base;
        let by_hint = self
            .hints
            // A full pass and a dirty pass may each come one debounce after their own first hint.
            .min(2 + 2 * (elapsed.as_nanos() / DEBOUNCE.as_nanos()) as usize);
        let by_timer = (elapsed.as_nanos() / INTERVAL.as_nanos()) as usize;
        let bound = 1 + by_timer + by_hint + self.changes + self.forces + self.resumes;
        assert!(
            self.starts.len() <= bound,
            "{} passes, at most {bound} have a cause",
            self.starts.len()
        );
        assert!(self.wakeups <= self.starts.len(), "a wake-up a pass, at most");
    }
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        3 => Just(Event::Hint),
        6 => Just(Event::Heard),
        1 => Just(Event::Lost),
        1 => Just(Event::Desired),
        3 => Just(Event::Change),
        2 => Just(Event::Force),
        2 => Just(Event::Pause),
        3 => Just(Event::Resume),
        1 => Just(Event::Stop),
        6 => Just(Event::PassOver),
        4 => (0u64..=250).prop_map(|ms| Event::Wait(Duration::from_millis(ms))),
        2 => (0u64..=12_000).prop_map(|ms| Event::Wait(Duration::from_millis(ms))),
    ]
}

proptest! {
    #[test]
    fn the_promises_hold_over_random_event_orders(events in prop::collection::vec(event(), 0..60)) {
        Simulation::run(&events);
    }
}

/// A pass waits for the first hint only. So a storm of hints causes one pass each debounce, not
/// later and not more often.
#[test]
fn a_storm_of_hints_makes_one_pass_a_debounce() {
    let mut simulation = Simulation::new();
    simulation.event(Event::PassOver);
    for _ in 0..1_000 {
        simulation.event(Event::Hint);
        simulation.event(Event::Wait(Duration::from_millis(1)));
        simulation.event(Event::PassOver);
    }
    // The first, then one each 100 ms: the hint at its end starts the next debounce.
    assert_eq!(simulation.starts.len(), 11);
    assert_eq!(simulation.starts[1] - simulation.base, DEBOUNCE);
}

/// A caller that streams changes sets the pace: each pass begins as soon as the last one ends.
#[test]
fn a_stream_of_changes_makes_one_pass_after_another_and_each_answers_all_before_it() {
    let mut simulation = Simulation::new();
    simulation.event(Event::PassOver);
    for at in 0..1_000 {
        simulation.event(Event::Change);
        simulation.event(Event::Wait(Duration::from_millis(1)));
        if at % 10 == 9 {
            simulation.event(Event::PassOver);
        }
    }
    // The first change causes a pass; the nine that came during each pass cause the next.
    assert_eq!(simulation.starts.len(), 1 + 1 + 100);
}
