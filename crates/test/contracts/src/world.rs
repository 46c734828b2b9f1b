//! The contract of a `trueup-world` store as tests, for any store. A program with its own `main`
//! (libtest-mimic) runs each test on a [`Fixture`].

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "they are tests")]

/// Lists functions as tests under their names.
macro_rules! tests {
    ($($test:ident),* $(,)?) => {
        vec![$((stringify!($test), $test as fn(&dyn Fixture))),*]
    };
}

mod agents;
mod cluster;
mod exports;
mod gate;
mod sessions;
mod store;
mod strings;
mod watches;

use std::sync::Arc;
use std::time::{Duration, Instant};

use trueup_world::{
    Access, Error, Event, Export, Revision, Session, Store, Watch, WatchConfig, World,
};

pub use gate::Gate;
pub use store::store_contract;

/// A test of the contract: its name and function.
pub type Test = (&'static str, fn(&dyn Fixture));

/// A store for one test. Each test has its own fixture, or at least its own
/// [`prefix`](Self::prefix).
pub trait Fixture {
    /// Returns the prefix of all the test's keys, without a trailing slash. It is not a prefix of
    /// another test's.
    fn prefix(&self) -> String;

    /// Connects as a host with full access. Two calls give two connections.
    fn store(&self, host: &str) -> Arc<dyn Store>;

    /// Connects as a host with the rights in `access`; `None` if the store has no access control
    /// here.
    fn restricted(&self, host: &str, access: &Access) -> Option<Arc<dyn Store>>;

    /// Discards the history before a revision.
    ///
    /// # Errors
    ///
    /// The errors of the store.
    fn compact(&self, before: Revision) -> Result<(), Error>;

    /// Returns the shortest time to live that the store supports.
    fn ttl(&self) -> Duration;

    /// Makes time pass for the store, by its clock or by waiting.
    fn pass(&self, time: Duration);

    /// Returns the longest delay with which the store may end a lease: zero if [`pass`](Self::pass)
    /// drives its clock.
    fn lag(&self) -> Duration {
        Duration::ZERO
    }

    /// Cuts a host's connections to the store. Returns true once no more answers arrive, or false
    /// if the fixture cannot do this.
    fn cut(&self, _host: &str) -> bool {
        false
    }

    /// Reverses [`cut`](Self::cut).
    fn heal(&self, _host: &str) {}

    /// Restarts the store, or makes it change its leader: connections break, and acknowledged
    /// writes survive. Returns false if the fixture cannot do this.
    fn restart(&self) -> bool {
        false
    }
}

/// Returns the tests of the contract for everything built on [`Store`].
///
/// ```
/// use trueup_contracts::world::{store_contract, world_contract};
///
/// let names = |tests: Vec<trueup_contracts::world::Test>| tests.len();
/// assert!(names(world_contract()) > 10 && names(store_contract()) > 10);
/// ```
pub fn world_contract() -> Vec<Test> {
    let topics = [
        agents::tests(),
        cluster::tests(),
        strings::tests(),
        exports::tests(),
        sessions::tests(),
        watches::tests(),
    ];
    topics.into_iter().flatten().collect()
}

/// The time limit for immediate effects, generous for a busy machine.
const SOON: Duration = Duration::from_secs(60);

fn world(fixture: &dyn Fixture, host: &str) -> World {
    World::new(fixture.store(host), &fixture.prefix(), host).unwrap()
}

/// Begins a session of a host, with the host's name as owner. Its lease outlasts a test without
/// renewal, even in a store with real time.
fn session(fixture: &dyn Fixture, host: &str) -> Session {
    session_of(world(fixture, host), fixture.ttl() * 100)
}

/// Does the same as [`session`], with a short lease, for tests that let it end or renew it.
fn brief_session(fixture: &dyn Fixture, host: &str) -> Session {
    session_of(world(fixture, host), fixture.ttl())
}

fn session_of(world: World, ttl: Duration) -> Session {
    let owner = world.host().to_owned();
    Session::begin(world, &owner, ttl).unwrap()
}

/// Returns the key at a path below the prefix, as listed in the documentation of `trueup-world`.
fn key(fixture: &dyn Fixture, path: &str) -> Vec<u8> {
    format!("{}/{path}", fixture.prefix()).into_bytes()
}

fn export(name: &str, data: &str) -> Export {
    Export::new("route", name, data)
}

fn config() -> WatchConfig {
    let mut config = WatchConfig::default();
    config.max_backoff = Duration::from_millis(200);
    config
}

/// Calls `look` until it returns a value; panics after [`SOON`].
fn eventually<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + SOON;
    loop {
        if let Some(it) = look() {
            return it;
        }
        assert!(Instant::now() < end, "never: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Lets the store's time pass until `look` returns a value, for at most `most`.
fn within<T>(fixture: &dyn Fixture, most: Duration, mut look: impl FnMut() -> Option<T>) -> T {
    let (step, mut passed) = (fixture.ttl() / 4, Duration::ZERO);
    let most = most + fixture.lag();
    loop {
        if let Some(it) = look() {
            return it;
        }
        assert!(passed < most, "not within {most:?}");
        fixture.pass(step);
        passed += step;
    }
}

/// Returns the next event of a watch.
fn next<K: Ord, V>(watch: &mut Watch<K, V>) -> Event<K, V> {
    watch.next(SOON).unwrap().expect("an event")
}

/// Checks that a watch has no event for 300 ms.
fn quiet<K: Ord + std::fmt::Debug, V: std::fmt::Debug>(watch: &mut Watch<K, V>) {
    let event = watch.next(Duration::from_millis(300)).unwrap();
    assert!(event.is_none(), "{event:?}");
}
