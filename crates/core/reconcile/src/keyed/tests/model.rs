//! A model of a subsystem with other writers, and of a process that can die at any point.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::panic::resume_unwind;
use std::rc::Rc;
use std::time::{Duration, Instant};

use crate::keyed::{Backend, Change, Events, Keyed, Keys, Observation, Ownership};
use crate::{Claim, ErrorClass, Hints, Ledger, LedgerError, MemoryLedger, Subscribed};

pub(super) const BY_VALUE: u8 = 0;
pub(super) const BY_KEY: u8 = 1;
pub(super) const BY_MARKER: u8 = 2;

/// Values below this number are ours, others another writer's.
pub(super) const FOREIGN: u8 = 100;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Object {
    pub(super) value: u8,
    pub(super) is_made_by_us: bool,
    pub(super) is_set_by_us: bool,
    pub(super) is_marked: bool,
}

/// The subsystem, and everything outside of the process.
#[derive(Default)]
pub(super) struct World {
    pub(super) objects: BTreeMap<u8, Object>,
    pub(super) events: BTreeSet<u8>,
    pub(super) ledger: MemoryLedger,
    /// The keys in the ledger.
    recorded: BTreeSet<Vec<u8>>,
    /// The decisions still to make. Without one, nothing bad happens.
    pub(super) script: VecDeque<u8>,
    /// True once the process is dead: nothing that it does has an effect.
    pub(super) is_dead: bool,
    /// The last observation, with the objects as they were.
    pub(super) seen: Option<Observation<u8, u8>>,
    marked: BTreeSet<u8>,
    pub(super) asked: Vec<BTreeSet<u8>>,
    pub(super) applies: usize,
    pub(super) ledger_writes: usize,
    pub(super) violations: Vec<String>,
    ownership: u8,
}

pub(super) type Shared = Rc<RefCell<World>>;

pub(super) fn world<const O: u8>(script: Vec<u8>) -> Shared {
    let script = script.into();
    Rc::new(RefCell::new(World { script, ownership: O, ..World::default() }))
}

impl World {
    /// Returns the next decision; 0 once all were made.
    pub(super) fn next(&mut self) -> u8 {
        self.script.pop_front().unwrap_or(0)
    }

    fn chance(&mut self, of: u8) -> bool {
        self.next() % of == 1
    }

    /// A point between two instructions: the process may die, and another writer may act.
    fn tick(&mut self) {
        if self.chance(24) {
            self.is_dead = true;
        }
        if self.chance(6) {
            self.act();
        }
    }

    /// Lets another writer act.
    pub(super) fn act(&mut self) {
        let (key, value) = (self.next() % 6, FOREIGN + self.next() % 50);
        match (self.next() % 4, self.objects.get_mut(&key)) {
            (0, Some(_)) => drop(self.objects.remove(&key)),
            (1, Some(object)) => {
                (object.value, object.is_set_by_us) = (value, false);
            }
            (2, Some(object)) => {
                (object.value, object.is_set_by_us, object.is_marked) = (value, false, false);
            }
            (_, None) => {
                // By key, an object of ours that is missing and made by another writer cannot be
                // distinguished from ours.
                let is_recorded = self.recorded.contains(key.to_string().as_bytes());
                if self.ownership != BY_KEY || !is_recorded {
                    self.put(key, value);
                }
            }
            _ => return,
        }
        self.events.insert(key);
    }

    /// Makes an object of another writer.
    pub(super) fn put(&mut self, key: u8, value: u8) {
        let (is_made_by_us, is_set_by_us, is_marked) = (false, false, false);
        self.objects.insert(key, Object { value, is_made_by_us, is_set_by_us, is_marked });
        self.events.insert(key);
    }

    /// True if the object must not be touched.
    pub(super) fn is_foreign(&self, object: &Object) -> bool {
        match self.ownership {
            BY_VALUE => !object.is_set_by_us,
            BY_KEY => !object.is_made_by_us,
            _ => !object.is_marked,
        }
    }

    fn make(&mut self, change: &Change<u8, u8>) -> Result<(), Refused> {
        let key = *change.key();
        self.check(change);
        let now = self.objects.get(&key).copied();
        if now.map(|now| now.value).as_ref() != change.from() {
            return Err(Refused(ErrorClass::Conflict));
        }
        if now.is_some_and(|now| self.is_foreign(&now)) {
            if self.ownership == BY_MARKER && self.marked.contains(&key) {
                // Its marker went after it was read. The subsystem compares it with the value.
                return Err(Refused(ErrorClass::Conflict));
            }
            self.violations.push(format!("{change:?} takes another writer's {now:?}"));
        }
        match change.to() {
            None => drop(self.objects.remove(&key)),
            Some(value) => {
                let is_made_by_us = now.is_none_or(|now| now.is_made_by_us);
                let (value, is_set_by_us, is_marked) = (*value, true, true);
                let object = Object { value, is_made_by_us, is_set_by_us, is_marked };
                self.objects.insert(key, object);
            }
        }
        self.events.insert(key);
        Ok(())
    }

    /// Checks that a change is based on what was read.
    fn check(&mut self, change: &Change<u8, u8>) {
        self.applies += 1;
        let Some(seen) = &self.seen else { return };
        let key = change.key();
        let is_known = !seen.unread.contains_key(key)
            && (seen.incomplete.is_none() || matches!(change, Change::Update { .. }));
        if !is_known || seen.values.get(key) != change.from() {
            self.violations.push(format!("{change:?} was not read: {seen:?}"));
        }
    }
}

pub(super) struct Model<const O: u8>(pub(super) Shared);

#[derive(Debug)]
pub(super) struct Refused(ErrorClass);

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "refused as {}", self.0)
    }
}

impl std::error::Error for Refused {}

impl<const O: u8> Backend for Model<O> {
    type Scope = ();
    type Key = u8;
    type Value = u8;
    type Error = Refused;

    const KIND: &'static str = "model";
    const OWNERSHIP: Ownership = match O {
        BY_VALUE => Ownership::Value,
        BY_KEY => Ownership::Key,
        _ => Ownership::Marker,
    };

    fn observe(&mut self, (): &(), keys: Keys<'_, u8>) -> Result<Observation<u8, u8>, Refused> {
        let mut world = self.0.borrow_mut();
        world.tick();
        world.asked.push(keys.iter().copied().collect());
        if world.is_dead || world.chance(24) {
            return Err(Refused(ErrorClass::Busy));
        }
        if world.chance(30) {
            resume_unwind(Box::new("planted"));
        }
        // A backend may return more than it was asked for.
        let returns_all = keys.is_everything() || world.chance(4);
        let values = world.objects.iter().filter(|(key, _)| returns_all || keys.contains(key));
        let mut seen = Observation::from_iter(values.map(|(key, it)| (*key, it.value)));
        if world.chance(10) {
            seen = seen.with_unread(world.next() % 6, "planted");
        }
        if world.chance(10) {
            let lost = world.next() % 6;
            seen.values.remove(&lost);
            seen = seen.with_incomplete("planted");
        }
        world.seen = Some(seen.clone());
        let marked = world.objects.iter().filter(|(_, object)| object.is_marked);
        world.marked = marked.map(|(key, _)| *key).collect();
        world.tick();
        if world.is_dead { Err(Refused(ErrorClass::Busy)) } else { Ok(seen) }
    }

    fn has_marker(&self, key: &u8, _: &u8) -> bool {
        self.0.borrow().marked.contains(key)
    }

    fn apply(&mut self, (): &(), change: &Change<u8, u8>) -> Result<(), Refused> {
        let mut world = self.0.borrow_mut();
        world.tick();
        if world.is_dead {
            return Err(Refused(ErrorClass::Unknown));
        }
        match world.next() % 24 {
            1 => return Err(Refused(ErrorClass::Busy)),
            2 => return Err(Refused(ErrorClass::Invalid)),
            3 => resume_unwind(Box::new("planted")),
            4 => {
                let _made = world.make(change);
                return Err(Refused(ErrorClass::Unknown));
            }
            5 => {
                let _made = world.make(change);
                resume_unwind(Box::new("planted".to_owned()));
            }
            _ => {}
        }
        let made = world.make(change);
        world.tick();
        made
    }

    fn classify(error: &Refused) -> ErrorClass {
        error.0
    }

    fn subscribe(&mut self, (): &(), _: Hints) -> Subscribed<(), Refused> {
        Subscribed::Active(())
    }

    fn reports_every_change(&self) -> bool {
        true
    }

    fn drain(&mut self) -> Result<Events<u8>, Refused> {
        Ok(Events::Keys(std::mem::take(&mut self.0.borrow_mut().events)))
    }
}

/// The ledger of a process that can die before or after each write.
pub(super) struct ModelLedger(pub(super) Shared);

impl ModelLedger {
    fn write(
        &mut self,
        write: impl FnOnce(&mut MemoryLedger) -> Result<(), LedgerError>,
    ) -> Result<(), LedgerError> {
        let mut world = self.0.borrow_mut();
        world.tick();
        if world.is_dead || world.chance(24) {
            return Err(LedgerError::new("planted, and not recorded"));
        }
        world.ledger_writes += 1;
        write(&mut world.ledger)?;
        let owned = world.ledger.owned()?.into_keys();
        world.recorded = owned.chain(world.ledger.open_intents()?.into_keys()).collect();
        world.tick();
        if world.is_dead || world.chance(24) {
            return Err(LedgerError::new("planted, and recorded"));
        }
        Ok(())
    }
}

impl Ledger for ModelLedger {
    fn owned(&self) -> Result<BTreeMap<Vec<u8>, Vec<u8>>, LedgerError> {
        self.0.borrow().ledger.owned()
    }

    fn open_intents(&self) -> Result<BTreeMap<Vec<u8>, Claim>, LedgerError> {
        self.0.borrow().ledger.open_intents()
    }

    fn begin(&mut self, intents: BTreeMap<Vec<u8>, Claim>) -> Result<(), LedgerError> {
        self.write(|ledger| ledger.begin(intents))
    }

    fn commit_outcomes(&mut self, claims: BTreeMap<Vec<u8>, Claim>) -> Result<(), LedgerError> {
        self.write(|ledger| ledger.commit_outcomes(claims))
    }
}

thread_local! {
    static BEGIN: Instant = Instant::now();
    static PASSED: Cell<Duration> = const { Cell::new(Duration::ZERO) };
}

/// Lets time pass for the sources of this thread.
pub(super) fn pass_time(time: Duration) {
    PASSED.set(PASSED.get() + time);
}

/// Makes a source on the model, with the thread's own clock.
pub(super) fn source<B: Backend>(backend: B) -> Keyed<B> {
    let mut source = Keyed::new(backend);
    source.clock = || BEGIN.with(|begin| *begin) + PASSED.get();
    source
}
