//! The codec alone: routes by the hundred, to bytes and from the bytes of a dump.

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use trueup_counts::made;
use trueup_net::Family;
use trueup_netlink::codec;
use trueup_netlink::codec::route::Row;
use trueup_netlink::wire::Messages;

/// What a receive buffer holds, and is still in the nearest cache.
const COUNT: usize = 500;

fn route(c: &mut Criterion) {
    let mut group = c.benchmark_group("codec");
    group.throughput(Throughput::Elements(COUNT as u64));
    for (name, family) in [("IPv4", Family::Inet), ("IPv6", Family::Inet6)] {
        let routes = made::routes(family, COUNT);
        let dump = made::dump(&routes);
        let mut buffer = Vec::new();
        group.bench_function(format!("encode {name} routes"), |b| {
            b.iter(|| {
                buffer.clear();
                for route in black_box(&routes) {
                    let encoded = codec::route::create(&mut buffer, route, &codec::existing);
                    assert!(encoded.is_ok(), "{encoded:?}");
                }
                buffer.len()
            });
        });
        group.bench_function(format!("decode {name} routes"), |b| {
            b.iter(|| {
                for message in Messages::new(black_box(&dump)) {
                    drop(black_box(codec::route::decode(message.body)));
                }
            });
        });
        group.bench_function(format!("read {name} rows"), |b| {
            b.iter(|| {
                for message in Messages::new(black_box(&dump)) {
                    drop(black_box(Row::parse(message.body)));
                }
            });
        });
    }
    group.finish();
}

criterion_group!(benches, route);
criterion_main!(benches);
