//! A watcher of the agents' exports.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use trueup_world::{Entry, Event, Filter, ResourceKey, Store, WatchConfig, World};

use crate::SOON;
use crate::agents::EXPORTS;

/// A watcher's knowledge of the agents' exports.
#[derive(Default)]
pub(crate) struct Seen {
    /// For each agent seen: true while its export exists, and the number of times that it went
    /// away.
    hosts: BTreeMap<String, (bool, usize)>,
    is_ended: bool,
}

impl Seen {
    fn set(&mut self, host: &str, is_there: bool) {
        let (was_there, gone) = self.hosts.entry(host.to_owned()).or_default();
        *gone += usize::from(*was_there && !is_there);
        *was_there = is_there;
    }
}

/// Watches the exports of agents until it is dropped.
pub(crate) struct Observer {
    world: World,
    seen: Arc<Mutex<Seen>>,
}

impl Observer {
    pub(crate) fn start(store: Arc<dyn Store>, prefix: &str) -> Observer {
        let world = World::new(store, prefix, "observer").unwrap();
        let seen = Arc::new(Mutex::new(Seen::default()));
        let filter = Filter { name: Some(EXPORTS[0].into()), ..Filter::kind("test") };
        let mut watch = world.watch_resources(&[filter], WatchConfig::default()).unwrap();
        let known = Arc::clone(&seen);
        thread::spawn(move || {
            loop {
                let event = watch.next(Duration::from_millis(100)).unwrap();
                let mut seen = known.lock().unwrap();
                if seen.is_ended {
                    break;
                }
                take(&mut seen, event);
            }
        });
        Observer { world, seen }
    }

    /// Waits until an agent's exports exist, or are gone. Returns the time that this took.
    pub(crate) fn wait(&self, host: &str, is_there: bool) -> Duration {
        let begun = Instant::now();
        while self.known(host).0 != is_there {
            assert!(begun.elapsed() < SOON, "agent {host}: not {is_there}");
            thread::sleep(Duration::from_millis(10));
        }
        begun.elapsed()
    }

    /// Returns the number of times that an agent's exports went away.
    pub(crate) fn gone(&self, host: &str) -> usize {
        self.known(host).1
    }

    /// Returns the exports that are collected now: names and exporters.
    pub(crate) fn collected(&self) -> Option<Vec<String>> {
        let now = self.world.collect(&[Filter::all()]).ok()?;
        let shown =
            |key: &ResourceKey| format!("{} {}", key.exporter, String::from_utf8_lossy(&key.name));
        Some(now.resources.keys().map(shown).collect())
    }

    fn known(&self, host: &str) -> (bool, usize) {
        let seen = self.seen.lock().unwrap();
        seen.hosts.get(host).copied().unwrap_or_default()
    }
}

impl Drop for Observer {
    fn drop(&mut self) {
        self.seen.lock().unwrap().is_ended = true;
    }
}

fn take(seen: &mut Seen, event: Option<Event<ResourceKey, Arc<Entry>>>) {
    match event {
        Some(Event::Ready(view) | Event::Resync(view)) => {
            let known: Vec<String> = seen.hosts.keys().cloned().collect();
            let exporters: Vec<_> = view.values.keys().map(|key| &key.exporter).collect();
            for host in known.iter().filter(|host| !exporters.contains(host)) {
                seen.set(host, false);
            }
            exporters.iter().for_each(|host| seen.set(host, true));
        }
        Some(Event::Changed { id, .. }) => seen.set(&id.exporter, true),
        Some(Event::Deleted { id, .. }) => seen.set(&id.exporter, false),
        Some(Event::Malformed { id, .. }) => panic!("{id:?}"),
        Some(_) | None => {}
    }
}
