//! One source made of two: the sysctls of a network namespace, and its links, addresses,
//! neighbours, routes and rules. Sysctls come before the objects on links, because they decide how
//! the kernel treats those; sysctls of a link come after that link. Without declared sysctls none
//! is read.

mod pass_timer;
mod report;

use std::collections::BTreeSet;
use std::fmt;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use trueup::diff::{Action, Kind};
use trueup::reconcile::{
    Drained, ErrorClass, Hints, Ledger, Outcome, PassLimits, Source, Subscribed, Subscription,
};
use trueup::sysctl::{self as sysctl, Sysctl};
use trueup::{Desired as Network, Namespace, Rtnl, rtnl};

pub(crate) use pass_timer::PassTimer;
pub(crate) use report::Report;
use report::StatusChanges;

/// The source. The driver passes the ledger of the network; the ledger of the sysctls is here.
pub(crate) struct Host {
    network: Rtnl,
    settings: Sysctl,
    ledger: Box<dyn Ledger + Send>,
    /// The statuses that have changed since the last report.
    statuses: StatusChanges,
    pass_timer: Arc<PassTimer>,
}

/// The desired state of both sources.
#[derive(Clone, Default)]
pub(crate) struct Desired {
    pub(crate) network: Network,
    /// `None`: sysctls are not managed.
    pub(crate) settings: Option<sysctl::Desired>,
}

/// The options of both sources.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Options {
    pub(crate) network: rtnl::Options,
    pub(crate) settings: sysctl::Options,
}

/// The plan of a pass.
pub(crate) struct Planned {
    pub(crate) network: rtnl::Planned,
    /// All of its ops are pending.
    pub(crate) settings: Option<sysctl::Report>,
}

impl Planned {
    /// Returns true if the state is as declared, as far as is known.
    pub(crate) fn is_converged(&self) -> bool {
        let settings = self.settings.as_ref();
        self.network.is_converged() && settings.is_none_or(trueup::Report::converged)
    }

    /// Returns true if a pass would try nothing, as far as is known.
    pub(crate) fn is_empty(&self) -> bool {
        let mut settings = self.settings.iter().flat_map(sysctl::Report::ops);
        self.network.plan.is_empty() && settings.all(is_unread)
    }
}

/// Why a pass could not run, or ended early.
#[derive(Debug)]
pub(crate) enum Error {
    Network(rtnl::Error),
    Settings(sysctl::Error),
}

impl Host {
    /// Creates the source with the ledger of the sysctls.
    pub(crate) fn new(ledger: Box<dyn Ledger + Send>) -> Host {
        Host {
            network: Rtnl::new(),
            settings: Sysctl::new(),
            ledger,
            statuses: StatusChanges::new(),
            pass_timer: Arc::new(PassTimer::new()),
        }
    }

    /// Returns the timer of the passes. The caller ends it when it has reported a pass.
    pub(crate) fn pass_timer(&self) -> Arc<PassTimer> {
        Arc::clone(&self.pass_timer)
    }

    /// Notes which statuses a run has found changed.
    fn note_statuses(&mut self, of: &impl trueup::Report) {
        of.statuses(&mut |key, status| {
            self.statuses.insert(key, status.cloned());
        });
    }

    /// Returns what a pass would do now. Changes nothing. Leaves out the sysctls of links that do
    /// not exist yet.
    ///
    /// # Errors
    ///
    /// As a pass.
    pub(crate) fn plan(
        &self,
        scope: &Namespace,
        desired: &Desired,
        ledger: &dyn Ledger,
        options: &Options,
    ) -> Result<Planned, Error> {
        let planned = desired.settings.as_ref().map(|desired| {
            let ledger = &*self.ledger;
            self.settings
                .plan(scope, desired, ledger, &options.settings)
        });
        let settings = planned.transpose()?;
        let (declared, options) = (&desired.network, &options.network);
        let network = self.network.plan(scope, declared, ledger, options)?;
        Ok(Planned { network, settings })
    }
}

/// Returns true if the value could not be read, so that it may be as declared.
fn is_unread(planned: &sysctl::SysctlOp) -> bool {
    use ErrorClass::{Busy, Permission, Unknown};
    let sysctl::Outcome::Failed(failure) = &planned.outcome else {
        return false;
    };
    matches!(failure.class, Busy | Permission | Unknown)
}

/// A pass over both sources.
struct Pass<'a> {
    host: &'a mut Host,
    scope: &'a Namespace,
    desired: &'a Desired,
    ledger: &'a mut dyn Ledger,
    options: &'a Options,
    limits: &'a PassLimits<'a>,
    /// The number of ops tried.
    tried: u64,
    report: Report,
}

impl<'a> Pass<'a> {
    fn run(&mut self) -> Result<(), Error> {
        self.check()?;
        self.set()?;
        if self.waits_for_declared() {
            self.links()?;
            self.set()?;
        }
        self.network()?;
        // More may have come than was declared by name, such as the other end of a pair.
        if self.missing().next().is_some() && self.has_made_links() && self.limits.should_continue()
        {
            let before = self.tried;
            self.set()?;
            if self.tried > before {
                self.network()?;
            }
        }
        Ok(())
    }

    /// Checks that the network's pass could run, so that an error of it comes before any setting is
    /// changed. Once for each desired state. Without settings the network's own pass comes first.
    fn check(&self) -> Result<(), Error> {
        if self.desired.settings.is_some() && !self.limits.is_same_desired() {
            let (network, options) = (&self.desired.network, &self.options.network);
            let source = &self.host.network;
            source.plan(self.scope, network, &*self.ledger, options)?;
        }
        Ok(())
    }

    /// Runs the pass over sysctls, if some are declared.
    fn set(&mut self) -> Result<(), Error> {
        let Some(desired) = &self.desired.settings else {
            // Sysctls that are not managed have no status.
            let cleared = self.host.settings.clear_statuses().into_iter();
            self.host.statuses.extend(cleared.map(|key| (key, None)));
            return Ok(());
        };
        let limits = self.limits();
        let Host {
            settings, ledger, ..
        } = &mut *self.host;
        let options = &self.options.settings;
        match settings.reconcile_within(self.scope, desired, &mut **ledger, options, &limits) {
            Ok(report) => {
                self.count(&report);
                self.host.note_statuses(&report);
                self.report.settings.push(report);
                self.report.settings_error = None;
            }
            Err(error) if error.is_gone() => return Err(error.into()),
            // The network is handled all the same.
            Err(error) => self.report.settings_error = Some(error),
        }
        Ok(())
    }

    fn network(&mut self) -> Result<(), Error> {
        let limits = self.limits();
        let (scope, network) = (self.scope, &self.desired.network);
        let options = &self.options.network;
        let source = &mut self.host.network;
        let report = source.reconcile_within(scope, network, self.ledger, options, &limits)?;
        self.count(&report);
        self.host.note_statuses(&report);
        self.report.network.push(report);
        Ok(())
    }

    /// Creates the links alone, with a second source: the first one remembers what was declared,
    /// and would take the links for all of it. Its statuses come from the first one.
    fn links(&mut self) -> Result<(), Error> {
        let limits = self.limits();
        let Network { links, adopt, .. } = &self.desired.network;
        let adopt = adopt.iter().filter(|(kind, _)| *kind == Kind::Link);
        let mut alone = Network::default().with_adopt(adopt.copied());
        alone.links.clone_from(links);
        let options = &self.options.network;
        let report =
            Rtnl::new().reconcile_within(self.scope, &alone, self.ledger, options, &limits)?;
        self.count(&report);
        self.report.network.push(report);
        Ok(())
    }

    /// Returns the driver's limits less the ops already tried.
    fn limits(&self) -> PassLimits<'a> {
        let left = self.limits.ops().saturating_sub(self.tried);
        self.limits.with_ops(left)
    }

    /// Returns the missing devices of sysctls.
    fn missing(&self) -> impl Iterator<Item = &str> {
        let last = self.report.settings.last();
        let failed = last.into_iter().flat_map(sysctl::Report::failed);
        let missing = failed.filter(|(_, why)| why.class == ErrorClass::Dependency);
        missing.filter_map(|(done, _)| device(done.key.path()))
    }

    /// Returns true if a missing device is declared.
    fn waits_for_declared(&self) -> bool {
        let links = self.desired.network.links.as_deref().unwrap_or_default();
        let declared: BTreeSet<&[u8]> = links.iter().map(|link| link.name.as_bytes()).collect();
        self.missing()
            .any(|device| declared.contains(device.as_bytes()))
    }

    /// Returns true if the last network pass created links.
    fn has_made_links(&self) -> bool {
        let last = self.report.network.last();
        let mut applied = last.into_iter().flat_map(rtnl::Report::applied);
        applied.any(|done| (done.op.action, done.op.object.kind()) == (Action::Create, Kind::Link))
    }

    fn count(&mut self, report: &impl trueup::Report) {
        report.outcomes(&mut |op| {
            let is_tried = op.outcome != Outcome::Pending;
            self.tried = self.tried.saturating_add(is_tried.into());
        });
    }
}

/// Returns the device in the path of a sysctl: `net/ipv4/conf/DEVICE/forwarding`.
fn device(path: &str) -> Option<&str> {
    match path.split('/').collect::<Vec<_>>()[..] {
        ["net", _, "conf" | "neigh", device, _, ..] => Some(device),
        _ => None,
    }
}

impl Source for Host {
    type Scope = Namespace;
    type Desired = Desired;
    type Options = Options;
    type Report = Report;
    type Observed = ();
    type Error = Error;
    type Subscription = HostSubscription;

    fn reconcile(
        &mut self,
        scope: &Namespace,
        desired: &Desired,
        ledger: &mut dyn Ledger,
        options: &Options,
    ) -> Result<Report, Error> {
        self.reconcile_within(scope, desired, ledger, options, &PassLimits::default())
    }

    fn reconcile_within(
        &mut self,
        scope: &Namespace,
        desired: &Desired,
        ledger: &mut dyn Ledger,
        options: &Options,
        limits: &PassLimits<'_>,
    ) -> Result<Report, Error> {
        self.pass_timer.begin();
        let mut pass = Pass {
            host: self,
            scope,
            desired,
            ledger,
            options,
            limits,
            tried: 0,
            report: Report::default(),
        };
        let ended = pass.run();
        if limits.ops() == 0 {
            // It is reported with what follows from it, later.
            pass.host.pass_timer.end();
        }
        match ended {
            // What was tried has to be reported: an error says that nothing was changed.
            Err(error) if pass.tried > 0 => pass.report.aborted = Some(error),
            ended => ended?,
        }
        // Those of a pass that could not run are in the report of the next one.
        pass.report.statuses = std::mem::take(&mut pass.host.statuses);
        Ok(pass.report)
    }

    fn is_scope_gone(error: &Error) -> bool {
        match error {
            Error::Network(error) => Rtnl::is_scope_gone(error),
            Error::Settings(error) => Sysctl::is_scope_gone(error),
        }
    }

    /// Subscribes to the network's events. Sysctls have none.
    fn subscribe(
        &mut self,
        scope: &Namespace,
        hints: Hints,
    ) -> Subscribed<HostSubscription, Error> {
        match self.network.subscribe(scope, hints) {
            Subscribed::Active(subscription) => Subscribed::Active(HostSubscription(subscription)),
            Subscribed::Unsupported => Subscribed::Unsupported,
            Subscribed::Failed(why) => Subscribed::Failed(Error::from(why)),
        }
    }
}

/// The subscription of the network's source.
pub(crate) struct HostSubscription(<Rtnl as Source>::Subscription);

impl Subscription<Error> for HostSubscription {
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Subscription::<rtnl::Error>::descriptor(&self.0)
    }

    fn drain(&mut self) -> Result<Drained, Error> {
        let drained = Subscription::<rtnl::Error>::drain(&mut self.0);
        drained.map_err(Error::from)
    }
}

impl Error {
    /// Returns the error if it is the network source's.
    pub(crate) fn network(&self) -> Option<&rtnl::Error> {
        match self {
            Error::Network(error) => Some(error),
            Error::Settings(_) => None,
        }
    }
}

impl From<rtnl::Error> for Error {
    fn from(error: rtnl::Error) -> Error {
        Error::Network(error)
    }
}

impl From<sysctl::Error> for Error {
    fn from(error: sysctl::Error) -> Error {
        Error::Settings(error)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Network(error) => error.fmt(f),
            Error::Settings(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(match self {
            Error::Network(error) => error,
            Error::Settings(error) => error,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::collections::BTreeMap;
    use std::io;
    use std::sync::Mutex;

    use trueup::Report as _;
    use trueup::reconcile::{Claim, LedgerError, MemoryLedger};
    use trueup::sysctl::{Files, Key};

    use super::*;

    type Bytes = Vec<u8>;

    /// A value that is in no kernel.
    #[derive(Default)]
    struct Value(Arc<Mutex<Bytes>>);

    impl Files for Value {
        fn read(&self, _: &Key) -> io::Result<Bytes> {
            Ok(self.0.lock().unwrap().clone())
        }

        fn write(&self, _: &Key, bytes: &[u8]) -> io::Result<usize> {
            *self.0.lock().unwrap() = bytes.to_vec();
            Ok(bytes.len())
        }
    }

    /// A ledger of the network that can be read so many times.
    struct Failing(Cell<u32>);

    impl Ledger for Failing {
        fn owned(&self) -> Result<BTreeMap<Bytes, Bytes>, LedgerError> {
            match self.0.get().checked_sub(1) {
                None => Err(LedgerError::new("it is gone")),
                Some(left) => {
                    self.0.set(left);
                    Ok(BTreeMap::new())
                }
            }
        }

        fn open_intents(&self) -> Result<BTreeMap<Bytes, Claim>, LedgerError> {
            Ok(BTreeMap::new())
        }

        fn begin(&mut self, _: BTreeMap<Bytes, Claim>) -> Result<(), LedgerError> {
            Ok(())
        }

        fn commit_outcomes(&mut self, _: BTreeMap<Bytes, Claim>) -> Result<(), LedgerError> {
            Ok(())
        }
    }

    /// Runs a pass over one setting and an empty network; returns the setting's value after it,
    /// too.
    fn pass(ledger_reads: u32) -> (Result<Report, Error>, Bytes) {
        let value = Arc::default();
        let mut host = Host::new(Box::new(MemoryLedger::default()));
        host.settings = Sysctl::with_files(Value(Arc::clone(&value)));
        let settings = sysctl::Desired::parse([("net.ipv4.ip_forward", "1")]);
        let desired = Desired {
            settings: Some(settings.unwrap()),
            ..Desired::default()
        };
        let mut ledger = Failing(Cell::new(ledger_reads));
        let scope = Namespace::current();
        let ended = host.reconcile(&scope, &desired, &mut ledger, &Options::default());
        (ended, std::mem::take(&mut *value.lock().unwrap()))
    }

    #[test]
    fn a_pass_that_cannot_run_sets_nothing() {
        let (ended, value) = pass(0);
        let error = ended.unwrap_err();
        assert!(error.to_string().contains("it is gone"), "{error}");
        assert_eq!(value, b"");
    }

    #[test]
    fn a_pass_that_breaks_off_after_a_change_is_a_report() {
        let (ended, value) = pass(1);
        let report = ended.unwrap();
        assert_eq!((report.set().count(), value), (1, b"1\n".to_vec()));
        assert!(!report.converged());
        let errors = report.errors();
        let [error] = &errors[..] else {
            panic!("{errors:?}");
        };
        assert!(
            error.starts_with("the pass ended early: ") && error.contains("it is gone"),
            "{error}"
        );
        let (ended, _) = pass(2);
        assert!(ended.unwrap().converged());
    }

    /// A value that cannot be changed.
    struct Refused;

    impl Files for Refused {
        fn read(&self, _: &Key) -> io::Result<Bytes> {
            Ok(b"0\n".to_vec())
        }

        fn write(&self, _: &Key, _: &[u8]) -> io::Result<usize> {
            Err(io::ErrorKind::ResourceBusy.into())
        }
    }

    #[test]
    fn a_setting_that_is_not_managed_any_more_has_no_status() {
        let mut host = Host::new(Box::new(MemoryLedger::default()));
        host.settings = Sysctl::with_files(Refused);
        let settings = sysctl::Desired::parse([("net.ipv4.ip_forward", "1")]);
        let mut desired = Desired {
            settings: Some(settings.unwrap()),
            ..Desired::default()
        };
        let (scope, mut ledger) = (Namespace::current(), MemoryLedger::default());
        let mut changes = |desired: &Desired| {
            let report = host.reconcile(&scope, desired, &mut ledger, &Options::default());
            let mut changes = Vec::new();
            report
                .unwrap()
                .statuses(&mut |_, status| changes.push(status.is_some()));
            changes
        };
        assert_eq!(changes(&desired), [true]);
        assert!(changes(&desired).is_empty(), "it is as it was");
        let settings = desired.settings.take();
        assert_eq!(changes(&desired), [false]);
        assert!(changes(&desired).is_empty());
        desired.settings = settings;
        assert_eq!(changes(&desired), [true], "managed again");
    }

    #[test]
    fn statuses_of_a_pass_that_cannot_run_are_in_the_next_report() {
        let value = Arc::default();
        let mut host = Host::new(Box::new(MemoryLedger::default()));
        host.settings = Sysctl::with_files(Value(Arc::clone(&value)));
        let settings = sysctl::Desired::parse([("net.ipv4.ip_forward", "1")]);
        let desired = Desired {
            settings: Some(settings.unwrap()),
            ..Desired::default()
        };
        let scope = Namespace::current();
        let options = Options::default();
        // The check before the first pass reads the ledger, and then it is gone.
        let limits = PassLimits::default().with_ops(0);
        let mut ledger = Failing(Cell::new(1));
        let failed = host.reconcile_within(&scope, &desired, &mut ledger, &options, &limits);
        assert!(failed.unwrap_err().to_string().contains("it is gone"));
        let mut ledger = MemoryLedger::default();
        let passed = host.reconcile_within(&scope, &desired, &mut ledger, &options, &limits);
        let mut pending = 0;
        passed
            .unwrap()
            .statuses(&mut |_, status| pending += usize::from(status.is_some()));
        assert_eq!(pending, 1);
    }

    #[test]
    fn the_device_of_a_setting_is_in_its_path() {
        for (path, expected) in [
            ("net/ipv4/conf/eth0.100/rp_filter", Some("eth0.100")),
            ("net/ipv6/neigh/br0/mcast_solicit", Some("br0")),
            ("net/ipv4/ip_forward", None),
            ("net/ipv4/conf/br0", None),
            ("net/core/conf", None),
        ] {
            assert_eq!(device(path), expected, "{path}");
        }
    }
}
