//! The contract of a store of `trueup-world` as tests, for any store: a program with a `main` of its
//! own (libtest-mimic) runs each on a [`Fixture`].

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "they are tests")]

/// Names the tests by their functions.
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

/// A test of the contract, by its name.
pub type Test = (&'static str, fn(&dyn Fixture));

/// A store that one test runs on. Another test has a fixture of its own, or at least a
/// [`prefix`](Self::prefix) of its own.
pub trait Fixture {
    /// Returns the prefix of all keys of the test, without a slash at its end. No other test has
    /// one that begins so.
    fn prefix(&self) -> String;

    /// Connects as a host, which may do everything. Two calls give two connections.
    fn store(&self, host: &str) -> Arc<dyn Store>;

    /// Connects as a host that may do what `access` grants; none if the store has no access
    /// control here.
    fn restricted(&self, host: &str, access: &Access) -> Option<Arc<dyn Store>>;

    /// Forgets all that was before a revision.
    ///
    /// # Errors
    ///
    /// Those of the store.
    fn compact(&self, before: Revision) -> Result<(), Error>;

    /// Returns a time to live that is as short as the store keeps it.
    fn ttl(&self) -> Duration;

    /// Lets time pass for the store: by its clock, or by waiting.
    fn pass(&self, time: Duration);

    /// Returns how much later than due the store may end a lease: zero where [`pass`](Self::pass)
    /// drives its clock.
    fn lag(&self) -> Duration {
        Duration::ZERO
    }

    /// Cuts all connections of a host off from the store, and returns when no answer of it comes
    /// any more. Returns false if the fixture cannot.
    fn cut(&self, _host: &str) -> bool {
        false
    }

    /// Ends what [`cut`](Self::cut) began.
    fn heal(&self, _host: &str) {}

    /// Restarts the store, or has it change its leader: connections break, and nothing is lost that
    /// was acknowledged. Returns false if the fixture cannot.
    fn restart(&self) -> bool {
        false
    }
}

/// Returns the tests of the world's contract: of all that is built on [`Store`].
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

/// How long a test waits for what comes at once, on a busy machine.
const SOON: Duration = Duration::from_secs(60);

fn world(fixture: &dyn Fixture, host: &str) -> World {
    World::new(fixture.store(host), &fixture.prefix(), host).unwrap()
}

/// A session of a host, whose owner is the host's name. Its lease outlasts a test that does not
/// renew it, also where time does not stand still.
fn session(fixture: &dyn Fixture, host: &str) -> Session {
    session_of(world(fixture, host), fixture.ttl() * 100)
}

/// As [`session`], for tests that let the lease end, or renew it.
fn brief_session(fixture: &dyn Fixture, host: &str) -> Session {
    session_of(world(fixture, host), fixture.ttl())
}

fn session_of(world: World, ttl: Duration) -> Session {
    let owner = world.host().to_owned();
    Session::begin(world, &owner, ttl).unwrap()
}

/// Returns the key at a path below the prefix, as the page of `trueup-world` lists them.
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

/// Calls until it returns something.
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

/// Lets the store's time pass until something is so, at most this long.
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

/// The next event of a watch.
fn next<K: Ord, V>(watch: &mut Watch<K, V>) -> Event<K, V> {
    watch.next(SOON).unwrap().expect("an event")
}

/// That a watch has no event for a while.
fn quiet<K: Ord + std::fmt::Debug, V: std::fmt::Debug>(watch: &mut Watch<K, V>) {
    let event = watch.next(Duration::from_millis(300)).unwrap();
    assert!(event.is_none(), "{event:?}");
}
