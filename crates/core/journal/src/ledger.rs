//! The ledger: the keys that a source owns in a scope, and the value last applied to each.
//!
//! It is the durable [`trueup_reconcile::Ledger`]. A pass commits all its intents before its first
//! change, and their outcomes after its last. A crash in between leaves intents open; the next pass
//! observes the objects and closes them.

use std::collections::{BTreeMap, BTreeSet};

use trueup_reconcile::{Claim, Ledger, LedgerError, LedgerScope};

use crate::record::{Decoder, Encoder, Keyspace, MAX_KEY, Transaction, check_len, get, scan};
use crate::{Error, Journal, Refusal};

type Claims = BTreeMap<Vec<u8>, Claim>;

/// The ledger of one source in one scope. Clones share it, and can be used in parallel.
///
/// [`LedgerError::get_ref`] returns the [`Error`] behind a [`LedgerError`].
#[derive(Clone, Debug)]
pub struct JournalLedger {
    journal: Journal,
    /// Source and scope: the beginning of every key of this ledger.
    prefix: Vec<u8>,
}

impl JournalLedger {
    pub(crate) fn new(journal: &Journal, source: &str, scope: &LedgerScope) -> Result<Self, Error> {
        check_len("a source's name", source.as_bytes(), MAX_KEY)?;
        check_len("a namespace's name", scope.namespace().as_bytes(), MAX_KEY)?;
        check_len("a boot's name", scope.boot().as_bytes(), MAX_KEY)?;
        let prefix = Encoder::default()
            .bytes(source.as_bytes())
            .bytes(scope.namespace().as_bytes())
            .bytes(scope.boot().as_bytes());
        Ok(JournalLedger { journal: journal.clone(), prefix: prefix.0 })
    }

    /// Returns the value last applied to `key`; `None` if the key is not ours.
    ///
    /// # Errors
    ///
    /// The value cannot be read.
    pub fn last_applied(&self, key: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        let key = record_key(&self.prefix, Keyspace::Owned, key);
        self.journal.read(|records| get(records, &key))
    }

    /// Returns true if it has neither a record nor an open intent.
    ///
    /// # Errors
    ///
    /// The ledger cannot be read.
    pub fn is_empty(&self) -> Result<bool, Error> {
        self.journal.read(|records| {
            for space in [Keyspace::Owned, Keyspace::Intent] {
                if scan(records, &space.key(&self.prefix))?.next().is_some() {
                    return Ok(false);
                }
            }
            Ok(true)
        })
    }

    /// Forgets everything of this source in this scope, including open intents: for a namespace
    /// that is gone. Returns the number of removed records.
    ///
    /// # Errors
    ///
    /// The errors of any write.
    pub fn forget(&self) -> Result<u64, Error> {
        let prefix = self.prefix.clone();
        self.journal.write(move |transaction| forget(transaction, &prefix, |_| true))
    }

    fn all<T>(
        &self,
        space: Keyspace,
        parse: impl Fn(Vec<u8>) -> Result<T, Error>,
    ) -> Result<BTreeMap<Vec<u8>, T>, LedgerError> {
        let found = self.journal.read(|records| {
            scan(records, &space.key(&self.prefix))?
                .map(|entry| entry.and_then(|(key, value)| Ok((key, parse(value)?))))
                .collect()
        });
        found.map_err(LedgerError::new)
    }

    /// Checks the lengths, and runs `work` in one commit. Without claims, there is no commit.
    fn write(
        &self,
        claims: Claims,
        work: fn(&mut Transaction<'_>, &[u8], Claims) -> Result<(), Error>,
    ) -> Result<(), Error> {
        for (key, claim) in &claims {
            check_len("a key", key, Claim::MAX_KEY)?;
            if let Claim::Ours(value) = claim {
                check_len(&format!("the value of {}", shown(key)), value, Claim::MAX_VALUE)?;
            }
        }
        if claims.is_empty() {
            return Ok(());
        }
        let prefix = self.prefix.clone();
        self.journal.write(move |transaction| work(transaction, &prefix, claims))
    }
}

impl Ledger for JournalLedger {
    fn owned(&self) -> Result<BTreeMap<Vec<u8>, Vec<u8>>, LedgerError> {
        self.all(Keyspace::Owned, Ok)
    }

    fn open_intents(&self) -> Result<Claims, LedgerError> {
        self.all(Keyspace::Intent, |value| parse_claim(&value))
    }

    /// Makes one commit, or none if there are no intents. After an error, the intents may not be
    /// recorded, and the caller changes nothing: [`Refused`](crate::ErrorKind::Refused) with
    /// [`OpenIntent`](Refusal::OpenIntent), [`Invalid`](crate::ErrorKind::Invalid) if a key is
    /// longer than [`Claim::MAX_KEY`] or a value than [`Claim::MAX_VALUE`], and as for any write
    /// [`NotDurable`](crate::ErrorKind::NotDurable) and [`ReadOnly`](crate::ErrorKind::ReadOnly).
    fn begin(&mut self, intents: Claims) -> Result<(), LedgerError> {
        self.write(intents, begin).map_err(LedgerError::new)
    }

    /// Makes one commit, or none if nothing changes. Intents that are not named stay open. The
    /// errors are the same as for [`begin`](Ledger::begin), except for the refusal.
    fn commit_outcomes(&mut self, claims: Claims) -> Result<(), LedgerError> {
        self.write(claims, commit_outcomes).map_err(LedgerError::new)
    }
}

impl Journal {
    /// Returns the sources and scopes that have records in the ledger, in order.
    ///
    /// # Errors
    ///
    /// The records cannot be read.
    pub fn scopes(&self) -> Result<Vec<(String, LedgerScope)>, Error> {
        self.read(|records| {
            let mut found = BTreeSet::new();
            for space in [Keyspace::Owned, Keyspace::Intent] {
                for entry in scan(records, &space.key(&[]))? {
                    let (source, scope, _) = parse_record_key(&entry?.0)?;
                    found.insert((source, scope));
                }
            }
            Ok(found.into_iter().collect())
        })
    }

    /// Forgets everything owned in other boots than `boot`, because their kernels' state is gone. A
    /// scope whose boot is empty is valid across boots, and stays. Returns the number of removed
    /// records.
    ///
    /// # Errors
    ///
    /// The errors of any write.
    pub fn forget_other_boots(&self, boot: &str) -> Result<u64, Error> {
        let kept = boot.to_owned();
        self.write(move |transaction| {
            forget(transaction, &[], |scope| !scope.boot().is_empty() && scope.boot() != kept)
        })
    }
}

/// Checks all intents before it writes the first, so a refusal writes nothing.
fn begin(transaction: &mut Transaction<'_>, prefix: &[u8], intents: Claims) -> Result<(), Error> {
    for key in intents.keys() {
        if transaction.get(&record_key(prefix, Keyspace::Intent, key))?.is_some() {
            return Err(Error::refused(Refusal::OpenIntent, shown(key)));
        }
    }
    for (key, claim) in &intents {
        transaction.put(&record_key(prefix, Keyspace::Intent, key), &encode_claim(claim))?;
    }
    Ok(())
}

fn commit_outcomes(
    transaction: &mut Transaction<'_>,
    prefix: &[u8],
    claims: Claims,
) -> Result<(), Error> {
    for (key, claim) in claims {
        let intent = record_key(prefix, Keyspace::Intent, &key);
        if transaction.get(&intent)?.is_some() {
            transaction.remove(&intent)?;
        }
        let owned = record_key(prefix, Keyspace::Owned, &key);
        let before = transaction.get(&owned)?;
        match claim {
            Claim::Ours(value) if before.as_ref() != Some(&value) => {
                transaction.put(&owned, &value)?
            }
            Claim::NotOurs if before.is_some() => transaction.remove(&owned)?,
            Claim::Ours(_) | Claim::NotOurs => {}
        }
    }
    Ok(())
}

fn forget(
    transaction: &mut Transaction<'_>,
    prefix: &[u8],
    should_forget: impl Fn(&LedgerScope) -> bool,
) -> Result<u64, Error> {
    let mut removed = Vec::new();
    for space in [Keyspace::Owned, Keyspace::Intent] {
        for entry in transaction.scan(&space.key(prefix))? {
            let (rest, _) = entry?;
            let key = [prefix, &rest].concat();
            if should_forget(&parse_record_key(&key)?.1) {
                removed.push(space.key(&key));
            }
        }
    }
    for key in &removed {
        transaction.remove(key)?;
    }
    Ok(removed.len() as u64)
}

fn record_key(prefix: &[u8], space: Keyspace, key: &[u8]) -> Vec<u8> {
    space.key(&[prefix, key].concat())
}

/// Returns the source, scope and key of a record.
pub(crate) fn parse_record_key(key: &[u8]) -> Result<(String, LedgerScope, Vec<u8>), Error> {
    let mut fields = Decoder(key);
    let source = fields.string()?;
    let scope = LedgerScope::new(fields.string()?, fields.string()?);
    Ok((source, scope, fields.0.to_vec()))
}

fn shown(key: &[u8]) -> String {
    String::from_utf8_lossy(key).into_owned()
}

fn encode_claim(claim: &Claim) -> Vec<u8> {
    match claim {
        Claim::Ours(value) => Encoder::default().u8(0).bytes(value).0,
        Claim::NotOurs => Encoder::default().u8(1).0,
    }
}

pub(crate) fn parse_claim(value: &[u8]) -> Result<Claim, Error> {
    let mut fields = Decoder(value);
    match fields.u8()? {
        0 => Ok(Claim::Ours(fields.bytes()?.to_vec())),
        1 => Ok(Claim::NotOurs),
        _ => Err(Error::unreadable("an intent is of no known kind")),
    }
}
