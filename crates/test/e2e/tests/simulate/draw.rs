//! Objects drawn from a seed: desired ones, and other writers'.

use std::collections::BTreeSet;

use proptest::strategy::{Strategy as _, ValueTree as _};
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use trueup_net::Desired;

use trueup_e2e::cases::author;
use trueup_e2e::cases::spec::{self, Case, DesiredSpec, WriterSpec};

fn case(seed: u64, is_clean: bool) -> Case {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
    let mut runner = TestRunner::new_with_rng(Config::default(), rng);
    spec::case(is_clean).new_tree(&mut runner).unwrap().current()
}

/// The links that no writer touches, as everything else depends on them.
pub(crate) const BASE: [&str; 3] = ["lo", "ext0", "ext1"];

/// Returns a state that the kernel can hold, without the links in `without`.
pub(crate) fn desired(seed: u64, without: &[&str]) -> Desired {
    let mut spec = case(seed, true).steps.remove(0).desired;
    if let Some(links) = &mut spec.links {
        let is_out = |name: &&str| BASE.contains(name) || without.contains(name);
        links.retain(|link| !is_out(&author::LINKS[link.which]));
    }
    let present = BTreeSet::from(["ext0".to_owned(), "lo".to_owned()]);
    author::desired(&spec, &present, true)
}

/// Returns another writer's objects, given the present links; some may be impossible.
pub(crate) fn foreign(seed: u64, present: &BTreeSet<String>) -> Desired {
    let mut desired =
        DesiredSpec { links: None, addresses: None, neighbours: None, routes: None, rules: None };
    let case = case(seed, false);
    for spec in case.steps.iter().flat_map(|step| &step.other_writer) {
        match spec.clone() {
            WriterSpec::Address(spec) => desired.addresses = Some(vec![spec]),
            WriterSpec::Neighbour(spec) => desired.neighbours = Some(vec![spec]),
            WriterSpec::Route(spec, _) => desired.routes = Some(vec![spec]),
            WriterSpec::Rule(spec, _) => desired.rules = Some(vec![spec]),
            WriterSpec::Link { .. } | WriterSpec::Break { .. } => {}
        }
    }
    let links = case.steps.into_iter().find_map(|step| step.desired.links);
    desired.links = links.map(|mut links| {
        links.truncate(1);
        links
    });
    author::desired(&desired, present, false)
}
