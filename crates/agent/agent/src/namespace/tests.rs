use std::cell::Cell;
use std::collections::BTreeMap;
use std::io;
use std::sync::Mutex;

use trueup_net::Link;
use trueup_reconcile::{Claim, LedgerError, MemoryLedger, Report as _};
use trueup_sysctl::{Files, Key};

use super::*;
use crate::apply::RunReport;
use crate::report::{PassReport, SectionResult};

type Bytes = Vec<u8>;

/// A sysctl's value without a kernel.
#[derive(Clone, Default)]
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

/// A network ledger that fails after this number of reads.
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

fn settings(pairs: &[(&str, &str)]) -> Desired {
    Desired {
        settings: Some(sysctl::Desired::parse(pairs.iter().copied()).unwrap()),
        ..Desired::default()
    }
}

fn set(value: &Value, ledger_reads: u32) -> Result<NamespaceReport, NamespaceError> {
    let mut source = EarlySource::new(Part::SETTINGS, Failing(Cell::new(ledger_reads)));
    source.settings = Sysctl::with_files(value.clone());
    let desired = settings(&[("net.ipv4.ip_forward", "1")]);
    let (mut ledger, options) = (MemoryLedger::default(), Options::default());
    source.reconcile(PassInput::new(&Namespace::current(), &desired, &mut ledger, &options))
}

fn reconcile_network() -> Result<NamespaceReport, NamespaceError> {
    let desired = settings(&[("net.ipv4.ip_forward", "1")]);
    let (mut ledger, options) = (Failing(Cell::new(0)), Default::default());
    network(MemoryLedger::default()).reconcile(PassInput::new(
        &Namespace::current(),
        &desired,
        &mut ledger,
        &options,
    ))
}

#[test]
fn a_pass_that_cannot_run_sets_nothing() {
    let value = Value::default();
    let error = set(&value, 0).unwrap_err();
    assert!(error.to_string().contains("it is gone"), "{error}");
    assert_eq!(*value.0.lock().unwrap(), b"");
    assert!(set(&value, 1).unwrap().converged());
    assert_eq!(*value.0.lock().unwrap(), b"1\n");
}

#[test]
fn a_run_that_breaks_off_after_a_change_is_a_report() {
    fn result(of: Result<NamespaceReport, NamespaceError>) -> SectionResult {
        of.map(|report| Box::new(report) as Box<dyn PassReport>).map_err(crate::Error::pass)
    }
    let value = Value::default();
    let run = |reads| {
        let set = result(set(&value, reads));
        RunReport::of(vec![(Part::NETWORK, result(reconcile_network())), (Part::SETTINGS, set)])
    };
    assert!(run(0).is_err(), "nothing was changed");
    let report = run(1).unwrap();
    let mut applied = 0;
    report.ops(&mut |op| applied += u32::from(op.outcome().is_applied()));
    assert_eq!(applied, 1);
    assert!(!report.converged());
    let errors = report.errors();
    let [error] = &errors[..] else {
        panic!("{errors:?}");
    };
    assert!(error.starts_with("the pass ended early: ") && error.contains("it is gone"), "{error}");
}

#[test]
fn without_settings_the_network_is_the_only_part() {
    let names =
        |desired: &Desired| desired.split().into_iter().map(|(part, _)| part).collect::<Vec<_>>();
    assert_eq!(names(&Desired::default()), [Part::NETWORK]);
    let forward = settings(&[("net.ipv4.ip_forward", "1")]);
    assert_eq!(names(&forward), [Part::SETTINGS, Part::NETWORK]);
}

#[test]
fn settings_of_declared_links_and_of_the_other_ends_of_pairs_are_a_part_of_their_own() {
    let peer: IfName = "vb".parse().unwrap();
    let veth = LinkKind::veth(peer);
    let pair = Link::new("va".parse().unwrap(), veth);
    let names = [
        "net.ipv4.conf.default.rp_filter",
        "net.ipv4.conf.eth0.rp_filter",
        "net.ipv4.conf.va.rp_filter",
        "net.ipv4.neigh.vb.app_solicit",
    ];
    let mut desired = settings(&names.map(|name| (name, "1")));
    desired.network = Arc::new(Network::default().with_links([pair]));
    let parts = desired.split();
    let found = |part| {
        let (_, desired) = parts.iter().find(|(it, _)| *it == part).unwrap();
        let keys = desired.settings.iter().flat_map(sysctl::Desired::keys);
        keys.map(ToString::to_string).collect::<Vec<_>>()
    };
    let order = [Part::SETTINGS, Part::LINKS, Part::LINK_SETTINGS, Part::NETWORK];
    assert!(parts.iter().map(|(part, _)| *part).eq(order) && order.is_sorted());
    assert_eq!(found(Part::SETTINGS), names[..2]);
    assert_eq!(found(Part::LINKS), names[2..]);
    assert_eq!(found(Part::LINK_SETTINGS), names[2..]);
    // All of them: a change of a link may reset settings of links that others have declared.
    assert_eq!(found(Part::NETWORK), names);
}
