//! The engine as a vertex of a graph: guests after their dependencies, and before the vertices that
//! they refresh.

use std::fs;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use trueup_control::{Engine, Fixed};
use trueup_graph::{Driver, Failure, RunContext, SourceVertex, Verdict, Vertex, VertexSpec};
use trueup_journal::Journal;
use trueup_loop::Loop;
use trueup_reconcile::{ErrorClass, MemoryLedger};

use crate::engine::{FILE, config, guests, objects};
use crate::support::{TestHost, eventually};

crate::tests![guests_are_a_vertex_between_what_they_need_and_what_they_refresh];

const WAIT: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3_600);

type Declared = (VertexSpec, Box<dyn Vertex>);

fn vertex(
    spec: VertexSpec,
    run: impl FnMut(&RunContext, bool) -> Result<Verdict, Failure> + Send + 'static,
) -> Declared {
    (spec, Box::new(run))
}

/// The guests' network fails at first; each change of a guest refreshes a name server.
fn guests_are_a_vertex_between_what_they_need_and_what_they_refresh() {
    let test = TestHost::new();
    let journal = Journal::open(test.folder.join("journal")).unwrap();
    let provider = Fixed::new(objects(FILE));
    let engine = Engine::new(guests(&test, 0), provider, &journal, config(HOUR)).unwrap();
    // The timer starts no pass within the test.
    let passes = trueup_loop::Config::default().with_interval(HOUR);
    let passes = Loop::new(engine, (), (), MemoryLedger::default(), (), passes);
    let engine = SourceVertex::of_loop(passes);

    let ready = test.folder.join("network");
    let has_network = ready.clone();
    let network = VertexSpec::new("network").with_retry(u32::MAX, Duration::from_millis(10));
    let network = vertex(network, move |_, _| match has_network.exists() {
        true => Ok(Verdict::InPlace),
        false => Err(Failure::new(ErrorClass::Busy, "there is none yet")),
    });
    let spec = VertexSpec::new("guests").after("network").with_retry(0, WAIT);
    let refreshes = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&refreshes);
    let names = VertexSpec::new("names").refreshed_by("guests");
    let names = vertex(names, move |context, apply| {
        let pending = context.refreshes() > 0;
        match (pending, apply) {
            (false, _) => return Ok(Verdict::InPlace),
            (true, false) => return Ok(Verdict::WouldChange),
            (true, true) => count.fetch_add(1, Ordering::SeqCst),
        };
        Ok(Verdict::Changed)
    });
    let workers = trueup_graph::Config::new(NonZeroUsize::new(2).unwrap());
    let workers = workers.with_quiet(Duration::from_millis(1));
    let vertices = [network, (spec, Box::new(engine) as _), names];
    let driver = Driver::start(workers, vertices, Box::new(MemoryLedger::default())).unwrap();

    eventually("the network fails", || driver.explain("network").unwrap().attempts > 0);
    assert!(test.host.guests().unwrap().is_empty(), "no guest is made");
    fs::write(&ready, "").unwrap();
    driver.wait_converged(WAIT).unwrap();
    let runs = |guest: &str| {
        let found = test.host.monitor(guest);
        found.is_ok_and(|mut it| it.guest().is_ok_and(|found| found.is_running))
    };
    assert!(runs("web") && runs("db"));
    let first = refreshes.load(Ordering::SeqCst);
    assert!(first > 0);

    // The end of a process is an event of the backend, which wakes the vertex; no timer does.
    test.kill("db");
    eventually("it is started again", || runs("db"));
    eventually("the names follow", || refreshes.load(Ordering::SeqCst) > first);
    driver.wait_converged(WAIT).unwrap();
    driver.stop(WAIT).unwrap();
}
