//! Hosts that write and watch, and record their calls and events.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use fastrand::Rng;
use trueup_etcd::EtcdStore;
use trueup_world::{Compare, Entry, Error, ErrorKind, LeaseId, Revision, Store, StoreEvent, Write};

use crate::SOON;

/// A key with its new value. `None` for a deletion.
pub(crate) type Attempt = (Vec<u8>, Option<Vec<u8>>);
/// An attempt that may have taken effect, with its revision. `None` if that is not known.
pub(crate) type Sent = (Attempt, Option<Revision>);

/// The record of a writer.
#[derive(Default)]
pub(crate) struct Written {
    pub(crate) attempts: Vec<Sent>,
    /// The attempts that certainly took no effect.
    pub(crate) refused: Vec<Attempt>,
    /// The leases that were found to have ended.
    pub(crate) ended: BTreeSet<LeaseId>,
    /// The lease that it renewed until its end.
    last_lease: Option<LeaseId>,
    /// The number of granted leases.
    pub(crate) leases: usize,
}

/// Sets and deletes keys of its own, some with a lease, and a key that both writers compare.
pub(crate) fn write(
    store: &EtcdStore,
    prefix: &str,
    writer: usize,
    mut rng: Rng,
    ended: &AtomicBool,
) -> Written {
    let mut written = Written::default();
    let (mut lease, mut renewed) = (None, Instant::now());
    for number in 0.. {
        if ended.load(Ordering::Relaxed) {
            break;
        }
        if renewed.elapsed() > Duration::from_millis(500) || lease.is_none() {
            lease = keep(store, lease, &mut written);
            renewed = Instant::now();
        }
        let value = format!("{writer}-{number}").into_bytes();
        let (name, value, lease, compares) = match rng.u8(0..10) {
            0..5 => (format!("{writer}/{}", rng.u8(0..4)), Some(value), None, vec![]),
            5..7 => (format!("{writer}/{}", rng.u8(0..4)), None, None, vec![]),
            7 => (format!("{writer}/leased"), Some(value), lease, vec![]),
            _ => {
                let key = format!("{prefix}shared").into_bytes();
                let Ok(now) = store.read(&key, None) else {
                    continue;
                };
                let compare = match now.1.first() {
                    Some(entry) => Compare::Modified(key, entry.modified),
                    None => Compare::Absent(key),
                };
                ("shared".to_owned(), Some(value), None, vec![compare])
            }
        };
        let key = format!("{prefix}{name}").into_bytes();
        let write = match value.clone() {
            Some(value) => Write::Put { key: key.clone(), value, lease },
            None => Write::Delete(key.clone()),
        };
        let writes = vec![write];
        let attempt = (key, value);
        match store.commit(&compares, &writes) {
            Ok(Some(revision)) => written.attempts.push((attempt, Some(revision))),
            Ok(None) => written.refused.push(attempt),
            Err(error) if error.kind() == ErrorKind::Indeterminate => {
                written.attempts.push((attempt, None));
            }
            Err(error) => {
                let kinds = [ErrorKind::Unavailable, ErrorKind::LeaseEnded, ErrorKind::NoSpace];
                assert!(kinds.contains(&error.kind()), "{error}");
                written.refused.push(attempt);
            }
        }
        thread::sleep(Duration::from_millis(rng.u64(0..10)));
    }
    written.last_lease = lease;
    written
}

impl Written {
    /// Finds out if its last lease has ended. This is after the last revision of the case, and the
    /// lease is not renewed meanwhile.
    pub(crate) fn check_last_lease(&mut self, store: &EtcdStore) {
        let begun = Instant::now();
        while let Some(id) = self.last_lease {
            match store.renew(id) {
                Ok(_) => break,
                Err(error) if error.kind() == ErrorKind::LeaseEnded => {
                    self.ended.insert(id);
                    break;
                }
                Err(error) => assert!(begun.elapsed() < SOON, "{error}"),
            }
        }
    }
}

/// Renews a lease, or grants one.
fn keep(store: &EtcdStore, lease: Option<LeaseId>, written: &mut Written) -> Option<LeaseId> {
    if let Some(id) = lease {
        match store.renew(id) {
            Err(error) if error.kind() == ErrorKind::LeaseEnded => {
                written.ended.insert(id);
            }
            Ok(_) | Err(_) => return lease,
        }
    }
    let granted = store.grant(Duration::from_secs(2)).ok();
    written.leases += usize::from(granted.is_some());
    granted
}

/// The new state of keys: the entry, or `None` if it is deleted.
pub(crate) type Changes = BTreeMap<Vec<u8>, Option<Entry>>;

/// The record of a watcher.
#[derive(Default)]
pub(crate) struct Watched {
    /// The changes of each revision.
    pub(crate) changes: BTreeMap<Revision, Changes>,
    /// The revisions at the two ends of each gap, in which the changes were gone, so it read again.
    pub(crate) gaps: Vec<(Revision, Revision)>,
    /// The entries of the last full read. From the end of the case, all known entries.
    pub(crate) entries: BTreeMap<Vec<u8>, Vec<u8>>,
    /// The revisions at which it began again, with the reasons.
    pub(crate) breaks: Vec<(Revision, String)>,
}

/// Watches until it has seen the last revision of the case, and records everything up to there.
pub(crate) fn watch(
    store: &EtcdStore,
    prefix: &str,
    begun: Revision,
    last: &OnceLock<Revision>,
) -> Watched {
    let prefix = prefix.as_bytes();
    let (mut watched, mut seen) = (Watched::default(), begun);
    let mut ending = None;
    loop {
        let result = store.watch(prefix, seen).and_then(|mut watch| {
            loop {
                if let Some(last) = last.get().filter(|last| seen >= **last) {
                    return watched.end(store, prefix, *last);
                }
                match watch.next(Duration::from_millis(100))? {
                    Some(StoreEvent::Changes { revision, changes }) => {
                        assert!(revision > seen, "{revision} after {seen}");
                        watched.changes.insert(revision, changes);
                        seen = revision;
                    }
                    Some(StoreEvent::Progress(revision)) => {
                        assert!(revision >= seen, "{revision} after {seen}");
                        seen = revision;
                    }
                    // The network is repaired by then.
                    None if last.get().is_some() => {
                        let since = *ending.get_or_insert_with(Instant::now);
                        assert!(since.elapsed() < SOON, "the end did not come");
                    }
                    None => {}
                }
            }
        });
        let Err(error) = result else {
            return watched;
        };
        watched.breaks.push((seen, error.to_string()));
        match error.kind() {
            ErrorKind::Compacted => {
                if let Ok(now) = store.read(prefix, None) {
                    watched.gaps.push((seen, now.0));
                    seen = now.0;
                    watched.entries = keyed(now.1);
                }
            }
            ErrorKind::Unavailable => thread::sleep(Duration::from_millis(20)),
            _ => panic!("{error}"),
        }
    }
}

impl Watched {
    /// Leaves out changes after the last revision. A write with an unknown outcome may take effect
    /// that late, and not every watcher still sees it.
    fn end(&mut self, store: &EtcdStore, prefix: &[u8], last: Revision) -> Result<(), Error> {
        let read = self.gaps.last().map_or(Revision(0), |gap| gap.1);
        if read > last {
            self.entries = keyed(store.read(prefix, Some(last))?.1);
        }
        self.changes.retain(|at, _| *at <= last);
        for (_, changes) in self.changes.range(read..) {
            for (key, now) in changes {
                match now {
                    Some(entry) => self.entries.insert(key.clone(), entry.value.clone()),
                    None => self.entries.remove(key),
                };
            }
        }
        Ok(())
    }
}

fn keyed(entries: Vec<Entry>) -> BTreeMap<Vec<u8>, Vec<u8>> {
    entries.into_iter().map(|entry| (entry.key, entry.value)).collect()
}
