//! Shared parts of the journal's tests: devices that remember, lose, tear or refuse their writes.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, SystemTime};

use trueup_journal::{
    Backoff, Error, Execution, Journal, JournalLedger, Keep, LedgerScope, Start, Storage,
};
use trueup_reconcile::{Claim, Ledger as _, LedgerError};

use crate::image::{put, set_len};

/// The size of a disk's atomic write, in bytes.
pub(crate) const BLOCK: usize = 512;

/// Returns the time this many seconds after 1970.
pub(crate) fn at(seconds: u64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)
}

pub(crate) fn ours(value: impl Into<Vec<u8>>) -> Claim {
    Claim::Ours(value.into())
}

/// Returns claims by key, as a ledger takes them.
pub(crate) fn claims<const N: usize>(claims: [(&str, Claim); N]) -> BTreeMap<Vec<u8>, Claim> {
    claims.into_iter().map(|(key, claim)| (key.into(), claim)).collect()
}

/// Returns the journal's own error in a ledger's.
pub(crate) fn cause(error: &LedgerError) -> &Error {
    error.get_ref().downcast_ref().unwrap()
}

/// Begins an operation that must succeed to begin.
pub(crate) fn execute(journal: &Journal, start: Start<'_>) -> Execution {
    match journal.begin(start).unwrap() {
        Ok(execution) => execution,
        Err(key) => panic!("{start:?}: {key:?}"),
    }
}

/// Returns all records of a journal.
pub(crate) fn export(journal: &Journal) -> String {
    let mut out = Vec::new();
    journal.export(&mut out).unwrap();
    String::from_utf8(out).unwrap()
}

/// The events of a device, with the journal's acknowledgements in between.
#[derive(Clone, Debug)]
pub(crate) enum Event {
    Write(u64, Vec<u8>),
    Len(u64),
    Sync,
    Acknowledged,
}

/// Memory that keeps a log, and can be set to fail.
#[derive(Clone, Debug, Default)]
pub(crate) struct Disk(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    bytes: Vec<u8>,
    log: Vec<Event>,
    /// The number of events before all fail; `None` if none fails.
    good: Option<usize>,
    failing: Failing,
    slow: Duration,
}

/// The kind of events that fail.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Failing {
    #[default]
    All,
    Sync,
}

impl Disk {
    pub(crate) fn of(bytes: Vec<u8>) -> Disk {
        let disk = Disk::default();
        disk.state().bytes = bytes;
        disk
    }

    /// Returns a disk with a new journal, whose creation is not in the log.
    pub(crate) fn formatted() -> Disk {
        let disk = Disk::default();
        Journal::create_on(disk.clone()).unwrap();
        disk.state().log.clear();
        disk
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap()
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        self.state().bytes.clone()
    }

    pub(crate) fn log(&self) -> Vec<Event> {
        self.state().log.clone()
    }

    pub(crate) fn acknowledge(&self) {
        self.state().log.push(Event::Acknowledged);
    }

    /// After this many more events, all of them, or all syncs, fail with EIO; `None` ends the
    /// failures.
    pub(crate) fn fail_after(&self, good: Option<usize>, failing: Failing) {
        let mut state = self.state();
        state.good = good;
        state.failing = failing;
    }

    /// Makes every sync take this long.
    pub(crate) fn slow_down(&self, slow: Duration) {
        self.state().slow = slow;
    }

    fn event(&self, event: Event) -> io::Result<MutexGuard<'_, State>> {
        let mut state = self.state();
        if let Some(good) = &mut state.good {
            if *good > 0 {
                *good -= 1;
            } else if state.failing == Failing::All || matches!(event, Event::Sync) {
                return Err(io::Error::from_raw_os_error(5));
            }
        }
        state.log.push(event);
        Ok(state)
    }
}

impl Storage for Disk {
    fn len(&self) -> io::Result<u64> {
        Ok(self.state().bytes.len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let state = self.state();
        let offset = offset as usize;
        let there = state.bytes.get(offset..offset + out.len());
        out.copy_from_slice(there.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let mut state = self.event(Event::Write(offset, data.to_vec()))?;
        put(&mut state.bytes, offset, data);
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let mut state = self.event(Event::Len(len))?;
        set_len(&mut state.bytes, len as usize);
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        let slow = self.event(Event::Sync)?.slow;
        std::thread::sleep(slow);
        Ok(())
    }
}

/// Applies an event to an image.
pub(crate) fn apply(bytes: &mut Vec<u8>, event: &Event) {
    match event {
        Event::Write(offset, data) => put(bytes, *offset, data),
        Event::Len(len) => set_len(bytes, *len as usize),
        Event::Sync | Event::Acknowledged => {}
    }
}

/// Numbers that look random and repeat in every run (Steele, Lea, Flood: SplitMix64).
#[derive(Clone, Debug)]
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    pub(crate) fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }
}

/// A step of a workload: one call of the journal, and so one commit.
pub(crate) type Step = fn(&Journal);

/// Returns every kind of step, each of them one commit.
pub(crate) fn workload() -> Vec<Step> {
    const BACKOFF: Backoff = Backoff { tries: 3, next: SystemTime::UNIX_EPOCH };
    fn ledger(journal: &Journal) -> JournalLedger {
        let scope = LedgerScope::new("cookie 1", "boot 1");
        journal.ledger("rtnl", &scope).unwrap()
    }
    fn numbered(
        numbers: std::ops::Range<u32>,
        claim: fn(u32) -> Claim,
    ) -> BTreeMap<Vec<u8>, Claim> {
        let key = |number: u32| number.to_be_bytes().to_vec();
        numbers.map(|number| (key(number), claim(number))).collect()
    }
    fn long(number: u32) -> Claim {
        ours(format!("value of link {number}, which is not short"))
    }
    fn resumed(journal: &Journal, name: &str) -> Execution {
        journal.resume(name).unwrap()
    }
    vec![
        |journal| drop(execute(journal, Start::new("one", b"first").object(b"vm1"))),
        |journal| resumed(journal, "one").running("task 7").unwrap(),
        |journal| drop(execute(journal, Start::new("keyed", b"").key(b"key"))),
        |journal| resumed(journal, "keyed").succeeded(b"made", at(1)).unwrap(),
        |journal| ledger(journal).begin(numbered(0..40, long)).unwrap(),
        |journal| ledger(journal).commit_outcomes(numbered(0..39, long)).unwrap(),
        |journal| resumed(journal, "one").step(b"second").unwrap(),
        |journal| resumed(journal, "one").succeeded(b"", at(2)).unwrap(),
        |journal| drop(execute(journal, Start::new("two", &[0xFF; 3000]))),
        |journal| {
            let gone = numbered(0..20, |_| Claim::NotOurs);
            ledger(journal).commit_outcomes(gone).unwrap();
        },
        |journal| {
            let two = resumed(journal, "two");
            two.failed("refused", None, at(3)).unwrap();
        },
        |journal| assert_eq!(journal.forget_operations(Keep::Latest(1)).unwrap(), 2),
        |journal| journal.set_backoff(b"vm3", BACKOFF).unwrap(),
        |journal| journal.spend_nonce(b"early", at(9), at(4)).unwrap(),
        |journal| {
            let start = Start::new("three", b"").key(b"key of three").object(b"vm3");
            drop(execute(journal, start.nonce(b"approved", at(20), at(4))));
        },
        |journal| resumed(journal, "three").in_doubt("no answer").unwrap(),
        |journal| assert_eq!(journal.forget_nonces(at(10)).unwrap(), 1),
        |journal| resumed(journal, "three").succeeded(b"done", at(4)).unwrap(),
    ]
}
