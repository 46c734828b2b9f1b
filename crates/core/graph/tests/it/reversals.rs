//! Reversals of vertices that left while no process ran.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use trueup_graph::{Driver, Failure, Record, Records, RunContext, Verdict, Vertex, VertexSpec};
use trueup_journal::{Journal, LedgerScope};
use trueup_reconcile::{Claim, ErrorClass, Ledger, MemoryLedger};
use trueup_testkit::Scratch;

use crate::support::{BOUND, Declared, Gate, SharedLedger, Steps, config, dying, until};

/// The state that outlives a process: the existing things, and the undone ones in order.
#[derive(Default)]
struct World {
    there: BTreeSet<String>,
    undone: Vec<String>,
}

type Shared = Arc<Mutex<World>>;

/// A vertex that makes a thing; the thing in `needs` must exist before.
struct Thing {
    name: String,
    needs: Option<String>,
    world: Shared,
    steps: Steps,
}

impl Vertex for Thing {
    fn check_apply(&mut self, _: &RunContext, apply: bool) -> Result<Verdict, Failure> {
        if self.world.lock().unwrap().there.contains(&self.name) {
            return Ok(Verdict::InPlace);
        }
        if !apply {
            return Ok(Verdict::WouldChange);
        }
        let make = || {
            let mut world = self.world.lock().unwrap();
            let is_met = |it: &String| world.there.contains(it);
            assert!(self.needs.as_ref().is_none_or(is_met));
            world.there.insert(self.name.clone());
        };
        self.steps.act(make).map(|()| Verdict::Changed)
    }

    fn records(&self) -> Records {
        Records::Varying
    }

    fn record(&self) -> Option<Vec<u8>> {
        Some(self.name.clone().into_bytes())
    }

    fn reverse(&mut self, _: &RunContext) -> Result<Verdict, Failure> {
        let undo = || {
            let mut world = self.world.lock().unwrap();
            if world.there.remove(&self.name) {
                world.undone.push(self.name.clone());
            }
        };
        self.steps.act(undo).map(|()| Verdict::Changed)
    }
}

/// A chain of vertices with things, and with a plain vertex before the last.
fn declared(things: &[&str], world: &Shared, steps: &Steps) -> Vec<Declared> {
    let mut vertices: Vec<Declared> = Vec::new();
    for (at, thing) in things.iter().enumerate() {
        let mut spec = VertexSpec::new(&format!("v{at}")).with_retry(0, Duration::ZERO);
        let needs = at.checked_sub(1).map(|at| things[at].to_owned());
        if at > 0 {
            let plain = VertexSpec::new(&format!("plain{at}")).after(&format!("v{}", at - 1));
            let run = |_: &RunContext, _: bool| Ok(Verdict::InPlace);
            vertices.push((plain, Box::new(run)));
            spec = spec.after(&format!("plain{at}"));
        }
        let (name, world, steps) = ((*thing).to_owned(), Arc::clone(world), steps.clone());
        let vertex = Thing { name, needs, world, steps };
        vertices.push((spec, Box::new(vertex)));
    }
    vertices
}

/// Runs a process until it is converged or dead. Returns the number of steps left, and the number
/// of names in the journal.
fn live(things: &[&str], world: &Shared, folder: &std::path::Path, steps: usize) -> (usize, usize) {
    let journal = Journal::open(folder).unwrap();
    let scope = LedgerScope::new("host", "");
    let ledger = journal.ledger("graph", &scope).unwrap();
    let steps = Steps::new(steps);
    let (restored, own) = (Arc::clone(world), steps.clone());
    let driver = Driver::start_with_restore(
        config(2),
        declared(things, world, &steps),
        dying(ledger.clone(), steps.clone()),
        move |name, record| {
            let vertex = Thing {
                name: String::from_utf8_lossy(record).into_owned(),
                needs: None,
                world: Arc::clone(&restored),
                steps: own.clone(),
            };
            Ok((VertexSpec::new(name), Box::new(vertex)))
        },
    )
    .unwrap();
    until("converged or dead", || steps.is_dead() || driver.is_converged());
    driver.stop(BOUND).unwrap();
    (steps.left(), ledger.owned().unwrap().len())
}

const ENOUGH: usize = 1_000;

/// Kills the first process at a step, and one that declares `later` at another. Returns for each if
/// it had ended before.
fn kill_at(folder: &Scratch, later: &[&str], first: usize, second: usize) -> [bool; 2] {
    let path = folder.join(format!("{first}-{second}"));
    let world = Shared::default();
    let (left, _) = live(&["a", "b", "c"], &world, &path, first);
    let (later_left, _) = live(later, &world, &path, second);
    live(later, &world, &path, ENOUGH);
    let text = format!("killed at {first} and {second}");
    let undone = std::mem::take(&mut world.lock().unwrap().undone);
    assert!(undone.is_sorted_by(|one, other| one > other), "{text}: {undone:?}");
    let (idle, records) = live(later, &world, &path, ENOUGH);
    assert_eq!(idle, ENOUGH, "{text}: a later process has nothing to do");
    let world = world.lock().unwrap();
    let there = world.there.iter().map(String::as_str);
    assert_eq!(there.collect::<Vec<_>>(), later, "{text}");
    assert_eq!(records, later.len(), "{text}: a record for each thing");
    [left > 0, later_left > 0]
}

fn kill_everywhere(name: &str, later: &[&str]) {
    let folder = Scratch::make(name).unwrap();
    let mut kills = 0;
    for first in 1.. {
        let mut has_ended = false;
        for second in 1.. {
            let [left, later_left] = kill_at(&folder, later, first, second);
            (has_ended, kills) = (left, kills + 1);
            // For each step of the second process, every third step of the first is enough.
            if later_left || first % 3 > 0 {
                break;
            }
        }
        if has_ended {
            break;
        }
    }
    assert!(kills > 20, "{kills}");
}

#[test]
fn all_that_left_is_undone_in_reverse_order_whatever_step_kills_two_processes() {
    kill_everywhere("undone", &[]);
}

#[test]
fn a_part_that_left_is_undone_and_the_rest_stays_whatever_step_kills_two_processes() {
    kill_everywhere("part", &["a"]);
}

#[test]
fn another_thing_of_the_same_vertex_is_made_after_the_old_one_is_undone_whatever_step_kills() {
    kill_everywhere("exchanged", &["x", "y"]);
}

fn thing(name: &str, thing: &str, world: &Shared) -> Declared {
    let vertex = Thing {
        name: thing.to_owned(),
        needs: None,
        world: Arc::clone(world),
        steps: Steps::new(usize::MAX),
    };
    let spec = VertexSpec::new(name).with_revision(thing.len() as u64);
    (spec, Box::new(vertex))
}

#[test]
fn a_replacement_undoes_the_old_thing_before_the_new_one_is_made() {
    let world = Shared::default();
    let ledger = Box::new(MemoryLedger::default());
    let driver = Driver::start(config(2), [thing("v", "old", &world)], ledger).unwrap();
    driver.wait_converged(BOUND).unwrap();
    driver.replace([thing("v", "newer", &world)]).unwrap();
    driver.wait_converged(BOUND).unwrap();
    let world = world.lock().unwrap();
    assert_eq!(world.there, BTreeSet::from(["newer".to_owned()]));
    assert_eq!(world.undone, ["old"]);
}

/// Writes the record of one thing into a ledger, as an earlier process would have left it.
pub(crate) fn left_behind() -> Box<MemoryLedger> {
    let made = trueup_graph::Made { place: 1, after: Vec::new(), undo: b"thing"[..].into() };
    let record = trueup_graph::Record { made: Some(made), ..Default::default() };
    let claims = BTreeMap::from([(b"v".to_vec(), Claim::Ours(record.to_bytes()))]);
    let mut ledger = Box::new(MemoryLedger::default());
    ledger.commit_outcomes(claims).unwrap();
    ledger
}

#[test]
fn what_cannot_be_restored_is_kept_and_told_until_its_vertex_is_back() {
    let world = Shared::default();
    world.lock().unwrap().there.insert("thing".to_owned());
    let driver = Driver::start(config(2), [], left_behind()).unwrap();
    until("it fails", || driver.explain("v").unwrap().attempts > 0);
    let explained = driver.explain("v").unwrap();
    assert!(explained.reversal, "{explained}");
    let text = explained.to_string();
    assert!(text.contains("what vertex v made is kept"), "{text}");
    assert!(driver.snapshot().to_string().contains("what vertex v made is kept"));
    assert!(driver.wait_converged(Duration::ZERO).unwrap_err().is_timed_out());
    driver.replace([thing("v", "thing", &world)]).unwrap();
    driver.wait_converged(BOUND).unwrap();
    driver.replace([]).unwrap();
    driver.wait_converged(BOUND).unwrap();
    assert_eq!(world.lock().unwrap().undone, ["thing"]);
}

#[test]
fn a_restore_that_fails_or_panics_for_a_while_is_called_again() {
    let world = Shared::default();
    world.lock().unwrap().there.insert("thing".to_owned());
    let (inner, calls) = (Arc::clone(&world), Mutex::new(0));
    let restore = move |name: &str, _: &[u8]| {
        let mut calls = calls.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        *calls += 1;
        assert!(*calls != 1, "on purpose");
        match *calls {
            2 => Err(Failure::new(ErrorClass::Busy, "not yet")),
            _ => Ok(thing(name, "thing", &inner)),
        }
    };
    let driver = Driver::start_with_restore(config(1), [], left_behind(), restore).unwrap();
    driver.wait_converged(BOUND).unwrap();
    assert_eq!(world.lock().unwrap().undone, ["thing"]);
}

/// A vertex that makes a thing on a thread of its own, and waits at a gate meanwhile.
struct Held(Gate, Option<Vec<u8>>);

impl Vertex for Held {
    fn check_apply(&mut self, _: &RunContext, apply: bool) -> Result<Verdict, Failure> {
        if !apply {
            return Ok(Verdict::WouldChange);
        }
        self.0.pass();
        self.1 = Some(b"made".to_vec());
        Ok(Verdict::Changed)
    }

    fn records(&self) -> Records {
        Records::Varying
    }

    fn record(&self) -> Option<Vec<u8>> {
        self.1.clone()
    }
}

#[test]
fn a_stop_writes_the_record_of_a_run_on_a_named_thread() {
    let ledger = Arc::new(Mutex::new(MemoryLedger::default()));
    let gate = Gate::default();
    let vertex = Held(gate.clone(), None);
    let vertices: [Declared; 1] = [(VertexSpec::new("a").with_thread("named"), Box::new(vertex))];
    let shared = Box::new(SharedLedger(Arc::clone(&ledger)));
    let driver = Driver::start(config(1), vertices, shared).unwrap();
    gate.wait_for(1);
    let stopped = driver.stopped();
    gate.open();
    smol::block_on(stopped);
    let owned = ledger.lock().unwrap().owned().unwrap();
    let mut records = owned.values().filter_map(|it| Record::from_bytes(it)?.made);
    assert_eq!(records.next().map(|it| it.undo.to_vec()), Some(b"made".to_vec()), "{owned:?}");
}
