//! Operations that are done a million times allocate nothing.
#![allow(unsafe_code, reason = "an allocator that counts")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use trueup_net::internal::DumpMatcher;
use trueup_net::{Dev, Devices, Family, NextHop, NextHops, ObjectKind as _, Route, Routes};
use trueup_netlink::Batch;
use trueup_netlink::codec::{self, existing, route};
use trueup_netlink::wire::Messages;

thread_local! {
    static TAKEN: Cell<usize> = const { Cell::new(0) };
}

struct Counting;

// SAFETY: all calls go to `System`; counting touches none of the allocator's memory.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        TAKEN.with(|taken| taken.set(taken.get() + 1));
        // SAFETY: as the caller promised.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: as the caller promised; it was allocated by `System`.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        TAKEN.with(|taken| taken.set(taken.get() + 1));
        // SAFETY: as the caller promised; it was allocated by `System`.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// Returns the number of allocations that this thread makes in a function.
fn allocations(act: impl FnOnce()) -> usize {
    let before = TAKEN.get();
    act();
    TAKEN.get() - before
}

fn routes() -> [Route; 3] {
    let via = |dst: &str, gateway: &str| {
        let mut route: Route = Route::new(
            dst.parse().unwrap(),
            NextHops::One(NextHop::via(gateway.parse().unwrap()).with_dev(Dev::index(7))),
        );
        route.protocol = 116;
        route.canonical()
    };
    [via("10.1.2.0/24", "10.0.0.1"), via("2001:db8::/32", "fe80::1"), via("10.1.3.0/24", "fe80::1")]
}

#[test]
fn the_count_counts() {
    assert_eq!(allocations(|| drop(std::hint::black_box(Box::new(1)))), 1);
}

#[test]
fn a_plain_route_is_encoded_and_decoded_without_an_allocation() {
    let routes = routes();
    let mut buffer = Vec::with_capacity(1024);
    let encoded = allocations(|| {
        for route in &routes {
            codec::create(&mut buffer, route, &existing).unwrap();
            codec::replace(&mut buffer, route, &existing).unwrap();
            codec::delete(&mut buffer, route, &existing).unwrap();
        }
    });
    assert_eq!(encoded, 0);
    let mut seen = 0;
    let decoded = allocations(|| {
        for message in Messages::new(&buffer) {
            let row = route::Row::parse(message.body).unwrap().unwrap();
            assert!(row.plain().is_some_and(|row| row.via.is_some() || row.dev.is_some()));
            assert_eq!(row.to_route().key(), row.key());
            seen += 1;
        }
    });
    assert_eq!((decoded, seen), (0, 9));
}

#[test]
fn a_batch_that_was_full_once_is_filled_without_an_allocation() {
    let routes = routes();
    let mut batch = Batch::new();
    let fill = |batch: &mut Batch| {
        for route in routes.iter().cycle() {
            let pushed = batch.push(|buffer| codec::create(buffer, route, &existing));
            if !pushed.unwrap() {
                break;
            }
        }
        batch.clear();
    };
    fill(&mut batch);
    assert_eq!(allocations(|| fill(&mut batch)), 0);
}

#[test]
fn rows_in_sync_are_matched_without_an_allocation() {
    let via = |at: usize| {
        let dst = format!("10.{}.{}.0/24", at / 256, at % 256);
        let hop = NextHop::via("192.0.2.1".parse().unwrap());
        Route::new(dst.parse().unwrap(), NextHops::One(hop))
    };
    let looked = |count: usize| {
        let wanted: Routes = (0..count).map(via).collect();
        let mut dump = Vec::new();
        for at in 0..count {
            let mut route = via(at).try_map_dev(|_| Ok::<_, ()>(Dev::index(7))).unwrap();
            route.protocol = 116;
            route.nexthops =
                NextHops::One(NextHop::via("192.0.2.1".parse().unwrap()).with_dev(Dev::index(7)));
            codec::create(&mut dump, &route.canonical(), &existing).unwrap();
        }
        let mut matcher = DumpMatcher::new(&wanted, &Devices::default(), 116);
        let rows = allocations(|| {
            matcher.begin(Family::Inet);
            let mut kept = Vec::new();
            for message in Messages::new(&dump) {
                let row = route::Row::parse(message.body).unwrap().unwrap();
                assert!(matcher.match_row(row.plain(), || row.to_route(), &mut kept));
            }
        });
        matcher.end(Family::Inet, None);
        assert!(matcher.settle(true));
        assert_eq!(matcher.matched(), count);
        rows
    };
    // One for the table and one for the device, for any number of rows.
    assert_eq!((looked(1_000), looked(2_000)), (2, 2));
}
