use std::cell::Cell;
use std::collections::BTreeMap;
use std::io;
use std::sync::Mutex;

use trueup_net::{IfName, Link, LinkKind, VethAttrs};
use trueup_reconcile::{Claim, LedgerError, MemoryLedger, PassInput, Report as _};
use trueup_sysctl::{Files, Key};

use super::*;

type Bytes = Vec<u8>;

/// A value that is in no kernel.
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

fn settings(pairs: &[(&str, &str)]) -> Desired {
    Desired {
        settings: Some(sysctl::Desired::parse(pairs.iter().copied()).unwrap()),
        ..Desired::default()
    }
}

fn pass(
    part: Part,
    value: &Value,
    ledger: &mut dyn Ledger,
    ledger_reads: u32,
) -> Result<Report, Error> {
    let timer = Arc::new(PassTimer::default());
    let mut host = Host::new(part, |_| Failing(Cell::new(ledger_reads)), &timer);
    host.settings = Sysctl::with_files(value.clone());
    let desired = settings(&[("net.ipv4.ip_forward", "1")]);
    host.reconcile(PassInput::new(&Namespace::current(), &desired, ledger, &Options::default()))
}

#[test]
fn a_pass_that_cannot_run_sets_nothing() {
    let value = Value::default();
    let ended = pass(Part::Settings, &value, &mut MemoryLedger::default(), 0);
    let error = ended.unwrap_err();
    assert!(error.to_string().contains("it is gone"), "{error}");
    assert_eq!(*value.0.lock().unwrap(), b"");
    let ended = pass(Part::Settings, &value, &mut MemoryLedger::default(), 1);
    assert!(ended.unwrap().converged());
    assert_eq!(*value.0.lock().unwrap(), b"1\n");
}

#[test]
fn a_run_that_breaks_off_after_a_change_is_a_report() {
    let value = Value::default();
    let run = |reads| {
        let settings = pass(Part::Settings, &value, &mut MemoryLedger::default(), reads);
        let network = pass(Part::Network, &value, &mut Failing(Cell::new(0)), 1);
        Report::of_run(vec![(Part::Network, network), (Part::Settings, settings)])
    };
    assert!(run(0).is_err(), "nothing was changed");
    let report = run(1).unwrap();
    assert_eq!(report.set().count(), 1);
    assert!(!report.converged());
    let errors = report.errors();
    let [error] = &errors[..] else {
        panic!("{errors:?}");
    };
    assert!(error.starts_with("the pass ended early: ") && error.contains("it is gone"), "{error}");
}

#[test]
fn without_settings_the_network_is_the_only_part() {
    let parts = |desired: Desired| {
        let parts = desired.parts().into_iter();
        parts.map(|(part, _)| part).collect::<Vec<_>>()
    };
    assert_eq!(parts(Desired::default()), [Part::Network]);
    let forward = settings(&[("net.ipv4.ip_forward", "1")]);
    assert_eq!(parts(forward), [Part::Settings, Part::Network]);
}

#[test]
fn settings_of_declared_links_and_of_the_other_ends_of_pairs_are_a_part_of_their_own() {
    let peer: IfName = "vb".parse().unwrap();
    let veth = LinkKind::Veth(VethAttrs::default().with_peer(peer));
    let pair = Link::new("va".parse().unwrap(), veth);
    let names = [
        "net.ipv4.conf.default.rp_filter",
        "net.ipv4.conf.eth0.rp_filter",
        "net.ipv4.conf.va.rp_filter",
        "net.ipv4.neigh.vb.app_solicit",
    ];
    let mut desired = settings(&names.map(|name| (name, "1")));
    desired.network = Arc::new(Network::default().with_links([pair]));
    let parts = desired.parts();
    let found = |part| {
        let (_, desired) = parts.iter().find(|(it, _)| *it == part).unwrap();
        let keys = desired.settings.iter().flat_map(sysctl::Desired::keys);
        keys.map(ToString::to_string).collect::<Vec<_>>()
    };
    assert_eq!(parts.len(), 4);
    assert!(parts.is_sorted_by_key(|(part, _)| *part));
    assert_eq!(found(Part::Settings), names[..2]);
    assert_eq!(found(Part::Links), names[2..]);
    assert_eq!(found(Part::LinkSettings), names[2..]);
    // All: a change of a link may reset some of a link that others have declared.
    assert_eq!(found(Part::Network), names);
}
