//! The ledger: what a source owns in a scope, and what it last applied. Not what keys and values mean.
//!
//! Before the world is touched the intents of a whole pass become durable, in one commit; after it their outcomes, in
//! another. What a crash leaves open in between is listed with what was intended, and closed by whoever looks at the world:
//! nothing is assumed.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::journal::Inner;
use crate::record::{Fields, Fill, MAX_KEY, MAX_VALUE, Space, Tx, check_len, get, scan};
use crate::{Error, Journal, Refusal};

/// A namespace in one boot of one machine.
///
/// Both names are the caller's. The cookie of the namespace (`SO_NETNS_COOKIE`) and the boot's id
/// (`/proc/sys/kernel/random/boot_id`) do: a namespace that is made anew has another cookie, and a reboot another id, so that
/// neither finds what the former one owned.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Scope {
    namespace: String,
    boot: String,
}

/// The journal's face for what one source owns in one scope.
#[derive(Clone, Debug)]
pub struct Ledger {
    inner: Arc<Inner>,
    /// Source and scope, as all keys here begin.
    place: Vec<u8>,
}

/// What is to be done to a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Intended {
    /// It is to be there with this value, and ours.
    Apply(Vec<u8>),
    /// It is to be gone.
    Remove,
}

/// An intent whose outcome is not recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct OpenIntent {
    /// The key.
    pub key: Vec<u8>,
    /// What was to be done.
    pub intended: Intended,
    /// What was applied before, if the key was ours already.
    pub last_applied: Option<Vec<u8>>,
}

/// What came of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// What was intended is so.
    Done,
    /// Nothing was done: it is as it was before.
    NotDone,
    /// It is ours, with this value, whatever was intended. Also without an intent: an object that is adopted.
    Owned(Vec<u8>),
    /// It is not ours, whatever was intended. Also without an intent: an object that someone else took.
    NotOwned,
}

/// A pass whose intents are durable. Dropped without a word, it leaves them open.
#[derive(Debug)]
#[must_use = "dropped, it leaves the intents open"]
pub struct Pass {
    ledger: Ledger,
}

impl Scope {
    /// The scope of these names.
    pub fn new(namespace: impl Into<String>, boot: impl Into<String>) -> Self {
        Scope {
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

    pub(crate) fn into_names(self) -> (String, String) {
        (self.namespace, self.boot)
    }
}

impl Ledger {
    pub(crate) fn new(inner: Arc<Inner>, source: &str, scope: &Scope) -> Result<Self, Error> {
        check_len("a source's name", source.as_bytes(), MAX_KEY)?;
        check_len("a namespace's name", scope.namespace.as_bytes(), MAX_KEY)?;
        check_len("a boot's name", scope.boot.as_bytes(), MAX_KEY)?;
        let place = Fill::default()
            .bytes(source.as_bytes())
            .bytes(scope.namespace.as_bytes())
            .bytes(scope.boot.as_bytes());
        Ok(Ledger {
            inner,
            place: place.0,
        })
    }

    /// The keys that are ours, and what was last applied to each.
    ///
    /// A key with an open intent is here as it was before the intent.
    ///
    /// # Errors
    ///
    /// When they cannot be read.
    pub fn owned(&self) -> Result<BTreeMap<Vec<u8>, Vec<u8>>, Error> {
        self.inner
            .commits
            .read(|view| scan(view, &Space::Owned.key(&self.place))?.collect())
    }

    /// What was last applied to `key`, if it is ours.
    ///
    /// # Errors
    ///
    /// When it cannot be read.
    pub fn last_applied(&self, key: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        let key = self.at(Space::Owned, key);
        self.inner.commits.read(|view| get(view, &key))
    }

    /// Records what a pass is about to do, in one commit. A pass without intents writes nothing.
    ///
    /// # Errors
    ///
    /// [`Refused`](crate::ErrorKind::Refused) with [`OpenIntent`](Refusal::OpenIntent) if an earlier intent of a key is still
    /// open, or with [`Twice`](Refusal::Twice); [`Invalid`](crate::ErrorKind::Invalid) if a key is longer than 65536 bytes or
    /// a value than 16 MiB; as every write [`NotDurable`](crate::ErrorKind::NotDurable) and
    /// [`ReadOnly`](crate::ErrorKind::ReadOnly). Then no intent was recorded for certain, and nothing is to be done.
    pub fn begin(
        &self,
        intents: impl IntoIterator<Item = (Vec<u8>, Intended)>,
    ) -> Result<Pass, Error> {
        let intents = self.unique(intents)?;
        for (key, intended) in &intents {
            if let Intended::Apply(value) = intended {
                check_value(key, value)?;
            }
        }
        if !intents.is_empty() {
            let place = self.place.clone();
            self.inner.commits.write(move |tx| {
                // All are looked at before the first is written: a refusal writes nothing.
                for key in intents.keys() {
                    if tx.get(&place_of(&place, Space::Intent, key))?.is_some() {
                        return Err(Error::refused(Refusal::OpenIntent, shown(key)));
                    }
                }
                for (key, intended) in &intents {
                    tx.put(&place_of(&place, Space::Intent, key), &intended.encode())?;
                }
                Ok(())
            })?;
        }
        Ok(Pass {
            ledger: self.clone(),
        })
    }

    /// The intents whose outcome is not known, in the order of their keys: of a pass that a crash ended, or that did not say
    /// what became of all. Look at the world, then [`resolve`](Self::resolve) them.
    ///
    /// # Errors
    ///
    /// When they cannot be read.
    pub fn open_intents(&self) -> Result<Vec<OpenIntent>, Error> {
        self.inner.commits.read(|view| {
            let mut open = Vec::new();
            for entry in scan(view, &Space::Intent.key(&self.place))? {
                let (key, value) = entry?;
                open.push(OpenIntent {
                    intended: Intended::parse(&value)?,
                    last_applied: get(view, &self.at(Space::Owned, &key))?,
                    key,
                });
            }
            Ok(open)
        })
    }

    /// Records what came of keys, in one commit. Without outcomes, or if all is so already, nothing is written.
    ///
    /// This is for intents that a crash left open, and for what became ours, or not ours, without a pass.
    ///
    /// # Errors
    ///
    /// [`Refused`](crate::ErrorKind::Refused) with [`NoIntent`](Refusal::NoIntent) for [`Done`](Outcome::Done) or
    /// [`NotDone`](Outcome::NotDone) without an open intent, or with [`Twice`](Refusal::Twice); otherwise as
    /// [`begin`](Self::begin).
    pub fn resolve(
        &self,
        outcomes: impl IntoIterator<Item = (Vec<u8>, Outcome)>,
    ) -> Result<(), Error> {
        let outcomes = self.unique(outcomes)?;
        for (key, outcome) in &outcomes {
            if let Outcome::Owned(value) = outcome {
                check_value(key, value)?;
            }
        }
        if outcomes.is_empty() {
            return Ok(());
        }
        let place = self.place.clone();
        self.inner.commits.write(move |tx| {
            let mut ready = Vec::with_capacity(outcomes.len());
            for (key, outcome) in outcomes {
                let intent = tx.get(&place_of(&place, Space::Intent, &key))?;
                let now = match (outcome, &intent) {
                    (Outcome::Owned(value), _) => Some(Intended::Apply(value)),
                    (Outcome::NotOwned, _) => Some(Intended::Remove),
                    (Outcome::Done, Some(intended)) => Some(Intended::parse(intended)?),
                    (Outcome::NotDone, Some(_)) => None,
                    (Outcome::Done | Outcome::NotDone, None) => {
                        return Err(Error::refused(Refusal::NoIntent, shown(&key)));
                    }
                };
                ready.push((key, intent.is_some(), now));
            }
            for (key, had_intent, now) in ready {
                if had_intent {
                    tx.remove(&place_of(&place, Space::Intent, &key))?;
                }
                if let Some(now) = now {
                    settle(tx, &place_of(&place, Space::Owned, &key), now)?;
                }
            }
            Ok(())
        })
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

    fn at(&self, space: Space, key: &[u8]) -> Vec<u8> {
        place_of(&self.place, space, key)
    }

    /// In the order of the keys, each once and none too long.
    fn unique<T>(
        &self,
        entries: impl IntoIterator<Item = (Vec<u8>, T)>,
    ) -> Result<BTreeMap<Vec<u8>, T>, Error> {
        let mut unique = BTreeMap::new();
        for (key, entry) in entries {
            check_len("a key", &key, MAX_KEY)?;
            if unique.contains_key(&key) {
                return Err(Error::refused(Refusal::Twice, shown(&key)));
            }
            unique.insert(key, entry);
        }
        Ok(unique)
    }
}

impl Pass {
    /// Records what came of the pass, in one commit. Intents that are not named stay open: nobody knows their outcome.
    ///
    /// # Errors
    ///
    /// As [`Ledger::resolve`]. The intents are then still open, or it is not known.
    pub fn settle(
        self,
        outcomes: impl IntoIterator<Item = (Vec<u8>, Outcome)>,
    ) -> Result<(), Error> {
        self.ledger.resolve(outcomes)
    }
}

impl Journal {
    /// The sources and scopes of which the ledger knows anything, in order.
    ///
    /// # Errors
    ///
    /// When they cannot be read.
    pub fn scopes(&self) -> Result<Vec<(String, Scope)>, Error> {
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
            .write(move |tx| forget(tx, &[], |scope| scope.boot != boot))
    }
}

/// Puts or removes what is owned, unless it is so already.
fn settle(tx: &mut Tx<'_>, place: &[u8], now: Intended) -> Result<(), Error> {
    let before = tx.get(place)?;
    match now {
        Intended::Apply(value) if before.as_ref() != Some(&value) => tx.put(place, &value),
        Intended::Remove if before.is_some() => tx.remove(place),
        Intended::Apply(_) | Intended::Remove => Ok(()),
    }
}

fn forget(tx: &mut Tx<'_>, place: &[u8], which: impl Fn(&Scope) -> bool) -> Result<u64, Error> {
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
pub(crate) fn parse_place(key: &[u8]) -> Result<(String, Scope, Vec<u8>), Error> {
    let mut fields = Fields(key);
    let source = fields.string()?;
    let scope = Scope::new(fields.string()?, fields.string()?);
    Ok((source, scope, fields.0.to_vec()))
}

fn check_value(key: &[u8], value: &[u8]) -> Result<(), Error> {
    check_len(&format!("the value of {}", shown(key)), value, MAX_VALUE)
}

fn shown(key: &[u8]) -> String {
    String::from_utf8_lossy(key).into_owned()
}

impl Intended {
    fn encode(&self) -> Vec<u8> {
        match self {
            Intended::Apply(value) => Fill::default().u8(0).bytes(value).0,
            Intended::Remove => Fill::default().u8(1).0,
        }
    }

    pub(crate) fn parse(value: &[u8]) -> Result<Intended, Error> {
        let mut fields = Fields(value);
        match fields.u8()? {
            0 => Ok(Intended::Apply(fields.bytes()?.to_vec())),
            1 => Ok(Intended::Remove),
            _ => Err(Error::damaged("an intent is of no known kind")),
        }
    }
}
