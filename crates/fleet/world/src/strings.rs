//! Strings: one for all hosts in each namespace, and one for each host in each namespace.

use std::collections::BTreeMap;

use crate::keys::check_part;
use crate::watch::Decoded;
use crate::{Entry, Error, ErrorKind, Watch, WatchConfig, World};

impl World {
    /// Returns the string of a namespace. `None` if there is none.
    ///
    /// # Errors
    ///
    /// [`Malformed`](ErrorKind::Malformed) if it is not text, and the store's errors.
    pub fn string(&self, namespace: &str) -> Result<Option<String>, Error> {
        let entry = self.entry(&self.keys.shared("strings", namespace))?;
        entry.as_ref().map(text).transpose()
    }

    /// Sets the string of a namespace. Returns false if it already had this value.
    pub fn set_string(&self, namespace: &str, value: &str) -> Result<bool, Error> {
        check_part("a namespace", namespace.as_bytes())?;
        let key = self.keys.shared("strings", namespace);
        self.update(&key, None, |_| Ok(Some(value.into())))
    }

    /// Sets the string of a namespace if it equals `expected`, where `None` is a missing one. With
    /// `value` `None`, deletes it.
    ///
    /// # Errors
    ///
    /// [`Conflict`](ErrorKind::Conflict) if it differs from `expected`, and the store's errors.
    pub fn compare_and_set_string(
        &self,
        namespace: &str,
        expected: Option<&str>,
        value: Option<&str>,
    ) -> Result<bool, Error> {
        check_part("a namespace", namespace.as_bytes())?;
        let key = self.keys.shared("strings", namespace);
        let mut is_again = false;
        self.update(&key, None, |entry| {
            let current = entry.map(|entry| &*entry.value);
            // A write whose answer was lost may have taken effect.
            let is_ours = is_again && current == value.map(str::as_bytes);
            is_again = true;
            if current != expected.map(str::as_bytes) && !is_ours {
                let message = format!("string {namespace}: is not as expected; read it anew");
                return Err(Error::new(ErrorKind::Conflict, message));
            }
            Ok(value.map(Into::into))
        })
    }

    /// Deletes the string of a namespace. It is no error if it is missing.
    pub fn delete_string(&self, namespace: &str) -> Result<bool, Error> {
        let key = self.keys.shared("strings", namespace);
        self.update(&key, None, |_| Ok(None))
    }

    /// Returns the map of a namespace: the value of each host that has set one. A value that is not
    /// text is an error for its host only.
    pub fn string_map(
        &self,
        namespace: &str,
    ) -> Result<BTreeMap<String, Result<String, Error>>, Error> {
        let (_, entries) = self.store.read(&self.keys.hosts(), None)?;
        let of_namespace = entries.into_iter().filter_map(|entry| {
            let (host, word, name) = self.keys.parse_host(&entry.key).ok()?;
            (word == "strings" && name.as_deref() == Some(namespace)).then(|| (host, text(&entry)))
        });
        Ok(of_namespace.collect())
    }

    /// Sets this host's value in the map of a namespace. It outlives the host, so delete it.
    pub fn set_own_string(&self, namespace: &str, value: &str) -> Result<bool, Error> {
        check_part("a namespace", namespace.as_bytes())?;
        let key = self.keys.named_of_host(self.host(), "strings", namespace);
        self.update(&key, None, |_| Ok(Some(value.into())))
    }

    /// Deletes this host's value from the map of a namespace. It is no error if it is missing.
    pub fn delete_own_string(&self, namespace: &str) -> Result<bool, Error> {
        let key = self.keys.named_of_host(self.host(), "strings", namespace);
        self.update(&key, None, |_| Ok(None))
    }

    /// Watches the string of a namespace. The id is the namespace.
    ///
    /// # Errors
    ///
    /// The errors of [`watch_resources`](Self::watch_resources).
    pub fn watch_string(
        &self,
        namespace: &str,
        config: WatchConfig,
    ) -> Result<Watch<String, String>, Error> {
        let (own, namespace) = (self.keys.shared("strings", namespace), namespace.to_owned());
        Watch::new(self, [own.clone()], config, move |key, entry| {
            if key != own {
                return Decoded::Other;
            }
            Decoded::of(namespace.clone(), entry.map(|it| text(it)))
        })
    }

    /// Watches the map of a namespace. The id is the host.
    ///
    /// # Errors
    ///
    /// The errors of [`watch_resources`](Self::watch_resources).
    pub fn watch_string_map(
        &self,
        namespace: &str,
        config: WatchConfig,
    ) -> Result<Watch<String, String>, Error> {
        let (keys, namespace) = (self.keys.clone(), namespace.to_owned());
        Watch::new(self, [self.keys.hosts()], config, move |key, entry| {
            match keys.parse_host(key) {
                Ok((host, word, Some(name))) if word == "strings" && name == namespace => {
                    Decoded::of(host, entry.map(|it| text(it)))
                }
                _ => Decoded::Other,
            }
        })
    }
}

fn text(entry: &Entry) -> Result<String, Error> {
    str::from_utf8(&entry.value).map(str::to_owned).map_err(|_| {
        let message = format!("{}: the value is no text", entry.key.escape_ascii());
        Error::new(ErrorKind::Malformed, message)
    })
}
