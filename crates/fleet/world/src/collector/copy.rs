//! The copy of the store in a collector's watch: its events, and the exports that they reported.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::state::{Changed, Event, Told, View};
use crate::keys::Keys;
use crate::resources::session_lease;
use crate::watch::{Feeds, Mirror, Raw};
use crate::{Entry, Filter, ResourceKey, Revision, World};

pub(super) struct Copy {
    mirror: Arc<Mirror>,
    keys: Keys,
    filters: Vec<Filter>,
}

/// The subject of a key.
enum Id {
    Export(ResourceKey),
    Session(String),
    Generation(String),
}

type Before = BTreeMap<Vec<u8>, Option<Arc<Entry>>>;

impl Copy {
    pub(super) fn new(world: &World, filters: &[Filter], feeds: &Feeds) -> Copy {
        Copy {
            mirror: Arc::clone(feeds.mirror()),
            keys: world.keys.clone(),
            filters: filters.to_vec(),
        }
    }

    /// Returns the event. `None` if it is malformed, or about nothing that is collected.
    pub(super) fn event(&self, raw: Raw) -> Option<Event> {
        Some(match raw {
            Raw::Ready(revision, entries) => Event::View(self.view(revision, &entries, None)),
            Raw::Resync(revision, entries, before) => {
                Event::View(self.view(revision, &entries, Some(before)))
            }
            Raw::Interrupted(since, error) => Event::Interrupted(since, error),
            Raw::Restored(revision) => Event::Restored(revision),
            Raw::Change { key, before, now, revision } => match self.id(&key)? {
                Id::Export(key) => Event::Export(Changed { key, before, now }, revision),
                Id::Session(host) => {
                    Event::Session(host, now.as_deref().map(session_lease), revision)
                }
                Id::Generation(host) => {
                    Event::Generation(host, now.map(|entry| entry.lease), revision)
                }
            },
        })
    }

    /// Returns a view of all entries. Without `before`, all of them count as changed.
    fn view(&self, revision: Revision, entries: &[Arc<Entry>], before: Option<Before>) -> View {
        let mut view = View { revision, ..View::default() };
        let is_first = before.is_none();
        let mut differ = before.unwrap_or_default();
        for entry in entries {
            match self.id(&entry.key) {
                Some(Id::Export(key)) => match differ.remove(&entry.key) {
                    None if !is_first => {}
                    before => view.exports.push(Changed {
                        key,
                        before: before.flatten(),
                        now: Some(Arc::clone(entry)),
                    }),
                },
                Some(Id::Session(host)) => view.alive.push((host, session_lease(entry))),
                Some(Id::Generation(host)) => {
                    view.declared.push((host, entry.lease, entry.modified));
                }
                None => {}
            }
        }
        for (key, before) in differ {
            if let Some(Id::Export(key)) = self.id(&key) {
                view.exports.push(Changed { key, before, now: None });
            }
        }
        view
    }

    fn id(&self, key: &[u8]) -> Option<Id> {
        if key.starts_with(&self.keys.hosts()) {
            return match self.keys.parse_host(key).ok()? {
                (host, word, None) if word == "session" => Some(Id::Session(host)),
                (host, word, None) if word == "generation" => Some(Id::Generation(host)),
                _ => None,
            };
        }
        let key = self.keys.parse_resource(key).ok()?;
        self.filters.iter().any(|it| it.matches(&key)).then_some(Id::Export(key))
    }
}

impl Told for Copy {
    fn export(&self, key: &ResourceKey) -> Option<Arc<Entry>> {
        self.mirror.told(&self.keys.resource(key))
    }

    fn exports(&self) -> BTreeMap<ResourceKey, Arc<Entry>> {
        (self.mirror.all_told().into_iter())
            .filter_map(|entry| match self.id(&entry.key)? {
                Id::Export(key) => Some((key, entry)),
                Id::Session(_) | Id::Generation(_) => None,
            })
            .collect()
    }
}
