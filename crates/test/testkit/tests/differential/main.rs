//! Compares the model kernel with the running one: both get random sequences of raw messages, and
//! every reply, announcement and dump must agree.
//!
//! Each domain has a file: the namespace's content at the start, and a generator of messages. A
//! disagreement is shrunk to the fewest messages that still show it, and reported with the seed.
//! `TRUEUP_SEED=random` or a number and `TRUEUP_CASES=n` search further than the default run;
//! `TRUEUP_LENGTH=n` sets the number of messages in a sequence.

#![allow(clippy::unwrap_used, reason = "test code, though without #[test]")]

mod case;
mod chance;
mod compared;
mod domains;
mod machine;
mod message;

use std::env;
use std::process::ExitCode;

use case::{Domain, disagreement, shrunk};
use trueup_testkit::model::{self, Flaw, Kernel};
use trueup_testkit::{random_cases, running_version};

/// Sequences for each domain; `TRUEUP_CASES` overrides it.
const CASES: u32 = 75;
/// Messages in a sequence; `TRUEUP_LENGTH` overrides it.
const LENGTH: usize = 12;

fn number(name: &str) -> Option<u64> {
    env::var(name).ok().and_then(|text| text.parse().ok())
}

/// Runs a domain's sequences; fails with the shrunk sequence of the first disagreement.
fn agree(domain: &dyn Domain) {
    let seed = match env::var("TRUEUP_SEED").as_deref() {
        Ok("random") => fastrand::u64(..),
        _ => number("TRUEUP_SEED").unwrap_or(1),
    };
    let cases = u64::from(random_cases(CASES));
    let length = number("TRUEUP_LENGTH").map_or(LENGTH, |n| n as usize);
    println!("{}: {cases} sequences of {length} messages, seed {seed}", domain.name());
    for case in 0..cases {
        let mut rng = fastrand::Rng::with_seed(seed.wrapping_add(case));
        let messages = domain.sequence(&mut rng, length);
        if let Some(first) = disagreement(domain, &messages, &Kernel::new) {
            let (messages, why) = shrunk(domain, messages, first, &Kernel::new);
            let lines: Vec<_> = messages.iter().map(ToString::to_string).collect();
            panic!(
                "model and kernel disagree; TRUEUP_SEED={} TRUEUP_CASES=1\nafter {}\n{}\n{why}",
                seed.wrapping_add(case),
                domain.name(),
                lines.join("\n")
            );
        }
    }
}

/// Checks that a domain's sequences soon disagree if one of the model's rules is broken.
fn catches(domain: &dyn Domain, flaw: Flaw) {
    let flawed = || Kernel::flawed(flaw);
    let caught = (0..2000).any(|case| {
        let mut rng = fastrand::Rng::with_seed(case);
        let messages = domain.sequence(&mut rng, LENGTH);
        disagreement(domain, &messages, &flawed).is_some()
    });
    assert!(caught, "{flaw:?} was not noticed in 2000 sequences");
}

/// The model imitates Linux 6.18. Older kernels differ in places, so they are not compared.
fn main() -> ExitCode {
    if running_version() >= model::VERSION {
        return trueup_testkit::main(TESTS);
    }
    let (major, minor) = model::VERSION;
    let all = TESTS.len();
    println!(
        "not applicable here: {all} tests, as the model kernel is one of Linux {major}.{minor}"
    );
    trueup_testkit::main(&[])
}

macro_rules! domains {
    ($($agrees:ident: $domain:expr, $catches:ident: $flaw:expr;)+) => {
        $(
            fn $agrees() { agree(&$domain); }
            fn $catches() { catches(&$domain, $flaw); }
        )+
        const TESTS: &[(&str, fn())] = &[
            $((stringify!($agrees), $agrees), (stringify!($catches), $catches)),+
        ];
    };
}

domains! {
    links_agree: domains::link::Links, a_flaw_in_links_is_caught: Flaw::MtuUnchecked;
    addresses_agree: domains::address::Addresses, a_flaw_in_addresses_is_caught: Flaw::AddressKeepsLifetime;
    ipv4_routes_agree: domains::route4::Routes4, a_flaw_in_ipv4_routes_is_caught: Flaw::DeleteIgnoresProtocol;
    nexthops_agree: domains::nexthop::Nexthops, a_flaw_in_nexthops_is_caught: Flaw::GroupsOutliveTheirNexthops;
    ipv6_routes_agree: domains::route6::Routes6, a_flaw_in_ipv6_routes_is_caught: Flaw::Ipv6MetricStaysZero;
    rules_agree: domains::rule::Rules, a_flaw_in_rules_is_caught: Flaw::RuleTwice;
    neighbours_agree: domains::neighbour::Neighbours, a_flaw_in_neighbours_is_caught: Flaw::NeighbourLosesProtocol;
    forwarding_agrees: domains::forwarding::Forwarding, a_flaw_in_forwarding_is_caught: Flaw::AppendReplaces;
    everything_agrees: domains::mixed::Mixed, a_flaw_between_objects_is_caught: Flaw::Ipv4RoutesSurviveLinkDown;
}
