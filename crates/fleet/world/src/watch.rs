//! Watches that resume, without gaps, invented events or silence.

mod feed;
mod mirror;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use crate::threads::{self, Running};
use crate::{Entry, Error, ErrorKind, Revision, World};
use feed::Feed;
pub use feed::WatchConfig;

pub(crate) use mirror::{Content, Mirror, Raw};

/// A watch of parts of the world, by their ids, with a copy of their values. It ends when it is
/// dropped.
///
/// It reconnects and resumes by itself. If the store has compacted the next changes, the watch
/// lists everything again and compares; then the next event is [`Resync`](Event::Resync). A slow
/// reader gets only the newest of several changes of one id.
///
/// ```
/// # #[cfg(feature = "embedded")]
/// # fn example() -> Result<(), trueup_world::Error> {
/// use std::time::Duration;
/// use trueup_world::{Embedded, Event, WatchConfig, World};
///
/// let world = World::new(Embedded::in_memory().connect(), "/trueup", "a")?;
/// world.set_string("mtu", "1400")?;
/// let mut watch = world.watch_string("mtu", WatchConfig::default())?;
/// let Some(Event::Ready(view)) = watch.next(Duration::from_secs(10))? else {
///     panic!("the embedded store answers at once");
/// };
/// assert_eq!(view.values["mtu"].0, "1400");
/// # Ok(())
/// # }
/// # #[cfg(feature = "embedded")]
/// # example().unwrap();
/// ```
pub struct Watch<K, V> {
    feeds: Feeds,
    decode: Decode<K, V>,
}

/// The copy of some prefixes, and the threads that update it. They end when it is dropped.
pub(crate) struct Feeds {
    mirror: Arc<Mirror>,
    _running: Running,
}

impl Feeds {
    /// Starts the threads. `content` decides which differences of an entry are changes.
    ///
    /// # Errors
    ///
    /// Fails if the operating system refuses a thread.
    pub(crate) fn start(
        world: &World,
        prefixes: impl IntoIterator<Item = Vec<u8>>,
        config: WatchConfig,
        content: Content,
    ) -> Result<Feeds, Error> {
        let prefixes: Vec<Vec<u8>> = prefixes.into_iter().collect();
        let mirror = Arc::new(Mirror::new(prefixes.len(), config.limits, content));
        let running = Running::default();
        for (index, prefix) in prefixes.into_iter().enumerate() {
            let feed = Feed {
                store: Arc::clone(&world.store),
                mirror: Arc::clone(&mirror),
                prefix,
                index,
                config,
                stopped: running.stopped(),
            };
            drop(threads::start("world-watch", move || feed.run())?);
        }
        Ok(Feeds { mirror, _running: running })
    }

    /// Returns the copy that the threads update.
    pub(crate) fn mirror(&self) -> &Arc<Mirror> {
        &self.mirror
    }
}

/// Ends a watch that another thread reads.
pub(crate) struct Stopper(Arc<Mirror>);

impl Stopper {
    pub(crate) fn stop(&self) {
        let message = "the watch was ended by this process";
        self.0.end(Error::new(ErrorKind::Store, message));
    }
}

/// Turns an entry, or a key without one, into an item.
type Decode<K, V> = Box<dyn Fn(&[u8], Option<&Arc<Entry>>) -> Decoded<K, V> + Send>;

pub(crate) enum Decoded<K, V> {
    /// The key is not watched.
    Other,
    Value(K, V),
    Gone(K),
    /// The value is malformed. Without an id, the key is.
    Malformed(Option<K>, Error),
}

impl<K, V> Decoded<K, V> {
    /// Makes an item of an id and its value, if there is one.
    pub(crate) fn of(id: K, value: Option<Result<V, Error>>) -> Decoded<K, V> {
        match value {
            None => Decoded::Gone(id),
            Some(Ok(value)) => Decoded::Value(id, value),
            Some(Err(error)) => Decoded::Malformed(Some(id), error),
        }
    }
}

/// An event of a [`Watch`]. Later versions may add more.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Event<K: Ord, V> {
    /// The watch is connected for the first time, with the current state. All changes after its
    /// revision follow. At most one [`Interrupted`](Self::Interrupted) comes before it.
    Ready(View<K, V>),
    /// An id is new, or has a new value.
    Changed {
        /// The changed id.
        id: K,
        /// The new value.
        value: V,
        /// The revision that wrote the value.
        revision: Revision,
    },
    /// An id is deleted, by a writer or with its lease.
    Deleted {
        /// The deleted id.
        id: K,
        /// The revision that deleted it. If unknown, a later one.
        revision: Revision,
    },
    /// A value or a key is malformed. Other ids are not affected. This id keeps its last known
    /// value.
    Malformed {
        /// The id. `None` if the key itself is malformed.
        id: Option<K>,
        /// The problem with the value or the key.
        error: Error,
    },
    /// Changes may have been missed, and this is the current state. Known ids that are not in it
    /// are deleted.
    Resync(View<K, V>),
    /// The store is unreachable. The known state is the last one.
    Interrupted {
        /// The start of the outage.
        since: SystemTime,
        /// The error that showed it.
        error: Error,
    },
    /// The store is reachable again. The changes since then follow.
    Restored(Revision),
}

/// The whole state of a watch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct View<K: Ord, V> {
    /// The revision up to which the state is complete.
    pub revision: Revision,
    /// The values, each with the revision that wrote it.
    pub values: BTreeMap<K, (V, Revision)>,
    /// The ids of malformed values, with the reasons. They exist, but their values are unknown.
    pub malformed: BTreeMap<K, String>,
    /// The number of keys that are not in the form of this crate, so that their ids are unknown.
    pub malformed_keys: usize,
}

impl<K: Ord, V> Watch<K, V> {
    pub(crate) fn new(
        world: &World,
        prefixes: impl IntoIterator<Item = Vec<u8>>,
        config: WatchConfig,
        decode: impl Fn(&[u8], Option<&Arc<Entry>>) -> Decoded<K, V> + Send + 'static,
    ) -> Result<Watch<K, V>, Error> {
        Watch::of_content(world, prefixes, config, Content::Value, decode)
    }

    /// Makes a watch like [`new`](Self::new). `content` decides which differences of an entry are
    /// changes.
    pub(crate) fn of_content(
        world: &World,
        prefixes: impl IntoIterator<Item = Vec<u8>>,
        config: WatchConfig,
        content: Content,
        decode: impl Fn(&[u8], Option<&Arc<Entry>>) -> Decoded<K, V> + Send + 'static,
    ) -> Result<Watch<K, V>, Error> {
        let feeds = Feeds::start(world, prefixes, config, content)?;
        Ok(Watch { feeds, decode: Box::new(decode) })
    }

    /// Returns the next event, or `None` if there is none within `timeout`.
    ///
    /// # Errors
    ///
    /// Fails if the watch has ended because of a permanent error, such as
    /// [`Denied`](ErrorKind::Denied). No more events will come.
    pub fn next(&mut self, timeout: Duration) -> Result<Option<Event<K, V>>, Error> {
        let end = Instant::now() + timeout;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            let Some(raw) = self.feeds.mirror.next(left)? else {
                return Ok(None);
            };
            if let Some(event) = self.event(raw) {
                return Ok(Some(event));
            }
        }
    }

    /// Returns the time since when the store is unreachable. `None` if it is reachable.
    pub fn cut_off_since(&self) -> Option<SystemTime> {
        self.feeds.mirror.cut_off_since()
    }

    /// Returns the revision up to which all watched changes have been returned. While nothing
    /// changes, it advances only if the store reports progress by itself.
    pub fn revision(&self) -> Revision {
        self.feeds.mirror.delivered()
    }

    /// Returns a handle that ends the watch from another thread.
    pub(crate) fn stopper(&self) -> Stopper {
        Stopper(Arc::clone(&self.feeds.mirror))
    }

    /// Returns how many skipped events were found by comparisons with the store.
    pub fn repaired(&self) -> u64 {
        self.feeds.mirror.repaired()
    }

    fn event(&self, raw: Raw) -> Option<Event<K, V>> {
        Some(match raw {
            Raw::Ready(revision, entries) => Event::Ready(self.view(revision, &entries)),
            Raw::Resync(revision, entries, _) => Event::Resync(self.view(revision, &entries)),
            Raw::Interrupted(since, error) => Event::Interrupted { since, error },
            Raw::Restored(revision) => Event::Restored(revision),
            Raw::Change { key, now, revision, .. } => match (self.decode)(&key, now.as_ref()) {
                Decoded::Other => return None,
                Decoded::Value(id, value) => Event::Changed { id, value, revision },
                Decoded::Gone(id) => Event::Deleted { id, revision },
                Decoded::Malformed(id, error) => Event::Malformed { id, error },
            },
        })
    }

    fn view(&self, revision: Revision, entries: &[Arc<Entry>]) -> View<K, V> {
        let (mut values, mut malformed, mut malformed_keys) = (BTreeMap::new(), BTreeMap::new(), 0);
        for entry in entries {
            match (self.decode)(&entry.key, Some(entry)) {
                Decoded::Value(id, value) => {
                    values.insert(id, (value, entry.modified));
                }
                Decoded::Malformed(Some(id), error) => {
                    malformed.insert(id, error.to_string());
                }
                Decoded::Malformed(None, _) => malformed_keys += 1,
                Decoded::Other | Decoded::Gone(_) => {}
            }
        }
        View { revision, values, malformed, malformed_keys }
    }
}

impl<K, V> fmt::Debug for Watch<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Watch(..)")
    }
}
