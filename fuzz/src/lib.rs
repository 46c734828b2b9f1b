//! The fuzz targets: each function takes any bytes that a peer, a kernel or a file may have, and
//! panics if a promise is broken. That includes a panic of the code under test.
//!
//! `cargo fuzz run route` runs one with libFuzzer, on a nightly toolchain. On any other, `cargo
//! test` runs all of them with the corpus and mutations of it, and `cargo run --bin route --
//! FILE...` replays files, such as those left by libFuzzer.
//!
//! For code that needs a kernel, see the scenarios of `trueup-e2e`.

mod codec;
mod control;
mod file;
mod graph;
mod guests;
mod journal;
#[cfg(test)]
mod mutations;
mod namespace;
mod packet;
mod pass;
mod script;
mod socket;
mod sysctl;
mod world;

pub use codec::{address, datagram, link, neighbour, nexthop, route, rule};
pub use control::{desired, operation, token};
pub use file::{file, resource};
pub use graph::graph;
pub use guests::guests;
pub use journal::{journal, record};
pub use namespace::namespace;
pub use packet::packet;
pub use pass::{ledger, options, pass};
pub use socket::{ack, batch, dump, event};
pub use sysctl::sysctl;
pub use world::{grants, world};

/// A function to fuzz; it panics if a promise is broken.
pub type Target = fn(&[u8]);

/// Every target by name, as in `fuzz/fuzz_targets`.
pub const TARGETS: [(&str, Target); 27] = [
    ("ack", ack),
    ("address", address),
    ("batch", batch),
    ("datagram", datagram),
    ("desired", desired),
    ("dump", dump),
    ("event", event),
    ("file", file),
    ("grants", grants),
    ("graph", graph),
    ("guests", guests),
    ("journal", journal),
    ("ledger", ledger),
    ("link", link),
    ("namespace", namespace),
    ("neighbour", neighbour),
    ("nexthop", nexthop),
    ("operation", operation),
    ("packet", packet),
    ("pass", pass),
    ("record", record),
    ("resource", resource),
    ("route", route),
    ("rule", rule),
    ("sysctl", sysctl),
    ("token", token),
    ("world", world),
];

/// Makes the `main` of a fuzz target from one of the functions above.
#[macro_export]
macro_rules! target {
    ($target:path) => {
        #[cfg(fuzzing)]
        libfuzzer_sys::fuzz_target!(|data: &[u8]| $target(data));

        #[cfg(not(fuzzing))]
        fn main() -> ::std::io::Result<()> {
            for path in ::std::env::args_os().skip(1) {
                $target(&::std::fs::read(path)?);
            }
            Ok(())
        }
    };
}
