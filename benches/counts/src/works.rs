//! The works that are counted in instructions, and timed by criterion: a table, and one function
//! for each.
//!
//! A function makes its input, then hands over one round. To count another work, add a row and a
//! function here and run `cargo xtask counts --write`.

use std::collections::BTreeSet;
use std::hint::black_box;

use trueup_diff::three_way;
use trueup_net::{
    Desired, Family, IfName, ObjectKind as _, Observed, Owned, Route, RouteKey, Routes, plan,
};
use trueup_netlink::codec::route::Row;
use trueup_netlink::codec::{self, KindCodec as _};
use trueup_netlink::wire::Messages;

use crate::made::{self, MARKER};

/// The counted size of most works: large enough for a stable last digit, small enough to run a
/// second or two under valgrind.
const COUNTED: &[usize] = &[10_000];
/// The changes in a round, each with its own plan.
const CHANGES: usize = 1_000;

/// Runs a round as often as the caller needs.
pub type Runs<'a> = &'a mut dyn FnMut(&mut dyn FnMut());

/// A piece of work to count or time.
#[derive(Clone, Copy, Debug)]
pub struct Work {
    /// The name in `benches/counts.toml`.
    pub name: &'static str,
    /// Makes an input of a size, and hands over a round.
    pub run: fn(usize, Runs<'_>),
    /// The sizes at which it is counted.
    counted: &'static [usize],
    /// The items in a round; `None` if that is the size.
    items: Option<usize>,
}

use Family::{Inet, Inet6};

/// All works, in the order of `benches/counts.toml`.
pub const WORKS: [Work; 23] = [
    work("decode an IPv4 route", |size, runs| decode(Inet, size, runs)),
    work("decode an IPv6 route", |size, runs| decode(Inet6, size, runs)),
    work("read an IPv4 row", |size, runs| read(Inet, size, runs)),
    work("read an IPv6 row", |size, runs| read(Inet6, size, runs)),
    work("encode an IPv4 route", |size, runs| encode(Inet, size, runs)),
    work("encode an IPv6 route", |size, runs| encode(Inet6, size, runs)),
    work("hold desired routes", |size, runs| hold(made::wanted(Inet, size).collect(), runs)),
    work("hold desired routes, shuffled", |size, runs| {
        hold(made::shuffled(&made::wanted(Inet, size).collect::<Vec<_>>()), runs);
    }),
    work("walk desired routes", |size, runs| {
        let held: Routes = made::wanted(Inet, size).collect();
        hand(runs, || held.iter().map(|route| route.metric).fold(0, u32::wrapping_add));
    }),
    work("match a dump of IPv4", |size, runs| match_dump(Inet, size, runs)),
    work("match a dump of IPv6", |size, runs| match_dump(Inet6, size, runs)),
    work("match rows of IPv4", |size, runs| match_rows(Inet, size, runs)),
    work("match rows of IPv6", |size, runs| match_rows(Inet6, size, runs)),
    work("two_way, in order, nothing changed", |size, runs| {
        let routes = made::routes(Inet, size);
        compare(&routes, &routes, runs);
    }),
    work("two_way, one shuffled, nothing changed", |size, runs| {
        let routes = made::routes(Inet, size);
        compare(&made::shuffled(&routes), &routes, runs);
    }),
    work("two_way, both shuffled, nothing changed", |size, runs| {
        let routes = made::shuffled(&made::routes(Inet, size));
        compare(&routes, &routes, runs);
    }),
    work("two_way of integers, in order", |size, runs| integers(size, <[_]>::to_vec, runs)),
    work("two_way of integers, one shuffled", |size, runs| integers(size, made::shuffled, runs)),
    work("three_way, all undesired", three_way_undesired),
    work("plan, nothing changed", |size, runs| {
        planned(&made::desired(Inet, size), &made::observed(made::routes(Inet, size)), runs);
    }),
    work("plan, all missing", |size, runs| {
        planned(&made::desired(Inet, size), &made::observed(Vec::new()), runs);
    }),
    work("plan, all undesired", |size, runs| {
        let nothing = Desired::default().with_routes([]);
        planned(&nothing, &made::observed(made::routes(Inet, size)), runs);
    }),
    // A change among many must not cost more than one among few.
    Work {
        counted: &[1_000, 100_000],
        items: Some(CHANGES),
        ..work("change one route", |size, runs| {
            let mut changing = made::Changing::new(size);
            hand(runs, || {
                let plans = (0..CHANGES).filter_map(|_| changing.change());
                plans.map(|plan| plan.ops.len()).sum::<usize>()
            });
        })
    },
];

const fn work(name: &'static str, run: fn(usize, Runs<'_>)) -> Work {
    Work { name, run, counted: COUNTED, items: None }
}

impl Work {
    /// Returns the number of items in a round at a size.
    pub fn items(&self, size: usize) -> usize {
        self.items.unwrap_or(size)
    }

    /// Returns the works with their counted sizes, each by its name in `benches/counts.toml`.
    pub fn counted() -> impl Iterator<Item = (String, &'static Work, usize)> {
        WORKS.iter().flat_map(|work| {
            work.counted.iter().map(move |size| match work.counted {
                [_] => (work.name.to_owned(), work, *size),
                _ => (format!("{} of {size}", work.name), work, *size),
            })
        })
    }
}

/// Hands over a round, and drops its result within the round.
fn hand<T>(runs: Runs<'_>, mut round: impl FnMut() -> T) {
    runs(&mut || drop(black_box(round())));
}

fn decode(family: Family, size: usize, runs: Runs<'_>) {
    let dump = made::dump(&made::routes(family, size));
    hand(runs, || {
        Messages::new(black_box(&dump))
            .filter_map(|message| Route::decode(message.body).ok().flatten())
            .map(|route| black_box(route).metric)
            .fold(0, u32::wrapping_add)
    });
}

fn read(family: Family, size: usize, runs: Runs<'_>) {
    let dump = made::dump(&made::routes(family, size));
    hand(runs, || {
        Messages::new(black_box(&dump))
            .filter_map(|message| Row::parse(message.body).ok().flatten())
            .map(|row| black_box(&row).common().metric)
            .fold(0, u32::wrapping_add)
    });
}

fn encode(family: Family, size: usize, runs: Runs<'_>) {
    let routes = made::routes(family, size);
    let mut buffer = Vec::new();
    hand(runs, || {
        buffer.clear();
        for route in black_box(&routes) {
            let encoded = codec::create(&mut buffer, route, &codec::existing);
            debug_assert!(encoded.is_ok(), "{encoded:?}");
        }
        buffer.len()
    });
}

fn hold(routes: Vec<Route<IfName>>, runs: Runs<'_>) {
    hand(runs, || black_box(&routes).iter().cloned().collect::<Routes>());
}

/// Does the work of a pass that finds everything in place, without the kernel and the socket.
fn match_dump(family: Family, size: usize, runs: Runs<'_>) {
    let wanted = made::wanted(family, size).collect();
    let dump = made::dump(&made::routes(family, size));
    let mut matcher = made::matcher(&wanted);
    hand(runs, || made::match_dump(&mut matcher, family, black_box(&dump)));
}

/// Does only the diff of [`match_dump`].
fn match_rows(family: Family, size: usize, runs: Runs<'_>) {
    let wanted = made::wanted(family, size).collect();
    let dump = made::dump(&made::routes(family, size));
    let rows: Vec<_> = made::rows(&dump).collect();
    let mut matcher = made::matcher(&wanted);
    hand(runs, || made::match_rows(&mut matcher, family, black_box(&rows).iter().copied()));
}

fn compare(desired: &[Route], observed: &[Route], runs: Runs<'_>) {
    hand(runs, || made::two_way(black_box(desired), black_box(observed), Route::key, made::value));
}

/// An integer key, and a value.
type Integer = (u128, u64);

/// Measures the cost of the merge, with cheap keys.
fn integers(size: usize, order: fn(&[Integer]) -> Vec<Integer>, runs: Runs<'_>) {
    let sorted: Vec<Integer> = (0..size).map(|at| (at as u128, at as u64)).collect();
    let desired = order(&sorted);
    hand(runs, || made::two_way(&desired, &sorted, |item| item.0, |item| item.1));
}

fn three_way_undesired(size: usize, runs: Runs<'_>) {
    let routes = made::routes(Inet, size);
    let owned: BTreeSet<RouteKey> = routes.iter().map(Route::key).collect();
    hand(runs, || three_way(&[], &routes, &owned, Route::key, Route::key, Route::eq));
}

fn planned(desired: &Desired, observed: &Observed, runs: Runs<'_>) {
    let owned = Owned::default();
    hand(runs, || plan(black_box(desired), black_box(observed), &owned, MARKER).ok());
}

#[cfg(test)]
mod tests {
    use super::*;

    // A work that does too little would count as fast.
    #[test]
    fn the_works_do_what_their_names_say() {
        for family in [Family::Inet, Family::Inet6] {
            let routes = made::routes(family, 100);
            let dump = made::dump(&routes);
            let decoded: Vec<Route> = Messages::new(&dump)
                .map(|message| Route::decode(message.body).unwrap().unwrap())
                .collect();
            assert_eq!(decoded, routes);
            let wanted = made::wanted(family, 100).collect();
            assert_eq!(made::match_dump(&mut made::matcher(&wanted), family, &dump), 100);
        }
        let routes = made::routes(Family::Inet, 100);
        let shuffled = made::shuffled(&routes);
        let mut again = shuffled.clone();
        again.sort_unstable_by_key(Route::key);
        assert_ne!(shuffled, routes);
        assert_eq!(again, routes);

        let (desired, owned) = (made::desired(Family::Inet, 100), Owned::default());
        let there = plan(&desired, &made::observed(routes), &owned, MARKER).unwrap();
        assert!(there.ops.is_empty(), "{there:?}");
        let nothing = made::observed(Vec::new());
        let missing = plan(&desired, &nothing, &owned, MARKER).unwrap();
        assert_eq!(missing.ops.len(), 100);

        let mut changing = made::Changing::new(10);
        for _ in 0..100 {
            assert_eq!(changing.change().unwrap().ops.len(), 1);
        }
    }

    #[test]
    fn each_work_has_a_name_of_its_own_and_runs() {
        let mut names = BTreeSet::new();
        for (name, work, _) in Work::counted() {
            assert!(names.insert(name));
            let mut ran = 0;
            (work.run)(100, &mut |round| {
                round();
                ran += 1;
            });
            assert_eq!(ran, 1);
        }
    }
}
