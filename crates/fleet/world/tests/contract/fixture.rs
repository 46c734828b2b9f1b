//! The fixture of the embedded store.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use trueup_contracts::world::{Fixture, Gate};
use trueup_world::{Access, Embedded, Error, Revision, Store};

/// The embedded store, with a clock that the test moves, behind gates.
#[derive(Debug)]
pub(crate) struct EmbeddedFixture {
    store: Embedded,
    gates: Mutex<BTreeMap<String, Arc<Gate>>>,
}

impl EmbeddedFixture {
    /// Makes a fixture of a store with a manual clock.
    pub(crate) fn on(store: Embedded) -> EmbeddedFixture {
        EmbeddedFixture { store, gates: Mutex::default() }
    }

    fn gate(&self, host: &str) -> Arc<Gate> {
        let mut gates = self.gates.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(gates.entry(host.to_owned()).or_default())
    }
}

impl Fixture for EmbeddedFixture {
    fn prefix(&self) -> String {
        "/test".into()
    }

    fn store(&self, host: &str) -> Arc<dyn Store> {
        self.gate(host).around(self.store.connect())
    }

    fn restricted(&self, host: &str, access: &Access) -> Option<Arc<dyn Store>> {
        let store = self.store.connect_with(access.clone());
        Some(self.gate(host).around(store))
    }

    fn compact(&self, before: Revision) -> Result<(), Error> {
        self.store.compact(before);
        Ok(())
    }

    fn ttl(&self) -> Duration {
        Duration::from_secs(1)
    }

    fn pass(&self, time: Duration) {
        self.store.advance(time);
    }

    fn cut(&self, host: &str) -> bool {
        self.gate(host).close();
        true
    }

    fn heal(&self, host: &str) {
        self.gate(host).open();
    }

    fn restart(&self) -> bool {
        let gates = self.gates.lock().unwrap_or_else(PoisonError::into_inner);
        gates.values().for_each(|gate| gate.break_watches());
        true
    }
}
