//! Members: the hosts that are alive, and their ideal number.

use std::collections::BTreeMap;

use crate::session::Mark;
use crate::watch::Decoded;
use crate::{Entry, Error, ErrorKind, Watch, WatchConfig, World};

impl World {
    /// Returns the hosts that have a session, each with the session's owner.
    pub fn members(&self) -> Result<BTreeMap<String, String>, Error> {
        let (_, entries) = self.store.read(&self.keys.hosts(), None)?;
        let members =
            entries.iter().filter_map(|entry| match self.member(&entry.key, Some(entry)) {
                Decoded::Value(host, owner) => Some((host, owner)),
                // The value is another host's fault, and that host is alive.
                Decoded::Malformed(Some(host), _) if entry.lease.is_some() => {
                    Some((host, String::new()))
                }
                _ => None,
            });
        Ok(members.collect())
    }

    /// Watches the hosts that have a session. The value is the session's owner.
    ///
    /// # Errors
    ///
    /// Fails if the operating system refuses a thread. Any other error is an event.
    pub fn watch_members(&self, config: WatchConfig) -> Result<Watch<String, String>, Error> {
        let world = self.clone();
        Watch::new(self, [self.keys.hosts()], config, move |key, entry| {
            world.member(key, entry.map(|it| &**it))
        })
    }

    fn member(&self, key: &[u8], entry: Option<&Entry>) -> Decoded<String, String> {
        let host = match self.keys.parse_host(key) {
            Ok((host, word, None)) if word == "session" => host,
            Ok(_) => return Decoded::Other,
            Err(error) => return Decoded::Malformed(None, error),
        };
        match entry.map(|entry| (entry.lease, Mark::parse(entry))) {
            None => Decoded::Gone(host),
            Some((Some(_), Some(mark))) => Decoded::Value(host, mark.owner),
            // A session without a lease never ends, and so does not show that the host is alive.
            Some(_) => Decoded::Malformed(Some(host), crate::keys::malformed(key, "a session's")),
        }
    }

    /// Returns the ideal number of hosts. `None` if it is not set.
    ///
    /// # Errors
    ///
    /// [`Malformed`](ErrorKind::Malformed) if it is not a number, and the store's errors.
    pub fn ideal_size(&self) -> Result<Option<u64>, Error> {
        self.entry(&self.keys.size())?.as_ref().map(number).transpose()
    }

    /// Sets the ideal number of hosts. `None` deletes it. Only an operator may.
    pub fn set_ideal_size(&self, size: Option<u64>) -> Result<bool, Error> {
        let value = size.map(|size| size.to_string().into_bytes());
        self.update(&self.keys.size(), None, |_| Ok(value.clone()))
    }

    /// Watches the ideal number of hosts.
    ///
    /// # Errors
    ///
    /// Fails if the operating system refuses a thread. Any other error is an event.
    pub fn watch_ideal_size(&self, config: WatchConfig) -> Result<Watch<(), u64>, Error> {
        let own = self.keys.size();
        Watch::new(self, [own.clone()], config, move |key, entry| {
            if key != own {
                return Decoded::Other;
            }
            Decoded::of((), entry.map(|it| number(it)))
        })
    }
}

fn number(entry: &Entry) -> Result<u64, Error> {
    let text = str::from_utf8(&entry.value).ok();
    text.and_then(|text| text.parse().ok()).ok_or_else(|| {
        let message = format!("{}: the value is no number", entry.key.escape_ascii());
        Error::new(ErrorKind::Malformed, message)
    })
}
