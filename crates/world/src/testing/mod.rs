//! The contract as tests, for any store: a program with a `main` of its own (libtest-mimic) runs
//! each on a [`Fixture`].

mod embedded;
mod store_contract;

use std::sync::Arc;
use std::time::Duration;

use crate::{Access, Error, Revision, Store};

pub use embedded::{EmbeddedFixture, Gate};
pub use store_contract::store_contract;

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
