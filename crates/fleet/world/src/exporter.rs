//! [`Exporter`]: a host's exports as a source, with the declared exports as the desired state.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use trueup_diff::{Verdict, two_way};
use trueup_reconcile::{
    Claim, Condition, ErrorClass, Hints, LateHints, Ledger, LedgerError, OpKey, Outcome, PassInput,
    Report, ReportedOp, Source, Status, Subscribed,
};

use crate::resources::is_few;
use crate::{
    Entry, Error, ErrorKind, Export, Exported, Hash, Keeper, LeaseId, ResourceKey, Session,
    SessionEvent, SessionStatus, World,
};

/// A callback that takes the session's events, with its status after the event.
type OnEvent = Arc<dyn Fn(SessionEvent, SessionStatus) + Send + Sync>;

/// The source of a host's exports.
///
/// A pass compares the declared exports with the host's own in the store. It writes the
/// differences, and deletes exports that are no longer declared. These are all exports with a lease
/// of the host, and persistent ones that an earlier pass wrote, by the ledger. Then it marks the
/// host as complete. It changes no other host's exports.
///
/// The first pass with something to export begins the session, and a [`Keeper`] renews it until the
/// source is dropped. Before that, the host is not a member. A pass fails while the store is
/// unreachable, or while another owner has the host. Retry it later. Each session event requests a
/// pass, so that the last report stays true.
pub struct Exporter {
    world: World,
    owner: String,
    ttl: Duration,
    on_event: OnEvent,
    hints: LateHints,
    /// The session, and its keeper unless the caller keeps it alive.
    begun: Option<(Session, Option<Keeper>)>,
    statuses: BTreeMap<ResourceKey, Arc<Status>>,
}

/// The parts of an export that are compared.
struct Item<'a> {
    key: ResourceKey,
    data: &'a [u8],
    lease: Option<LeaseId>,
}

type Own = BTreeMap<ResourceKey, Arc<Entry>>;

impl Exporter {
    /// Makes the source. `owner` and `ttl` are those of [`Session::begin`].
    pub fn new(world: World, owner: impl Into<String>, ttl: Duration) -> Exporter {
        Exporter {
            world,
            owner: owner.into(),
            ttl,
            on_event: Arc::new(|_, _| {}),
            hints: LateHints::default(),
            begun: None,
            statuses: BTreeMap::new(),
        }
    }

    /// Makes the source of the exports of a session that the caller keeps alive.
    pub fn of_session(session: Session) -> Exporter {
        let exporter = Exporter::new(session.world().clone(), "", session.ttl());
        Exporter { begun: Some((session, None)), ..exporter }
    }

    /// Sets the callback for the session's events. It runs on the thread that renews the session.
    #[must_use]
    pub fn on_event(
        self,
        call: impl Fn(SessionEvent, SessionStatus) + Send + Sync + 'static,
    ) -> Exporter {
        Exporter { on_event: Arc::new(call), ..self }
    }

    /// Returns the session. `None` before it has begun.
    pub fn session(&self) -> Option<&Session> {
        self.begun.as_ref().map(|(session, _)| session)
    }

    /// Returns the session, and begins it if necessary.
    fn begin(&mut self) -> Result<Session, Error> {
        if let Some(session) = self.session() {
            return Ok(session.clone());
        }
        let session = Session::begin(self.world.clone(), &self.owner, self.ttl)?;
        let (call, hints, kept) = (Arc::clone(&self.on_event), self.hints.hints(), session.clone());
        let keeper = session.keep(move |event| {
            call(event, kept.status());
            hints.request_pass();
        })?;
        self.begun = Some((session.clone(), Some(keeper)));
        Ok(session)
    }

    fn encoded(&self, key: &ResourceKey) -> Vec<u8> {
        self.world.keys.resource(key)
    }

    fn op_key(&self, key: &ResourceKey) -> OpKey {
        OpKey(Hash::of(&self.encoded(key)).number())
    }

    /// Leaves out persistent exports that are not in the ledger: no pass is about them.
    fn retain_observed(&self, own: &mut Own, ledger: &dyn Ledger) -> Result<(), Error> {
        let owned = ledger.owned().map_err(ledger_failed)?;
        own.retain(|key, it| it.lease.is_some() || owned.contains_key(&self.encoded(key)));
        Ok(())
    }

    /// Returns the necessary ops, by their exports' keys.
    fn plan(
        &self,
        desired: &[Export],
        own: &Own,
        lease: LeaseId,
    ) -> Result<BTreeMap<ResourceKey, Verdict>, Error> {
        let host = self.world.host();
        let wanted = desired.iter().map(|it| Item {
            key: it.key(host),
            data: &it.data,
            lease: (!it.persist).then_some(lease),
        });
        let observed = own.iter();
        let observed =
            observed.map(|(key, it)| Item { key: key.clone(), data: &it.value, lease: it.lease });
        let (wanted, observed) = (wanted.collect::<Vec<_>>(), observed.collect::<Vec<_>>());
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
        let create = diff.create.into_iter().map(|it| (it, Verdict::Create));
        let change = diff.change.into_iter().map(|(it, _)| (it, Verdict::Change));
        let delete = diff.delete.into_iter().map(|it| (it, Verdict::Delete));
        let ops = create.chain(change).chain(delete);
        Ok(ops.map(|(it, action)| (it.key.clone(), action)).collect())
    }

    /// Resolves the open intents of a pass that was interrupted, and drops the records of missing
    /// exports.
    fn recover(&self, ledger: &mut dyn Ledger, own: &Own) -> Result<(), Error> {
        let by_key: BTreeMap<Vec<u8>, &Arc<Entry>> =
            own.iter().map(|(key, it)| (self.encoded(key), it)).collect();
        let open = ledger.open_intents().map_err(ledger_failed)?;
        let owned = ledger.owned().map_err(ledger_failed)?;
        let gone = owned.into_keys().filter(|key| !by_key.contains_key(key));
        let claims: BTreeMap<Vec<u8>, Claim> = (open.into_keys().chain(gone))
            .map(|key| {
                let claim = claim(by_key.get(&key).map(|it| &it.value));
                (key, claim)
            })
            .collect();
        if claims.is_empty() {
            return Ok(());
        }
        ledger.commit_outcomes(claims).map_err(ledger_failed)
    }

    /// Reads back the exports that a pass tried. If they are few, reads each by itself.
    /// `is_same_lease` is true if the session's lease is still that of the pass.
    fn read_back(
        &self,
        own: &mut Own,
        tried: &BTreeSet<ResourceKey>,
        is_same_lease: bool,
    ) -> Result<(), Error> {
        // Under another lease, all exports were written again.
        if !is_same_lease || !is_few(tried.len(), own.len()) {
            *own = self.world.exports()?;
            return Ok(());
        }
        for key in tried {
            match self.world.own_entry(key)? {
                Some(entry) => own.insert(key.clone(), entry.into()),
                None => own.remove(key),
            };
        }
        Ok(())
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
                // A postponed op still has the status of its failure.
                Some(known) if is_pending || *known == status => known,
                _ => {
                    let status = Arc::new(status);
                    report.statuses.push((op.op_key, Some(Arc::clone(&status))));
                    status
                }
            };
            self.statuses.insert(op.key.clone(), status);
        }
        let cleared = before.keys().map(|key| (self.op_key(key), None));
        report.statuses.extend(cleared);
    }

    /// Returns the report of a pass that begins no session. The host exports nothing.
    fn report_without_session(&self, desired: &[Export]) -> ExportReport {
        let ops = desired.iter().map(|it| {
            let key = it.key(self.world.host());
            let op_key = self.op_key(&key);
            ExportOp { op_key, key, action: Verdict::Create, outcome: Outcome::Pending(()) }
        });
        ExportReport {
            ops: ops.collect(),
            is_converged: desired.is_empty(),
            is_truncated: !desired.is_empty(),
            ..ExportReport::default()
        }
    }
}

impl Source for Exporter {
    type Scope = ();
    type Desired = Vec<Export>;
    type Options = ();
    type Report = ExportReport;
    type Observed = BTreeMap<ResourceKey, Arc<Entry>>;
    type Error = Error;

    /// Observes everything once, and reads back the written exports.
    fn reconcile(&mut self, input: PassInput<'_, Self>) -> Result<ExportReport, Error> {
        let PassInput { desired, ledger, limits, .. } = input;
        // A pass that may write nothing does not make the host a member either.
        if self.begun.is_none() && (desired.is_empty() || limits.ops() == 0) {
            return Ok(self.report_without_session(desired));
        }
        let session = self.begin()?;
        let mut own = self.world.exports()?;
        self.recover(ledger, &own)?;
        self.retain_observed(&mut own, ledger)?;
        let lease = session.lease();
        let plan = self.plan(desired, &own, lease)?;
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
        let mut exported = Exported::default();
        if !tried.is_empty() {
            let intended: BTreeMap<ResourceKey, &Export> =
                desired.iter().map(|it| (it.key(self.world.host()), it)).collect();
            let intents = tried
                .iter()
                .map(|key| (self.encoded(key), claim(intended.get(key).map(|it| &it.data))));
            ledger.begin(intents.collect()).map_err(ledger_failed)?;
        }
        if limits.ops() > 0 {
            exported = session.declare_some(desired, tried.clone(), is_all)?;
        }
        report.is_converged = plan.is_empty();
        if !tried.is_empty() {
            self.read_back(&mut own, &tried, session.lease() == lease)?;
            let claims = tried
                .iter()
                .map(|key| (self.encoded(key), claim(own.get(key).map(|it| &it.value))));
            ledger.commit_outcomes(claims.collect()).map_err(ledger_failed)?;
            self.retain_observed(&mut own, ledger)?;
            report.is_converged = self.plan(desired, &own, session.lease())?.is_empty();
        }
        report.transactions = exported.transactions;
        for (key, action) in plan {
            let outcome = match exported.outcomes.remove(&key) {
                Some(Ok(_)) => Outcome::Applied,
                Some(Err(error)) => Outcome::Failed(error),
                None => Outcome::Pending(()),
            };
            let op_key = self.op_key(&key);
            report.ops.push(ExportOp { key, action, outcome, op_key });
        }
        report.session = session.status();
        self.note_statuses(&mut report);
        Ok(report)
    }

    fn observe(&mut self, _: &(), _: &()) -> Result<Option<Own>, Error> {
        Ok(Some(self.world.exports()?))
    }

    fn subscribe(&mut self, _: &(), hints: Hints) -> Subscribed<(), Error> {
        self.hints.set(hints);
        Subscribed::Active(())
    }
}

impl fmt::Debug for Exporter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Exporter")
            .field("host", &self.world.host())
            .field("session", &self.session())
            .finish_non_exhaustive()
    }
}

/// The report of a pass of an [`Exporter`]: its ops, and the session's status.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct ExportReport {
    /// The ops of this pass, each with its outcome.
    pub ops: Vec<ExportOp>,
    /// The number of transactions that were written.
    pub transactions: usize,
    /// The session's status after the pass.
    pub session: SessionStatus,
    is_converged: bool,
    is_truncated: bool,
    statuses: Vec<(OpKey, Option<Arc<Status>>)>,
}

/// An op of an [`ExportReport`]: a key of the store that is to be written or deleted.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ExportOp {
    /// The key in the store, whose exporter is this host.
    pub key: ResourceKey,
    /// The action: create, change or delete.
    pub action: Verdict,
    /// The op's result: applied, failed, declined or pending.
    pub outcome: Outcome<Error>,
    op_key: OpKey,
}

impl Report for ExportReport {
    fn converged(&self) -> bool {
        self.is_converged
    }

    fn outcomes(&self, visit: &mut dyn FnMut(ReportedOp<'_>)) {
        for op in &self.ops {
            visit(ReportedOp::new("export", op.outcome.classified(class), &|| op.op_key));
        }
    }

    fn statuses(&self, visit: &mut dyn FnMut(OpKey, Option<&Arc<Status>>)) {
        self.statuses.iter().for_each(|(key, status)| visit(*key, status.as_ref()));
    }

    fn is_truncated(&self) -> bool {
        self.is_truncated
    }
}

fn class(error: &Error) -> ErrorClass {
    match error.kind() {
        ErrorKind::Unavailable
        | ErrorKind::Compacted
        | ErrorKind::LeaseEnded
        | ErrorKind::NoSpace
        | ErrorKind::TooLarge => ErrorClass::Busy,
        ErrorKind::Conflict => ErrorClass::Conflict,
        ErrorKind::Denied => ErrorClass::Permission,
        ErrorKind::Invalid | ErrorKind::Malformed => ErrorClass::Invalid,
        ErrorKind::Indeterminate | ErrorKind::Replaced | ErrorKind::Store => ErrorClass::Unknown,
    }
}

/// Returns the ledger's record of an export with this data. `None` if there is no export.
fn claim(data: Option<&Vec<u8>>) -> Claim {
    data.map_or(Claim::NotOurs, |data| Claim::Ours(data.clone()))
}

fn ledger_failed(error: LedgerError) -> Error {
    let message = format!("the ledger failed: {error}; nothing is exported");
    Error::new(ErrorKind::Store, message).with_source(error)
}
