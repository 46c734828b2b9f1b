//! Groups have the same effect on the running kernel as their vertices alone.

use std::net::Ipv4Addr;
use std::num::NonZeroUsize;
use std::sync::atomic::Ordering;
use std::time::Duration;

use trueup_graph::{Config, Driver, Failure, RunContext, Verdict, Vertex, VertexSpec};
use trueup_reconcile::{ErrorClass, MemoryLedger};
use trueup_testkit::{Snapshot, index_of, ip, uplinks, wait_until};

use crate::addresses::{Counts, OneAddress};

const BOUND: Duration = Duration::from_secs(60);

type Declared = (VertexSpec, Box<dyn Vertex>);

/// A device with addresses, optionally a group.
#[derive(Clone)]
struct Plan {
    device: u32,
    addresses: Vec<u8>,
    is_grouped: bool,
    counts: Counts,
}

impl Plan {
    /// Makes a plan for the device `up0`.
    fn new(addresses: &[u8], is_grouped: bool) -> Self {
        Plan {
            device: index_of("up0"),
            addresses: addresses.to_vec(),
            is_grouped,
            counts: Counts::default(),
        }
    }

    fn declare(&self) -> Vec<Declared> {
        let link = |_: &RunContext, _: bool| Ok::<_, Failure>(Verdict::InPlace);
        let link: Declared = (VertexSpec::new("link").unwatched(), Box::new(link));
        let addresses = self.addresses.iter().map(|&at| {
            let mut spec = VertexSpec::new(&format!("address.{at}"))
                .unwatched()
                .after("link")
                .with_retry(0, BOUND);
            // Some addresses depend on another one.
            if at > 100 {
                spec = spec.after(&format!("address.{}", at - 100));
            }
            if self.is_grouped {
                spec = spec.with_group("address");
            }
            let address = Ipv4Addr::new(10, 99, at, 1);
            let vertex = OneAddress::new(self.device, address, &self.counts);
            (spec, Box::new(vertex) as Box<dyn Vertex>)
        });
        std::iter::once(link).chain(addresses).collect()
    }

    fn start(&self) -> Driver {
        let config = Config::new(NonZeroUsize::new(3).unwrap()).with_quiet(Duration::ZERO);
        Driver::start(config, self.declare(), Box::new(MemoryLedger::default())).unwrap()
    }
}

/// Returns the namespace's state, and deletes our addresses.
fn take_and_clear() -> String {
    let shown = shown();
    ip(&["address", "flush", "dev", "up0", "to", "10.99.0.0/16"]);
    shown
}

/// Returns our addresses, sorted.
fn shown() -> String {
    let text = ip(&["-oneline", "-4", "address", "show", "dev", "up0"]);
    let words = text.split_whitespace();
    let mut ours: Vec<_> = words.filter(|it| it.starts_with("10.99.")).collect();
    ours.sort_unstable();
    ours.join(" ")
}

pub(crate) fn addresses_of_a_group_are_one_plan_and_fail_one_by_one() {
    uplinks(1);
    let all: Vec<u8> = (0..100).collect();
    let plan = Plan::new(&all, true);
    let mut declared = plan.declare();
    // The kernel refuses this one, as its device does not exist.
    let refused = OneAddress::new(1 << 20, Ipv4Addr::new(10, 99, 200, 1), &plan.counts);
    let spec = VertexSpec::new("refused").unwatched().after("link");
    let spec = spec.with_group("address").with_retry(0, BOUND);
    declared.push((spec, Box::new(refused)));
    let config = Config::new(NonZeroUsize::new(3).unwrap()).with_quiet(Duration::ZERO);
    let driver = Driver::start(config, declared, Box::new(MemoryLedger::default())).unwrap();
    let names: Vec<_> = all.iter().map(|at| format!("address.{at}")).collect();
    let names: Vec<_> = names.iter().map(|it| &**it).collect();
    wait_until("the addresses are there", || driver.are_converged(&names).unwrap());
    let explained = driver.explain("refused").unwrap();
    assert_eq!(explained.last, Some(Err(ErrorClass::Unknown)), "{explained}");
    assert_eq!(explained.group.as_deref(), Some("address"));
    assert_eq!(shown().split(' ').count(), 100);
    let counts = [&plan.counts.dumps, &plan.counts.batches].map(|it| it.load(Ordering::SeqCst));
    assert_eq!(counts, [1, 1], "one dump and one batch for all");
    driver.stop(BOUND).unwrap();
}

pub(crate) fn grouped_equals_ungrouped_and_shuffled_equals_ordered() {
    uplinks(1);
    let foreign = Snapshot::settled();
    let ordered: Vec<u8> = (0..20).chain(105..115).collect();
    let mut shuffled = ordered.clone();
    shuffled.sort_unstable_by_key(|at| at.wrapping_mul(167));
    let mut ends = Vec::new();
    for addresses in [&ordered, &shuffled] {
        for is_grouped in [false, true] {
            let driver = Plan::new(addresses, is_grouped).start();
            driver.wait_converged(BOUND).unwrap();
            let runs = driver.snapshot().vertices.into_iter();
            let mut runs: Vec<_> = runs.map(|it| (it.name, it.last)).collect();
            runs.sort_unstable_by(|one, other| one.0.cmp(&other.0));
            driver.stop(BOUND).unwrap();
            ends.push((take_and_clear(), runs));
        }
    }
    assert_eq!(ends[0].0.split(' ').count(), 30);
    assert!(ends.iter().all(|it| *it == ends[0]), "{ends:#?}");
    foreign.assert_same(&Snapshot::settled());
}

pub(crate) fn replaced_step_by_step_equals_started_anew() {
    uplinks(1);
    let foreign = Snapshot::settled();
    let steps: [(&[u8], bool); 6] = [
        (&[1, 2, 3, 101], true),
        (&[1, 3, 4, 5], true),
        (&[1, 3, 4, 5], false),
        (&[4, 5, 6, 104, 106], true),
        (&[], true),
        (&[7, 6, 107], true),
    ];
    let first = Plan::new(steps[0].0, steps[0].1);
    let stepped = first.start();
    let mut ends = Vec::new();
    for (addresses, is_grouped) in steps {
        let plan = Plan::new(addresses, is_grouped);
        stepped.replace(plan.declare()).unwrap();
        stepped.wait_converged(BOUND).unwrap();
        ends.push(shown());
    }
    stepped.stop(BOUND).unwrap();
    take_and_clear();
    for ((addresses, is_grouped), end) in steps.into_iter().zip(ends) {
        let anew = Plan::new(addresses, is_grouped).start();
        anew.wait_converged(BOUND).unwrap();
        anew.stop(BOUND).unwrap();
        assert_eq!(take_and_clear(), end);
    }
    foreign.assert_same(&Snapshot::settled());
}
