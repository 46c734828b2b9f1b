//! The watches of the world, by what they are about.

use super::{Decoded, Watch, WatchConfig};
use crate::resources::resource;
use crate::strings::text;
use crate::{Entry, Error, Filter, Resource, ResourceKey, World};

impl World {
    /// Watches the resources for this host and for any that match one of the filters.
    ///
    /// # Errors
    ///
    /// When the operating system refuses a thread. All else is an event.
    pub fn watch_resources(
        &self,
        filters: &[Filter],
        config: WatchConfig,
    ) -> Result<Watch<ResourceKey, Resource>, Error> {
        let (keys, filters) = (self.keys.clone(), filters.to_vec());
        let [any, own, _] = self.collected_prefixes();
        Watch::new(self, [any, own], config, move |key, entry| {
            match (keys.parse_resource(key), entry) {
                (Err(error), _) => Decoded::Malformed(None, error),
                (Ok(id), _) if !filters.iter().any(|it| it.matches(&id)) => Decoded::Other,
                (Ok(id), Some(entry)) => Decoded::Value(id, resource(entry)),
                (Ok(id), None) => Decoded::Gone(id),
            }
        })
    }

    /// Watches the string of a namespace. The id is the namespace.
    ///
    /// # Errors
    ///
    /// As [`watch_resources`](Self::watch_resources).
    pub fn watch_string(
        &self,
        namespace: &str,
        config: WatchConfig,
    ) -> Result<Watch<String, String>, Error> {
        let (own, namespace) = (self.keys.shared("strings", namespace), namespace.to_owned());
        Watch::new(self, [own.clone()], config, move |key, entry| match key == own {
            true => decode_text(namespace.clone(), entry),
            false => Decoded::Other,
        })
    }

    /// Watches the map of a namespace. The id is the host.
    ///
    /// # Errors
    ///
    /// As [`watch_resources`](Self::watch_resources).
    pub fn watch_string_map(
        &self,
        namespace: &str,
        config: WatchConfig,
    ) -> Result<Watch<String, String>, Error> {
        let (keys, namespace) = (self.keys.clone(), namespace.to_owned());
        Watch::new(self, [self.keys.hosts()], config, move |key, entry| {
            match keys.parse_host(key) {
                Ok((host, word, Some(name))) if word == "strings" && name == namespace => {
                    decode_text(host, entry)
                }
                _ => Decoded::Other,
            }
        })
    }
}

fn decode_text(id: String, entry: Option<&Entry>) -> Decoded<String, String> {
    match entry.cloned().map(text) {
        None => Decoded::Gone(id),
        Some(Ok(value)) => Decoded::Value(id, value),
        Some(Err(error)) => Decoded::Malformed(Some(id), error),
    }
}
