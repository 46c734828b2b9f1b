//! Values and a ledger that follow a test's script, count calls, and fail together.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard};

use trueup_reconcile::{Claim, Ledger, LedgerError, MemoryLedger};
use trueup_sysctl::{Desired, Files, Key, Report};

type Bytes = Vec<u8>;

pub(crate) fn key(text: &str) -> Key {
    text.parse().unwrap()
}

pub(crate) fn desired(pairs: &[(&str, &str)]) -> Desired {
    Desired::parse(pairs.iter().copied()).unwrap()
}

pub(crate) fn describe(report: &Report) -> String {
    let ops = report.ops().iter().map(ToString::to_string);
    let findings = report.findings().iter().map(ToString::to_string);
    let trouble = report.trouble().map(str::to_owned);
    ops.chain(findings).chain(trouble).collect::<Vec<_>>().join("\n")
}

/// A fault of a key.
#[derive(Clone)]
enum Fault {
    /// Its writes are refused.
    Refuse(i32),
    /// It cannot be read.
    Hide(i32),
    /// It cannot be read until it is written.
    HideUntilWrite(i32),
    /// It cannot be read once it was written.
    HideAfterWrite(i32),
    /// Only this many bytes of a write are taken.
    Short(usize),
    /// One text is stored as another.
    Makes(String, String),
    /// It disappears when it is written.
    Vanish,
    /// Another writer changes it after it was read back.
    Flip(String),
    /// It is refused until another key has a value.
    Needs(Key, String),
}

#[derive(Default)]
struct Inner {
    values: BTreeMap<Key, String>,
    faults: BTreeMap<Key, Fault>,
    copies: Vec<(Key, Key)>,
    writes: Vec<(String, String)>,
    /// The key written and not yet read back.
    fresh: Option<Key>,
    /// The number of calls left, or `None` if they are not limited.
    left: Option<u32>,
    dead: bool,
}

/// Stands for the kernel.
#[derive(Clone, Default)]
pub(crate) struct Fake(Arc<Mutex<Inner>>);

impl Fake {
    pub(crate) fn new(values: &[(&str, &str)]) -> Fake {
        let fake = Fake::default();
        for (name, value) in values {
            fake.set(name, value);
        }
        fake
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap()
    }

    fn fault(&self, name: &str, fault: Fault) {
        self.inner().faults.insert(key(name), fault);
    }

    pub(crate) fn set(&self, name: &str, value: &str) {
        self.inner().values.insert(key(name), value.to_owned());
    }

    pub(crate) fn remove(&self, name: &str) {
        self.inner().values.remove(&key(name));
    }

    pub(crate) fn value(&self, name: &str) -> String {
        self.inner().values[&key(name)].clone()
    }

    pub(crate) fn writes(&self) -> Vec<(String, String)> {
        self.inner().writes.clone()
    }

    pub(crate) fn accept(&self, name: &str) {
        self.inner().faults.remove(&key(name));
    }

    pub(crate) fn refuse(&self, name: &str, errno: i32) {
        self.fault(name, Fault::Refuse(errno));
    }

    pub(crate) fn hide(&self, name: &str, errno: i32) {
        self.fault(name, Fault::Hide(errno));
    }

    pub(crate) fn hide_until_write(&self, name: &str, errno: i32) {
        self.fault(name, Fault::HideUntilWrite(errno));
    }

    pub(crate) fn hide_after_write(&self, name: &str, errno: i32) {
        self.fault(name, Fault::HideAfterWrite(errno));
    }

    pub(crate) fn shorten(&self, name: &str, bytes: usize) {
        self.fault(name, Fault::Short(bytes));
    }

    pub(crate) fn makes(&self, name: &str, of: &str, that: &str) {
        self.fault(name, Fault::Makes(of.to_owned(), that.to_owned()));
    }

    pub(crate) fn vanish_at_write(&self, name: &str) {
        self.fault(name, Fault::Vanish);
    }

    pub(crate) fn flip_after_read_back(&self, name: &str, to: &str) {
        self.fault(name, Fault::Flip(to.to_owned()));
    }

    pub(crate) fn needs(&self, name: &str, other: &str, value: &str) {
        self.fault(name, Fault::Needs(key(other), value.to_owned()));
    }

    /// Copies writes of one key to others.
    pub(crate) fn copies(&self, from: &str, to: &[&str]) {
        let pairs = to.iter().map(|to| (key(from), key(to)));
        self.inner().copies.extend(pairs);
    }

    /// Makes everything fail after this many calls of values and ledger.
    pub(crate) fn die_after(&self, calls: u32) {
        self.inner().left = Some(calls);
    }

    /// Ends that, and returns true if the limit was reached.
    pub(crate) fn revive(&self) -> bool {
        let mut inner = self.inner();
        inner.left = None;
        std::mem::take(&mut inner.dead)
    }

    fn alive(&self) -> io::Result<MutexGuard<'_, Inner>> {
        let mut inner = self.inner();
        match &mut inner.left {
            Some(0) => {
                inner.dead = true;
                Err(io::Error::from_raw_os_error(libc::EIO))
            }
            Some(left) => {
                *left -= 1;
                Ok(inner)
            }
            None => Ok(inner),
        }
    }
}

fn errno(errno: i32) -> io::Error {
    io::Error::from_raw_os_error(errno)
}

impl Files for Fake {
    fn read(&self, key: &Key) -> io::Result<Vec<u8>> {
        let mut inner = self.alive()?;
        let hidden = match inner.faults.get(key) {
            Some(Fault::Hide(errno) | Fault::HideUntilWrite(errno)) => Some(*errno),
            _ => None,
        };
        if let Some(hidden) = hidden {
            return Err(errno(hidden));
        }
        let value = inner.values.get(key).ok_or_else(|| errno(libc::ENOENT))?;
        let bytes = format!("{value}\n").into_bytes();
        if inner.fresh.take_if(|fresh| *fresh == *key).is_some()
            && let Some(Fault::Flip(to)) = inner.faults.get(key).cloned()
        {
            inner.values.insert(key.clone(), to);
        }
        Ok(bytes)
    }

    fn write(&self, key: &Key, bytes: &[u8]) -> io::Result<usize> {
        let mut inner = self.alive()?;
        let text = String::from_utf8(bytes.to_vec()).unwrap();
        inner.writes.push((key.path().to_owned(), text.clone()));
        let mut value = text.trim().to_owned();
        let mut taken = bytes.len();
        if !inner.values.contains_key(key) {
            return Err(errno(libc::ENOENT));
        }
        match inner.faults.get(key).cloned() {
            Some(Fault::Refuse(why)) => return Err(errno(why)),
            Some(Fault::HideUntilWrite(_)) => _ = inner.faults.remove(key),
            Some(Fault::HideAfterWrite(why)) => {
                _ = inner.faults.insert(key.clone(), Fault::Hide(why));
            }
            Some(Fault::Short(bytes)) => {
                taken = bytes;
                value = text[..bytes].trim().to_owned();
            }
            Some(Fault::Makes(of, that)) if value == of => value = that,
            Some(Fault::Vanish) => {
                inner.values.remove(key);
                inner.faults.remove(key);
                return Err(errno(libc::ENOENT));
            }
            Some(Fault::Needs(other, needed)) if inner.values[&other] != needed => {
                return Err(errno(libc::EINVAL));
            }
            _ => {}
        }
        let copies: Vec<_> = inner.copies.iter().filter(|(from, _)| from == key).collect();
        let copies: Vec<_> = copies.into_iter().map(|(_, to)| to.clone()).collect();
        for to in copies {
            inner.values.insert(to, value.clone());
        }
        inner.values.insert(key.clone(), value);
        inner.fresh = Some(key.clone());
        Ok(taken)
    }
}

/// A ledger that counts and fails, together with the values.
pub(crate) struct Shaky {
    inner: MemoryLedger,
    fake: Fake,
    calls: usize,
    pub(crate) fail_begin: bool,
    pub(crate) fail_settle: bool,
    pub(crate) fail_read: bool,
}

impl Shaky {
    pub(crate) fn new(fake: &Fake) -> Shaky {
        Shaky {
            inner: MemoryLedger::default(),
            fake: fake.clone(),
            calls: 0,
            fail_begin: false,
            fail_settle: false,
            fail_read: false,
        }
    }

    /// Returns the number of recorded changes.
    pub(crate) fn calls(&self) -> usize {
        self.calls
    }
}

impl Ledger for Shaky {
    fn owned(&self) -> Result<BTreeMap<Bytes, Bytes>, LedgerError> {
        if self.fail_read {
            return Err(LedgerError::new("unreadable"));
        }
        self.inner.owned()
    }

    fn open_intents(&self) -> Result<BTreeMap<Bytes, Claim>, LedgerError> {
        self.inner.open_intents()
    }

    fn begin(&mut self, intents: BTreeMap<Bytes, Claim>) -> Result<(), LedgerError> {
        self.calls += 1;
        drop(self.fake.alive().map_err(LedgerError::new)?);
        if self.fail_begin {
            return Err(LedgerError::new("full"));
        }
        self.inner.begin(intents)
    }

    fn commit_outcomes(&mut self, claims: BTreeMap<Bytes, Claim>) -> Result<(), LedgerError> {
        self.calls += 1;
        drop(self.fake.alive().map_err(LedgerError::new)?);
        if self.fail_settle {
            return Err(LedgerError::new("full"));
        }
        self.inner.commit_outcomes(claims)
    }
}
