//! The diff alone: generic, and desired routes against the dump of a kernel that has them.

use std::collections::BTreeSet;
use std::hint::black_box;

use criterion::measurement::WallTime;
use criterion::{
    BenchmarkGroup, BenchmarkId, Criterion, Throughput, criterion_group, criterion_main,
};
use trueup_counts::made;
use trueup_diff::three_way;
use trueup_net::{Family, Item as _, Route, RouteKey, Routes};

const SIZES: [usize; 3] = [1_000, 100_000, 1_000_000];

/// The smaller, the more often.
fn sized(group: &mut BenchmarkGroup<'_, WallTime>, size: usize) {
    group.throughput(Throughput::Elements(size as u64));
    group.sample_size(if size > 1_000 { 10 } else { 100 });
}

fn generic(c: &mut Criterion) {
    let mut group = c.benchmark_group("diff");
    for size in SIZES {
        sized(&mut group, size);
        let routes = made::routes(Family::Inet, size);
        let shuffled = made::shuffled(&routes);
        group.bench_function(BenchmarkId::new("two_way, both in order", size), |b| {
            b.iter(|| black_box(made::two_way(&routes, &routes, Route::key, made::value)));
        });
        group.bench_function(BenchmarkId::new("two_way, one shuffled", size), |b| {
            b.iter(|| black_box(made::two_way(&shuffled, &routes, Route::key, made::value)));
        });
        group.bench_function(BenchmarkId::new("two_way, both shuffled", size), |b| {
            b.iter(|| black_box(made::two_way(&shuffled, &shuffled, Route::key, made::value)));
        });
        drop(shuffled);
        let owned: BTreeSet<RouteKey> = routes.iter().map(Route::key).collect();
        group.bench_function(BenchmarkId::new("three_way, all undesired", size), |b| {
            b.iter(|| {
                black_box(three_way(&[], &routes, &owned, Route::key, Route::key, Route::eq))
            });
        });
    }
    group.finish();
}

/// Keys that are one integer: what the merge costs, beside its keys.
fn integers(c: &mut Criterion) {
    let mut group = c.benchmark_group("diff of integers");
    for size in SIZES {
        sized(&mut group, size);
        let sorted: Vec<(u128, u64)> = (0..size).map(|at| (at as u128, at as u64)).collect();
        let shuffled = made::shuffled(&sorted);
        let (key, value) = (|item: &(u128, u64)| item.0, |item: &(u128, u64)| item.1);
        group.bench_function(BenchmarkId::new("both in order", size), |b| {
            b.iter(|| black_box(made::two_way(&sorted, &sorted, key, value)));
        });
        group.bench_function(BenchmarkId::new("one shuffled", size), |b| {
            b.iter(|| black_box(made::two_way(&shuffled, &sorted, key, value)));
        });
    }
    group.finish();
}

fn matcher(c: &mut Criterion) {
    let mut group = c.benchmark_group("dump matcher");
    for (name, family) in [("IPv4", Family::Inet), ("IPv6", Family::Inet6)] {
        for size in SIZES {
            sized(&mut group, size);
            let wanted: Routes = made::wanted(family, size).collect();
            let dump = made::dump(&made::routes(family, size));
            let mut matcher = made::matcher(&wanted);
            group.bench_function(BenchmarkId::new(format!("{name}, a dump"), size), |b| {
                b.iter(|| made::match_dump(&mut matcher, family, black_box(&dump)));
            });
            let rows: Vec<_> = made::rows(&dump).collect();
            group.bench_function(BenchmarkId::new(format!("{name}, rows"), size), |b| {
                b.iter(|| made::match_rows(&mut matcher, family, black_box(&rows).iter().copied()));
            });
        }
    }
    group.finish();
}

fn routes(c: &mut Criterion) {
    let mut group = c.benchmark_group("routes");
    for size in SIZES {
        sized(&mut group, size);
        let sorted: Vec<_> = made::wanted(Family::Inet, size).collect();
        let shuffled = made::shuffled(&sorted);
        for (name, routes) in [("in order", &sorted), ("shuffled", &shuffled)] {
            group.bench_function(BenchmarkId::new(format!("held, {name}"), size), |b| {
                b.iter(|| black_box(routes.iter().cloned().collect::<Routes>()));
            });
        }
        let held: Routes = sorted.iter().cloned().collect();
        group.bench_function(BenchmarkId::new("walked", size), |b| {
            b.iter(|| held.iter().map(|route| route.metric).fold(0, u32::wrapping_add));
        });
    }
    group.finish();
}

criterion_group!(benches, generic, integers, matcher, routes);
criterion_main!(benches);
