//! The oracle: the resources at each revision, from the store's own log.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use trueup_world::{Revision, Store, StoreEvent, StoreWatch};

pub(crate) type Resources = BTreeMap<Vec<u8>, Vec<u8>>;

pub(crate) struct Model {
    watch: Box<dyn StoreWatch>,
    /// All keys after each revision that changed any.
    states: BTreeMap<Revision, Resources>,
}

impl Model {
    pub(crate) fn new(store: &Arc<dyn Store>) -> Model {
        Model {
            watch: store.watch(b"", Revision(1)).unwrap(),
            states: BTreeMap::from([(Revision(0), Resources::new())]),
        }
    }

    /// Takes in the log, before a compaction can hide it.
    pub(crate) fn catch_up(&mut self) {
        while let Some(event) = self.watch.next(Duration::ZERO).unwrap() {
            let StoreEvent::Changes { revision, changes } = event else {
                continue;
            };
            let mut state = self.newest().clone();
            for (key, now) in changes {
                match now {
                    Some(entry) => state.insert(key, entry.value),
                    None => state.remove(&key),
                };
            }
            self.states.insert(revision, state);
        }
    }

    pub(crate) fn at(&self, revision: Revision) -> &Resources {
        self.states.range(..=revision).next_back().unwrap().1
    }

    pub(crate) fn newest(&self) -> &Resources {
        self.states.last_key_value().unwrap().1
    }

    /// Returns a state's resources to any host, by exporter and name.
    pub(crate) fn resources(state: &Resources) -> BTreeMap<(String, String), Vec<u8>> {
        let prefix = b"/t/resources/*/";
        let below = state.range(prefix.to_vec()..);
        let below = below.take_while(|(key, _)| key.starts_with(prefix));
        let parsed = below.map(|(key, value)| {
            let key = String::from_utf8(key[prefix.len()..].to_vec()).unwrap();
            let mut parts = key.split('/');
            let exporter = parts.next().unwrap().to_owned();
            ((exporter, parts.next_back().unwrap().to_owned()), value.clone())
        });
        parsed.collect()
    }
}
