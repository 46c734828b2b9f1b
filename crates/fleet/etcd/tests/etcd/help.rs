//! Helpers that the tests share.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use trueup_contracts::etcd::{Cluster, ClusterOptions};
use trueup_etcd::{Config, EtcdStore};
use trueup_world::{
    Entry, Error, ErrorKind, LeaseId, Revision, Store, StoreEvent, StoreWatch, Write,
};

/// Long enough for an expected event on a busy machine.
pub(crate) const SOON: Duration = Duration::from_secs(60);

pub(crate) fn one() -> Cluster {
    Cluster::start(&ClusterOptions::local(1)).unwrap()
}

pub(crate) fn one_with(arguments: &[&str]) -> Cluster {
    let options = ClusterOptions::local(1).with_arguments(arguments.iter().copied());
    Cluster::start(&options).unwrap()
}

/// Opens a store with long timeouts, so that calls on a busy machine do not fail.
pub(crate) fn open(config: Config) -> EtcdStore {
    open_with(config.with_timeout(SOON).with_connect_timeout(SOON))
}

/// Opens a store with the times of its configuration.
pub(crate) fn open_with(config: Config) -> EtcdStore {
    EtcdStore::open(config).unwrap()
}

pub(crate) fn put(key: &str, value: impl Into<Vec<u8>>, lease: Option<LeaseId>) -> Write {
    Write::Put { key: key.into(), value: value.into(), lease }
}

/// Returns the member that calls go to.
pub(crate) fn used(cluster: &Cluster, store: &EtcdStore) -> usize {
    let endpoints = cluster.config().endpoints;
    let used = endpoints.iter().position(|url| url == store.endpoint());
    used.unwrap()
}

/// Sets a key. Returns the revision.
pub(crate) fn set(store: &EtcdStore, key: &str, value: &str) -> Revision {
    store.commit(&[], &[put(key, value, None)]).unwrap().expect("nothing was compared")
}

/// Sets a key like [`set`], and retries while the store is not available.
pub(crate) fn set_at_last(store: &EtcdStore, key: &str, value: &str) -> Revision {
    let end = Instant::now() + SOON;
    loop {
        match store.commit(&[], &[put(key, value, None)]) {
            Ok(Some(revision)) => return revision,
            Err(error) if error.is_retryable() && Instant::now() < end => {}
            other => panic!("{other:?}"),
        }
    }
}

/// Begins a watch, and retries while the store is not available.
pub(crate) fn watch_at_last(store: &EtcdStore, after: Revision) -> Box<dyn StoreWatch> {
    let begun = Instant::now();
    loop {
        match store.watch(b"/", after) {
            Ok(watch) => return watch,
            Err(error) => assert!(error.is_retryable() && begun.elapsed() < SOON, "{error}"),
        }
    }
}

/// Returns the next change of a watch, as `REVISION: KEY=VALUE -KEY`.
pub(crate) fn change(watch: &mut Box<dyn StoreWatch>) -> String {
    let end = Instant::now() + SOON;
    while Instant::now() < end {
        match watch.next(SOON).unwrap() {
            Some(StoreEvent::Changes { revision, changes }) => return shown(revision, &changes),
            Some(StoreEvent::Progress(_)) | None => {}
        }
    }
    panic!("no change came");
}

pub(crate) fn shown(revision: Revision, changes: &BTreeMap<Vec<u8>, Option<Entry>>) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let words = changes.iter().map(|(key, now)| match now {
        Some(entry) => format!(" {}={}", text(key), text(&entry.value)),
        None => format!(" -{}", text(key)),
    });
    format!("{revision}:{}", words.collect::<String>())
}

/// Returns the error with which a watch ends.
pub(crate) fn end(watch: &mut Box<dyn StoreWatch>) -> Error {
    let end = Instant::now() + SOON;
    while Instant::now() < end {
        if let Err(error) = watch.next(SOON) {
            // The watch stays ended.
            assert_eq!(watch.next(SOON).unwrap_err().kind(), error.kind());
            return error;
        }
    }
    panic!("the watch did not end");
}

#[track_caller]
pub(crate) fn assert_kind<T: std::fmt::Debug>(result: Result<T, Error>, kind: ErrorKind) {
    let error = result.unwrap_err();
    assert_eq!(error.kind(), kind, "{error}");
}
