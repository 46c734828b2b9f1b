//! What is measured, in which order, at which sizes, and what it may cost at most.

use trueup_net::Family;

use crate::works::Work;

/// Works that are done one after the other in one namespace, so that at the end it is as it was at
/// the beginning.
#[derive(Clone, Copy, Debug)]
pub struct Series {
    /// What is there before and all the while.
    pub held: Held,
    /// The works, in turn.
    pub steps: &'static [Step],
    /// The sizes. The limits are about the last.
    pub sizes: &'static [usize],
    /// How many times a route's cost one of its objects has, about: how often it is measured
    /// follows from that.
    pub weight: usize,
}

/// What is there while a series runs, and counts in no program's time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Held {
    /// The links that gateways are behind, alone.
    Nothing,
    /// What the first work makes and the second takes away.
    Made(Work, Work),
    /// As many foreign routes as the size says, and a thousand of ours: [`Work::FewNoop`].
    Crowd,
}

/// A work, and what it may cost.
#[derive(Clone, Copy, Debug)]
pub struct Step {
    /// The work.
    pub work: Work,
    /// In words, for a table.
    pub title: &'static str,
    /// At the largest size.
    pub limit: Limit,
}

/// What trueup may take at most.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Limit {
    /// So many times the wall time of the floor.
    pub floors: Option<f64>,
    /// Wall time, microseconds.
    pub micros: Option<f64>,
    /// So many times the wall time at the smallest size.
    pub growth: Option<f64>,
    /// Memory resident, MB (10^6 bytes).
    pub peak_mb: Option<f64>,
}

const NONE: Limit = Limit { floors: None, micros: None, growth: None, peak_mb: None };

/// Of one change through the loop, among however many.
const ONE_CHANGE: Limit = Limit { micros: Some(200.0), growth: Some(1.5), ..NONE };

const fn floors(times: f64) -> Limit {
    Limit { floors: Some(times), ..NONE }
}

const fn floors_and_mb(times: f64, megabytes: f64) -> Limit {
    Limit { floors: Some(times), peak_mb: Some(megabytes), ..NONE }
}

const fn step(work: Work, title: &'static str, limit: Limit) -> Step {
    Step { work, title, limit }
}

const TO_A_MILLION: &[usize] = &[1, 1_000, 10_000, 100_000, 1_000_000];
const TO_100_000: &[usize] = &[1, 1_000, 10_000, 100_000];
const TO_10_000: &[usize] = &[1, 100, 1_000, 10_000];
/// All that the table has: 564,579 IPv4 and 167,901 IPv6 prefixes.
const INTERNET: &[usize] = &[1_000, 732_480];

use Family::{Inet, Inet6};

/// All of them.
pub const SERIES: [Series; 14] = [
    Series {
        held: Held::Made(Work::RouteCreate(Inet), Work::RouteDelete(Inet)),
        steps: &[step(
            Work::RouteNoop(Inet),
            "IPv4 routes: nothing to do, against a dump",
            floors_and_mb(1.15, 100.0),
        )],
        sizes: TO_A_MILLION,
        weight: 1,
    },
    Series {
        held: Held::Crowd,
        steps: &[step(
            Work::FewNoop,
            "1,000 IPv4 routes among foreign ones: nothing to do, against a filtered dump",
            floors_and_mb(1.10, 12.0),
        )],
        sizes: TO_A_MILLION,
        weight: 1,
    },
    Series {
        held: Held::Nothing,
        steps: &[
            step(Work::RouteCreate(Inet), "IPv4 routes: create", floors(1.08)),
            step(Work::RouteGateway, "IPv4 routes: another gateway, in place", floors(1.08)),
            step(
                Work::RouteDelete(Inet),
                "IPv4 routes: delete, against ascending order",
                floors(0.75),
            ),
        ],
        sizes: TO_A_MILLION,
        weight: 1,
    },
    Series {
        held: Held::Made(Work::RouteCreate(Inet), Work::RouteDelete(Inet)),
        steps: &[step(
            Work::RouteChange,
            "one IPv4 route comes or goes among so many, through the loop, against a message",
            ONE_CHANGE,
        )],
        sizes: &[1_000, 1_000_000],
        weight: 1,
    },
    Series {
        held: Held::Made(Work::RouteCreate(Inet), Work::RouteDelete(Inet)),
        steps: &[step(
            Work::RouteTurn,
            "one IPv4 route among so many: another gateway, through the loop, against a message",
            ONE_CHANGE,
        )],
        sizes: &[1_000, 1_000_000],
        weight: 1,
    },
    Series {
        held: Held::Nothing,
        steps: &[step(
            Work::GatewayObject,
            "IPv4 routes by a nexthop object (nexthop_compat_mode 0): another gateway, against a message",
            Limit { micros: Some(5_000.0), ..NONE },
        )],
        sizes: TO_A_MILLION,
        weight: 1,
    },
    Series {
        held: Held::Made(Work::RouteCreate(Inet6), Work::RouteDelete(Inet6)),
        steps: &[step(
            Work::RouteNoop(Inet6),
            "IPv6 routes: nothing to do, against a dump",
            floors(1.15),
        )],
        sizes: TO_100_000,
        weight: 1,
    },
    Series {
        held: Held::Nothing,
        steps: &[
            step(Work::RouteCreate(Inet6), "IPv6 routes: create", floors(1.08)),
            step(Work::RouteDelete(Inet6), "IPv6 routes: delete", floors(1.08)),
        ],
        sizes: TO_100_000,
        weight: 1,
    },
    Series {
        held: Held::Nothing,
        steps: &[
            step(
                Work::RuleCreate(Inet),
                "IPv4 rules: create, against ascending order",
                floors(0.6),
            ),
            step(
                Work::RuleDelete(Inet),
                "IPv4 rules: delete, against ascending order",
                floors(1.1),
            ),
        ],
        sizes: TO_10_000,
        weight: 1,
    },
    Series {
        held: Held::Nothing,
        steps: &[
            step(
                Work::RuleCreate(Inet6),
                "IPv6 rules: create, against ascending order",
                floors(0.6),
            ),
            step(
                Work::RuleDelete(Inet6),
                "IPv6 rules: delete, against ascending order",
                floors(1.1),
            ),
        ],
        sizes: TO_10_000,
        weight: 1,
    },
    Series {
        held: Held::Nothing,
        steps: &[step(
            Work::AddressCreate,
            "IPv6 addresses on a link that the pass brings up, against adding them to one that is up",
            floors(0.1),
        )],
        sizes: &[1, 100, 1_500],
        weight: 20,
    },
    Series {
        held: Held::Nothing,
        steps: &[step(Work::LinkDelete, "links: delete, against a message each", floors(0.1))],
        sizes: &[1, 100, 1_000],
        weight: 200,
    },
    Series {
        held: Held::Made(Work::InternetCreate, Work::InternetDelete),
        steps: &[step(
            Work::InternetNoop,
            "the internet's routes, 64 gateways: nothing to do, against dumps",
            floors(1.15),
        )],
        sizes: INTERNET,
        weight: 1,
    },
    Series {
        held: Held::Nothing,
        steps: &[
            step(Work::InternetCreate, "the internet's routes, 64 gateways: create", floors(1.10)),
            step(Work::InternetDelete, "the internet's routes, 64 gateways: delete", NONE),
        ],
        sizes: INTERNET,
        weight: 1,
    },
];

/// All works, with the largest size of each.
pub fn steps() -> impl Iterator<Item = (&'static Step, usize)> {
    SERIES.iter().flat_map(|series| {
        let largest = series.sizes.iter().copied().max().unwrap_or(0);
        series.steps.iter().map(move |step| (step, largest))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn every_work_is_measured_once_at_sizes_that_it_may_have() {
        let measured: Vec<Work> = steps().map(|(step, _)| step.work).collect();
        let all: HashSet<Work> = Work::all().collect();
        assert_eq!(measured.iter().copied().collect::<HashSet<_>>(), all);
        assert_eq!(measured.len(), all.len());
        for (step, largest) in steps() {
            assert!(largest <= step.work.largest(), "{}", step.work);
        }
    }
}
