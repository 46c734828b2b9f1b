//! A process that dies at any step, with the journal.
//!
//! A step is a point that other processes can see: before and after a run's effect, and before and
//! after a write of the journal. From the fatal step on, nothing has an effect. A second process
//! then starts from the state left behind.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use trueup_graph::{Driver, Failure, RunContext, Verdict, Vertex, VertexSpec};
use trueup_journal::{Journal, LedgerScope};
use trueup_reconcile::Ledger as _;
use trueup_testkit::Scratch;

use crate::support::{BOUND, Declared, Steps, config, dying, until, vertex};

/// The state that outlives a process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct World {
    /// The version of the file.
    file: u32,
    /// The version that the service has loaded, and the number of its loads.
    service: u32,
    loads: u32,
    /// The same for the page, which the service refreshes.
    page: u32,
    renders: u32,
}

#[derive(Clone)]
struct Process {
    world: Arc<Mutex<World>>,
    steps: Steps,
}

/// The ways in which a process declares the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OfFile {
    Left,
    Checked,
    Announcing,
}

/// The file as a vertex without a preceding check: it announces its changes.
struct AnnouncingFile(Process);

impl Vertex for AnnouncingFile {
    fn check_apply(&mut self, context: &RunContext, _: bool) -> Result<Verdict, Failure> {
        if self.0.world.lock().unwrap().file == 1 {
            return Ok(Verdict::InPlace);
        }
        context.will_change(["content"])?;
        self.0.act(|world| world.file = 1)
    }

    fn announces(&self) -> bool {
        true
    }
}

impl Process {
    /// Applies an effect between two steps.
    fn act(&self, effect: impl FnOnce(&mut World)) -> Result<Verdict, Failure> {
        self.steps.act(|| effect(&mut self.world.lock().unwrap())).map(|()| Verdict::Changed)
    }

    /// Declares a file of version 1, a service that loads it only when refreshed, and a page,
    /// rendered only after the service has loaded something.
    fn vertices(&self, file: OfFile) -> Vec<Declared> {
        let (process, service, page) = (self.clone(), self.clone(), self.clone());
        let spec = |name| VertexSpec::new(name).with_retry(0, Duration::ZERO);
        let mut vertices = Vec::new();
        let mut service_spec = spec("service");
        match file {
            OfFile::Left => {}
            OfFile::Checked => {
                service_spec = service_spec.refreshed_by("file");
                vertices.push(vertex(spec("file"), move |_, apply| {
                    match (process.world.lock().unwrap().file, apply) {
                        (1, _) => return Ok(Verdict::InPlace),
                        (_, false) => return Ok(Verdict::WouldChange),
                        (_, true) => {}
                    }
                    process.act(|world| world.file = 1)
                }));
            }
            OfFile::Announcing => {
                service_spec = service_spec.refreshed_by_kind("file", "content");
                vertices.push((spec("file"), Box::new(AnnouncingFile(process))));
                vertices.push(vertex(
                    spec("mode").refreshed_by_kind("file", "mode"),
                    |context, _| {
                        assert_eq!(context.refreshes(), 0, "the mode of the file does not change");
                        Ok(Verdict::InPlace)
                    },
                ));
            }
        }
        vertices.push(vertex(service_spec, move |context, _| match context.refreshes() {
            0 => Ok(Verdict::InPlace),
            _ => service.act(|world| {
                world.service = world.file;
                world.loads += 1;
            }),
        }));
        let page_spec = spec("page").refreshed_by("service");
        vertices.push(vertex(page_spec, move |context, _| match context.refreshes() {
            0 => Ok(Verdict::InPlace),
            _ => page.act(|world| {
                world.page = world.service;
                world.renders += 1;
            }),
        }));
        vertices
    }
}

/// Runs a process until it is converged or dead. Returns the number of steps left, and the records
/// in the journal at that time.
fn live(
    world: &Arc<Mutex<World>>,
    journal: &Path,
    steps: usize,
    file: OfFile,
) -> (usize, BTreeMap<Vec<u8>, Vec<u8>>) {
    let journal = Journal::open(journal).unwrap();
    let ledger = journal.ledger("graph", &LedgerScope::new("host", "")).unwrap();
    let process = Process { world: Arc::clone(world), steps: Steps::new(steps) };
    let dying = dying(ledger.clone(), process.steps.clone());
    let driver = Driver::start(config(2), process.vertices(file), dying).unwrap();
    until("converged or dead", || process.steps.is_dead() || driver.is_converged());
    driver.stop(BOUND).unwrap();
    let left = process.steps.left();
    (left, ledger.owned().unwrap())
}

const ENOUGH: usize = 1_000;

fn converged() -> World {
    World { file: 1, service: 1, loads: 1, page: 1, renders: 1 }
}

/// Kills a process at a step, starts another, and checks that it did exactly the due work.
fn kill_at(folder: &Scratch, step: usize, file: OfFile, later: OfFile) -> bool {
    let journal = folder.join(step.to_string());
    let world = Arc::new(Mutex::new(World::default()));
    let (left, _) = live(&world, &journal, step, file);
    let killed = world.lock().unwrap().clone();
    let (_, records) = live(&world, &journal, ENOUGH, later);
    let mut end = world.lock().unwrap().clone();
    assert!(records.is_empty(), "step {step}: {records:?} stays in the journal");
    let (_, _) = live(&world, &journal, ENOUGH, later);
    assert_eq!(*world.lock().unwrap(), end, "step {step}: more than was due");
    // A run whose success was not recorded is due again, once.
    let is_once = |before: u32, after: u32| after >= 1 && after <= before + 1;
    if later != OfFile::Left || killed.file == 1 {
        assert!(is_once(killed.loads, end.loads), "step {step}: {killed:?}, {end:?}");
        assert!(is_once(killed.renders, end.renders), "step {step}: {killed:?}, {end:?}");
        (end.loads, end.renders) = (1, 1);
        assert_eq!(end, converged(), "step {step}: {killed:?}");
    }
    left > 0
}

/// Kills a process at each of its steps.
fn kill_at_each(name: &str, file: OfFile, later: OfFile) {
    let folder = Scratch::make(name).unwrap();
    let steps = (1..).take_while(|step| !kill_at(&folder, *step, file, later)).count();
    // There are at least six effects or writes: intent, file, commit, service, commit, page,
    // commit.
    assert!(steps >= 14, "{steps}");
}

#[test]
fn a_refresh_survives_a_kill_at_every_step_and_is_delivered_once() {
    kill_at_each("kills", OfFile::Checked, OfFile::Checked);
}

#[test]
fn a_refresh_survives_a_kill_at_every_step_and_its_sender_that_leaves_meanwhile() {
    kill_at_each("leaving", OfFile::Checked, OfFile::Left);
}

#[test]
fn what_is_announced_survives_a_kill_at_every_step_and_refreshes_by_its_kind() {
    kill_at_each("announcing", OfFile::Announcing, OfFile::Announcing);
}

#[test]
fn what_is_announced_survives_a_kill_at_every_step_and_its_sender_that_leaves_meanwhile() {
    kill_at_each("announcing-leaving", OfFile::Announcing, OfFile::Left);
}
