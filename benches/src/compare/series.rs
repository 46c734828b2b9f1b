//! The measured works with their order, sizes and limits.

use trueup_works::Family::{Inet, Inet6};
use trueup_works::Work::{self, *};

/// Works done one after the other in one namespace, so that its state at the end is as at the
/// beginning.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Series {
    /// The objects present before and throughout.
    pub(super) held: Held,
    /// The works, in turn.
    pub(super) steps: &'static [Step],
    /// The sizes to measure; limits apply to the last.
    pub(super) sizes: &'static [usize],
    /// The cost of one object as a multiple of a route's, about. It determines the number of turns.
    pub(super) weight: usize,
    /// True if the series runs only when one of its works is named: other programs take minutes.
    pub(super) if_named: bool,
}

/// Objects that are present while a series runs, and count in no program's time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Held {
    /// Only the links to the gateways.
    Nothing,
    /// The objects that the first work makes and the second deletes.
    Made(Work, Work),
    /// Foreign routes in the number of the size, and a thousand of ours: [`Work::FewNoop`].
    Crowd,
}

/// A work, with trueup's limits at the largest size.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Step {
    pub(super) work: Work,
    /// The work in words, for a table.
    pub(super) title: &'static str,
    pub(super) limits: &'static [Limit],
}

/// The limit of a work's cost.
#[derive(Clone, Copy, Debug)]
pub(super) enum Limit {
    /// A multiple of the floor's wall time.
    Floors(f64),
    /// Wall time, in microseconds.
    Micros(f64),
    /// A multiple of the wall time at the smallest size.
    Growth(f64),
    /// Resident memory, in MB (10^6 bytes).
    Megabytes(f64),
}
use Limit::{Floors, Growth, Megabytes, Micros};

const fn step(work: Work, title: &'static str, limits: &'static [Limit]) -> Step {
    Step { work, title, limits }
}

const fn series(held: Held, sizes: &'static [usize], steps: &'static [Step]) -> Series {
    Series { held, steps, sizes, weight: 1, if_named: false }
}

const TO_A_MILLION: &[usize] = &[1, 1_000, 10_000, 100_000, 1_000_000];
const TO_100_000: &[usize] = &[1, 1_000, 10_000, 100_000];
const TO_10_000: &[usize] = &[1, 100, 1_000, 10_000];
/// The whole table has 564,579 IPv4 and 167,901 IPv6 prefixes.
const INTERNET: &[usize] = &[1_000, 732_480];
const ROUTES: Held = Held::Made(RouteCreate(Inet), RouteDelete(Inet));

/// All series, in the order of the page.
pub(super) const SERIES: [Series; 15] = [
    series(
        ROUTES,
        TO_A_MILLION,
        &[step(
            RouteNoop(Inet),
            "IPv4 routes: nothing to do, against a dump",
            &[Floors(1.15), Megabytes(100.0)],
        )],
    ),
    series(
        Held::Crowd,
        TO_A_MILLION,
        &[step(
            FewNoop,
            "1,000 IPv4 routes among foreign ones: nothing to do, against a filtered dump",
            &[Floors(1.10), Megabytes(12.0)],
        )],
    ),
    series(
        Held::Nothing,
        TO_A_MILLION,
        &[
            step(RouteCreate(Inet), "IPv4 routes: create", &[Floors(1.08)]),
            step(RouteGateway, "IPv4 routes: another gateway, in place", &[Floors(1.08)]),
            step(
                RouteDelete(Inet),
                "IPv4 routes: delete, against ascending order",
                &[Floors(0.75)],
            ),
        ],
    ),
    series(
        ROUTES,
        &[1_000, 1_000_000],
        &[step(
            RouteChange,
            "one IPv4 route comes or goes among so many, through the loop, against a message",
            &[Micros(200.0), Growth(1.5)],
        )],
    ),
    series(
        ROUTES,
        &[1_000, 1_000_000],
        &[step(
            RouteTurn,
            "one IPv4 route among so many: another gateway, through the loop, against a message",
            &[Micros(200.0), Growth(1.5)],
        )],
    ),
    series(
        Held::Nothing,
        TO_A_MILLION,
        &[step(
            GatewayObject,
            "IPv4 routes by a nexthop object (nexthop_compat_mode 0): another gateway, against a message",
            &[Micros(5_000.0)],
        )],
    ),
    series(
        Held::Made(RouteCreate(Inet6), RouteDelete(Inet6)),
        TO_100_000,
        &[step(RouteNoop(Inet6), "IPv6 routes: nothing to do, against a dump", &[Floors(1.15)])],
    ),
    series(
        Held::Nothing,
        TO_100_000,
        &[
            step(RouteCreate(Inet6), "IPv6 routes: create", &[Floors(1.08)]),
            step(RouteDelete(Inet6), "IPv6 routes: delete", &[Floors(1.08)]),
        ],
    ),
    series(
        Held::Nothing,
        TO_10_000,
        &[
            step(RuleCreate(Inet), "IPv4 rules: create, against ascending order", &[Floors(0.6)]),
            step(RuleDelete(Inet), "IPv4 rules: delete, against ascending order", &[Floors(1.1)]),
        ],
    ),
    series(
        Held::Nothing,
        TO_10_000,
        &[
            step(RuleCreate(Inet6), "IPv6 rules: create, against ascending order", &[Floors(0.6)]),
            step(RuleDelete(Inet6), "IPv6 rules: delete, against ascending order", &[Floors(1.1)]),
        ],
    ),
    Series {
        weight: 20,
        ..series(
            Held::Nothing,
            &[1, 100, 1_500],
            &[step(
                AddressCreate,
                "IPv6 addresses on a link that the pass brings up, against adding them to one that is up",
                &[Floors(0.1)],
            )],
        )
    },
    Series {
        weight: 200,
        ..series(
            Held::Nothing,
            &[1, 100, 1_000],
            &[step(LinkDelete, "links: delete, against a message each", &[Floors(0.1)])],
        )
    },
    series(
        Held::Made(InternetCreate, InternetDelete),
        INTERNET,
        &[step(
            InternetNoop,
            "the internet's routes, 64 gateways: nothing to do, against dumps",
            &[Floors(1.15)],
        )],
    ),
    series(
        Held::Nothing,
        INTERNET,
        &[
            step(InternetCreate, "the internet's routes, 64 gateways: create", &[Floors(1.10)]),
            step(InternetDelete, "the internet's routes, 64 gateways: delete", &[]),
        ],
    ),
    Series {
        if_named: true,
        ..series(
            Held::Nothing,
            INTERNET,
            &[
                step(BothCreate, "the internet's routes and 10,000 rules: create", &[]),
                step(BothNoop, "the internet's routes and 10,000 rules: nothing to do", &[]),
                step(BothDelete, "the internet's routes and 10,000 rules: delete", &[]),
            ],
        )
    },
];

/// Returns all works, each with its largest size.
pub(super) fn steps() -> impl Iterator<Item = (&'static Step, usize)> {
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
