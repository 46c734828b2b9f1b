//! The diff alone: generic, and of routes with names to resolve and ops to order.

use std::collections::BTreeSet;
use std::hint::black_box;

use criterion::{BatchSize, BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use trueup_benches::prefixes::Prefixes;
use trueup_benches::state;
use trueup_diff::{
    Item as _, Kind, Observed, Owned, Route, RouteKey, plan, resolve, three_way, two_way,
};
use trueup_rtnl::DEFAULT_PROTOCOL;

const SIZES: [usize; 2] = [1_000, 100_000];

/// What the kernel would report were the desired state there.
fn observed(prefixes: &Prefixes) -> Observed {
    let (empty, owned) = (Observed::default(), Owned::default());
    let resolved = resolve(
        &state::desired(prefixes, 0),
        &empty,
        &owned,
        DEFAULT_PROTOCOL,
    );
    Observed {
        routes: resolved.ok().and_then(|all| all.routes).unwrap_or_default(),
        complete: [Kind::Route, Kind::Rule].into_iter().collect(),
        ..empty
    }
}

fn generic(c: &mut Criterion) {
    let mut group = c.benchmark_group("diff");
    for size in SIZES {
        let routes = observed(&Prefixes::synthetic().thinned(size)).routes;
        // A stride that shares no factor with the size visits each once, far from the one before.
        let shuffled: Vec<Route> = (0..size)
            .map(|at| routes[at * 61_803 % size].clone())
            .collect();
        let owned: BTreeSet<RouteKey> = routes.iter().map(Route::key).collect();
        let value = |route: &Route| (route.kind, route.nexthops.clone());
        group.throughput(Throughput::Elements(size as u64));
        group.bench_function(BenchmarkId::new("two_way, both in order", size), |b| {
            b.iter(|| black_box(two_way(&routes, &routes, Route::key, value)));
        });
        group.bench_function(BenchmarkId::new("two_way, one shuffled", size), |b| {
            b.iter(|| black_box(two_way(&shuffled, &routes, Route::key, value)));
        });
        group.bench_function(BenchmarkId::new("three_way, all undesired", size), |b| {
            b.iter(|| black_box(three_way(&[], &routes, &owned, Route::key, value)));
        });
    }
    group.finish();
}

fn plans(c: &mut Criterion) {
    let mut group = c.benchmark_group("plan");
    group.sample_size(10);
    for size in SIZES {
        let prefixes = Prefixes::synthetic().thinned(size);
        let (desired, there) = (state::desired(&prefixes, 0), observed(&prefixes));
        let nothing = state::desired(&Prefixes::default(), 0);
        let empty = Observed {
            complete: there.complete,
            ..Observed::default()
        };
        let owned = Owned::default();
        group.throughput(Throughput::Elements(size as u64));
        for (name, desired, observed) in [
            ("nothing to do", &desired, &there),
            ("all missing", &desired, &empty),
            ("all undesired", &nothing, &there),
        ] {
            group.bench_function(BenchmarkId::new(name, size), |b| {
                // The plan is dropped outside of what is measured.
                b.iter_batched(
                    || (),
                    |()| plan(desired, observed, &owned, DEFAULT_PROTOCOL),
                    BatchSize::PerIteration,
                );
            });
        }
    }
    group.finish();
}

criterion_group!(benches, generic, plans);
criterion_main!(benches);
