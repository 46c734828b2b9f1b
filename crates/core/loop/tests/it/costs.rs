//! The cost of a pass in the loop itself: independent of the size of the desired state, and almost
//! nothing for each op.
//!
//! The tests count calls of the report, and allocations on the loop's thread; they measure no time.
#![allow(unsafe_code, reason = "an allocator that counts")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use trueup_loop::{Config, Loop, PassSummary, Running, Step};
use trueup_reconcile::{
    ErrorClass, MemoryLedger, OpKey, Outcome, PassInput, Report, ReportedOp, Source,
};

/// Longer than any test.
const LONG: Duration = Duration::from_secs(60);
const NEVER: Duration = Duration::from_secs(36_000);
const MILLION: u64 = 1_000_000;

thread_local! {
    /// The number of allocated bytes, and of allocations.
    static ALLOCATED: Cell<(u64, u64)> = const { Cell::new((0, 0)) };
}

struct Counting;

#[global_allocator]
static COUNTING: Counting = Counting;

// SAFETY: the system's allocator does all the work; counting uses no pointer of it.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let (bytes, times) = ALLOCATED.get();
        ALLOCATED.set((bytes + layout.size() as u64, times + 1));
        // SAFETY: the caller keeps the contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps the contract.
        unsafe { System.dealloc(at, layout) }
    }
}

/// Counts the calls of a report.
#[derive(Debug, Default)]
struct Asked {
    walks: AtomicU64,
    keys: AtomicU64,
}

/// A report of many ops that stores none of them: every n-th fails, the others are applied.
struct Many {
    ops: u64,
    fails: Option<u64>,
    asked: Arc<Asked>,
}

impl Report for Many {
    fn converged(&self) -> bool {
        self.fails.is_none()
    }

    fn outcomes(&self, tell: &mut dyn FnMut(ReportedOp<'_>)) {
        self.asked.walks.fetch_add(1, Ordering::Relaxed);
        for op in 0..self.ops {
            let fails = self.fails.is_some_and(|each| op % each == 0);
            tell(ReportedOp::new(
                if op % 1000 == 0 { "link" } else { "route" },
                match fails {
                    true => Outcome::Failed(ErrorClass::Busy),
                    false => Outcome::Applied,
                },
                &|| {
                    self.asked.keys.fetch_add(1, Ordering::Relaxed);
                    OpKey(op)
                },
            ));
        }
    }
}

/// A desired state that cannot be copied or compared: it sets the number of ops, and the ones that
/// fail.
struct Wish {
    ops: u64,
    fails: Option<u64>,
    _all: Vec<u64>,
}

struct Counted {
    asked: Arc<Asked>,
    /// Sends the allocations between the end of the last pass and the start of this one.
    between: Sender<(u64, u64)>,
    since: (u64, u64),
}

impl Source for Counted {
    type Scope = ();
    type Desired = Wish;
    type Options = ();
    type Report = Many;
    type Observed = ();
    type Error = Infallible;

    fn reconcile(&mut self, input: PassInput<'_, Self>) -> Result<Many, Infallible> {
        let desired = input.desired;
        let (bytes, times) = ALLOCATED.get();
        let between = (bytes - self.since.0, times - self.since.1);
        self.between.send(between).unwrap();
        let report =
            Many { ops: desired.ops, fails: desired.fails, asked: Arc::clone(&self.asked) };
        self.since = ALLOCATED.get();
        Ok(report)
    }
}

struct Bench {
    running: Running<Counted>,
    asked: Arc<Asked>,
    between: Receiver<(u64, u64)>,
}

/// Returns a loop over `size` objects, with nothing to do.
fn counted(size: usize, asked: &Arc<Asked>) -> (Loop<'static, Counted>, Receiver<(u64, u64)>) {
    let (tell, between) = channel();
    let source = Counted { asked: Arc::clone(asked), between: tell, since: (0, 0) };
    let desired = Wish { ops: 0, fails: None, _all: vec![0; size] };
    let config = Config::default()
        .with_interval(NEVER)
        .with_backoff(Config::MAX_BACKOFF, Config::MAX_BACKOFF);
    (Loop::new(source, (), desired, MemoryLedger::default(), (), config), between)
}

/// Starts a loop over `size` objects, with nothing to do, and waits for its first pass.
fn bench(size: usize) -> Bench {
    let asked = Arc::new(Asked::default());
    let (it, between) = counted(size, &asked);
    let running = it.spawn("counted").unwrap();
    running.handle().force(LONG).unwrap();
    let bench = Bench { running, asked, between };
    bench.force();
    bench.between.try_iter().for_each(drop);
    bench.asked();
    bench
}

impl Bench {
    fn wish(&self, ops: u64, fails: Option<u64>) {
        let change = move |wish: &mut Wish| (wish.ops, wish.fails) = (ops, fails);
        self.running.handle().change(change).unwrap();
    }

    fn force(&self) {
        self.running.handle().force(LONG).unwrap();
    }

    /// Waits for a pass to begin. Returns the bytes and the number of allocations since the last
    /// one ended.
    fn pass(&self) -> (u64, u64) {
        self.between.recv_timeout(LONG).unwrap()
    }

    /// Returns the number of walks and keys since the last call.
    fn asked(&self) -> (u64, u64) {
        let Asked { walks, keys } = &*self.asked;
        (walks.swap(0, Ordering::Relaxed), keys.swap(0, Ordering::Relaxed))
    }
}

#[test]
fn a_million_ops_are_told_once_and_none_that_succeeded_is_named() {
    let bench = bench(0);
    bench.wish(MILLION, None);
    bench.pass();
    bench.force();
    assert_eq!(bench.asked(), (2, 0), "once in each of two passes");
    let (bytes, times) = bench.pass();
    assert!(bytes < 4096 && times < 32, "{bytes} bytes, {times} times for a million ops");
    let stats = bench.running.handle().stats();
    assert_eq!(stats.ops["route"].applied, 2 * 999_000);
    assert_eq!(stats.ops["link"].applied, 2 * 1_000);
    bench.running.stop(LONG).unwrap();
}

#[test]
fn of_a_million_ops_only_those_that_fail_are_named_and_then_all_while_one_is_held() {
    let bench = bench(0);
    bench.wish(MILLION, Some(100_000));
    bench.pass();
    bench.force();
    let (bytes, _) = bench.pass();
    assert!(bytes < 16_384, "{bytes} bytes for ten that failed");
    // In the second pass something is held back, and any op may be on it.
    assert_eq!(bench.asked(), (2, 10 + MILLION));
    assert_eq!(bench.running.handle().stats().backed_off, 10);
    bench.wish(MILLION, None);
    bench.pass();
    bench.force();
    bench.pass();
    bench.asked();
    bench.force();
    assert_eq!(bench.asked(), (1, 0), "none is held any more");
    bench.running.stop(LONG).unwrap();
}

#[test]
fn of_a_million_that_fail_no_more_are_named_than_are_kept_track_of() {
    let asked = Arc::new(Asked::default());
    let report = Many { ops: MILLION, fails: Some(1), asked: Arc::clone(&asked) };
    let passed = PassSummary::of(&report, None);
    assert_eq!(passed.tried(), MILLION);
    assert_eq!(passed.objects.len(), 65_536);
    assert_eq!(asked.keys.load(Ordering::Relaxed), 65_536);
}

/// The same pass for the same change, over ten objects and over a million. The loop runs in steps
/// on one thread, so no other thread decides when things happen.
#[test]
fn a_change_costs_in_the_loop_the_same_however_much_is_desired() {
    let costs = [10, 1_000_000].map(|size| {
        let (mut it, between) = counted(size, &Arc::default());
        let handle = it.handle();
        let costs: Vec<_> = (0..6)
            .map(|ops| {
                handle.change(move |wish: &mut Wish| wish.ops = ops).unwrap();
                assert!(matches!(it.pass(true, false, &|| true, &|_| true), Step::Passed));
                assert!(matches!(it.poll(false), Step::Rest(_)));
                between.try_recv().unwrap()
            })
            .collect();
        // Before the first pass everything was created.
        costs[1..].to_vec()
    });
    assert_eq!(costs[0], costs[1]);
    assert!(costs[1].iter().all(|&(bytes, _)| bytes < 2048), "{costs:?}");
}

/// The loop keeps only the last report, and a converged one only while it holds.
#[test]
fn a_report_is_kept_until_the_next_and_one_that_converged_while_it_stands() {
    let bench = bench(0);
    let handle = bench.running.handle();
    let first = Arc::downgrade(&handle.last_report().unwrap());
    assert!(first.upgrade().unwrap().converged());
    bench.wish(3, Some(1));
    bench.pass();
    bench.force();
    assert!(first.upgrade().is_none(), "no caller could be given it");
    bench.running.stop(LONG).unwrap();
}
