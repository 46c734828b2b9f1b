//! The ledger: the record of what a source owns where the system keeps no marker. Keys and values
//! are bytes that only the source interprets.

use std::collections::BTreeMap;
use std::error::Error;
use std::fmt;

/// The ownership of a key, as intended or as observed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Claim {
    /// The key is ours, and this value was last applied to it.
    Ours(Vec<u8>),
    /// The key is not ours, or its object does not exist.
    NotOurs,
}

/// The scope of a ledger: a namespace and a boot, by names that are never reused.
///
/// The cookie of a network namespace (`SO_NETNS_COOKIE`) and the id of the boot
/// (`/proc/sys/kernel/random/boot_id`) are such names. A namespace that is created again has
/// another cookie, and a reboot another id, so neither finds the records of the old one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LedgerScope {
    namespace: String,
    boot: String,
}

impl LedgerScope {
    /// Makes a scope from two names. `trueup_rtnl::ledger_scope` reads both for a network
    /// namespace.
    pub fn new(namespace: impl Into<String>, boot: impl Into<String>) -> LedgerScope {
        LedgerScope { namespace: namespace.into(), boot: boot.into() }
    }

    /// Makes the scope of what holds in all boots, such as what is owed to services of the host.
    /// Its boot has no name.
    pub fn of_all_boots(namespace: impl Into<String>) -> LedgerScope {
        LedgerScope::new(namespace, "")
    }

    /// Returns the namespace's name.
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// Returns the boot's name.
    pub fn boot(&self) -> &str {
        &self.boot
    }
}

/// The keys that one source owns in one scope, and the value last applied to each.
///
/// The order of the calls is the contract. Before a pass changes the system, [`begin`](Self::begin)
/// records an intent for each key. After it, [`commit_outcomes`](Self::commit_outcomes) records the
/// outcome as it was read back. A crash in between leaves intents open. The next pass finds them in
/// [`open_intents`](Self::open_intents), observes the objects, and commits their outcomes.
///
/// A call with nothing to record costs nothing.
pub trait Ledger {
    /// Returns the keys that are ours, each with the value last applied to it. A key with an open
    /// intent is listed as it was before the intent.
    ///
    /// # Errors
    ///
    /// When they cannot be read. The source does not know then what it owns, and changes nothing.
    fn owned(&self) -> Result<BTreeMap<Vec<u8>, Vec<u8>>, LedgerError>;

    /// Returns the intents without a committed outcome.
    ///
    /// # Errors
    ///
    /// As [`owned`](Self::owned).
    fn open_intents(&self) -> Result<BTreeMap<Vec<u8>, Claim>, LedgerError>;

    /// Records intents. Once it returns they are as durable as the implementation makes anything.
    ///
    /// # Errors
    ///
    /// When the intents are not known to be recorded, or a key has an open intent already. The
    /// source then changes none of the keys.
    fn begin(&mut self, intents: BTreeMap<Vec<u8>, Claim>) -> Result<(), LedgerError>;

    /// Records outcomes, and closes the intents of their keys. A key needs no intent: adopting an
    /// object, or losing one to another writer, is committed without.
    ///
    /// # Errors
    ///
    /// When the outcomes are not known to be recorded. The intents may still be open: the next pass
    /// reads them.
    fn commit_outcomes(&mut self, claims: BTreeMap<Vec<u8>, Claim>) -> Result<(), LedgerError>;
}

/// An error of a ledger that could not be read or written.
#[derive(Debug)]
pub struct LedgerError(Box<dyn Error + Send + Sync>);

impl LedgerError {
    /// Wraps the error of an implementation.
    pub fn new(cause: impl Into<Box<dyn Error + Send + Sync>>) -> LedgerError {
        LedgerError(cause.into())
    }

    /// Returns the error of the implementation.
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

/// A ledger in memory: for tests, and for programs whose restart may forget what they own.
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
        self.open.extend(intents);
        Ok(())
    }

    fn commit_outcomes(&mut self, claims: BTreeMap<Vec<u8>, Claim>) -> Result<(), LedgerError> {
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
