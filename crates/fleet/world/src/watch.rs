//! Watches that resume: no gap, no invention, and no silence.

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

/// A watch of things of the world, by their ids, with a copy of their values. It ends when it is
/// dropped.
///
/// It reconnects by itself and resumes where it was. What cannot be resumed, because the store has
/// compacted it, is listed again and compared: then the next event is
/// [`Resync`](Event::Resync). A reader that is slow gets the newest of several changes of one id.
pub struct Watch<K, V> {
    feeds: Feeds,
    decode: Decode<K, V>,
}

/// The copy of some prefixes, and the threads that keep it. They end when it is dropped.
pub(crate) struct Feeds {
    mirror: Arc<Mirror>,
    _running: Running,
}

impl Feeds {
    /// Starts the threads. `content` says what counts as a change of an entry.
    ///
    /// # Errors
    ///
    /// When the operating system refuses a thread.
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

    /// Returns the copy.
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

/// Makes an item of an entry, or of a key that is gone.
type Decode<K, V> = Box<dyn Fn(&[u8], Option<&Arc<Entry>>) -> Decoded<K, V> + Send>;

pub(crate) enum Decoded<K, V> {
    /// It is none of those that are watched.
    Other,
    Value(K, V),
    Gone(K),
    /// The id is none if it is the key that is malformed.
    Malformed(Option<K>, Error),
}

impl<K, V> Decoded<K, V> {
    /// What an id is, of which there is this value, if any.
    pub(crate) fn of(id: K, value: Option<Result<V, Error>>) -> Decoded<K, V> {
        match value {
            None => Decoded::Gone(id),
            Some(Ok(value)) => Decoded::Value(id, value),
            Some(Err(error)) => Decoded::Malformed(Some(id), error),
        }
    }
}

/// An event of a [`Watch`]. More may be added.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Event<K: Ord, V> {
    /// The watch is connected for the first time, and this is what there is. All changes after its
    /// revision follow. Before it there is at most one [`Interrupted`](Self::Interrupted).
    Ready(View<K, V>),
    /// An id is new, or has another value.
    Changed {
        /// The id.
        id: K,
        /// The value.
        value: V,
        /// The revision that wrote it.
        revision: Revision,
    },
    /// An id is deleted.
    Deleted {
        /// The id.
        id: K,
        /// The revision that deleted it; if that is not known, a later one.
        revision: Revision,
    },
    /// A value or a key is malformed. It says nothing of any other one, and of this id what was
    /// known before is the last that is known.
    Malformed {
        /// The id, unless the key is malformed.
        id: Option<K>,
        /// What is wrong.
        error: Error,
    },
    /// Changes may have been missed: this is all that there is. What was known and is not in it, is
    /// deleted.
    Resync(View<K, V>),
    /// The store is not reached: what was known is the last that is known.
    Interrupted {
        /// Since when.
        since: SystemTime,
        /// Why.
        error: Error,
    },
    /// The store is reached again. The changes of meanwhile follow.
    Restored(Revision),
}

/// All that a watch knows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct View<K: Ord, V> {
    /// The revision that it is complete up to.
    pub revision: Revision,
    /// The values, with the revisions that wrote them.
    pub values: BTreeMap<K, (V, Revision)>,
    /// The ids of malformed values: they are there, and what they are is not known.
    pub malformed: BTreeMap<K, String>,
    /// How many keys are malformed.
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

    /// As [`new`](Self::new), of what counts as a change of an entry.
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

    /// Returns the next event, or none within `timeout`.
    ///
    /// # Errors
    ///
    /// When the watch has ended, because of an error that does not pass, such as
    /// [`Denied`](ErrorKind::Denied): no more events will come.
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

    /// Returns since when the store is not reached; none if it is.
    pub fn cut_off_since(&self) -> Option<SystemTime> {
        self.feeds.mirror.cut_off_since()
    }

    /// Returns the revision up to which all changes of what is watched have been returned. Where
    /// nothing changes, it goes on only when the store says so by itself.
    pub fn revision(&self) -> Revision {
        self.feeds.mirror.delivered()
    }

    /// Returns what ends the watch from another thread.
    pub(crate) fn stopper(&self) -> Stopper {
        Stopper(Arc::clone(&self.feeds.mirror))
    }

    /// Returns how often a comparison with the store found an event that it had skipped.
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
