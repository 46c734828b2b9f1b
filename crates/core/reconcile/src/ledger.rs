//! The ledger: the record of a source's objects where the system keeps no marker. Only the source
//! interprets the keys and values, which are bytes.

use std::collections::BTreeMap;
use std::error::Error;
use std::fmt;

/// The ownership of a key, intended or observed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Claim {
    /// The key is ours, and this value was last applied to it.
    Ours(Vec<u8>),
    /// The key is not ours, or its object does not exist.
    NotOurs,
}

impl Claim {
    /// The length in bytes up to which every ledger holds a key. It may refuse longer ones.
    pub const MAX_KEY: usize = 65_536;
    /// The length in bytes up to which every ledger holds a value. It may refuse longer ones.
    pub const MAX_VALUE: usize = 16 * 1024 * 1024;
}

/// The scope of a ledger: a namespace and a boot, by names that are never reused.
///
/// Such names are the cookie of a network namespace (`SO_NETNS_COOKIE`) and the id of the boot
/// (`/proc/sys/kernel/random/boot_id`). A recreated namespace has another cookie, and a reboot has
/// another id, so neither finds the records of the old one.
///
/// ```
/// use trueup_reconcile::LedgerScope;
///
/// let scope = LedgerScope::new("4026531840", "6d0f1f5c-5d1e-4c4b-8a53-6a1d2c7f9b10");
/// assert_eq!(scope.namespace(), "4026531840");
/// assert_eq!(LedgerScope::of_all_boots("4026531840").boot(), "");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LedgerScope {
    namespace: String,
    boot: String,
}

impl LedgerScope {
    /// Creates a scope from two names. For a network namespace, `trueup_rtnl::ledger_scope` reads
    /// both.
    pub fn new(namespace: impl Into<String>, boot: impl Into<String>) -> LedgerScope {
        LedgerScope { namespace: namespace.into(), boot: boot.into() }
    }

    /// Creates a scope for records valid across boots, such as pending refreshes of services. Its
    /// boot has an empty name.
    pub fn of_all_boots(namespace: impl Into<String>) -> LedgerScope {
        LedgerScope::new(namespace, "")
    }

    /// Returns the namespace's name, such as its cookie.
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// Returns the boot's name; empty for all boots.
    pub fn boot(&self) -> &str {
        &self.boot
    }
}

/// The keys that one source owns in one scope, and the value last applied to each.
///
/// The order of the calls is the contract. Before a pass changes the system, [`begin`](Self::begin)
/// records an intent for each key. Afterwards, [`commit_outcomes`](Self::commit_outcomes) records
/// the outcome that was read back. A crash in between leaves intents open. The next pass finds them
/// in [`open_intents`](Self::open_intents), observes the objects, and commits their outcomes.
///
/// A call with nothing to record costs nothing. A ledger may refuse a whole call for one key or
/// value that is too long, so a source checks each against [`Claim::MAX_KEY`] and
/// [`Claim::MAX_VALUE`].
///
/// ```
/// use std::collections::BTreeMap;
/// use trueup_reconcile::{Claim, Ledger as _, MemoryLedger};
///
/// # fn main() -> Result<(), trueup_reconcile::LedgerError> {
/// let mut ledger = MemoryLedger::default();
/// let key = b"link br0".to_vec();
/// ledger.begin(BTreeMap::from([(key.clone(), Claim::Ours(b"bridge".to_vec()))]))?;
/// // ... create the link, and read it back ...
/// ledger.commit_outcomes(BTreeMap::from([(key.clone(), Claim::Ours(b"bridge".to_vec()))]))?;
/// assert_eq!(ledger.owned()?.get(&key).map(Vec::as_slice), Some(&b"bridge"[..]));
/// # Ok(())
/// # }
/// ```
pub trait Ledger {
    /// Returns our keys, each with the value last applied to it. A key with an open intent appears
    /// as it was before the intent.
    ///
    /// # Errors
    ///
    /// The keys cannot be read. The source then does not know what it owns, and changes nothing.
    fn owned(&self) -> Result<BTreeMap<Vec<u8>, Vec<u8>>, LedgerError>;

    /// Returns the intents without a committed outcome.
    ///
    /// # Errors
    ///
    /// See [`owned`](Self::owned).
    fn open_intents(&self) -> Result<BTreeMap<Vec<u8>, Claim>, LedgerError>;

    /// Records intents. On return they are as durable as the implementation supports.
    ///
    /// # Errors
    ///
    /// The intents may not be recorded, or a key already has an open intent. The source then
    /// changes none of the keys.
    fn begin(&mut self, intents: BTreeMap<Vec<u8>, Claim>) -> Result<(), LedgerError>;

    /// Records outcomes, and closes their keys' intents. A key needs no intent: the source commits
    /// without one if it adopts an object, or loses one to another writer.
    ///
    /// # Errors
    ///
    /// The outcomes may not be recorded. The intents may still be open: the next pass reads them.
    fn commit_outcomes(&mut self, claims: BTreeMap<Vec<u8>, Claim>) -> Result<(), LedgerError>;
}

/// The reason why a ledger could not be read or written.
#[derive(Debug)]
pub struct LedgerError(Box<dyn Error + Send + Sync>);

impl LedgerError {
    /// Wraps an implementation's error, which [`get_ref`](Self::get_ref) returns.
    pub fn new(cause: impl Into<Box<dyn Error + Send + Sync>>) -> LedgerError {
        LedgerError(cause.into())
    }

    /// Returns the implementation's error.
    pub fn get_ref(&self) -> &(dyn Error + Send + Sync + 'static) {
        &*self.0
    }
}

impl fmt::Display for LedgerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Error for LedgerError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.0.source()
    }
}

/// A ledger in memory, for tests, and for programs whose restart may forget what they own. It
/// refuses what a durable ledger may refuse.
///
/// ```
/// use std::collections::BTreeMap;
/// use trueup_reconcile::{Claim, Ledger as _, MemoryLedger};
///
/// let mut ledger = MemoryLedger::default();
/// ledger.commit_outcomes(BTreeMap::from([(b"a".to_vec(), Claim::Ours(b"1".to_vec()))]))?;
/// ledger.commit_outcomes(BTreeMap::from([(b"a".to_vec(), Claim::NotOurs)]))?;
/// assert!(ledger.owned()?.is_empty());
/// # Ok::<(), trueup_reconcile::LedgerError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemoryLedger {
    owned: BTreeMap<Vec<u8>, Vec<u8>>,
    open: BTreeMap<Vec<u8>, Claim>,
}

impl Ledger for MemoryLedger {
    fn owned(&self) -> Result<BTreeMap<Vec<u8>, Vec<u8>>, LedgerError> {
        Ok(self.owned.clone())
    }

    fn open_intents(&self) -> Result<BTreeMap<Vec<u8>, Claim>, LedgerError> {
        Ok(self.open.clone())
    }

    fn begin(&mut self, intents: BTreeMap<Vec<u8>, Claim>) -> Result<(), LedgerError> {
        if intents.keys().any(|key| self.open.contains_key(key)) {
            return Err(LedgerError::new("an earlier intent of a key is still open"));
        }
        check(&intents)?;
        self.open.extend(intents);
        Ok(())
    }

    fn commit_outcomes(&mut self, claims: BTreeMap<Vec<u8>, Claim>) -> Result<(), LedgerError> {
        check(&claims)?;
        for (key, claim) in claims {
            self.open.remove(&key);
            match claim {
                Claim::Ours(value) => drop(self.owned.insert(key, value)),
                Claim::NotOurs => drop(self.owned.remove(&key)),
            }
        }
        Ok(())
    }
}

/// Refuses keys and values that are too long.
fn check(claims: &BTreeMap<Vec<u8>, Claim>) -> Result<(), LedgerError> {
    let is_short = |(key, claim): (&Vec<u8>, &Claim)| {
        let value = match claim {
            Claim::Ours(value) => value.len(),
            Claim::NotOurs => 0,
        };
        key.len() <= Claim::MAX_KEY && value <= Claim::MAX_VALUE
    };
    match claims.iter().all(is_short) {
        true => Ok(()),
        false => Err(LedgerError::new("a key or a value is too long")),
    }
}

/// Lets a caller lend a ledger to a driver.
impl<L: Ledger + ?Sized> Ledger for &mut L {
    fn owned(&self) -> Result<BTreeMap<Vec<u8>, Vec<u8>>, LedgerError> {
        (**self).owned()
    }

    fn open_intents(&self) -> Result<BTreeMap<Vec<u8>, Claim>, LedgerError> {
        (**self).open_intents()
    }

    fn begin(&mut self, intents: BTreeMap<Vec<u8>, Claim>) -> Result<(), LedgerError> {
        (**self).begin(intents)
    }

    fn commit_outcomes(&mut self, claims: BTreeMap<Vec<u8>, Claim>) -> Result<(), LedgerError> {
        (**self).commit_outcomes(claims)
    }
}
