//! The ledger: what a source owns in a scope, and what it last applied. Not what keys and values mean.
//!
//! It is the durable [`trueup_reconcile::Ledger`]: the intents of a whole pass in one commit before the world is touched, what
//! became of them in another after it. What a crash leaves open in between is closed by whoever looks at the world.

use std::collections::BTreeMap;
use std::sync::Arc;

use trueup_reconcile::{Claim, Ledger, LedgerError, LedgerScope};

use crate::journal::Inner;
use crate::record::{Fields, Fill, MAX_KEY, MAX_VALUE, Space, Tx, check_len, get, scan};
use crate::{Error, Journal, Refusal};

type Claims = BTreeMap<Vec<u8>, Claim>;

/// The journal's face for what one source owns in one scope. Clones are the same ledger, for as many threads as there are.
///
/// What it refuses, and why, is the [`Error`] in the [`LedgerError`]: [`LedgerError::get_ref`] has it.
#[derive(Clone, Debug)]
pub struct JournalLedger {
    inner: Arc<Inner>,
    /// Source and scope, as all keys here begin.
    place: Vec<u8>,
}

impl JournalLedger {
    pub(crate) fn new(inner: Arc<Inner>, source: &str, scope: &LedgerScope) -> Result<Self, Error> {
        check_len("a source's name", source.as_bytes(), MAX_KEY)?;
        check_len("a namespace's name", scope.namespace().as_bytes(), MAX_KEY)?;
        check_len("a boot's name", scope.boot().as_bytes(), MAX_KEY)?;
        let place = Fill::default()
            .bytes(source.as_bytes())
            .bytes(scope.namespace().as_bytes())
            .bytes(scope.boot().as_bytes());
        Ok(JournalLedger {
            inner,
            place: place.0,
        })
    }

    /// What was last applied to `key`, if it is ours.
    ///
    /// # Errors
    ///
    /// When it cannot be read.
    pub fn last_applied(&self, key: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        let key = place_of(&self.place, Space::Owned, key);
        self.inner.commits.read(|view| get(view, &key))
    }

    /// Forgets all of this source in this scope, open intents too: for a namespace that is gone. Returns how many records
    /// went.
    ///
    /// # Errors
    ///
    /// As every write.
    pub fn forget(&self) -> Result<u64, Error> {
        let place = self.place.clone();
        self.inner
            .commits
            .write(move |tx| forget(tx, &place, |_| true))
    }

    fn all<T>(
        &self,
        space: Space,
        parse: impl Fn(Vec<u8>) -> Result<T, Error>,
    ) -> Result<BTreeMap<Vec<u8>, T>, LedgerError> {
        let found = self.inner.commits.read(|view| {
            scan(view, &space.key(&self.place))?
                .map(|entry| entry.and_then(|(key, value)| Ok((key, parse(value)?))))
                .collect()
        });
        found.map_err(LedgerError::new)
    }

    /// Checks the lengths, and does `work` in one commit. Without claims there is nothing to do.
    fn write(
        &self,
        claims: Claims,
        work: fn(&mut Tx<'_>, &[u8], Claims) -> Result<(), Error>,
    ) -> Result<(), Error> {
        for (key, claim) in &claims {
            check_len("a key", key, MAX_KEY)?;
            if let Claim::Ours(value) = claim {
                check_len(&format!("the value of {}", shown(key)), value, MAX_VALUE)?;
            }
        }
        if claims.is_empty() {
            return Ok(());
        }
        let place = self.place.clone();
        self.inner.commits.write(move |tx| work(tx, &place, claims))
    }
}

impl Ledger for JournalLedger {
    fn owned(&self) -> Result<BTreeMap<Vec<u8>, Vec<u8>>, LedgerError> {
        self.all(Space::Owned, Ok)
    }

    fn open_intents(&self) -> Result<Claims, LedgerError> {
        self.all(Space::Intent, |value| parse_claim(&value))
    }

    /// One commit, or none if there are no intents. Of an error no intent was recorded for certain, and nothing is to be done:
    /// [`Refused`](crate::ErrorKind::Refused) with [`OpenIntent`](Refusal::OpenIntent), [`Invalid`](crate::ErrorKind::Invalid)
    /// if a key is longer than 65536 bytes or a value than 16 MiB, and as every write
    /// [`NotDurable`](crate::ErrorKind::NotDurable) and [`ReadOnly`](crate::ErrorKind::ReadOnly).
    fn begin(&mut self, intents: Claims) -> Result<(), LedgerError> {
        self.write(intents, begin).map_err(LedgerError::new)
    }

    /// One commit, or none if all is so already. An intent that is not named stays open. Errors are those of
    /// [`begin`](Ledger::begin), but for the refusal.
    fn commit_outcomes(&mut self, claims: Claims) -> Result<(), LedgerError> {
        self.write(claims, settle).map_err(LedgerError::new)
    }
}

impl Journal {
    /// The sources and scopes of which the ledger knows anything, in order.
    ///
    /// # Errors
    ///
    /// When they cannot be read.
    pub fn scopes(&self) -> Result<Vec<(String, LedgerScope)>, Error> {
        self.inner().commits.read(|view| {
            let mut found = Vec::new();
            for space in [Space::Owned, Space::Intent] {
                for entry in scan(view, &space.key(&[]))? {
                    let (source, scope, _) = parse_place(&entry?.0)?;
                    if found.last() != Some(&(source.clone(), scope.clone())) {
                        found.push((source, scope));
                    }
                }
            }
            found.sort();
            found.dedup();
            Ok(found)
        })
    }

    /// Forgets what was owned in other boots than this one: their kernel, and all in it, is gone. Returns how many records
    /// went.
    ///
    /// # Errors
    ///
    /// As every write.
    pub fn forget_other_boots(&self, boot: &str) -> Result<u64, Error> {
        let boot = boot.to_owned();
        self.inner()
            .commits
            .write(move |tx| forget(tx, &[], |scope| scope.boot() != boot))
    }
}

/// All are looked at before the first is written: a refusal writes nothing.
fn begin(tx: &mut Tx<'_>, place: &[u8], intents: Claims) -> Result<(), Error> {
    for key in intents.keys() {
        if tx.get(&place_of(place, Space::Intent, key))?.is_some() {
            return Err(Error::refused(Refusal::OpenIntent, shown(key)));
        }
    }
    for (key, claim) in &intents {
        tx.put(&place_of(place, Space::Intent, key), &encode_claim(claim))?;
    }
    Ok(())
}

fn settle(tx: &mut Tx<'_>, place: &[u8], claims: Claims) -> Result<(), Error> {
    for (key, claim) in claims {
        let intent = place_of(place, Space::Intent, &key);
        if tx.get(&intent)?.is_some() {
            tx.remove(&intent)?;
        }
        let owned = place_of(place, Space::Owned, &key);
        let before = tx.get(&owned)?;
        match claim {
            Claim::Ours(value) if before.as_ref() != Some(&value) => tx.put(&owned, &value)?,
            Claim::NotOurs if before.is_some() => tx.remove(&owned)?,
            Claim::Ours(_) | Claim::NotOurs => {}
        }
    }
    Ok(())
}

fn forget(
    tx: &mut Tx<'_>,
    place: &[u8],
    which: impl Fn(&LedgerScope) -> bool,
) -> Result<u64, Error> {
    let mut going = Vec::new();
    for space in [Space::Owned, Space::Intent] {
        for entry in tx.scan(&space.key(place))? {
            let (rest, _) = entry?;
            let key = [place, &rest].concat();
            if which(&parse_place(&key)?.1) {
                going.push(space.key(&key));
            }
        }
    }
    for key in &going {
        tx.remove(key)?;
    }
    Ok(going.len() as u64)
}

fn place_of(place: &[u8], space: Space, key: &[u8]) -> Vec<u8> {
    space.key(&[place, key].concat())
}

/// Source, scope and key of a record.
pub(crate) fn parse_place(key: &[u8]) -> Result<(String, LedgerScope, Vec<u8>), Error> {
    let mut fields = Fields(key);
    let source = fields.string()?;
    let scope = LedgerScope::new(fields.string()?, fields.string()?);
    Ok((source, scope, fields.0.to_vec()))
}

fn shown(key: &[u8]) -> String {
    String::from_utf8_lossy(key).into_owned()
}

fn encode_claim(claim: &Claim) -> Vec<u8> {
    match claim {
        Claim::Ours(value) => Fill::default().u8(0).bytes(value).0,
        Claim::NotOurs => Fill::default().u8(1).0,
    }
}

pub(crate) fn parse_claim(value: &[u8]) -> Result<Claim, Error> {
    let mut fields = Fields(value);
    match fields.u8()? {
        0 => Ok(Claim::Ours(fields.bytes()?.to_vec())),
        1 => Ok(Claim::NotOurs),
        _ => Err(Error::damaged("an intent is of no known kind")),
    }
}
