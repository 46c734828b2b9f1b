//! Takes in collected routes: decides which ones this host may take, and records the collection's
//! state.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use trueup_file::File;
use trueup_net::{IfName, Route, RouteKey};
use trueup_world::Holdings;

use super::{Collecting, Collection, has_collections};
use crate::lock;
use crate::status::count;
use crate::watch::contested::contested;
use crate::watch::world_status::and_others;
use crate::world::Retained;

impl Collecting {
    /// Notes new routes that can lead to the store. They are suspected if it is lost.
    pub(crate) fn note_news(&self, new: &[Route<IfName>]) {
        let now = Instant::now();
        let keys = new.iter().map(Route::canonical_key);
        let news = keys.filter(|key| self.collection.leads_to_store(key));
        let mut probation = lock(&self.probation);
        news.for_each(|key| probation.note(key, now));
    }

    /// Takes in the collector's current routes, and records the collection's state. Returns the
    /// keys of the routes that may have changed.
    pub(crate) fn look(&mut self, declared: &File) -> BTreeSet<RouteKey> {
        let has_collections = has_collections(declared);
        if !has_collections {
            self.retained = Retained::default();
        }
        let Some(collector) = &self.collector else {
            self.status = Collection::none();
            return BTreeSet::new();
        };
        let grants = self.grants.as_ref().map(|it| it.grants()).transpose();
        let holdings = collector.holdings(self.collection.seen(grants.as_ref().ok()));
        let is_protected = match self.surroundings.protected(declared) {
            Ok(None) => Err("the names of the store are being resolved".to_owned()),
            Ok(Some(protected)) => Ok(self.collection.protect(&protected)),
            Err(error) => Err(format!("{error:#}")),
        };
        let is_protected_anew = match is_protected {
            Ok(is_new) => is_new,
            // Takes no route before it is known what a route may lead away.
            Err(why) => {
                self.status = Collection {
                    retained: self.collection.retained(declared, &self.retained),
                    doubt: Some(why),
                    ..std::mem::take(&mut self.status)
                };
                return BTreeSet::new();
            }
        };
        let mut changed = match (holdings, grants) {
            (Ok(holdings), Ok(grants)) => {
                let mut changed = self.collection.regrant(declared, grants);
                changed.extend(self.take(declared, holdings));
                changed
            }
            // A withdrawal applies whatever hosts may export.
            (Ok(holdings), Err(_)) if holdings.is_withdrawn => self.take(declared, holdings),
            _ if !has_collections => {
                self.status = Collection::none();
                return BTreeSet::new();
            }
            (Ok(holdings), Err(error)) => {
                self.status = Collection {
                    ungrantable: Some(error.to_string()),
                    collected: self.collection.taken(),
                    revision: self.status.revision,
                    cut_off: holdings.cut_off.map(|(since, error)| (since, error.to_string())),
                    contests: std::mem::take(&mut self.status.contests),
                    ..Collection::default()
                };
                self.collection.settle(declared)
            }
            (Err(cut_off), _) => {
                self.status = Collection {
                    cut_off: cut_off.map(|(since, error)| (since, error.to_string())),
                    ..Collection::default()
                };
                self.collection.settle(declared)
            }
        };
        if is_protected_anew {
            changed.extend(self.retained.keys());
        }
        self.status.retained = self.collection.retained(declared, &self.retained);
        if self.status.is_known && self.status.retained > 0 {
            self.status.doubt.get_or_insert_with(|| {
                let number = count(self.status.retained, "route stays", "routes stay");
                format!("{number} from before, until each host has declared its exports")
            });
        }
        changed
    }

    fn take(&mut self, declared: &File, mut holdings: Holdings) -> BTreeSet<RouteKey> {
        holdings.incomplete.retain(|host| takes_from(declared, host));
        holdings.kept.retain(|host, _| takes_from(declared, host));
        holdings.damped.retain(|host, _| takes_from(declared, host));
        let mut changed = BTreeSet::new();
        if holdings.is_complete() || holdings.is_withdrawn {
            changed.extend(self.retained.keys());
            self.retained = Retained::default();
        }
        let is_cut_off = holdings.cut_off.is_some();
        let mut probation = lock(&self.probation);
        if let Some(sentence) = probation.decide(is_cut_off, Instant::now()) {
            self.collection.carry_out(&sentence);
        }
        self.surroundings.set_waiting(probation.is_waiting());
        drop(probation);
        let collection = &mut self.collection;
        changed.extend(collection.update(declared, &holdings));
        self.status = Collection {
            is_known: true,
            revision: holdings.revision.0,
            collected: collection.taken(),
            refused: collection.refused(),
            overlaps: collection.overlaps(),
            damped: holdings.damped,
            is_withdrawn: holdings.is_withdrawn,
            doubt: (!holdings.is_withdrawn).then(|| kept(&holdings.kept)).flatten(),
            cut_off: holdings.cut_off.map(|(since, error)| (since, error.to_string())),
            contests: contested(collection.contests(), &self.status.contests),
            ungranted: collection.ungranted(declared),
            ..Collection::default()
        };
        changed
    }
}

fn takes_from(declared: &File, host: &str) -> bool {
    declared.collects.iter().flatten().any(|it| it.from.contains(host))
}

/// Returns in words which routes stay although hosts deleted them, because it is not known what the
/// hosts export.
fn kept(kept: &BTreeMap<String, usize>) -> Option<String> {
    let (host, number) = kept.first_key_value()?;
    let deleted = count(*number, "export that it deleted stays", "exports that it deleted stay");
    let more = and_others(kept.len() - 1);
    Some(format!("host {host} has a session and has not declared its exports: {deleted}{more}"))
}
