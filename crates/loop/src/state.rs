//! The loop's decisions, given the time. No clock, no sleep, no thread, no descriptor.
//!
//! All that can ask for a pass (the first one, the interval, a hint, a forced pass, a resume) comes down to one instant:
//! when the next pass is due. An input can only bring it nearer, so nothing that happens pushes a pass back.

use std::time::Instant;

use crate::Config;

/// What the driver is to do next. Each is answered by an input: see the variants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Subscribe for hints, then call [`State::handle_subscribed`], whatever came of it.
    Subscribe,
    /// Run a pass, then call [`State::handle_pass_over`], whatever came of it.
    Pass,
    /// End the loop. Nothing follows.
    End,
}

/// The loop's decisions as a state machine.
///
/// Call [`poll_action`](Self::poll_action) until it gives nothing, sleep until [`poll_timeout`](Self::poll_timeout) or the
/// next input, and begin again. After an input that changed `poll_timeout`, a driver that sleeps must be woken.
///
/// Passes are counted from 1 in the order of their start.
#[derive(Clone, Debug)]
pub struct State {
    config: Config,
    phase: Phase,
    paused: bool,
    stopping: bool,
    /// When the next pass is due. None: nothing asks for one.
    due: Option<Instant>,
    started: u64,
    over: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    New,
    Subscribing,
    Idle,
    Passing,
    Ended,
}

impl State {
    /// The state before anything was done: [`Action::Subscribe`] comes first.
    pub fn new(config: Config) -> Self {
        State {
            config,
            phase: Phase::New,
            paused: false,
            stopping: false,
            due: None,
            started: 0,
            over: 0,
        }
    }

    /// What to do now, if anything.
    pub fn poll_action(&mut self, now: Instant) -> Option<Action> {
        match self.phase {
            Phase::New | Phase::Idle if self.stopping => {
                self.phase = Phase::Ended;
                Some(Action::End)
            }
            Phase::New => {
                self.phase = Phase::Subscribing;
                Some(Action::Subscribe)
            }
            Phase::Idle if !self.paused && self.due.is_some_and(|due| due <= now) => {
                self.phase = Phase::Passing;
                self.started += 1;
                // Whatever asked for a pass until now is answered by this one, which looks from here on.
                self.due = None;
                Some(Action::Pass)
            }
            _ => None,
        }
    }

    /// When to call [`poll_action`](Self::poll_action) again if there is no input before; it will give something then, and
    /// nothing earlier. None while an action is carried out, while paused, and at the end.
    pub fn poll_timeout(&self) -> Option<Instant> {
        match self.phase {
            Phase::Idle if self.stopping || !self.paused => self.due,
            _ => None,
        }
    }

    /// Subscribing is over: the first pass is due at once.
    pub fn handle_subscribed(&mut self, now: Instant) {
        if self.phase == Phase::Subscribing {
            self.phase = Phase::Idle;
            self.due_by(Some(now));
        }
    }

    /// The running pass is over, with a report or an error: the interval begins. What was asked for during the pass
    /// leads to another one.
    pub fn handle_pass_over(&mut self, now: Instant) {
        if self.phase == Phase::Passing {
            self.phase = Phase::Idle;
            self.over = self.started;
            self.due_by(now.checked_add(self.config.interval()));
        }
    }

    /// A hint, or a new desired state: a pass is due one debounce from now, unless one is due sooner.
    pub fn handle_hint(&mut self, now: Instant) {
        self.due_by(now.checked_add(self.config.debounce()));
    }

    /// A pass is asked for at once. Returns the number of the first pass that starts after this request.
    pub fn handle_force(&mut self, now: Instant) -> u64 {
        self.due_by(Some(now));
        self.started + 1
    }

    /// No pass starts from now on. Returns the number of the last pass that started: once it
    /// [`is_over`](Self::is_over), nothing is written any more.
    ///
    /// Pausing what is paused changes nothing; one resume ends any number of pauses.
    pub fn handle_pause(&mut self) -> u64 {
        self.paused = true;
        self.started
    }

    /// Passes may start again, and one is due at once, since hints may have been missed. No effect unless paused.
    pub fn handle_resume(&mut self, now: Instant) {
        if self.paused {
            self.paused = false;
            self.due_by(Some(now));
        }
    }

    /// The loop ends: at once, or as soon as the running pass is over. Pausing does not hold that up.
    pub fn handle_stop(&mut self, now: Instant) {
        self.stopping = true;
        self.due_by(Some(now));
    }

    /// The driver is gone, for whatever reason: nothing follows.
    pub fn handle_gone(&mut self) {
        self.phase = Phase::Ended;
    }

    /// No pass starts until a resume.
    pub fn is_paused(&self) -> bool {
        self.paused
    }

    /// A stop was asked for, or the end has come: no further pass will start.
    pub fn is_stopping(&self) -> bool {
        self.stopping || self.is_ended()
    }

    /// The end has come.
    pub fn is_ended(&self) -> bool {
        self.phase == Phase::Ended
    }

    /// Whether pass number `pass` is over. Pass 0, before the first, always is.
    pub fn is_over(&self, pass: u64) -> bool {
        self.over >= pass
    }

    /// Whether pass number `pass` has started.
    pub fn is_started(&self, pass: u64) -> bool {
        self.started >= pass
    }

    /// Brings the next pass nearer, never further away.
    fn due_by(&mut self, at: Option<Instant>) {
        self.due = match (self.due, at) {
            (Some(due), Some(at)) => Some(due.min(at)),
            (due, at) => due.or(at),
        };
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const INTERVAL: Duration = Duration::from_secs(5);
    const DEBOUNCE: Duration = Duration::from_millis(100);

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    /// A state before its first pass, and the time.
    fn subscribed() -> (State, Instant) {
        let now = Instant::now();
        let mut state = State::new(Config::default());
        assert_eq!(state.poll_action(now), Some(Action::Subscribe));
        state.handle_subscribed(now);
        (state, now)
    }

    /// A state whose first pass ended just now.
    fn rested() -> (State, Instant) {
        let (mut state, now) = subscribed();
        pass(&mut state, now);
        (state, now)
    }

    /// Runs a pass that takes no time.
    fn pass(state: &mut State, now: Instant) {
        assert_eq!(state.poll_action(now), Some(Action::Pass));
        state.handle_pass_over(now);
    }

    #[test]
    fn subscribes_before_the_first_pass_which_comes_at_once() {
        let now = Instant::now();
        let mut state = State::new(Config::default());
        state.handle_force(now);
        assert_eq!(state.poll_action(now), Some(Action::Subscribe));
        assert_eq!(state.poll_action(now + INTERVAL), None, "still subscribing");
        state.handle_subscribed(now + ms(3));
        assert_eq!(state.poll_action(now + ms(3)), Some(Action::Pass));
    }

    #[test]
    fn the_interval_runs_from_the_end_of_a_pass() {
        let (mut state, now) = subscribed();
        assert_eq!(state.poll_action(now), Some(Action::Pass));
        assert_eq!(state.poll_timeout(), None, "no tick during a pass");
        let end = now + INTERVAL * 3;
        assert_eq!(state.poll_action(end), None);
        state.handle_pass_over(end);
        assert_eq!(state.poll_timeout(), Some(end + INTERVAL));
        assert_eq!(state.poll_action(end + INTERVAL - ms(1)), None);
        assert_eq!(state.poll_action(end + INTERVAL), Some(Action::Pass));
    }

    #[test]
    fn the_first_hint_arms_the_wakeup_and_later_ones_do_not_push_it_back() {
        let (mut state, now) = rested();
        state.handle_hint(now);
        state.handle_hint(now + ms(60));
        state.handle_hint(now + ms(99));
        assert_eq!(state.poll_timeout(), Some(now + DEBOUNCE));
        pass(&mut state, now + DEBOUNCE);
        assert_eq!(
            state.poll_timeout(),
            Some(now + DEBOUNCE + INTERVAL),
            "one pass for all"
        );
    }

    #[test]
    fn a_hint_does_not_put_off_a_tick_that_comes_sooner() {
        let (mut state, now) = rested();
        state.handle_hint(now + INTERVAL - ms(1));
        assert_eq!(state.poll_timeout(), Some(now + INTERVAL));
    }

    #[test]
    fn a_hint_during_a_pass_leads_to_a_later_pass() {
        let (mut state, now) = subscribed();
        assert_eq!(state.poll_action(now), Some(Action::Pass));
        state.handle_hint(now + ms(1));
        assert_eq!(state.poll_action(now + ms(500)), None, "one pass at a time");
        state.handle_pass_over(now + ms(20));
        assert_eq!(state.poll_timeout(), Some(now + ms(101)));
    }

    #[test]
    fn a_forced_pass_is_one_that_started_after_the_request() {
        let (mut state, now) = rested();
        assert_eq!(state.handle_force(now), 2);
        assert_eq!(state.poll_action(now), Some(Action::Pass));
        assert_eq!(
            state.handle_force(now + ms(1)),
            3,
            "the running one will not do"
        );
        assert_eq!(state.handle_force(now + ms(2)), 3, "requests share a pass");
        state.handle_pass_over(now + ms(3));
        assert!(state.is_over(2) && !state.is_over(3) && !state.is_started(3));
        assert_eq!(state.poll_action(now + ms(3)), Some(Action::Pass));
        assert!(state.is_started(3) && !state.is_over(3));
        state.handle_pass_over(now + ms(4));
        assert!(state.is_over(3));
        assert_eq!(state.poll_timeout(), Some(now + ms(4) + INTERVAL));
    }

    #[test]
    fn no_pass_starts_while_paused_and_resume_looks_at_once() {
        let (mut state, now) = rested();
        assert_eq!(state.handle_pause(), 1);
        assert!(state.is_over(1), "nothing to wait for");
        state.handle_hint(now);
        state.handle_force(now);
        assert_eq!(
            state.poll_timeout(),
            None,
            "paused, it does not even wake up"
        );
        assert_eq!(state.poll_action(now + INTERVAL * 2), None);
        state.handle_pause();
        state.handle_resume(now + INTERVAL * 2);
        assert_eq!(state.poll_action(now + INTERVAL * 2), Some(Action::Pass));
        state.handle_pass_over(now + INTERVAL * 2);
        assert_eq!(
            state.poll_timeout(),
            Some(now + INTERVAL * 3),
            "and only once"
        );
    }

    #[test]
    fn pause_names_the_running_pass() {
        let (mut state, now) = subscribed();
        assert_eq!(state.poll_action(now), Some(Action::Pass));
        assert_eq!(state.handle_pause(), 1);
        assert!(!state.is_over(1));
        state.handle_pass_over(now);
        assert!(state.is_over(1));
        assert_eq!(state.poll_action(now + INTERVAL * 2), None);
    }

    #[test]
    fn resuming_what_is_not_paused_is_no_hint() {
        let (mut state, now) = rested();
        state.handle_resume(now + ms(1));
        assert_eq!(state.poll_timeout(), Some(now + INTERVAL));
    }

    #[test]
    fn stop_ends_at_once_or_within_the_running_pass_even_if_paused() {
        let (mut idle, now) = rested();
        idle.handle_pause();
        idle.handle_stop(now);
        assert_eq!(
            idle.poll_timeout(),
            Some(now),
            "a sleeping driver learns of it"
        );
        assert_eq!(idle.poll_action(now), Some(Action::End));
        idle.handle_hint(now);
        assert_eq!(idle.poll_action(now + INTERVAL * 2), None);
        assert_eq!(idle.poll_timeout(), None);

        let (mut busy, now) = subscribed();
        assert_eq!(busy.poll_action(now), Some(Action::Pass));
        busy.handle_stop(now);
        assert!(busy.is_stopping() && !busy.is_ended());
        assert_eq!(busy.poll_action(now), None);
        busy.handle_pass_over(now);
        assert_eq!(busy.poll_action(now), Some(Action::End));

        let mut new = State::new(Config::default());
        new.handle_stop(now);
        assert_eq!(new.poll_action(now), Some(Action::End));
    }

    #[test]
    fn times_beyond_the_clock_mean_never() {
        let endless = Config::default()
            .with_interval(Duration::MAX)
            .with_debounce(Duration::ZERO);
        let now = Instant::now();
        let mut state = State::new(endless);
        assert_eq!(state.poll_action(now), Some(Action::Subscribe));
        state.handle_subscribed(now);
        pass(&mut state, now);
        assert_eq!(state.poll_timeout(), None);
        state.handle_hint(now);
        pass(&mut state, now);
        assert_eq!(
            Config::default().with_interval(Duration::ZERO).interval(),
            Config::MIN_INTERVAL
        );
    }
}
