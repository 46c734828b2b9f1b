//! [`Probation`]: the suspected routes when the store is lost. A state machine. The caller passes
//! the time.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use trueup_net::RouteKey;

/// The time for which a new route is suspected. It is longer than the time until a dead connection
/// is noticed.
const SUSPECTED: Duration = Duration::from_secs(60);
/// The time for which suspected routes are withdrawn while the store does not answer.
const WITHDRAWN: Duration = Duration::from_secs(60);

/// The suspected routes when the store is lost: routes to its address that came right before.
#[derive(Debug, Default)]
pub(crate) struct Probation {
    /// The routes that contain an address of the store, with the times when they came.
    came: BTreeMap<RouteKey, Instant>,
    outage: Option<Outage>,
}

/// The time in which the store is not reachable.
#[derive(Debug)]
struct Outage {
    /// The time when suspected routes were withdrawn. `None` if none are.
    withdrawn: Option<Instant>,
}

/// A decision about suspected routes.
#[derive(Debug, PartialEq, Eq)]
pub enum Sentence {
    /// They are withdrawn, to find out if the store answers without them.
    Withdraw(BTreeSet<RouteKey>),
    /// The store answers without them. They are refused until they change.
    Confirm,
    /// The store does not answer without them either. They come back, and are not suspected again
    /// in this outage.
    Release,
}

impl Probation {
    /// Notes that a route has come or has changed.
    pub(crate) fn note(&mut self, key: RouteKey, now: Instant) {
        self.came.insert(key, now);
    }

    /// Decides about the suspected routes at `now`. `None` if nothing changes.
    pub(crate) fn decide(&mut self, is_cut_off: bool, now: Instant) -> Option<Sentence> {
        self.came.retain(|_, at| now.saturating_duration_since(*at) < SUSPECTED);
        match &mut self.outage {
            None if is_cut_off => {
                let suspected: BTreeSet<RouteKey> =
                    std::mem::take(&mut self.came).into_keys().collect();
                let is_any = !suspected.is_empty();
                self.outage = Some(Outage { withdrawn: is_any.then_some(now) });
                is_any.then_some(Sentence::Withdraw(suspected))
            }
            None => None,
            Some(outage) if !is_cut_off => {
                let was_withdrawn = outage.withdrawn.is_some();
                self.outage = None;
                was_withdrawn.then_some(Sentence::Confirm)
            }
            Some(outage) => {
                let since = outage.withdrawn?;
                let is_over = now.saturating_duration_since(since) >= WITHDRAWN;
                is_over.then(|| {
                    outage.withdrawn = None;
                    Sentence::Release
                })
            }
        }
    }

    /// True while suspected routes are withdrawn. A decision about them follows soon.
    pub(crate) fn is_waiting(&self) -> bool {
        let outage = self.outage.as_ref();
        outage.is_some_and(|outage| outage.withdrawn.is_some())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(number: u8) -> RouteKey {
        RouteKey::new(254, format!("10.{number}.0.0/16").parse().unwrap())
    }

    #[test]
    fn a_route_that_came_right_before_the_store_was_lost_is_withdrawn_first() {
        let (mut probation, begun) = (Probation::default(), Instant::now());
        let at = |seconds| begun + Duration::from_secs(seconds);
        probation.note(key(1), at(0));
        assert_eq!(probation.decide(false, at(50)), None);
        probation.note(key(2), at(50));
        // The first one is no longer suspected.
        let withdraw = Sentence::Withdraw([key(2)].into());
        assert_eq!(probation.decide(true, at(70)), Some(withdraw));
        assert_eq!(probation.decide(true, at(80)), None);
        assert!(probation.is_waiting());
        assert_eq!(probation.decide(false, at(81)), Some(Sentence::Confirm));
        assert!(!probation.is_waiting());
        assert_eq!(probation.decide(false, at(82)), None);
        // The next outage is another one.
        probation.note(key(3), at(90));
        let withdraw = Sentence::Withdraw([key(3)].into());
        assert_eq!(probation.decide(true, at(91)), Some(withdraw));
    }

    #[test]
    fn a_route_without_which_the_store_does_not_answer_either_comes_back_once() {
        let (mut probation, begun) = (Probation::default(), Instant::now());
        let at = |seconds| begun + Duration::from_secs(seconds);
        probation.note(key(1), at(0));
        assert!(probation.decide(true, at(1)).is_some());
        assert_eq!(probation.decide(true, at(60)), None);
        assert_eq!(probation.decide(true, at(61)), Some(Sentence::Release));
        // It has come back, and stays in this outage.
        probation.note(key(1), at(61));
        assert_eq!(probation.decide(true, at(62)), None);
        assert!(!probation.is_waiting());
        assert_eq!(probation.decide(false, at(63)), None);
    }
}
