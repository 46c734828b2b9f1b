//! What a source's ownership rests on where the world keeps no marker of it. Not what keys and values mean: they are the
//! source's own, as bytes.

use std::collections::BTreeMap;
use std::error::Error;
use std::fmt;

/// What a key is to be, or turned out to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Claim {
    /// It is ours, and this was last applied to it.
    Ours(Vec<u8>),
    /// It is not ours, or not there.
    NotOurs,
}

/// The namespace and the boot that a ledger is about, by names that are never used again.
///
/// The cookie of a network namespace (`SO_NETNS_COOKIE`) and the id of the boot
/// (`/proc/sys/kernel/random/boot_id`) are such names: a namespace that is made again has another
/// cookie, and a reboot another id, so that neither finds what the former one owned.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LedgerScope {
    namespace: String,
    boot: String,
}

impl LedgerScope {
    /// Makes a scope of two names. For a network namespace, `trueup_rtnl::ledger_scope` reads both.
    pub fn new(namespace: impl Into<String>, boot: impl Into<String>) -> LedgerScope {
        LedgerScope {
            namespace: namespace.into(),
            boot: boot.into(),
        }
    }

    /// The namespace's name.
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// The boot's name.
    pub fn boot(&self) -> &str {
        &self.boot
    }
}

/// What one source owns in one scope, and what it last applied.
///
/// The order of things is the contract. Before the world is touched, [`begin`](Self::begin) records what is intended for each
/// key. After it, [`commit_outcomes`](Self::commit_outcomes) records what is so, as read back. What a crash leaves open in between is found in
/// [`open_intents`](Self::open_intents) by the next pass, which looks at the world and settles it: nothing is assumed.
///
/// With nothing to record neither costs anything.
pub trait Ledger {
    /// The keys that are ours, each with what was last applied to it. One with an open intent is here as it was before that.
    ///
    /// # Errors
    ///
    /// When they cannot be read: then nobody knows what is ours, and nothing is to be done.
    fn owned(&self) -> Result<BTreeMap<Vec<u8>, Vec<u8>>, LedgerError>;

    /// The intents that were begun and not settled.
    ///
    /// # Errors
    ///
    /// As [`owned`](Self::owned).
    fn open_intents(&self) -> Result<BTreeMap<Vec<u8>, Claim>, LedgerError>;

    /// Records what is intended. Once it returns, that is kept as well as the implementation keeps anything.
    ///
    /// # Errors
    ///
    /// When it is not known to be kept, or when an earlier intent of a key is open. Then nothing is to be done to any of
    /// the keys.
    fn begin(&mut self, intents: BTreeMap<Vec<u8>, Claim>) -> Result<(), LedgerError>;

    /// Records what is so, and closes the intents of the keys, if there are any. An intent is not needed: what is adopted, or
    /// was taken from us, is settled without.
    ///
    /// # Errors
    ///
    /// When it is not known to be kept. Intents are then still open, or not: the next pass finds out.
    fn commit_outcomes(&mut self, claims: BTreeMap<Vec<u8>, Claim>) -> Result<(), LedgerError>;
}

/// Why a ledger could not be read or written.
#[derive(Debug)]
pub struct LedgerError(Box<dyn Error + Send + Sync>);

impl LedgerError {
    /// The error of an implementation.
    pub fn new(cause: impl Into<Box<dyn Error + Send + Sync>>) -> LedgerError {
        LedgerError(cause.into())
    }

    /// The implementation's own error.
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

/// A ledger that lives as long as its owner: for tests, and for those who accept that a restart forgets.
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

/// A ledger can be lent to a driver and had back afterwards.
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

#[cfg(test)]
mod tests {
    use super::*;

    fn one(key: &[u8], claim: Claim) -> BTreeMap<Vec<u8>, Claim> {
        BTreeMap::from([(key.to_vec(), claim)])
    }

    #[test]
    fn an_intent_is_open_until_it_is_settled() {
        let mut ledger = MemoryLedger::default();
        let intended = Claim::Ours(b"1".to_vec());
        ledger.begin(one(b"k", intended.clone())).unwrap();
        assert!(ledger.begin(one(b"k", Claim::NotOurs)).is_err());
        assert!(ledger.owned().unwrap().is_empty());
        assert_eq!(ledger.open_intents().unwrap(), one(b"k", intended));
        // What turned out is not what was meant.
        ledger
            .commit_outcomes(one(b"k", Claim::Ours(b"2".to_vec())))
            .unwrap();
        assert!(ledger.open_intents().unwrap().is_empty());
        assert_eq!(ledger.owned().unwrap()[&b"k"[..]], b"2");
        ledger.commit_outcomes(one(b"k", Claim::NotOurs)).unwrap();
        assert!(ledger.owned().unwrap().is_empty());
    }
}
