//! [`Exporter`]: the exports of a host as a source, with declared ones as the desired state.

mod host;
mod report;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use trueup_diff::two_way;
use trueup_reconcile::{
    Claim, Condition, Ledger, LedgerError, Observation, OpKey, Outcome, PassInput, Source, Status,
};

pub use host::HostExporter;
use report::class;
pub use report::{Action, ExportOp, ExportReport};

use crate::{
    Change, Error, ErrorKind, Export, Exported, Hash, LeaseId, Resource, ResourceKey, Session,
    World,
};

/// The source of a session's exports.
///
/// A pass compares the declared exports with the host's own in the store, writes what differs, and
/// deletes what is declared no more: that is all of the host's that goes with a lease, and what
/// persists if the ledger says that an earlier pass wrote it. Then it marks the host as complete.
/// It changes nothing of another host.
#[derive(Debug)]
pub struct Exporter {
    session: Session,
    statuses: BTreeMap<ResourceKey, Arc<Status>>,
}

/// An export as it is compared.
struct Item<'a> {
    key: ResourceKey,
    data: &'a [u8],
    lease: Option<LeaseId>,
}

type Own = BTreeMap<ResourceKey, Resource>;

impl Exporter {
    /// Makes the source of a session's exports.
    pub fn new(session: Session) -> Exporter {
        Exporter { session, statuses: BTreeMap::new() }
    }

    /// Returns the session.
    pub fn session(&self) -> &Session {
        &self.session
    }

    /// The host's own exports that a pass is about: those of the ledger, and those with a lease.
    fn observed(&self, ledger: &dyn Ledger) -> Result<Own, Error> {
        let owned = ledger.owned().map_err(ledger_failed)?;
        let mut own = self.session.world().exports()?;
        own.retain(|key, it| it.lease.is_some() || owned.contains_key(&self.encoded(key)));
        Ok(own)
    }

    fn encoded(&self, key: &ResourceKey) -> Vec<u8> {
        self.session.world().keys.resource(key)
    }

    fn op_key(&self, key: &ResourceKey) -> OpKey {
        op_key(self.session.world(), key)
    }

    /// The ops that are needed, by the key of what they are on.
    fn plan(&self, desired: &[Export], own: &Own) -> Result<BTreeMap<ResourceKey, Action>, Error> {
        let (host, lease) = (self.session.world().host(), self.session.lease());
        let wanted = desired.iter().map(|it| Item {
            key: it.key(host),
            data: &it.data,
            lease: (!it.persist).then_some(lease),
        });
        let wanted: Vec<Item<'_>> = wanted.collect();
        let observed =
            own.iter().map(|(key, it)| Item { key: key.clone(), data: &it.data, lease: it.lease });
        let observed: Vec<Item<'_>> = observed.collect();
        let diff = two_way(
            &wanted,
            &observed,
            |it| &it.key,
            |it| &it.key,
            |wanted, there| (wanted.data, wanted.lease) == (there.data, there.lease),
            |_| true,
        )
        .map_err(|twice| {
            let message = format!(
                "{}: exported twice; give each a name of its own",
                wanted[twice.second].key
            );
            Error::new(ErrorKind::Invalid, message)
        })?;
        let create = diff.create.into_iter().map(|it| (it, Action::Create));
        let update = diff.change.into_iter().map(|(it, _)| (it, Action::Update));
        let delete = diff.delete.into_iter().map(|it| (it, Action::Delete));
        let ops = create.chain(update).chain(delete);
        Ok(ops.map(|(it, action)| (it.key.clone(), action)).collect())
    }

    /// What the ledger shall say of keys, as they were read.
    fn claims<'a>(
        &self,
        keys: impl IntoIterator<Item = &'a ResourceKey>,
        own: &Own,
    ) -> BTreeMap<Vec<u8>, Claim> {
        let claims = keys.into_iter().map(|key| {
            let claim = own.get(key).map(|it| Claim::Ours(it.data.clone()));
            (self.encoded(key), claim.unwrap_or(Claim::NotOurs))
        });
        claims.collect()
    }

    /// Closes what a pass left open that did not come to its end, and drops what is gone.
    fn recover(&self, ledger: &mut dyn Ledger) -> Result<(), Error> {
        let own = self.session.world().exports()?;
        let by_key: BTreeMap<Vec<u8>, &Resource> =
            own.iter().map(|(key, it)| (self.encoded(key), it)).collect();
        let open = ledger.open_intents().map_err(ledger_failed)?;
        let owned = ledger.owned().map_err(ledger_failed)?;
        let gone = owned.into_keys().filter(|key| !by_key.contains_key(key));
        let keys: BTreeSet<Vec<u8>> = open.into_keys().chain(gone).collect();
        if keys.is_empty() {
            return Ok(());
        }
        let claims = keys.into_iter().map(|key| {
            let claim = by_key.get(&key).map(|it| Claim::Ours(it.data.clone()));
            (key, claim.unwrap_or(Claim::NotOurs))
        });
        ledger.commit_outcomes(claims.collect()).map_err(ledger_failed)
    }

    fn note_statuses(&mut self, report: &mut ExportReport) {
        let mut before = std::mem::take(&mut self.statuses);
        for op in &report.ops {
            let condition = match &op.outcome {
                Outcome::Applied => continue,
                Outcome::Failed(error) | Outcome::Declined(error) => Condition::Failed {
                    class: class(error),
                    errno: None,
                    message: error.to_string(),
                },
                Outcome::Pending(()) => {
                    Condition::Pending { why: "it failed before, or the pass was ended".into() }
                }
            };
            let known = before.remove(&op.key);
            let is_pending = matches!(op.outcome, Outcome::Pending(()));
            let status = Status::new("export", op.key.to_string(), condition);
            let status = match known {
                // An op that is put off still has the status of its failure.
                Some(known) if is_pending || *known == status => known,
                _ => {
                    let status = Arc::new(status);
                    let key = self.op_key(&op.key);
                    report.statuses.push((key, Some(Arc::clone(&status))));
                    status
                }
            };
            self.statuses.insert(op.key.clone(), status);
        }
        let cleared = before.keys().map(|key| (self.op_key(key), None));
        report.statuses.extend(cleared);
    }
}

impl Source for Exporter {
    type Scope = ();
    type Desired = Vec<Export>;
    type Options = ();
    type Report = ExportReport;
    type Observed = BTreeMap<ResourceKey, Resource>;
    type Error = Error;

    /// Each pass observes everything.
    fn reconcile(&mut self, input: PassInput<'_, Self>) -> Result<ExportReport, Error> {
        let PassInput { desired, ledger, limits, .. } = input;
        self.recover(ledger)?;
        let plan = self.plan(desired, &self.observed(ledger)?)?;
        let mut report = ExportReport::default();
        let mut tried = BTreeSet::new();
        for key in plan.keys() {
            if limits.has_backoff() && limits.backoff(self.op_key(key)).is_some() {
                continue;
            }
            if tried.len() as u64 >= limits.ops() || !limits.should_continue() {
                report.is_truncated = true;
                break;
            }
            tried.insert(key.clone());
        }
        let is_all = tried.len() == plan.len();
        let intended: BTreeMap<ResourceKey, &Export> =
            desired.iter().map(|it| (it.key(self.session.world().host()), it)).collect();
        let intents = tried.iter().map(|key| {
            let claim = intended.get(key).map(|it| Claim::Ours(it.data.clone()));
            (self.encoded(key), claim.unwrap_or(Claim::NotOurs))
        });
        let mut exported = Exported::default();
        if limits.ops() > 0 {
            if !tried.is_empty() {
                ledger.begin(intents.collect()).map_err(ledger_failed)?;
            }
            exported = self.session.declare_some(desired, tried.clone(), is_all)?;
        }
        report.transactions = exported.transactions;
        let own = self.session.world().exports()?;
        if limits.ops() > 0 && !tried.is_empty() {
            let claims = self.claims(&tried, &own);
            ledger.commit_outcomes(claims).map_err(ledger_failed)?;
        }
        let left = self.plan(desired, &self.observed(ledger)?)?;
        for (key, action) in plan {
            let outcome = match exported.outcomes.remove(&key) {
                Some(Ok(Change::Changed | Change::Unchanged)) => Outcome::Applied,
                Some(Err(error)) => Outcome::Failed(error),
                None => Outcome::Pending(()),
            };
            let op_key = self.op_key(&key);
            report.ops.push(ExportOp { key, action, outcome, op_key });
        }
        report.is_converged = left.is_empty();
        report.session = self.session.status();
        self.note_statuses(&mut report);
        Ok(report)
    }

    fn observe(&mut self, _: &(), _: &()) -> Result<Observation<Own>, Error> {
        Ok(Observation::Observed(self.session.world().exports()?))
    }
}

fn op_key(world: &World, key: &ResourceKey) -> OpKey {
    OpKey(Hash::of(&world.keys.resource(key)).number())
}

fn ledger_failed(error: LedgerError) -> Error {
    let message = format!("the ledger failed: {error}; nothing is exported");
    Error::new(ErrorKind::Store, message).with_source(error)
}
