//! Groups of vertices with records.

use std::any::Any;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use trueup_graph::{Driver, Failure, Record, Records, RunContext, Verdict, Vertex, VertexSpec};
use trueup_journal::{Journal, JournalLedger, LedgerScope};
use trueup_reconcile::{Claim, ErrorClass, Ledger};
use trueup_testkit::{Claims, InterceptedLedger, Scratch};

use crate::support::{BOUND, Declared, config, until};

/// The numbers that exist, and a log of the calls and writes.
#[derive(Default)]
struct World {
    made: BTreeSet<u8>,
    /// The members of each call, and true if the call was to apply.
    calls: Vec<(Vec<u8>, bool)>,
    /// The vertices that were asked for a record.
    asked: BTreeSet<u8>,
    undone: Vec<u8>,
    /// Each write of the journal: the numbers made according to it, and the ones made by then.
    writes: Vec<(Vec<u8>, BTreeSet<u8>)>,
}

type Shared = Arc<Mutex<World>>;

/// A vertex that makes a number. The number 9 always fails.
struct Number(u8, Shared);

impl Number {
    fn make(&self, apply: bool) -> Result<Verdict, Failure> {
        let mut world = self.1.lock().unwrap();
        match (self.0, world.made.contains(&self.0), apply) {
            (9, ..) => Err(Failure::new(ErrorClass::Invalid, "it cannot be made")),
            (_, true, _) => Ok(Verdict::InPlace),
            (_, false, false) => Ok(Verdict::WouldChange),
            (number, false, true) => {
                world.made.insert(number);
                Ok(Verdict::Changed)
            }
        }
    }
}

impl Vertex for Number {
    fn check_apply(&mut self, _: &RunContext, apply: bool) -> Result<Verdict, Failure> {
        self.1.lock().unwrap().calls.push((vec![self.0], apply));
        self.make(apply)
    }

    fn check_apply_group(
        &mut self,
        others: &mut [&mut dyn Vertex],
        _: &[RunContext],
        apply: bool,
    ) -> Option<Vec<Result<Verdict, Failure>>> {
        let mut all = vec![&*self];
        for other in others {
            let other: &dyn Any = &**other;
            all.push(other.downcast_ref()?);
        }
        let numbers = all.iter().map(|it| it.0).collect();
        self.1.lock().unwrap().calls.push((numbers, apply));
        Some(all.into_iter().map(|it| it.make(apply)).collect())
    }

    fn records(&self) -> Records {
        Records::Varying
    }

    fn record(&self) -> Option<Vec<u8>> {
        self.1.lock().unwrap().asked.insert(self.0);
        Some(vec![self.0])
    }

    fn reverse(&mut self, _: &RunContext) -> Result<Verdict, Failure> {
        let mut world = self.1.lock().unwrap();
        world.made.remove(&self.0);
        world.undone.push(self.0);
        Ok(Verdict::Changed)
    }
}

/// Returns the journal, and notes each of its writes.
fn noting(ledger: JournalLedger, world: Shared) -> Box<dyn Ledger + Send> {
    let write = move |ledger: &mut JournalLedger, claims: Claims| {
        let made = claims.values().filter_map(|claim| match claim {
            Claim::Ours(value) => Some(Record::from_bytes(value)?.made?.undo[0]),
            _ => None,
        });
        let made = made.collect();
        let mut world = world.lock().unwrap();
        let before = world.made.clone();
        world.writes.push((made, before));
        drop(world);
        ledger.commit_outcomes(claims)
    };
    Box::new(InterceptedLedger::new(ledger, write))
}

fn declare(number: u8, world: &Shared) -> Declared {
    let spec = VertexSpec::new(&number.to_string()).unwatched();
    let spec = spec.with_group("numbers").with_retry(0, BOUND);
    (spec, Box::new(Number(number, Arc::clone(world))))
}

/// Starts a driver with a group.
fn start(folder: &Scratch, numbers: &[u8], world: &Shared) -> Driver {
    let journal = Journal::open(folder.join("journal")).unwrap();
    let ledger = journal.ledger("graph", &LedgerScope::new("host", ""));
    let ledger = noting(ledger.unwrap(), Arc::clone(world));
    let vertices: Vec<_> = numbers.iter().map(|it| declare(*it, world)).collect();
    let of_all = Arc::clone(world);
    let restore = move |_: &str, undo: &[u8]| Ok(declare(undo[0], &of_all));
    Driver::start_with_restore(config(3), vertices, ledger, restore).unwrap()
}

#[test]
fn what_each_member_is_about_to_make_is_one_write_before_the_group_applies() {
    let folder = Scratch::make("group-intents").unwrap();
    let world = Shared::default();
    let driver = start(&folder, &[1, 2, 9, 3], &world);
    until("the others are made", || driver.are_converged(&["1", "2", "3"]).unwrap());
    driver.stop(BOUND).unwrap();
    let world = world.lock().unwrap();
    let calls = [(vec![1, 2, 9, 3], false), (vec![1, 2, 3], true)];
    assert_eq!(world.calls, calls);
    assert_eq!(world.writes[0], (vec![1, 2, 3], [].into()));
    assert_eq!(world.asked, [1, 2, 3].into(), "what failed has no record");
}

#[test]
fn members_that_leave_are_undone_alone_also_if_no_process_was_there() {
    let folder = Scratch::make("group-leaving").unwrap();
    let world = Shared::default();
    let driver = start(&folder, &[1, 2, 3, 4], &world);
    driver.wait_converged(BOUND).unwrap();
    driver.stop(BOUND).unwrap();
    world.lock().unwrap().calls.clear();
    let driver = start(&folder, &[1, 2, 4, 5], &world);
    driver.wait_converged(BOUND).unwrap();
    {
        let mut world = world.lock().unwrap();
        assert_eq!(world.undone, [3]);
        assert_eq!(world.made, [1, 2, 4, 5].into());
        assert_eq!(world.calls[0], (vec![1, 2, 4, 5], false));
        (world.undone, world.writes) = Default::default();
    }
    let left = [2, 5].map(|it| declare(it, &world));
    driver.replace(left).unwrap();
    driver.wait_converged(BOUND).unwrap();
    driver.stop(BOUND).unwrap();
    let world = world.lock().unwrap();
    let undone: BTreeSet<u8> = world.undone.iter().copied().collect();
    assert_eq!((undone, &world.made), ([1, 4].into(), &[2, 5].into()));
}
