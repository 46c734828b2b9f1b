//! What is fuzzed: each function takes whatever bytes a peer, a kernel or a file may hold, and
//! panics where a promise is broken. That includes a panic of the code under test.
//!
//! `cargo fuzz run route` drives one with libFuzzer, on a nightly toolchain. On any other, `cargo
//! test` drives all of them with mutations of valid input, and `cargo run --bin route -- FILE...`
//! replays files, such as those that libFuzzer leaves behind.

use trueup_cli::file::{File, Tables, to_json, to_toml};
use trueup_netlink::codec;
use trueup_netlink::wire::{Attrs, Messages};

/// Makes the `main` of a fuzz target out of one of the functions below.
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

/// A datagram of netlink messages with attributes: both walks end, within their bytes.
pub fn datagram(data: &[u8]) {
    let mut messages = Messages::new(data);
    let mut left = data.len();
    for message in messages.by_ref() {
        left = left
            .checked_sub(message.header.length as usize)
            .expect("messages lie in the datagram, one after another");
        let mut attrs = Attrs::new(message.body);
        let held: usize = attrs.by_ref().map(|(_, payload)| payload.len()).sum();
        assert!(held <= message.body.len());
    }
    let _told = messages.malformed();
}

/// The body of an address message. What it decodes to is in canonical form.
pub fn address(data: &[u8]) {
    if let Ok(Some(address)) = codec::address::decode(data) {
        let again = address.clone().canonical(None);
        assert_eq!(again.clone().canonical(None), again);
    }
}

/// The body of a link message.
pub fn link(data: &[u8]) {
    if let Ok(Some(decoded)) = codec::link::decode(data) {
        let mut links = [decoded.clone(), decoded];
        codec::link::name_peers(&mut links);
    }
}

/// The body of a neighbour message. What it decodes to is in canonical form.
pub fn neighbour(data: &[u8]) {
    if let Ok(Some(neighbour)) = codec::neighbour::decode(data) {
        assert_eq!(neighbour.clone().canonical(), neighbour);
    }
}

/// The body of a route message. What it decodes to is in canonical form, and what can be encoded
/// of it decodes to what is encoded the same: a nexthop object's devices are told, never written.
pub fn route(data: &[u8]) {
    let Ok(Some(route)) = codec::route::decode(data) else {
        return;
    };
    assert_eq!(route.clone().canonical(), route);
    let mut message = Vec::new();
    if codec::route::create(&mut message, &route, &codec::existing).is_ok() {
        let again = codec::route::decode(body(&message));
        let again = again.ok().flatten().expect("what was encoded can be read");
        let mut second = Vec::new();
        assert_eq!(
            codec::route::create(&mut second, &again, &codec::existing),
            Ok(())
        );
        assert_eq!(second, message, "{route:?}");
    }
}

/// The body of a rule message. What it decodes to is in canonical form, and what can be encoded of
/// it decodes to the same.
pub fn rule(data: &[u8]) {
    let Ok(Some(rule)) = codec::rule::decode(data) else {
        return;
    };
    assert_eq!(rule.clone().canonical(), rule);
    let mut message = Vec::new();
    if codec::rule::create(&mut message, &rule).is_ok() {
        assert_eq!(codec::rule::decode(body(&message)), Ok(Some(rule)));
    }
}

/// A desired-state file. What it declares can be written, as TOML and as JSON, and reads the same.
pub fn file(data: &[u8]) {
    let tables = Tables::default();
    let Ok(file) = File::parse("fuzzed", data, &tables) else {
        return;
    };
    for text in [
        to_toml(file.protocol, &file.desired),
        to_json(file.protocol, &file.desired),
    ] {
        let again = File::parse("written", text.as_bytes(), &tables);
        let again = again.unwrap_or_else(|error| panic!("{error}\n{text}"));
        assert_eq!(again.desired, file.desired, "{text}");
    }
}

fn body(message: &[u8]) -> &[u8] {
    let message = Messages::new(message).next();
    message.expect("one message was encoded").body
}
