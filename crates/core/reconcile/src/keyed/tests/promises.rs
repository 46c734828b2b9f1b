//! Single promises, each on a small subsystem.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt::{self, Display};
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::panic::resume_unwind;
use std::rc::Rc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::model::{BY_KEY, BY_MARKER, BY_VALUE, pass_time, source};
use crate::keyed::report::digest;
use crate::keyed::{
    Backend, Change, Entries, Events, Keyed, Keys, Observation, Ownership, Repeated, Report,
};
use crate::{
    Claim, Condition, Drained, ErrorClass, EventCoverage, Extent, Hints, Ledger as _, MemoryLedger,
    Outcome, PassInput, PassLimits, Pending, Report as _, Source as _, Subscribed,
};

/// A subsystem whose faults a test sets.
#[derive(Default)]
struct Texts<const O: u8> {
    texts: BTreeMap<u32, String>,
    /// It stores upper case.
    is_loud: bool,
    /// Keys whose change panics.
    panics: BTreeSet<u32>,
    /// Keys whose change is refused.
    refuses: BTreeSet<u32>,
    events: BTreeSet<u32>,
    /// The error of the next drain.
    ends: Option<io::Error>,
    /// Each drain fails.
    is_deaf: bool,
    /// Each subscription fails.
    is_refusing: bool,
    subscriptions: usize,
    /// The events' descriptor.
    bell: Option<OwnedFd>,
    /// The keys of each observation.
    asked: Vec<usize>,
    changes: Vec<(&'static str, u32)>,
    /// It makes so many changes at once, and forgets the others' results.
    results: Option<usize>,
    /// Another writer makes these during the first change.
    theirs: BTreeMap<u32, String>,
}

impl<const O: u8> Backend for Texts<O> {
    type Scope = ();
    type Key = u32;
    type Value = String;
    type Error = io::Error;

    const KIND: &'static str = "text";
    const OWNERSHIP: Ownership = match O {
        BY_VALUE => Ownership::Value,
        BY_KEY => Ownership::Key,
        _ => Ownership::Marker,
    };

    fn observe(&mut self, (): &(), keys: Keys<'_, u32>) -> io::Result<Observation<u32, String>> {
        self.asked.push(keys.iter().count());
        let found = keys.iter().filter_map(|key| Some((*key, self.texts.get(key)?.clone())));
        let others = self.texts.iter().filter(|_| keys.is_everything());
        Ok(others.map(|(key, text)| (*key, text.clone())).chain(found).collect())
    }

    fn has_marker(&self, _: &u32, text: &String) -> bool {
        !text.starts_with("foreign")
    }

    fn apply(&mut self, (): &(), change: &Change<u32, String>) -> io::Result<()> {
        let key = *change.key();
        self.changes.push((change.action(), key));
        self.texts.append(&mut self.theirs);
        if self.panics.contains(&key) {
            resume_unwind(Box::new("a bug"));
        }
        if self.refuses.contains(&key) {
            return Err(io::Error::from_raw_os_error(rustix::io::Errno::NOSPC.raw_os_error()));
        }
        match change.to() {
            None => drop(self.texts.remove(&key)),
            Some(text) if self.is_loud => drop(self.texts.insert(key, text.to_uppercase())),
            Some(text) => drop(self.texts.insert(key, text.clone())),
        }
        Ok(())
    }

    fn apply_all(
        &mut self,
        (): &(),
        changes: &[Change<u32, String>],
        done: &mut dyn FnMut(io::Result<()>) -> bool,
    ) {
        for (at, change) in changes.iter().enumerate() {
            let made = self.apply(&(), change);
            if self.results.is_none_or(|results| at < results) && !done(made) {
                break;
            }
        }
    }

    fn classify(error: &io::Error) -> ErrorClass {
        error.kind().into()
    }

    fn drain(&mut self) -> io::Result<Events<u32>> {
        match self.ends.take() {
            None if self.is_deaf => Err(io::Error::other("no events")),
            Some(error) => Err(error),
            None => Ok(Events::Keys(std::mem::take(&mut self.events))),
        }
    }

    fn subscribe(&mut self, (): &(), _: Hints) -> Subscribed<(), io::Error> {
        if self.is_refusing {
            return Subscribed::Failed(io::Error::other("no events"));
        }
        self.subscriptions += 1;
        Subscribed::Active(())
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.bell.as_ref().map(|bell| bell.as_fd())
    }

    fn reports_every_change(&self) -> bool {
        true
    }
}

fn declared(texts: &[(u32, &str)]) -> Entries<u32, String> {
    Entries::from_pairs(texts.iter().map(|(key, text)| (*key, (*text).to_owned()))).unwrap()
}

fn new<const O: u8>() -> (Keyed<Texts<O>>, MemoryLedger) {
    (source(Texts::default()), MemoryLedger::default())
}

fn pass<const O: u8>(
    source: &mut Keyed<Texts<O>>,
    ledger: &mut MemoryLedger,
    desired: &Entries<u32, String>,
    limits: PassLimits<'_>,
) -> Report<u32, String> {
    let input = PassInput::new(&(), desired, ledger, &()).with_limits(limits);
    source.reconcile(input).unwrap()
}

fn full() -> PassLimits<'static> {
    PassLimits::default()
}

fn dirty() -> PassLimits<'static> {
    full().with_extent(Extent::Dirty)
}

fn condition(report: &Report<u32, String>, key: u32) -> Option<Condition> {
    let mut found = None;
    report.statuses(&mut |at, status| {
        if at == Keyed::<Texts<BY_VALUE>>::op_key(&key) {
            found = status.map(|status| status.condition.clone());
        }
    });
    found
}

#[test]
fn one_change_among_100_000_reads_one_key() {
    let (mut source, mut ledger) = new::<BY_VALUE>();
    let pairs = (0..100_000).map(|key| (key, "one".to_owned()));
    let mut desired = Entries::from_pairs(pairs).unwrap();
    assert!(pass(&mut source, &mut ledger, &desired, full()).converged());
    assert!(pass(&mut source, &mut ledger, &desired, dirty()).converged());
    source.backend.asked.clear();
    assert_eq!(source.changed_keys(&desired, &()), None);
    desired.insert(7, "two".to_owned());
    let report = pass(&mut source, &mut ledger, &desired, dirty());
    assert!(report.converged());
    assert_eq!(report.applied().count(), 1);
    // Before the change, and after it.
    assert_eq!(source.backend.asked, [1, 1]);
    assert_eq!(source.changed_keys(&desired, &()).unwrap(), [Keyed::<Texts<0>>::op_key(&7)]);
    // Another writer takes one away.
    source.backend.texts.remove(&9);
    source.backend.events.insert(9);
    assert!(pass(&mut source, &mut ledger, &desired, dirty()).converged());
    assert_eq!(source.backend.asked, [1, 1, 1, 1]);
    // Another desired state, of which nothing is known.
    let other = Entries::from_pairs(desired.iter().map(|(key, text)| (*key, text.clone())));
    assert!(pass(&mut source, &mut ledger, &other.unwrap(), dirty()).converged());
    assert_eq!(source.backend.asked.last(), Some(&100_000));
}

#[test]
fn more_changes_than_are_remembered_are_found_by_reading_everything() {
    let (mut source, mut ledger) = new::<BY_VALUE>();
    let mut desired = declared(&[]);
    assert!(pass(&mut source, &mut ledger, &desired, full()).converged());
    for key in 0..5_000 {
        desired.insert(key, "one".to_owned());
    }
    let report = pass(&mut source, &mut ledger, &desired, dirty());
    assert_eq!((report.applied().count(), report.converged()), (5_000, true));
}

fn stored_otherwise<const O: u8>() {
    let (mut source, mut ledger) = new::<O>();
    source.backend.is_loud = true;
    let desired = declared(&[(1, "one")]);
    for round in 0..4 {
        let report = pass(&mut source, &mut ledger, &desired, full());
        assert!(!report.converged());
        let (_, failure) = report.failed().next().unwrap();
        assert_eq!(failure.class, ErrorClass::StoredOtherwise);
        let stored = Some("\"ONE\"".to_owned());
        let first = (round % 2 == 0).then_some(Condition::StoredOtherwise { stored });
        assert_eq!(condition(&report, 1), first);
        assert_eq!(source.backend.changes.len(), 1, "it was written again");
        if round == 1 {
            // Another process.
            source = super::model::source(std::mem::take(&mut source.backend));
            source.backend.is_loud = true;
        }
    }
    // The stored form is in place, and is ours if that can be known.
    assert!(pass(&mut source, &mut ledger, &declared(&[(1, "ONE")]), full()).converged());
    assert!(pass(&mut source, &mut ledger, &declared(&[]), full()).converged());
    assert_eq!(source.backend.texts.is_empty(), O != BY_VALUE);
    assert_eq!(ledger, MemoryLedger::default());
}

#[test]
fn what_is_stored_otherwise_is_written_once() {
    stored_otherwise::<BY_VALUE>();
    stored_otherwise::<BY_KEY>();
    stored_otherwise::<BY_MARKER>();
}

#[test]
fn what_is_stored_otherwise_is_tried_again_when_it_is_due() {
    let (mut source, mut ledger) = new::<BY_KEY>();
    source.backend.is_loud = true;
    let desired = declared(&[(1, "one")]);
    pass(&mut source, &mut ledger, &desired, full());
    source.backend.is_loud = false;
    let due = [Keyed::<Texts<BY_KEY>>::op_key(&1)];
    assert!(pass(&mut source, &mut ledger, &desired, dirty().with_due(&due)).converged());
}

#[test]
fn what_is_stored_otherwise_is_put_off_and_tried_again_in_a_pass_over_everything() {
    let (mut source, mut ledger) = new::<BY_KEY>();
    source.backend.is_loud = true;
    let desired = declared(&[(1, "one")]);
    let later = |_| Some(Duration::from_secs(1));
    let never = |_| None;
    for tries in 1..4 {
        let report = pass(&mut source, &mut ledger, &desired, full().with_backoff(&never));
        assert_eq!((report.failed().count(), source.backend.changes.len()), (1, tries));
        // Until it is due, it does not fail anew.
        let report = pass(&mut source, &mut ledger, &desired, full().with_backoff(&later));
        assert!(matches!(report.ops()[0].outcome, Outcome::Pending(Pending::Backoff(_))));
        assert_eq!(condition(&report, 1), None, "no change of its status");
        assert_eq!(source.backend.changes.len(), tries);
    }
    // The next process has no failure to try again.
    source = super::model::source(source.backend);
    let report = pass(&mut source, &mut ledger, &desired, full().with_backoff(&never));
    assert_eq!((report.failed().count(), source.backend.changes.len()), (1, 3));
}

#[test]
fn a_look_at_what_is_stored_otherwise_does_not_end_its_retries() {
    let (mut source, mut ledger) = new::<BY_KEY>();
    source.backend.is_loud = true;
    let desired = declared(&[(1, "one")]);
    let never = |_| None;
    let due = [Keyed::<Texts<BY_KEY>>::op_key(&1)];
    let limits = full().with_backoff(&never).with_due(&due);
    pass(&mut source, &mut ledger, &desired, limits);
    for tries in 2..4 {
        let report = pass(&mut source, &mut ledger, &desired, limits.with_ops(0));
        assert!(matches!(report.ops()[0].outcome, Outcome::Pending(Pending::Cut)));
        assert_eq!(condition(&report, 1), None, "no change of its status");
        pass(&mut source, &mut ledger, &desired, limits);
        assert_eq!(source.backend.changes.len(), tries);
    }
}

#[test]
fn the_end_of_a_subscription_that_a_pass_meets_reaches_the_driver() {
    let (mut source, mut ledger) = new::<BY_VALUE>();
    source.backend.bell = Some(io::pipe().unwrap().0.into());
    let desired = declared(&[(1, "one"), (2, "two")]);
    assert!(source.subscribe(&(), Hints::new(|| {})).is_active());
    for _ in 0..2 {
        let report = pass(&mut source, &mut ledger, &desired, dirty());
        assert_eq!((report.converged(), report.coverage()), (true, EventCoverage::Everything));
    }
    source.backend.ends = Some(io::Error::other("the socket is closed"));
    source.backend.texts.remove(&2); // without an event
    let report = pass(&mut source, &mut ledger, &desired, dirty());
    assert_eq!(source.backend.texts.len(), 2, "the pass looks at everything");
    assert_eq!(report.trouble(), ["the events have ended: the socket is closed"]);
    assert_eq!((report.converged(), report.coverage()), (false, EventCoverage::Nothing));
    // Other passes do not take the error from the driver, and look at everything until then.
    for limits in [full(), dirty(), dirty()] {
        pass_time(Duration::from_secs(1_000)); // no contention
        source.backend.texts.remove(&2);
        let report = pass(&mut source, &mut ledger, &desired, limits);
        assert_eq!((report.converged(), source.backend.texts.len()), (true, 2));
    }
    assert_eq!(source.drain().unwrap_err().to_string(), "the socket is closed");
    assert!(source.subscribe(&(), Hints::new(|| {})).is_active());
    assert_eq!(source.drain().unwrap(), Drained::Nothing);
    let report = pass(&mut source, &mut ledger, &desired, dirty());
    assert_eq!((report.converged(), report.coverage()), (true, EventCoverage::Everything));
}

#[test]
fn a_pass_renews_a_subscription_without_a_descriptor() {
    let (mut source, mut ledger) = new::<BY_VALUE>();
    let desired = declared(&[(1, "one"), (2, "two")]);
    assert!(source.subscribe(&(), Hints::new(|| {})).is_active());
    assert!(pass(&mut source, &mut ledger, &desired, full()).converged());
    let mut end = |is_refusing| {
        source.backend.ends = Some(io::Error::other("the thread has died"));
        source.backend.is_refusing = is_refusing;
        source.backend.texts.remove(&2); // without an event
        pass_time(Duration::from_secs(1_000)); // no contention
        let report = pass(&mut source, &mut ledger, &desired, dirty());
        assert_eq!(source.backend.texts.len(), 2, "the pass looks at everything");
        let it = (report.trouble().to_vec(), report.converged(), report.coverage());
        (it, source.backend.subscriptions)
    };
    let renewed = (vec![], true, EventCoverage::Everything);
    assert_eq!(end(false), (renewed.clone(), 2));
    // If that fails, the pass reports it once, and each later one tries again.
    let trouble = vec!["the events have ended: the thread has died".to_owned()];
    assert_eq!(end(true), ((trouble, false, EventCoverage::Nothing), 2));
    assert_eq!(end(true), ((vec![], true, EventCoverage::Nothing), 2));
    assert_eq!(end(false), (renewed, 3));
}

#[test]
fn a_source_whose_events_have_ended_converges_without_them() {
    let (mut source, mut ledger) = new::<BY_VALUE>();
    source.backend.bell = Some(io::pipe().unwrap().0.into());
    source.backend.is_deaf = true;
    let desired = declared(&[(1, "one"), (2, "two")]);
    // A program that applies once does not subscribe.
    assert!(pass(&mut source, &mut ledger, &desired, full()).converged());
    assert!(source.subscribe(&(), Hints::new(|| {})).is_active());
    assert_eq!(source.drain().unwrap_err().to_string(), "no events");
    for limits in [full(), dirty(), dirty()] {
        source.backend.texts.remove(&2);
        let report = pass(&mut source, &mut ledger, &desired, limits);
        assert_eq!((report.trouble(), report.converged()), (&[][..], true));
        assert_eq!((source.backend.texts.len(), report.coverage()), (2, EventCoverage::Nothing));
        pass_time(Duration::from_secs(1_000)); // no contention
    }
    // Later subscriptions fail.
    source.backend.is_refusing = true;
    for _ in 0..2 {
        assert!(!source.subscribe(&(), Hints::new(|| {})).is_active());
        assert!(pass(&mut source, &mut ledger, &desired, full()).converged());
    }
}

#[test]
fn events_of_very_many_keys_mean_everything() {
    let (mut source, mut ledger) = new::<BY_VALUE>();
    let desired = declared(&[(1, "one"), (2, "two")]);
    for (events, looked_at) in [(4096, 4096), (4097, 2)] {
        assert!(pass(&mut source, &mut ledger, &desired, full()).converged());
        for key in 0..events {
            // Other writers' objects, in several drains.
            source.backend.events.insert(key + 10);
            assert_eq!(source.drain().unwrap(), Drained::Hint);
            assert!(source.dirty.len() <= 4096);
        }
        let report = pass(&mut source, &mut ledger, &desired, dirty());
        assert_eq!((report.observed(), report.converged()), (looked_at, true));
    }
}

#[test]
fn a_panic_costs_one_object() {
    let (mut source, mut ledger) = new::<BY_VALUE>();
    source.backend.panics.insert(2);
    let desired = declared(&[(1, "one"), (2, "two"), (3, "three")]);
    let report = pass(&mut source, &mut ledger, &desired, full());
    assert_eq!(report.applied().count(), 2);
    let (op, failure) = report.failed().next().unwrap();
    assert_eq!((*op.change.key(), failure.class), (2, ErrorClass::Unknown));
    assert_eq!(failure.message, "the backend panicked: a bug");
    source.backend.panics.clear();
    assert!(pass(&mut source, &mut ledger, &desired, full()).converged());
}

#[test]
fn a_missing_result_is_an_unknown_one() {
    let (mut source, mut ledger) = new::<BY_VALUE>();
    source.backend.results = Some(0);
    source.backend.refuses.insert(2);
    let desired = declared(&[(1, "one"), (2, "two")]);
    let report = pass(&mut source, &mut ledger, &desired, full());
    // The subsystem shows that the first was made.
    assert_eq!(report.applied().map(|op| *op.change.key()).collect::<Vec<_>>(), [1]);
    assert_eq!(report.failed().next().unwrap().1.class, ErrorClass::Unknown);
}

/// Another writer makes an object as it is declared, after it was read as missing. Ours is refused,
/// or the pass ends at its `calls`-th question whether to continue.
fn theirs_as_declared<const O: u8>(calls: Option<usize>) {
    let (mut source, mut ledger) = new::<O>();
    let desired = declared(&[(1, "one"), (2, "two")]);
    source.backend.theirs.insert(2, "two".to_owned());
    source.backend.refuses.extend(calls.is_none().then_some(2));
    let asked = AtomicUsize::new(0);
    let goes_on = || calls.is_none_or(|calls| asked.fetch_add(1, Ordering::Relaxed) < calls);
    let limits = full().with_should_continue(&goes_on);
    pass(&mut source, &mut ledger, &desired, limits);
    // Theirs appeared, and ours was not made.
    let tried: Vec<u32> = source.backend.changes.drain(..).map(|(_, key)| key).collect();
    if tried == [1] || calls.is_none() {
        assert!(pass(&mut source, &mut ledger, &desired, full()).converged());
        assert!(pass(&mut source, &mut ledger, &declared(&[]), full()).converged());
        assert_eq!(source.backend.changes, [("delete", 1)], "{calls:?}");
    } else {
        assert!(tried.is_empty() || calls > Some(1), "{calls:?}: {tried:?}");
    }
}

#[test]
fn another_writers_object_as_declared_stays_foreign_if_ours_was_not_made() {
    for calls in [None].into_iter().chain((0..8).map(Some)) {
        theirs_as_declared::<BY_VALUE>(calls);
        theirs_as_declared::<BY_KEY>(calls);
    }
}

#[test]
fn limits_leave_ops_pending() {
    let (mut source, mut ledger) = new::<BY_VALUE>();
    let desired = declared(&[(1, "one"), (2, "two")]);
    for (ops, applied) in [(0, 0), (1, 1)] {
        let report = pass(&mut source, &mut ledger, &desired, full().with_ops(ops));
        assert_eq!(report.applied().count(), applied);
        assert!(report.is_truncated() && !report.converged());
    }
    let stop = || false;
    let report = pass(&mut source, &mut ledger, &desired, full().with_should_continue(&stop));
    assert!(report.is_truncated());
    let refuse: crate::BeforeChange<'_> = &|kinds| kinds != ["text"];
    let report = pass(&mut source, &mut ledger, &desired, full().with_before_change(refuse));
    assert!(report.is_truncated());
    // The next dirty pass goes on with what was left.
    assert!(pass(&mut source, &mut ledger, &desired, dirty()).converged());
    assert_eq!(source.backend.changes, [("create", 1), ("create", 2)]);
}

#[test]
fn an_op_that_fails_takes_no_other_ones_share_of_the_limits() {
    let (mut source, mut ledger) = new::<BY_VALUE>();
    source.backend.refuses.insert(1);
    let desired = declared(&[(1, "one"), (2, "two"), (3, "three")]);
    for _ in 0..3 {
        pass(&mut source, &mut ledger, &desired, full().with_ops(1));
    }
    assert_eq!(source.backend.texts.len(), 2);
}

#[test]
fn an_object_that_is_put_off_keeps_its_status() {
    let (mut source, mut ledger) = new::<BY_VALUE>();
    source.backend.refuses.insert(1);
    let desired = declared(&[(1, "one"), (2, "two")]);
    let report = pass(&mut source, &mut ledger, &desired, full());
    let Some(Condition::Failed { class, errno, .. }) = condition(&report, 1) else { panic!() };
    assert_eq!((class, errno), (ErrorClass::Busy, Some(28)));
    let backoff = |_| Some(Duration::from_secs(1));
    let limits = full().with_backoff(&backoff);
    let report = pass(&mut source, &mut ledger, &desired, limits);
    assert!(matches!(report.ops()[0].outcome, Outcome::Pending(Pending::Backoff(_))));
    assert_eq!(condition(&report, 1), None, "no change of its status");
    // A pass that does not look at it does not converge.
    let limits = dirty().with_backoff(&backoff);
    let report = pass(&mut source, &mut ledger, &desired, limits);
    assert!(report.ops().is_empty() && !report.converged());
    source.backend.refuses.clear();
    let due = [Keyed::<Texts<BY_VALUE>>::op_key(&1)];
    let never = |_| None;
    let limits = dirty().with_backoff(&never).with_due(&due);
    assert!(pass(&mut source, &mut ledger, &desired, limits).converged());
}

#[test]
fn another_writers_change_by_value_makes_the_object_foreign() {
    let (mut source, mut ledger) = new::<BY_VALUE>();
    let desired = declared(&[(1, "one"), (2, "two")]);
    pass(&mut source, &mut ledger, &desired, full());
    source.backend.texts.insert(1, "foreign".to_owned());
    source.backend.texts.insert(2, "foreign".to_owned());
    let report = pass(&mut source, &mut ledger, &declared(&[(1, "one")]), full());
    assert_eq!(report.findings().len(), 2);
    assert_eq!(report.conflicts()[0].foreign, "foreign");
    assert_eq!(
        report.conflicts()[0].to_string(),
        "1: \"foreign\" is another writer's, \"one\" is declared"
    );
    assert_eq!(condition(&report, 1).map(|it| it.name()), Some("conflict"));
    pass(&mut source, &mut ledger, &declared(&[]), full());
    assert_eq!(source.backend.texts.len(), 2);
}

#[test]
fn another_writers_change_by_key_or_marker_is_undone() {
    fn check<const O: u8>(other: &str) {
        let (mut source, mut ledger) = new::<O>();
        let desired = declared(&[(1, "one")]);
        pass(&mut source, &mut ledger, &desired, full());
        source.backend.texts.insert(1, other.to_owned());
        assert!(pass(&mut source, &mut ledger, &desired, full()).converged());
        assert_eq!(source.backend.texts[&1], "one");
    }
    check::<BY_KEY>("foreign");
    check::<BY_MARKER>("other");
}

#[test]
fn an_object_with_the_marker_that_is_not_declared_goes() {
    let (mut source, mut ledger) = new::<BY_MARKER>();
    source.backend.texts = BTreeMap::from([(1, "ours".to_owned()), (2, "foreign".to_owned())]);
    assert!(pass(&mut source, &mut ledger, &declared(&[]), full()).converged());
    assert_eq!(source.backend.texts.into_keys().collect::<Vec<_>>(), [2]);
    assert_eq!(ledger, MemoryLedger::default());
}

#[test]
fn an_object_that_another_writer_undoes_is_restored_more_slowly() {
    let (mut source, mut ledger) = new::<BY_VALUE>();
    let desired = declared(&[(1, "one"), (2, "two")]);
    let mut waits = Vec::new();
    for _ in 0..12 {
        let report = pass(&mut source, &mut ledger, &desired, full());
        assert_eq!(source.backend.texts.get(&2).map(String::as_str), Some("two"));
        if let Some(left) = report.requeue_after() {
            assert_eq!((report.contended(), report.converged()), (1, false));
            waits.push(left.as_secs());
            pass_time(left);
        }
        source.backend.texts.remove(&1);
    }
    assert_eq!(waits, [1, 2, 4, 8]);
    // Another value is another matter.
    let report = pass(&mut source, &mut ledger, &declared(&[(1, "new"), (2, "two")]), full());
    assert!(report.converged());
    // Left alone for long enough, it is restored at once.
    pass_time(Duration::from_secs(1_000));
    source.backend.texts.remove(&1);
    assert!(pass(&mut source, &mut ledger, &desired, full()).converged());
}

#[test]
fn a_record_that_cannot_be_parsed_costs_its_key() {
    let (mut source, mut ledger) = new::<BY_VALUE>();
    source.backend.texts.insert(1, "old".to_owned());
    let old = Claim::Ours(b"a later version's".to_vec());
    ledger.commit_outcomes([(b"1".to_vec(), old.clone()), (b"?".to_vec(), old)].into()).unwrap();
    let report = pass(&mut source, &mut ledger, &declared(&[(2, "two")]), full());
    assert_eq!(report.trouble(), ["1 keys in the ledger cannot be parsed"]);
    assert!(!report.converged() && !report.is_seen_whole());
    assert_eq!(report.applied().count(), 1);
    assert_eq!(source.backend.texts.len(), 2);
    assert!(!pass(&mut source, &mut ledger, &declared(&[(2, "two")]), dirty()).converged());
    assert_eq!(ledger.owned().unwrap().len(), 3);
}

#[test]
fn a_renamed_object_is_deleted_before_it_is_made() {
    let (mut source, mut ledger) = new::<BY_VALUE>();
    pass(&mut source, &mut ledger, &declared(&[(1, "one"), (3, "x")]), full());
    source.backend.changes.clear();
    assert!(pass(&mut source, &mut ledger, &declared(&[(0, "one"), (3, "y")]), full()).converged());
    assert_eq!(source.backend.changes, [("delete", 1), ("update", 3), ("create", 0)]);
}

#[test]
fn a_key_is_declared_once() {
    assert_eq!(Entries::from_pairs([(1, 'a'), (1, 'a')]), Err(Repeated(1)));
}

/// A subsystem of any types, whose state outlives the process.
struct Plain<K, V, const O: u8 = BY_VALUE>(Rc<RefCell<BTreeMap<K, V>>>);

impl<K, V, const O: u8> Plain<K, V, O>
where
    K: Ord + Clone + Display + Serialize + DeserializeOwned,
    V: Clone + PartialEq + Serialize + DeserializeOwned,
{
    fn new() -> Self {
        Plain(Rc::default())
    }

    /// Runs a pass of a new process.
    fn pass(&self, ledger: &mut MemoryLedger, desired: BTreeMap<K, V>) -> Report<K, V> {
        let desired = Entries::from(desired);
        let mut source = Keyed::new(Plain::<K, V, O>(Rc::clone(&self.0)));
        source.reconcile(PassInput::new(&(), &desired, ledger, &())).unwrap()
    }
}

impl<K, V, const O: u8> Backend for Plain<K, V, O>
where
    K: Ord + Clone + Display + Serialize + DeserializeOwned,
    V: Clone + PartialEq + Serialize + DeserializeOwned,
{
    type Scope = ();
    type Key = K;
    type Value = V;
    type Error = io::Error;

    const KIND: &'static str = "plain";
    const OWNERSHIP: Ownership = Texts::<O>::OWNERSHIP;

    fn observe(&mut self, (): &(), _: Keys<'_, K>) -> io::Result<Observation<K, V>> {
        Ok(self.0.borrow().clone().into())
    }

    fn has_marker(&self, _: &K, _: &V) -> bool {
        true
    }

    fn same(desired: &V, observed: &V) -> bool {
        serde_json::to_value(desired).unwrap() == serde_json::to_value(observed).unwrap()
    }

    fn apply(&mut self, (): &(), change: &Change<K, V>) -> io::Result<()> {
        match change.to() {
            Some(value) => self.0.borrow_mut().insert(change.key().clone(), value.clone()),
            None => self.0.borrow_mut().remove(change.key()),
        };
        Ok(())
    }

    fn classify(error: &io::Error) -> ErrorClass {
        error.kind().into()
    }
}

#[test]
fn a_value_may_be_nothing() {
    let (names, mut ledger) = (Plain::<String, ()>::new(), MemoryLedger::default());
    assert!(names.pass(&mut ledger, BTreeMap::from([("a".to_owned(), ())])).converged());
    assert!(names.pass(&mut ledger, BTreeMap::new()).converged());
    assert!(names.0.borrow().is_empty());
}

#[test]
fn a_float_keeps_all_its_bits_in_the_ledger() {
    let floats = Plain::<u32, f64>::new();
    // Numbers of every size, with as many digits as they can have.
    let bits = (0..5_000_u64).map(|n| f64::from_bits(n.wrapping_mul(0x9e37_79b9_7f4a_7c15)));
    let desired: BTreeMap<u32, f64> = (0..).zip(bits.filter(|float| float.is_finite())).collect();
    let mut ledger = MemoryLedger::default();
    assert!(floats.pass(&mut ledger, desired.clone()).converged());
    assert_eq!(*floats.0.borrow(), desired);
    // The next process finds each as ours.
    let report = floats.pass(&mut ledger, BTreeMap::new());
    assert_eq!((report.findings().len(), report.converged()), (0, true));
    assert!(floats.0.borrow().is_empty());
}

/// Declares what the ledger cannot record, beside one object that it can.
fn unrecordable<const O: u8>() {
    let (floats, mut ledger) = (Plain::<String, f64, O>::new(), MemoryLedger::default());
    let long = "k".repeat(Claim::MAX_KEY);
    let mut desired = BTreeMap::from([("a".to_owned(), 1.0), (long.clone(), 2.0)]);
    if O != BY_MARKER {
        desired.insert("b".to_owned(), f64::NAN); // JSON has none
    }
    let report = floats.pass(&mut ledger, desired);
    assert_eq!(report.trouble(), [""; 0]);
    let failed: Vec<_> =
        report.failed().map(|(op, it)| (op.change.key().as_str(), it.class)).collect();
    let invalid = ErrorClass::Invalid;
    let (wrong, made) = match O {
        BY_MARKER => (vec![], vec!["a".to_owned(), long]),
        _ => (vec![("b", invalid), (&*long, invalid)], vec!["a".to_owned()]),
    };
    assert_eq!(failed, wrong);
    assert_eq!(Vec::from_iter(floats.0.borrow().keys().cloned()), made);
    // What is in the subsystem can be deleted again.
    assert!(floats.pass(&mut ledger, BTreeMap::new()).converged());
    assert!(floats.0.borrow().is_empty());
}

#[test]
fn an_object_that_the_ledger_cannot_record_is_not_made_and_stops_no_other() {
    unrecordable::<BY_VALUE>();
    unrecordable::<BY_KEY>();
    unrecordable::<BY_MARKER>();
}

#[test]
fn a_value_of_another_writer_that_the_ledger_cannot_record_is_deleted() {
    let (mut source, mut ledger) = new::<BY_KEY>();
    let desired = declared(&[(1, "one"), (2, "two")]);
    pass(&mut source, &mut ledger, &desired, full());
    source.backend.texts.insert(1, "x".repeat(Claim::MAX_VALUE));
    // The delete fails first.
    source.backend.refuses.insert(1);
    let report = pass(&mut source, &mut ledger, &declared(&[]), full());
    assert_eq!(report.failed().map(|(op, _)| *op.change.key()).collect::<Vec<_>>(), [1]);
    source.backend.refuses.clear();
    // It is ours as before.
    assert!(pass(&mut source, &mut ledger, &declared(&[]), full()).converged());
    assert_eq!((source.backend.texts.len(), ledger), (0, MemoryLedger::default()));
}

/// A value with a part that is not declared.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
struct Counted {
    text: String,
    #[serde(skip)]
    packets: u64,
}

fn deletes_a_counted_value<const O: u8>() {
    let (source, mut ledger) = (Plain::<u32, Counted, O>::new(), MemoryLedger::default());
    let counted = |packets| Counted { text: "one".to_owned(), packets };
    // The declared value has a count too.
    assert!(source.pass(&mut ledger, [(1, counted(1))].into()).converged());
    source.0.borrow_mut().insert(1, counted(7));
    assert!(source.pass(&mut ledger, BTreeMap::new()).converged());
    assert!(source.0.borrow().is_empty());
}

#[test]
fn a_part_of_a_value_that_is_not_recorded_does_not_stop_its_delete() {
    deletes_a_counted_value::<BY_VALUE>();
    deletes_a_counted_value::<BY_KEY>();
}

#[test]
fn a_long_value_that_is_stored_otherwise_is_recorded() {
    let (mut source, mut ledger) = new::<BY_KEY>();
    source.backend.is_loud = true;
    let long = "x".repeat(Claim::MAX_VALUE / 2);
    let desired = declared(&[(1, &long), (2, "2")]);
    let report = pass(&mut source, &mut ledger, &desired, full());
    assert_eq!((report.trouble(), report.failed().count()), (&[][..], 1));
    assert_eq!((ledger.owned().unwrap().len(), ledger.open_intents().unwrap().len()), (2, 0));
}

#[test]
fn a_value_without_room_for_its_outcome_in_the_ledger_is_not_written() {
    let (mut source, mut ledger) = new::<BY_KEY>();
    source.backend.is_loud = true;
    // `{"ours":["…"]}` takes 13 bytes beside the text, and digests at most 56.
    for (free, is_made) in [(55, false), (56, true)] {
        let long = "x".repeat(Claim::MAX_VALUE - 13 - free);
        let report = pass(&mut source, &mut ledger, &declared(&[(1, &long)]), full());
        let class = if is_made { ErrorClass::StoredOtherwise } else { ErrorClass::Invalid };
        assert_eq!(report.failed().next().unwrap().1.class, class, "{free}");
        assert_eq!(ledger.open_intents().unwrap().len(), 0);
        assert_eq!(source.backend.texts.len(), usize::from(is_made));
    }
    assert!(pass(&mut source, &mut ledger, &declared(&[]), full()).converged());
    assert!(source.backend.texts.is_empty());
}

#[test]
fn a_digest_does_not_depend_on_the_order_of_a_map() {
    let map = || Some((0..64).map(|n| (n, n)).collect::<HashMap<u8, u8>>());
    let digests: BTreeSet<_> = (0..8).map(|_| digest(map().as_ref())).collect();
    assert_eq!(digests.len(), 1, "each map has an order of its own");
    assert_ne!(digest(map().as_ref()), digest(Some(&HashMap::from([(1, 1)]))));
    // JSON has no such keys: values that cannot be distinguished have no digest.
    assert_eq!(digest(Some(&HashMap::from([((1, 1), 1)]))), None);
}

/// A subsystem with long keys that stores upper case.
#[derive(Default)]
struct Shouts(BTreeMap<String, String>);

impl Backend for Shouts {
    type Scope = ();
    type Key = String;
    type Value = String;
    type Error = io::Error;

    const KIND: &'static str = "shout";
    const OWNERSHIP: Ownership = Ownership::Marker;

    fn observe(&mut self, (): &(), _: Keys<'_, String>) -> io::Result<Observation<String, String>> {
        Ok(self.0.clone().into())
    }

    fn has_marker(&self, _: &String, _: &String) -> bool {
        true
    }

    fn apply(&mut self, (): &(), change: &Change<String, String>) -> io::Result<()> {
        match change.to() {
            Some(text) => self.0.insert(change.key().clone(), text.to_uppercase()),
            None => self.0.remove(change.key()),
        };
        Ok(())
    }

    fn classify(error: &io::Error) -> ErrorClass {
        error.kind().into()
    }
}

#[test]
fn a_marked_object_is_usable_even_if_the_ledger_cannot_record_its_failure() {
    let (mut source, mut ledger) = (source(Shouts::default()), MemoryLedger::default());
    let long = "k".repeat(Claim::MAX_KEY);
    let mut pass = |text: Option<&str>| {
        let pairs = text.map(|text| (long.clone(), text.to_owned()));
        let desired = Entries::from_pairs(pairs).unwrap();
        source.reconcile(PassInput::new(&(), &desired, &mut ledger, &())).unwrap()
    };
    let report = pass(Some("one"));
    assert_eq!(report.failed().next().unwrap().1.class, ErrorClass::StoredOtherwise);
    assert!(report.is_seen_whole());
    assert!(pass(Some("ONE")).converged());
    assert!(pass(None).converged());
    assert!(source.backend.0.is_empty());
}

/// A key that earlier versions wrote in another form.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(from = "AnyName")]
struct Name {
    name: String,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum AnyName {
    Old(String),
    New { name: String },
}

impl From<AnyName> for Name {
    fn from(any: AnyName) -> Name {
        let (AnyName::Old(name) | AnyName::New { name }) = any;
        Name { name }
    }
}

impl Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

/// Leaves records and an intent of an earlier version, and runs a pass of this one.
fn renamed<const O: u8>(is_declared: bool) {
    let (old, mut ledger) = (Plain::<String, u8, O>::new(), MemoryLedger::default());
    old.pass(&mut ledger, [("a".to_owned(), 1), ("b".to_owned(), 1)].into());
    let intent = Claim::Ours(br#"{"ours":[2]}"#.to_vec());
    ledger.begin([(br#""b""#.to_vec(), intent)].into()).unwrap();
    let name = |name: &str| Name { name: name.to_owned() };
    let new = Plain::<Name, u8, O>::new();
    new.0.borrow_mut().extend([(name("a"), 1), (name("b"), 2)]);
    let mut desired = BTreeMap::new();
    if is_declared {
        desired.extend([(name("a"), 1), (name("b"), 2)]);
    }
    let report = new.pass(&mut ledger, desired);
    assert!(report.converged(), "{:?}", report.trouble());
    assert_eq!((report.findings().len(), report.conflicts().len()), (0, 0));
    let recorded: Vec<_> = ledger.owned().unwrap().into_keys().collect();
    let new_forms = [br#"{"name":"a"}"#, br#"{"name":"b"}"#];
    assert_eq!(recorded, if is_declared { &new_forms[..] } else { &[] });
    assert!(ledger.open_intents().unwrap().is_empty());
    assert_eq!(new.0.borrow().len(), recorded.len());
}

#[test]
fn a_record_under_the_key_of_an_earlier_version_is_replaced() {
    for is_declared in [true, false] {
        renamed::<BY_VALUE>(is_declared);
        renamed::<BY_KEY>(is_declared);
    }
}

#[test]
fn of_two_records_of_a_key_the_current_version_counts() {
    let (source, mut ledger) = (Plain::<Name, u8>::new(), MemoryLedger::default());
    source.0.borrow_mut().insert(Name { name: "a".to_owned() }, 2);
    for form in [&br#" "a""#[..], br#""a""#, br#"{"name":"a"}"#, br#"{"name": "a"}"#] {
        let value = if form.ends_with(br#":"a"}"#) { 2 } else { 1 };
        let claim = Claim::Ours(format!(r#"{{"ours":[{value}]}}"#).into());
        ledger.commit_outcomes([(form.to_vec(), claim)].into()).unwrap();
    }
    assert!(source.pass(&mut ledger, BTreeMap::new()).converged());
    assert!(source.0.borrow().is_empty());
    assert_eq!(ledger, MemoryLedger::default());
}
