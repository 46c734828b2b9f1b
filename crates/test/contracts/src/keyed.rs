//! The contract of a backend of `trueup_reconcile::keyed`, for its tests.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;

use trueup_reconcile::keyed::{
    Backend, Change, Entries, Keyed, Keys, Observation, Ownership, Report,
};
use trueup_reconcile::{
    Claim, ErrorClass, Extent, Ledger, LedgerError, MemoryLedger, PassInput, PassLimits,
    Report as _, Source as _,
};

/// A subsystem for one test, with another writer.
///
/// The subsystem has none of the [`samples`](Self::samples)' keys at first. It may have other
/// objects, which must stay.
pub trait Fixture {
    /// The backend under test.
    type Backend: Backend;

    /// Makes a backend on the subsystem, as a new process does.
    fn backend(&self) -> Self::Backend;

    /// Returns the scope in which the backend acts.
    fn scope(&self) -> &<Self::Backend as Backend>::Scope;

    /// Returns at least three keys, each with two different values that it may have.
    fn samples(&self) -> Vec<Sample<Self::Backend>>;

    /// Sets the value of a key as another writer does, who creates the object if it is missing,
    /// without our marker. `None` removes the object. Returns false if another writer cannot do
    /// this, for example because a key is part of our marker.
    fn write(&self, key: &KeyOf<Self>, value: Option<&ValueOf<Self>>) -> bool;

    /// Describes all objects of other writers. The text changes if one of them does.
    fn bystanders(&self) -> String {
        String::new()
    }
}

/// A key, and two values for it.
pub type Sample<B> = (<B as Backend>::Key, <B as Backend>::Value, <B as Backend>::Value);
type KeyOf<F> = <<F as Fixture>::Backend as Backend>::Key;
type ValueOf<F> = <<F as Fixture>::Backend as Backend>::Value;
type Desired<F> = Entries<KeyOf<F>, ValueOf<F>>;

/// A test of the contract.
pub type Test<F> = fn(&F);

/// Returns the tests of the contract by name. Run each on a fixture of its own. A failing test
/// panics.
pub fn backend_contract<F: Fixture>() -> Vec<(&'static str, Test<F>)>
where
    ValueOf<F>: Debug,
{
    vec![
        ("single_keys_read_as_in_a_full_read", single_keys_read_as_in_a_full_read),
        (
            "a_value_reads_back_and_is_not_written_again",
            a_value_reads_back_and_is_not_written_again,
        ),
        ("a_changed_value_is_replaced_in_place", a_changed_value_is_replaced_in_place),
        ("a_removed_object_is_made_again", a_removed_object_is_made_again),
        ("a_create_takes_no_other_writers_object", a_create_takes_no_other_writers_object),
        (
            "an_object_that_another_writer_makes_first_stays_foreign",
            an_object_that_another_writer_makes_first_stays_foreign,
        ),
        ("a_foreign_object_stays", a_foreign_object_stays),
        ("each_op_has_one_outcome_within_the_limits", each_op_has_one_outcome_within_the_limits),
        (
            "a_crash_at_any_write_of_the_ledger_is_recovered",
            a_crash_at_any_write_of_the_ledger_is_recovered,
        ),
        ("a_change_of_what_is_gone_has_a_class", a_change_of_what_is_gone_has_a_class),
    ]
}

/// Runs the whole contract, each test on a new fixture. `new` must remove the objects of the one
/// before.
///
/// ```
/// use std::cell::RefCell;
/// use std::collections::BTreeMap;
/// use std::io;
/// use std::rc::Rc;
///
/// use trueup_contracts::keyed::{Fixture, Sample, check_backend};
/// use trueup_reconcile::ErrorClass;
/// use trueup_reconcile::keyed::{Backend, Change, Keys, Observation};
///
/// #[derive(Clone, Default)]
/// struct Panel(Rc<RefCell<BTreeMap<String, u8>>>);
///
/// impl Backend for Panel {
///     type Scope = ();
///     type Key = String;
///     type Value = u8;
///     type Error = io::Error;
///     const KIND: &'static str = "dial";
///
///     fn observe(&mut self, _: &(), _: Keys<'_, String>) -> io::Result<Observation<String, u8>> {
///         Ok(self.0.borrow().clone().into())
///     }
///
///     fn apply(&mut self, _: &(), change: &Change<String, u8>) -> io::Result<()> {
///         let (mut dials, key) = (self.0.borrow_mut(), change.key());
///         if dials.get(key) != change.from() {
///             return Err(io::ErrorKind::AlreadyExists.into()); // or gone, or changed
///         }
///         match change.to() {
///             Some(position) => dials.insert(key.clone(), *position),
///             None => dials.remove(key),
///         };
///         Ok(())
///     }
///
///     fn classify(error: &io::Error) -> ErrorClass { error.kind().into() }
/// }
///
/// impl Fixture for Panel {
///     type Backend = Panel;
///
///     fn backend(&self) -> Panel { self.clone() }
///     fn scope(&self) -> &() { &() }
///     fn samples(&self) -> Vec<Sample<Panel>> {
///         ["gain", "tone", "bass"].map(|name| (name.to_owned(), 1, 2)).into()
///     }
///     fn write(&self, key: &String, value: Option<&u8>) -> bool {
///         match value {
///             Some(value) => self.0.borrow_mut().insert(key.clone(), *value),
///             None => self.0.borrow_mut().remove(key),
///         };
///         true
///     }
/// }
///
/// check_backend(Panel::default);
/// ```
///
/// # Panics
///
/// A promise is not kept; the message names it.
pub fn check_backend<F: Fixture>(new: impl Fn() -> F)
where
    ValueOf<F>: Debug,
{
    for (name, test) in backend_contract() {
        println!("{name}");
        test(&new());
    }
}

/// A process: a source, and the ledger that outlives it.
struct Process<'a, F: Fixture> {
    fixture: &'a F,
    source: Keyed<F::Backend>,
    ledger: FaultyLedger,
}

impl<'a, F: Fixture> Process<'a, F> {
    fn new(fixture: &'a F) -> Self {
        let source = Keyed::new(fixture.backend());
        Process { fixture, source, ledger: FaultyLedger::default() }
    }

    fn restart(&mut self) {
        self.source = Keyed::new(self.fixture.backend());
        self.ledger.is_dead = false;
        self.ledger.dies_at = None;
    }

    fn pass(
        &mut self,
        desired: &Desired<F>,
        limits: PassLimits<'_>,
    ) -> Report<KeyOf<F>, ValueOf<F>> {
        let input = PassInput::new(self.fixture.scope(), desired, &mut self.ledger, &());
        self.source.reconcile(input.with_limits(limits)).unwrap_or_else(|error| {
            panic!("a pass could not run: {error}");
        })
    }

    /// Runs a pass that must converge.
    fn settle(&mut self, desired: &Desired<F>) -> Report<KeyOf<F>, ValueOf<F>> {
        let report = self.pass(desired, PassLimits::default());
        assert!(report.converged(), "a pass has not converged:\n{}", text(&report));
        report
    }

    /// Checks that another pass does nothing.
    fn assert_settled(&mut self, desired: &Desired<F>) {
        let writes = self.ledger.writes;
        let report = self.settle(desired);
        assert!(report.ops().is_empty(), "a second pass does something:\n{}", text(&report));
        assert_eq!(self.ledger.writes, writes, "a second pass writes to the ledger");
    }

    fn values(&mut self) -> BTreeMap<KeyOf<F>, ValueOf<F>> {
        read(self.fixture, &mut self.source, None).values
    }

    /// Removes what the test has made.
    fn clear(&mut self) {
        for (key, ..) in self.fixture.samples() {
            self.fixture.write(&key, None);
        }
        self.settle(&Entries::default());
    }
}

fn text<K: std::fmt::Display, V>(report: &Report<K, V>) -> String {
    let ops = report.ops().iter().map(|op| format!("  {op}\n"));
    ops.chain(report.trouble().iter().map(|why| format!("  {why}\n"))).collect()
}

/// Reads one of the samples' keys, or all of them. Nothing may be unread.
fn read<F: Fixture>(
    fixture: &F,
    source: &mut Keyed<F::Backend>,
    only: Option<&KeyOf<F>>,
) -> Observation<KeyOf<F>, ValueOf<F>> {
    let keys: BTreeSet<KeyOf<F>> = match only {
        Some(key) => [key.clone()].into(),
        None => fixture.samples().into_iter().map(|(key, ..)| key).collect(),
    };
    let asked = if only.is_some() { Keys::only(&keys) } else { Keys::everything(&keys) };
    let mut seen = source
        .backend_mut()
        .observe(fixture.scope(), asked)
        .unwrap_or_else(|error| panic!("nothing could be read: {error}"));
    assert!(seen.unread.is_empty() && seen.incomplete.is_none(), "a read is not complete");
    seen.values.retain(|key, _| keys.contains(key));
    seen
}

fn first<F: Fixture>(fixture: &F) -> Desired<F> {
    desired::<F>(fixture.samples().into_iter().map(|(key, value, _)| (key, value)))
}

fn second<F: Fixture>(fixture: &F) -> Desired<F> {
    desired::<F>(fixture.samples().into_iter().map(|(key, _, value)| (key, value)))
}

fn desired<F: Fixture>(pairs: impl Iterator<Item = (KeyOf<F>, ValueOf<F>)>) -> Desired<F> {
    let pairs: Vec<_> = pairs.collect();
    assert!(pairs.len() >= 3, "the fixture has fewer than three samples");
    Entries::from_pairs(pairs).unwrap_or_else(|error| panic!("two samples: {}", error.0))
}

fn assert_has<F: Fixture>(process: &mut Process<'_, F>, desired: &Desired<F>)
where
    ValueOf<F>: Debug,
{
    let all = process.values();
    for (key, value) in desired.iter() {
        let found = all.get(key);
        let is_there = found.is_some_and(|found| F::Backend::same(value, found));
        assert!(is_there, "{key} is {found:?}, and {value:?} was applied");
    }
    assert_eq!(all.len(), desired.len(), "more than was applied is there");
}

fn single_keys_read_as_in_a_full_read<F: Fixture>(fixture: &F)
where
    ValueOf<F>: Debug,
{
    let mut process = Process::new(fixture);
    assert!(process.values().is_empty(), "a sample's key has an object at first");
    let desired = first(fixture);
    process.settle(&desired);
    let all = process.values();
    for (key, _) in desired.iter() {
        let one = read(fixture, &mut process.source, Some(key)).values;
        let (one, all) = (one.get(key), all.get(key));
        assert!(one == all, "{key} alone reads as {one:?}, and among all as {all:?}");
    }
    process.clear();
}

fn a_value_reads_back_and_is_not_written_again<F: Fixture>(fixture: &F)
where
    ValueOf<F>: Debug,
{
    let mut process = Process::new(fixture);
    let before = fixture.bystanders();
    for desired in [first(fixture), second(fixture)] {
        let report = process.settle(&desired);
        assert_eq!(report.applied().count(), desired.len(), "{}", text(&report));
        assert_has(&mut process, &desired);
        process.assert_settled(&desired);
        process.restart();
        process.assert_settled(&desired);
    }
    process.settle(&Entries::default());
    assert!(process.values().is_empty(), "a value that is no longer declared is left");
    process.assert_settled(&Entries::default());
    assert_eq!(before, fixture.bystanders(), "another writer's object has changed");
}

fn a_changed_value_is_replaced_in_place<F: Fixture>(fixture: &F)
where
    ValueOf<F>: Debug,
{
    let mut process = Process::new(fixture);
    let mut desired = first(fixture);
    process.settle(&desired);
    process.pass(&desired, PassLimits::default().with_extent(Extent::Dirty));
    let Some((key, _, value)) = fixture.samples().pop() else { return };
    desired.insert(key, value);
    let report = process.pass(&desired, PassLimits::default().with_extent(Extent::Dirty));
    assert!(report.converged() && report.ops().len() == 1, "{}", text(&report));
    assert_eq!(report.ops().first().map(|op| op.change.action()), Some("update"));
    assert_has(&mut process, &desired);
    process.clear();
}

fn a_removed_object_is_made_again<F: Fixture>(fixture: &F)
where
    ValueOf<F>: Debug,
{
    let mut process = Process::new(fixture);
    let desired = first(fixture);
    process.settle(&desired);
    if let Some((key, _)) = desired.iter().next()
        && fixture.write(key, None)
    {
        let report = process.settle(&desired);
        assert_eq!(report.applied().count(), 1, "{}", text(&report));
        assert_has(&mut process, &desired);
    }
    process.clear();
}

fn a_create_takes_no_other_writers_object<F: Fixture>(fixture: &F)
where
    ValueOf<F>: Debug,
{
    let mut process = Process::new(fixture);
    let Some((key, to, other)) = fixture.samples().pop() else { return };
    for foreign in [other, to.clone()] {
        if !fixture.write(&key, Some(&foreign)) {
            break;
        }
        let (before, is_equal) = (process.values(), to == foreign);
        let create = Change::Create { key: key.clone(), to: to.clone() };
        let found = if is_equal { "an equal" } else { "another" };
        match process.source.backend_mut().apply(fixture.scope(), &create) {
            Ok(()) => panic!("another writer made {found} {key}, and a create succeeded"),
            Err(error) => match F::Backend::classify(&error) {
                ErrorClass::Conflict => {}
                ErrorClass::DoneAlready if is_equal => {}
                class => {
                    panic!("another writer made {found} {key}, and a create is {class}: {error}")
                }
            },
        }
        assert!(process.values() == before, "a refused create has changed {key}");
        process.clear();
    }
}

/// Another writer makes an object after it was read as missing, and before ours is made.
fn an_object_that_another_writer_makes_first_stays_foreign<F: Fixture>(fixture: &F)
where
    ValueOf<F>: Debug,
{
    let Some((key, to, other)) = fixture.samples().pop() else { return };
    for foreign in [other, to.clone()] {
        let first = Some((key.clone(), foreign));
        let mut source = Keyed::new(Raced { backend: fixture.backend(), fixture, first });
        let mut ledger = MemoryLedger::default();
        let mut pass = |desired: &Desired<F>| {
            let input = PassInput::new(fixture.scope(), desired, &mut ledger, &());
            source.reconcile(input).unwrap_or_else(|error| panic!("a pass could not run: {error}"))
        };
        pass(&Entries::from(BTreeMap::from([(key.clone(), to.clone())])));
        let mut process = Process::new(fixture);
        let before = process.values();
        if before.is_empty() {
            break; // another writer cannot make it
        }
        pass(&Entries::default());
        assert!(process.values() == before, "another writer's {key} became ours and was deleted");
        assert_eq!(ledger, MemoryLedger::default(), "the ledger has another writer's {key}");
        process.clear();
    }
}

/// A backend whose first change comes after another writer's.
struct Raced<'a, F: Fixture> {
    backend: F::Backend,
    fixture: &'a F,
    first: Option<(KeyOf<F>, ValueOf<F>)>,
}

impl<F: Fixture> Backend for Raced<'_, F> {
    type Scope = <F::Backend as Backend>::Scope;
    type Key = KeyOf<F>;
    type Value = ValueOf<F>;
    type Error = <F::Backend as Backend>::Error;

    const KIND: &'static str = F::Backend::KIND;
    const OWNERSHIP: Ownership = F::Backend::OWNERSHIP;

    fn observe(
        &mut self,
        scope: &Self::Scope,
        keys: Keys<'_, KeyOf<F>>,
    ) -> Result<Observation<KeyOf<F>, ValueOf<F>>, Self::Error> {
        self.backend.observe(scope, keys)
    }

    fn apply(
        &mut self,
        scope: &Self::Scope,
        change: &Change<KeyOf<F>, ValueOf<F>>,
    ) -> Result<(), Self::Error> {
        self.backend.apply(scope, change)
    }

    fn classify(error: &Self::Error) -> ErrorClass {
        F::Backend::classify(error)
    }

    fn apply_all(
        &mut self,
        scope: &Self::Scope,
        changes: &[Change<KeyOf<F>, ValueOf<F>>],
        done: &mut dyn FnMut(Result<(), Self::Error>) -> bool,
    ) {
        if let Some((key, value)) = self.first.take()
            && !self.fixture.write(&key, Some(&value))
        {
            return;
        }
        self.backend.apply_all(scope, changes, done);
    }

    fn same(desired: &ValueOf<F>, observed: &ValueOf<F>) -> bool {
        F::Backend::same(desired, observed)
    }

    fn has_marker(&self, key: &KeyOf<F>, value: &ValueOf<F>) -> bool {
        self.backend.has_marker(key, value)
    }
}

fn a_foreign_object_stays<F: Fixture>(fixture: &F)
where
    ValueOf<F>: Debug,
{
    let mut process = Process::new(fixture);
    let (desired, foreign) = (first(fixture), second(fixture));
    let Some((key, value)) = foreign.iter().next() else { return };
    if fixture.write(key, Some(value)) {
        let before = process.values();
        let report = process.pass(&desired, PassLimits::default());
        assert!(!report.converged(), "converged beside a conflict");
        assert_eq!(report.conflicts().len(), 1, "{}", text(&report));
        process.settle(&Entries::default());
        assert!(process.values() == before, "another writer's {key} was touched");
    }
    if F::Backend::OWNERSHIP == Ownership::Value {
        // It is another writer's from the moment when its value is.
        process.clear();
        process.settle(&desired);
        if fixture.write(key, Some(value)) {
            let report = process.pass(&desired, PassLimits::default());
            assert_eq!(report.findings().len(), 1, "{}", text(&report));
            process.settle(&Entries::default());
            assert!(process.values().len() == 1, "another writer's {key} was touched");
        }
    }
    process.clear();
}

fn each_op_has_one_outcome_within_the_limits<F: Fixture>(fixture: &F)
where
    ValueOf<F>: Debug,
{
    let mut process = Process::new(fixture);
    let desired = first(fixture);
    let all = desired.len();
    for (ops, left) in [(0, all), (1, all), (u64::MAX, all - 1)] {
        let report = process.pass(&desired, PassLimits::default().with_ops(ops));
        let applied = report.applied().count();
        assert_eq!(report.ops().len(), left, "{}", text(&report));
        assert_eq!(applied as u64, ops.min(left as u64), "{}", text(&report));
        assert_eq!(applied + report.pending().count(), left, "{}", text(&report));
    }
    assert_has(&mut process, &desired);
    process.clear();
}

fn a_crash_at_any_write_of_the_ledger_is_recovered<F: Fixture>(fixture: &F)
where
    ValueOf<F>: Debug,
{
    let mut process = Process::new(fixture);
    let before = fixture.bystanders();
    let states = [first(fixture), second(fixture), Entries::default()];
    for is_recorded in [false, true] {
        for desired in &states {
            for write in 0..4 {
                process.ledger.dies_at = Some((process.ledger.writes + write, is_recorded));
                // It ends with an error, or reports the trouble.
                let input = PassInput::new(fixture.scope(), desired, &mut process.ledger, &());
                let _ended = process.source.reconcile(input);
                process.restart();
                if write % 2 == 1 {
                    // The next process wants nothing of it.
                    process.settle(&Entries::default());
                    assert!(process.values().is_empty(), "an object is left after a crash");
                } else {
                    process.settle(desired);
                    assert_has(&mut process, desired);
                    process.assert_settled(desired);
                }
            }
        }
    }
    assert_eq!(before, fixture.bystanders(), "another writer's object has changed");
    assert_eq!(process.ledger.inner, MemoryLedger::default(), "the ledger has a record left");
}

fn a_change_of_what_is_gone_has_a_class<F: Fixture>(fixture: &F)
where
    ValueOf<F>: Debug,
{
    let mut process = Process::new(fixture);
    let Some((key, from, to)) = fixture.samples().pop() else { return };
    let update = Change::Update { key: key.clone(), from: from.clone(), to };
    let delete = Change::Delete { key, from };
    for change in [delete, update] {
        // A subsystem may answer a delete of nothing with success.
        if let Err(error) = process.source.backend_mut().apply(fixture.scope(), &change) {
            let class = F::Backend::classify(&error);
            let action = change.action();
            assert!(!class.is_permanent(), "{action} of nothing ({error}) is {class}: for ever");
        }
    }
    process.clear();
}

/// A ledger whose process can die before or after a write.
#[derive(Default)]
struct FaultyLedger {
    inner: MemoryLedger,
    writes: usize,
    is_dead: bool,
    /// The number of the write at which the process dies, and true if the write is recorded.
    dies_at: Option<(usize, bool)>,
}

impl FaultyLedger {
    fn write(
        &mut self,
        write: impl FnOnce(&mut MemoryLedger) -> Result<(), LedgerError>,
    ) -> Result<(), LedgerError> {
        let dies = self.dies_at.filter(|(at, _)| *at == self.writes);
        let is_recorded = !self.is_dead && dies.is_none_or(|(_, is_recorded)| is_recorded);
        self.is_dead |= dies.is_some();
        self.writes += 1;
        if is_recorded {
            write(&mut self.inner)?;
        }
        if self.is_dead { Err(LedgerError::new("the process is dead")) } else { Ok(()) }
    }
}

impl Ledger for FaultyLedger {
    fn owned(&self) -> Result<BTreeMap<Vec<u8>, Vec<u8>>, LedgerError> {
        self.inner.owned()
    }

    fn open_intents(&self) -> Result<BTreeMap<Vec<u8>, Claim>, LedgerError> {
        self.inner.open_intents()
    }

    fn begin(&mut self, intents: BTreeMap<Vec<u8>, Claim>) -> Result<(), LedgerError> {
        self.write(|ledger| ledger.begin(intents))
    }

    fn commit_outcomes(&mut self, claims: BTreeMap<Vec<u8>, Claim>) -> Result<(), LedgerError> {
        self.write(|ledger| ledger.commit_outcomes(claims))
    }
}
