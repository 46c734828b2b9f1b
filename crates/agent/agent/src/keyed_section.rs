//! A section of the file from a backend of `trueup_reconcile::keyed`.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;
use serde::de::DeserializeOwned;
use trueup_file::{Diagnostic, OwnElement};
use trueup_reconcile::Outcome;
use trueup_reconcile::keyed::{self, Backend, Entries, Keyed};
use trueup_rtnl::Namespace;

use crate::report::{ConflictRecord, Op, OpText, OwnershipRecord, PassReport};
use crate::section::Section;

/// Makes a section of the file from a backend. The section's name is the backend's
/// [`KIND`](Backend::KIND).
///
/// `backend` makes a backend for each run or loop. `entry` turns an element of the section into a
/// key and a value; serde reads the element first, so `#[serde(deny_unknown_fields)]` refuses
/// misspelt names. An error of either is a diagnostic with the element's place. So is a key that is
/// declared twice.
///
/// ```no_run
/// use std::collections::BTreeMap;
/// use std::io;
///
/// use trueup_agent::{Agent, Namespace, keyed_section};
/// use trueup_reconcile::ErrorClass;
/// use trueup_reconcile::keyed::{Backend, Change, Keys, Observation};
///
/// #[derive(Default)]
/// struct Panel(BTreeMap<String, u8>);
///
/// impl Backend for Panel {
///     type Scope = Namespace;
///     type Key = String;
///     type Value = u8;
///     type Error = io::Error;
///     const KIND: &'static str = "dial";
///
///     fn observe(
///         &mut self,
///         _: &Namespace,
///         _: Keys<'_, String>,
///     ) -> io::Result<Observation<String, u8>> {
///         Ok(self.0.clone().into())
///     }
///
///     fn apply(&mut self, _: &Namespace, change: &Change<String, u8>) -> io::Result<()> {
///         match change.to() {
///             Some(position) => self.0.insert(change.key().clone(), *position),
///             None => self.0.remove(change.key()),
///         };
///         Ok(())
///     }
///
///     fn classify(error: &io::Error) -> ErrorClass {
///         error.kind().into()
///     }
/// }
///
/// /// `[[dial]]`, with `name` and `position`.
/// #[derive(serde::Deserialize)]
/// #[serde(deny_unknown_fields)]
/// struct Dial { name: String, position: u8 }
///
/// let section = keyed_section(Panel::default, |dial: Dial| Ok((dial.name, dial.position)));
/// let agent = Agent::new(None, None)?.with_section(section);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn keyed_section<B: Backend, E: DeserializeOwned>(
    backend: impl Fn() -> B + Send + Sync + 'static,
    entry: impl Fn(E) -> Result<(B::Key, B::Value), String> + Send + Sync + 'static,
) -> KeyedSection<B> {
    KeyedSection {
        backend: Box::new(backend),
        entry: Box::new(move |element| {
            entry(element.read::<E>()?).map_err(|message| element.fault(message))
        }),
        outlives_boots: false,
        is_after_network: false,
    }
}

/// A section from [`keyed_section`].
pub struct KeyedSection<B: Backend> {
    backend: Box<dyn Fn() -> B + Send + Sync>,
    entry: Box<Entry<B>>,
    outlives_boots: bool,
    is_after_network: bool,
}

type Entry<B> = dyn Fn(&OwnElement) -> Result<(<B as Backend>::Key, <B as Backend>::Value), Diagnostic>
    + Send
    + Sync;

impl<B: Backend> KeyedSection<B> {
    /// Keeps the ledger's records after a reboot, because the objects outlive it, as files do.
    #[must_use]
    pub fn outliving_boots(self) -> Self {
        KeyedSection { outlives_boots: true, ..self }
    }

    /// Runs the section after the network, even after a failure of the network.
    #[must_use]
    pub fn after_network(self) -> Self {
        KeyedSection { is_after_network: true, ..self }
    }
}

impl<B> Section for KeyedSection<B>
where
    B: Backend<Scope = Namespace> + Send + 'static,
    B::Key: Send + Sync + 'static,
    B::Value: Send + Sync + 'static,
{
    type Desired = Entries<B::Key, B::Value>;
    type Report = keyed::Report<B::Key, B::Value>;
    type Source = Keyed<B>;

    fn name(&self) -> &'static str {
        B::KIND
    }

    fn parse(&self, elements: &[OwnElement]) -> Result<Self::Desired, Vec<Diagnostic>> {
        let (mut declared, mut wrong) = (BTreeMap::new(), Vec::new());
        for element in elements {
            match (self.entry)(element) {
                Err(fault) => wrong.push(fault),
                Ok((key, value)) => match declared.get(&key) {
                    None => drop(declared.insert(key, (value, element.location))),
                    Some((_, first)) => {
                        let message =
                            format!("{} {key} is declared twice, first at {first}", B::KIND);
                        wrong.push(element.fault(message));
                    }
                },
            }
        }
        if !wrong.is_empty() {
            return Err(wrong);
        }
        let values = declared.into_iter().map(|(key, (value, _))| (key, value));
        Ok(values.collect::<BTreeMap<_, _>>().into())
    }

    fn source(&self) -> Keyed<B> {
        Keyed::new((self.backend)())
    }

    fn outlives_boots(&self) -> bool {
        self.outlives_boots
    }

    fn is_after_network(&self) -> bool {
        self.is_after_network
    }
}

impl<B: Backend> fmt::Debug for KeyedSection<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyedSection").field("name", &B::KIND).finish_non_exhaustive()
    }
}

impl<K, V> PassReport for keyed::Report<K, V>
where
    K: fmt::Display + Send,
    V: Serialize + Send,
{
    fn ops(&self, visit: &mut dyn FnMut(&dyn OpText)) {
        for op in keyed::Report::ops(self) {
            visit(&Op {
                action: op.change.action(),
                kind: self.kind(),
                object: op.change.key().to_string(),
                reason: op.change.reason().to_owned(),
                outcome: op.outcome.classified(|failure| failure.class),
                why: match &op.outcome {
                    Outcome::Applied => String::new(),
                    Outcome::Failed(failure) | Outcome::Declined(failure) => failure.to_string(),
                    Outcome::Pending(pending) => pending.to_string(),
                },
            });
        }
    }

    fn ownership(&self, visit: &mut dyn FnMut(OwnershipRecord)) {
        for finding in self.findings() {
            let keyed::Finding::Left { key, .. } = finding else { continue };
            visit(OwnershipRecord {
                rule: "overwritten",
                kind: self.kind(),
                object: key.to_string(),
                detail: finding.to_string(),
                line: Some(format!("* {} {finding}", self.kind())),
                lasts: false,
            });
        }
    }

    fn conflicts(&self) -> Vec<ConflictRecord> {
        let conflicts = keyed::Report::conflicts(self).iter();
        let records = conflicts.map(|conflict| ConflictRecord {
            kind: self.kind(),
            desired: conflict.key.to_string(),
            foreign: conflict.foreign_text(),
            differs: vec!["value"],
            why: conflict.to_string(),
        });
        records.collect()
    }

    fn errors(&self) -> Vec<String> {
        self.trouble().to_vec()
    }
}
