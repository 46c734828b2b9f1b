//! Snapshots beside another writer. A complete one has every row that stayed, once; an incomplete
//! one has them as well.

use std::collections::BTreeSet;
use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use trueup_net::{Family, Kind, Kinds, ObjectKind, Route, Rule};
use trueup_netlink::codec::{self, existing};
use trueup_netlink::{Connect, Namespace, Transport};
use trueup_observe::{Incomplete, Observer, ReadScope, Snapshot};
use trueup_testkit::faults::{At, Fault, Faults};
use trueup_testkit::{is_long, is_short, running_version};

use crate::hand::{Hand, OURS, THEIRS, blackhole, rule};

const FULL_SPEED: Duration = Duration::ZERO;
const ONE_A_MILLISECOND: Duration = Duration::from_millis(1);

/// Returns the number of snapshots for a test: a tenth of `all`, unless `TRUEUP_LONG=1` is set. On
/// an emulated machine, where each takes seconds, a thirtieth.
fn snapshots(all: usize) -> usize {
    match (is_long(), is_short()) {
        (true, _) => all,
        (false, true) => all.div_ceil(30),
        (false, false) => all / 10,
    }
}

/// Runs `work` beside a writer who makes one change after the other, with a pause before each.
fn beside<T>(
    pause: Duration,
    mut change: impl FnMut(&mut Hand, usize) + Send,
    work: impl FnOnce() -> T,
) -> T {
    let stop = AtomicBool::new(false);
    let (writes, written) = mpsc::channel();
    thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let mut hand = Hand::open(&Namespace::current());
            let mut due = Instant::now();
            for n in 0.. {
                if stop.load(Ordering::Relaxed) {
                    return;
                }
                change(&mut hand, n);
                if n == 10 {
                    writes.send(()).unwrap();
                }
                due += pause;
                thread::sleep(due.saturating_duration_since(Instant::now()));
            }
        });
        written.recv().unwrap();
        // The writer stops if the work fails too.
        let stops = Stops(&stop);
        let worked = work();
        drop(stops);
        writer.join().unwrap();
        worked
    })
}

/// Sets the referenced flag when it is dropped.
struct Stops<'a>(&'a AtomicBool);

impl Drop for Stops<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Returns the item of a list that is due, and true to add it: all items are added, then all
/// deleted, and so on.
fn due<T>(list: &[T], n: usize) -> (&T, bool) {
    (&list[n % list.len()], (n / list.len()).is_multiple_of(2))
}

fn toggle_routes(list: &[Route]) -> impl FnMut(&mut Hand, usize) + Send {
    |hand, n| {
        // An earlier writer may have left it in another state.
        let _done = hand.try_send(|buffer| match due(list, n) {
            (route, true) => codec::create(buffer, route, &existing),
            (route, false) => codec::delete(buffer, route, &existing),
        });
    }
}

fn toggle_rules(list: &[Rule]) -> impl FnMut(&mut Hand, usize) + Send {
    |hand, n| {
        let _done = hand.try_send(|buffer| match due(list, n) {
            (rule, true) => codec::create(buffer, rule, &existing),
            (rule, false) => codec::delete(buffer, rule, &existing),
        });
    }
}

fn of(kind: Kind, family: Family) -> ReadScope {
    ReadScope::default().with_kinds(Kinds::NONE.with(kind)).with_family(family)
}

/// Takes snapshots, and checks the rows that stayed. Returns the number of complete snapshots.
fn watched<T: ObjectKind>(
    count: usize,
    scope: &ReadScope,
    stayed: &[T],
    rows: impl Fn(&Snapshot) -> BTreeSetOf<T>,
) -> usize {
    let observer = Observer::open(&Namespace::current()).unwrap();
    watched_by(observer, count, scope, stayed, rows)
}

/// Like [`watched`], through a given observer.
fn watched_by<T: ObjectKind>(
    mut observer: Observer,
    count: usize,
    scope: &ReadScope,
    stayed: &[T],
    rows: impl Fn(&Snapshot) -> BTreeSetOf<T>,
) -> usize {
    let stayed: BTreeSet<T::Key> = stayed.iter().map(ObjectKind::key).collect();
    let kind = Kind::ALL.into_iter().find(|kind| scope.kinds.contains(*kind)).unwrap();
    let mut complete = 0;
    for n in 0..count {
        let snapshot = observer.snapshot(scope).unwrap();
        let (all, ours) = rows(&snapshot);
        let lost = stayed.difference(&ours).count();
        let whole = snapshot.observed.complete.contains(kind);
        assert_eq!(all, ours.len(), "snapshot {n} (complete: {whole}) has rows twice");
        if whole {
            assert_eq!(lost, 0, "snapshot {n} lacks rows that stayed");
            assert_eq!(ours.len(), stayed.len(), "snapshot {n}");
            assert_eq!(snapshot.incomplete, []);
            complete += 1;
        } else {
            assert_eq!(snapshot.incomplete, [Incomplete::Changing(kind)]);
        }
    }
    println!("{complete} of {count} {kind} snapshots were complete");
    complete
}

/// The number of our rows, and their keys.
type BTreeSetOf<T> = (usize, BTreeSet<<T as ObjectKind>::Key>);

fn our_routes(snapshot: &Snapshot) -> BTreeSetOf<Route> {
    let ours = || snapshot.observed.routes.iter().filter(|it| it.protocol == OURS);
    (ours().count(), ours().map(ObjectKind::key).collect())
}

fn our_rules(snapshot: &Snapshot) -> BTreeSetOf<Rule> {
    let ours = || snapshot.observed.rules.iter().filter(|it| it.protocol == OURS);
    (ours().count(), ours().map(ObjectKind::key).collect())
}

fn added(routes: Vec<Route>) -> Vec<Route> {
    let mut hand = Hand::open(&Namespace::current());
    routes.iter().for_each(|route| hand.add(route));
    routes
}

/// Makes IPv6 routes of ours, with these numbers.
fn ours(numbers: Range<usize>) -> Vec<Route> {
    let routes = numbers.map(|n| blackhole(OURS, &format!("fd00:0:{n:x}::/64")));
    added(routes.collect())
}

/// Makes 200 IPv6 routes of another writer, each behind one of [`ours`], `step` numbers apart.
fn theirs(step: usize) -> Vec<Route> {
    let numbers = (0..200).map(|n| n * step);
    let routes = numbers.map(|n| blackhole(THEIRS, &format!("fd00:0:{n:x}:1::/64")));
    routes.collect()
}

fn ipv6(pause: Duration, count: usize) -> usize {
    let stayed = ours(0..20_000);
    let scope = of(Kind::Route, Family::Inet6);
    assert_eq!(watched(3, &scope, &stayed, our_routes), 3, "no other writer");
    let toggled = theirs(97);
    beside(pause, toggle_routes(&toggled), || {
        watched(snapshots(count), &scope, &stayed, our_routes)
    })
}

pub(crate) fn ipv6_routes_beside_a_writer_at_full_speed() {
    let complete = ipv6(FULL_SPEED, 60);
    assert!(complete < snapshots(60), "there was a writer at all times");
}

pub(crate) fn ipv6_routes_beside_a_writer_at_one_change_a_millisecond() {
    ipv6(ONE_A_MILLISECOND, 60);
}

pub(crate) fn rules_beside_a_writer() {
    let mut hand = Hand::open(&Namespace::current());
    let of_priority = |priority| rule(OURS, Family::Inet, priority);
    // In descending order, which takes the kernel a third of the time.
    let stayed: Vec<_> = (1_000..6_000).rev().map(of_priority).collect();
    stayed.iter().for_each(|it| hand.rule(it));
    let scope = of(Kind::Rule, Family::Inet);
    assert_eq!(watched(3, &scope, &stayed, our_rules), 3, "no other writer");
    let toggled: Vec<_> = (1..50).map(|n| rule(THEIRS, Family::Inet, n)).collect();
    for pause in [FULL_SPEED, ONE_A_MILLISECOND] {
        beside(pause, toggle_rules(&toggled), || {
            watched(snapshots(40), &scope, &stayed, our_rules)
        });
    }
}
// fact 64
pub(crate) fn metrics_of_one_prefix_beside_a_writer() {
    let of_metric = |protocol, metric| {
        let mut route = blackhole(protocol, "10.1.0.0/16");
        route.metric = metric;
        route
    };
    let stayed = (1_000..4_000).map(|metric| of_metric(OURS, metric));
    let stayed = added(stayed.collect());
    let scope = of(Kind::Route, Family::Inet);
    assert_eq!(watched(3, &scope, &stayed, our_routes), 3, "no other writer");
    let toggled: Vec<_> = (1..50).map(|metric| of_metric(THEIRS, metric)).collect();
    for pause in [FULL_SPEED, ONE_A_MILLISECOND] {
        beside(pause, toggle_routes(&toggled), || {
            watched(snapshots(40), &scope, &stayed, our_routes)
        });
    }
}

pub(crate) fn routes_to_elsewhere_do_not_disturb_those_of_ipv4() {
    let stayed = (0..20_000).map(|n| blackhole(OURS, &format!("10.{}.{}.0/24", n / 250, n % 250)));
    let stayed = added(stayed.collect());
    let scope = of(Kind::Route, Family::Inet);
    let toggled: Vec<_> = (0..200).map(|n| blackhole(THEIRS, &format!("9.0.{n}.0/24"))).collect();
    let complete = beside(ONE_A_MILLISECOND, toggle_routes(&toggled), || {
        watched(snapshots(40), &scope, &stayed, our_routes)
    });
    assert_eq!(complete, snapshots(40), "they are all below ours");
    // Among them, changes hit the borders of parts at times, and never unnoticed.
    let toggled: Vec<_> =
        (0..200).map(|n| blackhole(THEIRS, &format!("10.{}.7.0/25", n % 80))).take(80).collect();
    beside(FULL_SPEED, toggle_routes(&toggled), || {
        watched(snapshots(40), &scope, &stayed, our_routes)
    });
}

/// Makes an observer whose second dump of a kind is refused.
fn once(kind: trueup_testkit::Kind) -> Observer {
    const EPERM: i32 = 1;
    let faults = Faults::over(Namespace::current());
    faults.add(At::Dump(kind, 2), Fault::Refuse(EPERM));
    Observer::open(&faults.namespace()).unwrap()
}

pub(crate) fn a_namespace_without_writers_is_read_once_and_completely() {
    ours(0..2_000);
    let mut observer = once(trueup_testkit::Kind::Route);
    let snapshot = observer.snapshot(&of(Kind::Route, Family::Inet6)).unwrap();
    assert!(snapshot.observed.complete.contains(Kind::Route));
    let ours = |route: &Route| route.protocol == OURS;
    let scope = of(Kind::Route, Family::Inet);
    observer.routes_where(&scope, ours).unwrap_err();
}

pub(crate) fn own_writes_do_not_count() {
    let mut hand = Hand::open(&Namespace::current());
    let mut observer = once(trueup_testkit::Kind::Route);
    for n in 0..2_000 {
        hand.add(&blackhole(OURS, &format!("fd00:0:{n:x}::/64")));
    }
    let scope = of(Kind::Route, Family::Inet6);
    let (routes, reason) = observer.routes_where(&scope, |it| it.protocol == OURS).unwrap();
    assert_eq!((routes.len(), reason), (2_000, None));
}
// fact 67
pub(crate) fn a_small_table_is_complete_beside_any_writer() {
    // Older kernels need one more request for the end, and then return rows that a change has
    // moved.
    let pause = match running_version() < (6, 12) {
        true => ONE_A_MILLISECOND,
        false => FULL_SPEED,
    };
    let mut hand = Hand::open(&Namespace::current());
    let stayed: Vec<_> = (100..120).map(|n| rule(OURS, Family::Inet, n)).collect();
    stayed.iter().for_each(|it| hand.rule(it));
    let scope = of(Kind::Rule, Family::Inet);
    let toggled: Vec<_> = (1..9).map(|n| rule(THEIRS, Family::Inet, n)).collect();
    let complete = beside(pause, toggle_rules(&toggled), || {
        watched(snapshots(500), &scope, &stayed, our_rules)
    });
    assert_eq!(complete, snapshots(500));

    let stayed = ours(0..12);
    let scope = of(Kind::Route, Family::Inet6);
    let toggled: Vec<_> =
        (0..8).map(|n| blackhole(THEIRS, &format!("fd00:0:{n:x}:1::/64"))).collect();
    let complete = beside(pause, toggle_routes(&toggled), || {
        watched(snapshots(500), &scope, &stayed, our_routes)
    });
    assert_eq!(complete, snapshots(500));
}

/// Counts the opened sockets.
#[derive(Debug, Default)]
struct Counting(AtomicUsize);

impl Connect for Counting {
    fn connect(&self) -> io::Result<Box<dyn Transport>> {
        self.0.fetch_add(1, Ordering::Relaxed);
        Namespace::current().connect().map_err(io::Error::other)
    }
}

pub(crate) fn an_observer_opened_lazily_listens_to_large_dumps_alone() {
    let few = ours(0..12);
    let scope = of(Kind::Route, Family::Inet6);
    let sockets = Arc::new(Counting::default());
    let observer = Observer::open_lazily(&Namespace::through(sockets.clone())).unwrap();
    assert_eq!(watched_by(observer, 3, &scope, &few, our_routes), 3);
    assert_eq!(sockets.0.load(Ordering::Relaxed), 1);

    let all = [few, ours(12..2_000)].concat();
    let sockets = Arc::new(Counting::default());
    let observer = Observer::open_lazily(&Namespace::through(sockets.clone())).unwrap();
    assert_eq!(watched_by(observer, 3, &scope, &all, our_routes), 3);
    // One that listens, and another to ask again.
    assert_eq!(sockets.0.load(Ordering::Relaxed), 3);
}

/// Reads beside a writer, each time through a new observer.
fn loses_no_rows(observer: impl Fn() -> Observer) {
    let stayed = ours(0..2_000);
    let scope = of(Kind::Route, Family::Inet6);
    let toggled = theirs(9);
    for pause in [FULL_SPEED, ONE_A_MILLISECOND] {
        beside(pause, toggle_routes(&toggled), || {
            for _ in 0..snapshots(200) {
                watched_by(observer(), 1, &scope, &stayed, our_routes);
            }
        });
    }
}

pub(crate) fn an_observer_opened_lazily_loses_no_rows_beside_a_writer() {
    loses_no_rows(|| Observer::open_lazily(&Namespace::current()).unwrap());
}
