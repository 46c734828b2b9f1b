//! The works whose instructions are counted: a list, and a function each.
//!
//! A function makes its input, then does the work so many rounds. What one round takes is the
//! difference between a run of more rounds and a run of fewer; making the input, and starting a
//! process, fall out. To count another work, add a function here and run `cargo xtask counts
//! --write`.

use std::hint::black_box;

use trueup_net::{Family, Item as _, Observed, Owned, Plan, Route, Routes, plan};
use trueup_netlink::codec;
use trueup_netlink::codec::route::Row;
use trueup_netlink::wire::Messages;

use crate::made::{self, MARKER};

/// Of how many routes most works are: enough that the last digit does not matter, few enough that
/// a run under valgrind is over in a second or two.
const ITEMS: usize = 10_000;
/// Changes in a round, each planned by itself.
const CHANGES: usize = 1_000;

/// Something to be counted.
#[derive(Clone, Copy, Debug)]
pub struct Work {
    /// As in `benches/counts.toml`.
    pub name: &'static str,
    /// Items in a round.
    pub items: usize,
    /// Makes the input, and does so many rounds.
    pub run: fn(rounds: u32),
}

/// All of it.
pub const WORKS: [Work; 16] = [
    work("decode an IPv4 route", |count| decode(Family::Inet, count)),
    work("decode an IPv6 route", |count| decode(Family::Inet6, count)),
    work("read an IPv4 row", |count| read(Family::Inet, count)),
    work("read an IPv6 row", |count| read(Family::Inet6, count)),
    work("encode an IPv4 route", encode),
    work("hold desired routes", hold),
    work("match a dump of IPv4", |count| match_dump(Family::Inet, count)),
    work("match a dump of IPv6", |count| match_dump(Family::Inet6, count)),
    work("match rows of IPv4", |count| match_rows(Family::Inet, count)),
    work("match rows of IPv6", |count| match_rows(Family::Inet6, count)),
    work("two_way, in order, nothing changed", two_way_sorted),
    work("two_way, one shuffled, nothing changed", two_way_shuffled),
    work("plan, nothing changed", plan_nothing),
    work("plan, all missing", plan_missing),
    Work { name: "change one route of 1,000", items: CHANGES, run: |count| change(1_000, count) },
    // Not more than one of few.
    Work {
        name: "change one route of 100,000",
        items: CHANGES,
        run: |count| change(100_000, count),
    },
];

const fn work(name: &'static str, run: fn(u32)) -> Work {
    Work { name, items: ITEMS, run }
}

/// Does a work so many rounds; what it returns is dropped within the round.
fn rounds<T>(rounds: u32, mut work: impl FnMut() -> T) {
    for _ in 0..rounds {
        drop(black_box(work()));
    }
}

fn decode(family: Family, count: u32) {
    let dump = made::dump(&made::routes(family, ITEMS));
    rounds(count, || {
        let messages = Messages::new(black_box(&dump));
        messages
            .filter_map(|message| codec::route::decode(message.body).ok().flatten())
            .map(|route| black_box(route).metric)
            .fold(0, u32::wrapping_add)
    });
}

fn read(family: Family, count: u32) {
    let dump = made::dump(&made::routes(family, ITEMS));
    rounds(count, || {
        let messages = Messages::new(black_box(&dump));
        messages
            .filter_map(|message| Row::parse(message.body).ok().flatten())
            .map(|row| black_box(&row).common().metric)
            .fold(0, u32::wrapping_add)
    });
}

fn encode(count: u32) {
    let routes = made::routes(Family::Inet, ITEMS);
    let mut buffer = Vec::new();
    rounds(count, || {
        buffer.clear();
        for route in black_box(&routes) {
            let encoded = codec::route::create(&mut buffer, route, &codec::existing);
            debug_assert!(encoded.is_ok(), "{encoded:?}");
        }
        buffer.len()
    });
}

fn hold(count: u32) {
    let routes: Vec<_> = made::wanted(Family::Inet, ITEMS).collect();
    rounds(count, || black_box(&routes).iter().cloned().collect::<Routes>());
}

/// A pass that finds everything in order, but for the kernel and the socket.
fn match_dump(family: Family, count: u32) {
    let wanted = made::wanted(family, ITEMS).collect();
    let dump = made::dump(&made::routes(family, ITEMS));
    let mut matcher = made::matcher(&wanted);
    rounds(count, || made::match_dump(&mut matcher, family, black_box(&dump)));
}

/// The diff's part of it.
fn match_rows(family: Family, count: u32) {
    let wanted = made::wanted(family, ITEMS).collect();
    let dump = made::dump(&made::routes(family, ITEMS));
    let rows: Vec<_> = made::rows(&dump).collect();
    let mut matcher = made::matcher(&wanted);
    rounds(count, || made::match_rows(&mut matcher, family, black_box(&rows).iter().copied()));
}

fn two_way_sorted(count: u32) {
    let routes = made::routes(Family::Inet, ITEMS);
    compare(&routes, &routes, count);
}

fn two_way_shuffled(count: u32) {
    let routes = made::routes(Family::Inet, ITEMS);
    compare(&made::shuffled(&routes), &routes, count);
}

fn compare(desired: &[Route], observed: &[Route], count: u32) {
    rounds(count, || {
        made::two_way(black_box(desired), black_box(observed), Route::key, made::value)
    });
}

fn plan_nothing(count: u32) {
    planned(&made::observed(made::routes(Family::Inet, ITEMS)), count);
}

fn plan_missing(count: u32) {
    planned(&made::observed(Vec::new()), count);
}

fn change(of: usize, count: u32) {
    let mut changing = made::Changing::new(of);
    rounds(count, || {
        (0..CHANGES).filter_map(|_| changing.change()).map(|plan| plan.ops.len()).sum::<usize>()
    });
}

fn planned(observed: &Observed, count: u32) {
    let desired = made::desired(Family::Inet, ITEMS);
    let owned = Owned::default();
    rounds(count, || -> Option<Plan> {
        plan(black_box(&desired), black_box(observed), &owned, MARKER).ok()
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    // A work that does less than it says would be counted as quick.
    #[test]
    fn the_works_do_what_their_names_say() {
        for family in [Family::Inet, Family::Inet6] {
            let routes = made::routes(family, 100);
            let dump = made::dump(&routes);
            let decoded: Vec<Route> = Messages::new(&dump)
                .map(|message| codec::route::decode(message.body).unwrap().unwrap())
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
        for (at, work) in WORKS.iter().enumerate() {
            assert!(WORKS[..at].iter().all(|other| other.name != work.name));
            (work.run)(1);
        }
    }
}
