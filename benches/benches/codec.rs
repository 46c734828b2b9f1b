//! The codec alone: a route of each family from bytes and to bytes.

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use trueup_diff::{Dev, NextHop, NextHops, Route};
use trueup_netlink::codec;
use trueup_netlink::wire::Messages;

fn route(c: &mut Criterion) {
    let resolve = |dev: Dev| dev.as_index();
    for (name, dst, via) in [
        ("IPv4", "20.1.0.0/16", "10.200.0.2"),
        ("IPv6", "2001:db8::/48", "fd00:200::2"),
    ] {
        let (Ok(dst), Ok(via)) = (dst.parse(), via.parse()) else {
            continue;
        };
        let hop = NextHop::via(via).on(Dev::index(2));
        let mut route = Route::new(dst, NextHops::One(hop)).canonical();
        route.protocol = 116;
        let mut buffer = Vec::new();
        c.bench_function(&format!("encode an {name} route"), |b| {
            b.iter(|| {
                buffer.clear();
                codec::route::create(&mut buffer, black_box(&route), &resolve)
            });
        });
        let Some(message) = Messages::new(&buffer).next() else {
            continue;
        };
        c.bench_function(&format!("decode an {name} route"), |b| {
            b.iter(|| codec::route::decode(black_box(message.body)));
        });
    }
}

criterion_group!(benches, route);
criterion_main!(benches);
