//! Properties that hold in every interleaving of the threads.

use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use shuttle::future::block_on;
use shuttle::scheduler::{PctScheduler, RandomScheduler, Scheduler};
use shuttle::thread;
use trueup_reconcile::{ErrorClass, MemoryLedger};

use crate::{Config, Driver, Failure, Records, RunContext, Verdict, Vertex, VertexSpec, sync};

/// The number of interleavings tried for each model.
const ORDERS: usize = 600;
/// A time long enough that no caller's wait ends by it.
const LONG: Duration = Duration::from_secs(36_000);

fn check(model: fn()) {
    run(RandomScheduler::new_from_seed(1, ORDERS / 2), model);
    run(PctScheduler::new_from_seed(1, 3, ORDERS / 2), model);
}

fn run(scheduler: impl Scheduler + 'static, model: fn()) {
    let mut config = shuttle::Config::new();
    config.max_steps = shuttle::MaxSteps::FailAfter(100_000);
    shuttle::Runner::new(scheduler, config).run(move || {
        sync::reset();
        model();
    });
}

/// A log of the vertices' calls. Its locks come from the standard library, so the checker does not
/// switch threads at them.
#[derive(Clone, Default)]
struct Log {
    runs: Arc<Mutex<Vec<(&'static str, u32)>>>,
    is_paused: Arc<AtomicBool>,
    running: Arc<AtomicUsize>,
}

impl Log {
    /// Declares a vertex that any other thread can interrupt. It changes something in its first run
    /// if `changes`, and always when refreshed.
    fn vertex(&self, spec: VertexSpec, name: &'static str, changes: bool) -> Declared {
        let log = self.clone();
        let mut is_drifted = changes;
        let run = move |context: &RunContext, apply: bool| {
            assert!(!log.is_paused.load(Ordering::SeqCst), "a run in a pause");
            log.running.fetch_add(1, Ordering::SeqCst);
            thread::yield_now();
            assert!(!log.is_paused.load(Ordering::SeqCst), "it runs on in a pause");
            log.running.fetch_sub(1, Ordering::SeqCst);
            if apply {
                log.runs.lock().unwrap().push((name, context.refreshes()));
            }
            let is_changed = is_drifted || context.refreshes() > 0;
            is_drifted &= !apply;
            Ok(match (is_changed, apply) {
                (false, _) => Verdict::InPlace,
                (true, false) => Verdict::WouldChange,
                (true, true) => Verdict::Changed,
            })
        };
        (spec, Box::new(run))
    }

    fn count(&self, name: &str) -> usize {
        self.runs.lock().unwrap().iter().filter(|it| it.0 == name).count()
    }

    fn refreshes(&self, name: &str) -> u32 {
        let runs = self.runs.lock().unwrap();
        runs.iter().filter(|it| it.0 == name).map(|it| it.1).sum()
    }
}

type Declared = (VertexSpec, Box<dyn Vertex>);

fn start(workers: usize, vertices: impl IntoIterator<Item = Declared>) -> Driver {
    let config = Config::new(NonZeroUsize::new(workers).unwrap());
    let config = config.with_quiet(Duration::ZERO);
    Driver::start(config, vertices, Box::new(MemoryLedger::default())).unwrap()
}

#[test]
fn a_change_is_delivered_once_and_all_ends_converged() {
    check(|| {
        let log = Log::default();
        let driver = start(
            2,
            [
                log.vertex(VertexSpec::new("file"), "file", true),
                log.vertex(VertexSpec::new("service").refreshed_by("file"), "service", false),
            ],
        );
        driver.wait_converged(LONG).unwrap();
        assert_eq!(log.refreshes("service"), 1);
        driver.stop(LONG).unwrap();
    });
}

#[test]
fn no_event_is_lost_whenever_it_comes() {
    check(|| {
        let log = Log::default();
        let driver = Arc::new(start(1, [log.vertex(VertexSpec::new("a"), "a", false)]));
        let (other, seen) = (Arc::clone(&driver), log.clone());
        let sender = thread::spawn(move || {
            let before = seen.count("a");
            other.event("a").unwrap();
            before
        });
        let before = sender.join().unwrap();
        driver.wait_converged(LONG).unwrap();
        assert!(log.count("a") > before, "a run after the event");
        driver.stop(LONG).unwrap();
    });
}

#[test]
fn a_worker_that_sleeps_is_woken_for_an_earlier_time() {
    check(|| {
        let log = Log::default();
        // A time so late that no sleep ends by itself.
        let late = VertexSpec::new("late").with_poll(LONG);
        let limited = VertexSpec::new("limited").with_rate(Duration::from_secs(1), 1);
        let vertices = [log.vertex(late, "late", false), log.vertex(limited, "limited", false)];
        let driver = start(1, vertices);
        for runs in 1..4 {
            driver.wait_converged(LONG).unwrap();
            assert_eq!(log.count("limited"), runs);
            driver.event("limited").unwrap();
        }
        driver.wait_converged(LONG).unwrap();
        driver.stop(LONG).unwrap();
    });
}

/// As with threads: no wake-up of a task is lost, and the driver's end ends each wait.
#[test]
fn tasks_are_woken_when_the_graph_is_at_rest_or_the_driver_ends() {
    check(|| {
        let log = Log::default();
        let vertices = ["a", "b"].map(|it| log.vertex(VertexSpec::new(it), it, false));
        let driver = Arc::new(start(2, vertices));
        let other = Arc::clone(&driver);
        let waiting = thread::spawn(move || {
            block_on(async {
                other.converged().await.unwrap();
                other.event("a").unwrap();
                other.idle().await.unwrap();
            });
        });
        block_on(driver.converged()).unwrap();
        waiting.join().unwrap();
        block_on(driver.paused()).unwrap();
        driver.event("a").unwrap();
        let never = driver.converged();
        let waiting = thread::spawn(move || assert!(block_on(never).unwrap_err().is_stopped()));
        block_on(driver.stopped());
        waiting.join().unwrap();
    });
}

#[test]
fn nothing_runs_between_a_pause_and_its_end() {
    check(|| {
        let log = Log::default();
        let vertices = ["a", "b"].map(|it| log.vertex(VertexSpec::new(it), it, false));
        let driver = Arc::new(start(2, vertices));
        let other = Arc::clone(&driver);
        let sender = thread::spawn(move || other.event("a").unwrap());
        driver.pause(LONG).unwrap();
        assert_eq!(log.running.load(Ordering::SeqCst), 0);
        log.is_paused.store(true, Ordering::SeqCst);
        thread::yield_now();
        thread::yield_now();
        log.is_paused.store(false, Ordering::SeqCst);
        driver.resume();
        sender.join().unwrap();
        driver.wait_converged(LONG).unwrap();
        driver.stop(LONG).unwrap();
    });
}

#[test]
fn a_replacement_a_stop_and_failures_end_whenever_they_come() {
    check(|| {
        let log = Log::default();
        let failing = VertexSpec::new("failing").with_retry(2, Duration::from_millis(5));
        let mut failures = 1;
        let run = move |_: &RunContext, _: bool| match failures {
            0 => Ok(Verdict::InPlace),
            _ => {
                failures -= 1;
                Err(Failure::new(ErrorClass::Busy, "on purpose"))
            }
        };
        let named = VertexSpec::new("named").with_thread("named").after("failing");
        let driver =
            Arc::new(start(2, [(failing, Box::new(run) as _), log.vertex(named, "named", true)]));
        let (other, inner) = (Arc::clone(&driver), log.clone());
        let replacing = thread::spawn(move || {
            let vertices = [inner.vertex(VertexSpec::new("new"), "new", false)];
            other.replace(vertices).unwrap();
        });
        replacing.join().unwrap();
        driver.wait_converged(LONG).unwrap();
        assert_eq!(log.count("new"), 1);
        driver.event("new").unwrap();
        driver.stop(LONG).unwrap();
    });
}

#[test]
fn a_receiver_ends_with_the_last_value_whenever_the_sender_sends_or_is_replaced() {
    check(|| {
        let (sent, seen) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let declare = |revision| -> [Declared; 2] {
            let (sent, seen) = (Arc::clone(&sent), Arc::clone(&seen));
            let spec = VertexSpec::new("a").with_revision(revision);
            let send = move |context: &RunContext, _: bool| {
                thread::yield_now();
                context.send("number", sent.fetch_add(1, Ordering::SeqCst) + 1)?;
                Ok(Verdict::InPlace)
            };
            let receive = move |context: &RunContext, _: bool| {
                let (number, _) = context.received::<usize>("in")?;
                thread::yield_now();
                seen.store(*number, Ordering::SeqCst);
                Ok(Verdict::InPlace)
            };
            let receiver = VertexSpec::new("b").receives::<usize>("in", "a", "number");
            [(spec.sends::<usize>("number"), Box::new(send)), (receiver, Box::new(receive))]
        };
        let driver = Arc::new(start(2, declare(0)));
        let other = Arc::clone(&driver);
        let sender = thread::spawn(move || other.event("a").unwrap());
        driver.replace(declare(1)).unwrap();
        sender.join().unwrap();
        driver.wait_converged(LONG).unwrap();
        let last = sent.load(Ordering::SeqCst);
        assert_eq!(seen.load(Ordering::SeqCst), last);
        driver.stop(LONG).unwrap();
    });
}

/// A vertex that makes a thing. It checks that only one thing exists at a time.
struct Thing(&'static str, Arc<Mutex<Option<&'static str>>>);

impl Vertex for Thing {
    fn check_apply(&mut self, _: &RunContext, apply: bool) -> Result<Verdict, Failure> {
        let mut there = self.1.lock().unwrap();
        match *there {
            Some(name) if name == self.0 => return Ok(Verdict::InPlace),
            _ if !apply => return Ok(Verdict::WouldChange),
            other => assert_eq!(other, None, "made before the old one was undone"),
        }
        *there = Some(self.0);
        drop(there);
        thread::yield_now();
        Ok(Verdict::Changed)
    }

    fn records(&self) -> Records {
        Records::Varying
    }

    fn record(&self) -> Option<Vec<u8>> {
        Some(self.0.into())
    }

    fn reverse(&mut self, _: &RunContext) -> Result<Verdict, Failure> {
        thread::yield_now();
        let mut there = self.1.lock().unwrap();
        if *there == Some(self.0) {
            *there = None;
        }
        Ok(Verdict::Changed)
    }
}

#[test]
fn an_old_thing_is_undone_before_the_new_one_is_made_whenever_the_graph_is_replaced() {
    check(|| {
        let there = Arc::default();
        let declare = |name: &'static str, revision| -> [Declared; 1] {
            let spec = VertexSpec::new("thing").with_revision(revision);
            [(spec, Box::new(Thing(name, Arc::clone(&there))))]
        };
        let driver = start(2, declare("old", 0));
        thread::yield_now();
        driver.replace(declare("newer", 1)).unwrap();
        driver.replace(declare("newest", 2)).unwrap();
        driver.wait_converged(LONG).unwrap();
        assert_eq!(*there.lock().unwrap(), Some("newest"));
        driver.replace([]).unwrap();
        driver.wait_converged(LONG).unwrap();
        assert_eq!(*there.lock().unwrap(), None);
        driver.stop(LONG).unwrap();
    });
}

#[test]
fn a_pause_is_over_when_nothing_runs_whenever_it_comes() {
    check(|| {
        // The pause begins when the vertex was checked and is about to apply.
        let thing: Declared = (VertexSpec::new("thing"), Box::new(Thing("it", Arc::default())));
        let driver = start(1, [thing]);
        let began = sync::now();
        driver.pause(LONG).unwrap();
        driver.resume();
        driver.wait_converged(LONG).unwrap();
        assert!(sync::now() < began + LONG, "it waited for its time");
        driver.stop(LONG).unwrap();
    });
}
