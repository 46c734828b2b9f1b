//! Times the works of `trueup-counts` at three sizes: diff, plan and codec alone.

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use trueup_counts::WORKS;

const SIZES: [usize; 3] = [1_000, 100_000, 1_000_000];

fn works(c: &mut Criterion) {
    for work in &WORKS {
        let mut group = c.benchmark_group(work.name);
        for size in SIZES {
            group.throughput(Throughput::Elements(work.items(size) as u64));
            // Smaller works get more samples.
            group.sample_size(if size > 1_000 { 10 } else { 100 });
            (work.run)(size, &mut |round| {
                group.bench_function(BenchmarkId::from_parameter(size), |b| b.iter(&mut *round));
            });
        }
        group.finish();
    }
}

criterion_group!(benches, works);
criterion_main!(benches);
