//! Plans of whole states: names to resolve, objects to compare, ops to order; and of one changed
//! route.

use criterion::{BatchSize, BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use trueup_counts::made::{self, Changing, MARKER};
use trueup_net::{Desired, Family, Owned, plan};

const SIZES: [usize; 3] = [1_000, 100_000, 1_000_000];

fn plans(c: &mut Criterion) {
    let mut group = c.benchmark_group("plan");
    group.sample_size(10);
    for size in SIZES {
        let there = made::observed(made::routes(Family::Inet, size));
        let empty = made::observed(Vec::new());
        let desired = made::desired(Family::Inet, size);
        let nothing = Desired::default().with_routes([]);
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
                    |()| plan(desired, observed, &owned, MARKER),
                    BatchSize::PerIteration,
                );
            });
        }
    }
    group.finish();
}

/// One changed route at a time, whatever the number of others.
fn changes(c: &mut Criterion) {
    let mut group = c.benchmark_group("tracker");
    for size in SIZES {
        let mut changing = Changing::new(size);
        group.bench_function(BenchmarkId::new("one changed route", size), |b| {
            b.iter(|| changing.change());
        });
    }
    group.finish();
}

criterion_group!(benches, plans, changes);
criterion_main!(benches);
