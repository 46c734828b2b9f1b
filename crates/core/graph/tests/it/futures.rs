//! The futures of a driver, under runtimes that do not know them.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Wake, Waker};
use std::time::Duration;

use trueup_graph::{Config, Driver, Error, Failure, Verdict, VertexSpec};
use trueup_reconcile::{ErrorClass, MemoryLedger};

use crate::support::{BOUND, Gate, counted, gated, start, until};

/// Waits for each state of a driver, one after the other.
async fn wait_for_all(driver: Driver, count: Arc<AtomicUsize>) -> Result<(), Error> {
    driver.converged().await?;
    let before = count.load(Ordering::SeqCst);
    driver.paused().await?;
    driver.event("a")?;
    driver.paused().await?;
    assert_eq!(count.load(Ordering::SeqCst), before);
    driver.resume();
    driver.converged().await?;
    assert!(count.load(Ordering::SeqCst) > before);
    driver.event("a")?;
    driver.idle().await?;
    driver.stopped().await;
    assert!(driver.idle().await.map_or_else(|error| error.is_stopped(), |()| true));
    driver.stopped().await;
    Ok(())
}

fn counting() -> (Driver, Arc<AtomicUsize>) {
    let count = Arc::new(AtomicUsize::new(0));
    let vertices = ["a", "b"].map(|it| counted(VertexSpec::new(it), &count));
    // Long enough that the graph is at rest before it counts as converged.
    let config = Config::new(2.try_into().unwrap()).with_quiet(Duration::from_millis(50));
    let driver = Driver::start(config, vertices, Box::new(MemoryLedger::default())).unwrap();
    (driver, count)
}

fn failed() -> Result<Verdict, Failure> {
    Err(Failure::new(ErrorClass::Invalid, "as it is to"))
}

#[test]
fn tasks_wait_for_a_driver_under_smol_and_tokio() {
    let (driver, count) = counting();
    smol::block_on(wait_for_all(driver, count)).unwrap();
    let (driver, count) = counting();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(wait_for_all(driver, count)).unwrap();
}

#[test]
fn the_end_of_a_driver_ends_every_future() {
    for is_stopped in [true, false] {
        let gate = Gate::default();
        let driver = start(1, [gated(VertexSpec::new("a"), &gate, failed())]);
        gate.wait_for(1);
        let waiting = [driver.converged(), driver.converged(), driver.converged()];
        let [never, dropped, mut polled] = waiting.map(Box::pin);
        assert!(polled.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        let waiting = std::thread::spawn(move || smol::block_on(never));
        drop((dropped, polled));
        let stopped = is_stopped.then(|| driver.stopped());
        drop(driver);
        gate.open();
        assert!(waiting.join().unwrap().unwrap_err().is_stopped());
        smol::block_on(async {
            if let Some(stopped) = stopped {
                stopped.await;
            }
        });
    }
}

/// It uses the driver's lock, and then panics.
#[test]
fn a_waker_may_call_the_driver_and_panic() {
    struct Calls(Driver, AtomicUsize);
    impl Wake for Calls {
        fn wake(self: Arc<Self>) {
            drop((self.0.snapshot(), self.0.is_converged()));
            self.1.fetch_add(1, Ordering::SeqCst);
            panic!("a waker that panics, as it is to");
        }
    }
    let gate = Gate::default();
    let driver = start(1, [gated(VertexSpec::new("a"), &gate, Ok(Verdict::InPlace))]);
    gate.wait_for(1);
    let calls = Arc::new(Calls(driver, AtomicUsize::new(0)));
    let mut idle = pin!(calls.0.idle());
    let waker = Waker::from(Arc::clone(&calls));
    assert!(idle.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    gate.open();
    until("it is woken", || calls.1.load(Ordering::SeqCst) > 0);
    smol::block_on(idle).unwrap();
    // The graph goes on.
    calls.0.event("a").unwrap();
    calls.0.wait_converged(BOUND).unwrap();
    calls.0.stop(BOUND).unwrap();
}

/// A poll keeps the graph from being idle, although it is converged. It also keeps a timer.
#[test]
fn a_task_that_waits_for_an_idle_graph_sleeps() {
    let spec = VertexSpec::new("a").with_poll(Duration::from_secs(3_600));
    let driver = start(1, [counted(spec, &Arc::default())]);
    driver.wait_converged(BOUND).unwrap();
    let mut idle = pin!(driver.idle());
    let mut polls = 0;
    let waiting = std::future::poll_fn(|context| {
        polls += 1;
        idle.as_mut().poll(context)
    });
    let is_idle = smol::block_on(smol::future::or(async { waiting.await.is_ok() }, async {
        smol::Timer::after(Duration::from_millis(100)).await;
        false
    }));
    assert!(!is_idle);
    assert!(polls < 10, "{polls} polls");
    driver.stop(BOUND).unwrap();
}

#[test]
fn the_end_of_a_driver_with_a_named_thread_ends_every_future() {
    let gate = Gate::default();
    // It does not converge, so the order of its end and of the stop does not matter.
    let driver = start(1, [gated(VertexSpec::new("a").with_thread("named"), &gate, failed())]);
    gate.wait_for(1);
    let waiting = driver.converged();
    let waiting = std::thread::spawn(move || smol::block_on(waiting));
    let stopped = driver.stopped();
    gate.open();
    smol::block_on(stopped);
    let (sender, ended) = std::sync::mpsc::channel();
    std::thread::spawn(move || sender.send(waiting.join().unwrap()));
    assert!(ended.recv_timeout(BOUND).unwrap().unwrap_err().is_stopped());
}

#[test]
fn a_stop_that_waits_blocks_no_other_call() {
    let gate = Gate::default();
    let vertex = gated(VertexSpec::new("a"), &gate, Ok(Verdict::InPlace));
    let driver = Arc::new(start(1, [vertex]));
    gate.wait_for(1);
    let waiting = Arc::clone(&driver);
    let stopping = std::thread::spawn(move || waiting.stop(BOUND));
    let waits = pin!(driver.converged());
    assert!(smol::block_on(waits).unwrap_err().is_stopped());
    // The other thread now waits.
    let stopped = driver.stopped();
    gate.open();
    smol::block_on(stopped);
    stopping.join().unwrap().unwrap();
}
