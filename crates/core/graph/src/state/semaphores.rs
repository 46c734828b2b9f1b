//! Semaphores, taken all together, in the order of tickets.
//!
//! A waiter stands in the queue of each of its semaphores. It takes all of them at once, when it is
//! first in each queue and each is free. So no vertex holds one while it waits for another: each
//! holder is running or waits only for a worker. The waiter with the smallest ticket is first in
//! all its queues, so it continues once the holders have ended.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::Run;
use crate::Graph;

#[derive(Clone, Debug, Default)]
pub(crate) struct Semaphores(pub(crate) Vec<Semaphore>);

#[derive(Clone, Debug)]
pub(crate) struct Semaphore {
    id: Arc<str>,
    /// The number of free places; negative after a replacement by a smaller count.
    pub(crate) free: i64,
    pub(crate) waiting: BTreeMap<u64, u32>,
}

impl Semaphores {
    pub(crate) fn new(graph: &Graph) -> Self {
        let all = graph.semaphores.iter().map(|(id, count)| Semaphore {
            id: id.clone(),
            free: i64::from(*count),
            waiting: BTreeMap::new(),
        });
        Semaphores(all.collect())
    }

    pub(crate) fn wait(&mut self, ids: &[u32], ticket: u64, vertex: u32) {
        for &id in ids {
            self.0[id as usize].waiting.insert(ticket, vertex);
        }
    }

    pub(crate) fn cancel(&mut self, ids: &[u32], ticket: u64) {
        for &id in ids {
            self.0[id as usize].waiting.remove(&ticket);
        }
    }

    /// Returns the first waiter with its ticket; `None` if no place is free.
    pub(crate) fn next(&self, id: u32) -> Option<(u64, u32)> {
        let semaphore = &self.0[id as usize];
        let (ticket, vertex) = semaphore.waiting.first_key_value()?;
        (semaphore.free > 0).then_some((*ticket, *vertex))
    }

    /// Takes all these semaphores if it is the ticket's turn at each; returns false otherwise.
    pub(crate) fn take(&mut self, ids: &[u32], ticket: u64) -> bool {
        let taken = ids.iter().all(|&id| self.next(id).is_some_and(|(first, _)| first == ticket));
        if taken {
            self.cancel(ids, ticket);
            self.hold(ids);
        }
        taken
    }

    /// Takes all these semaphores, even if none is free.
    pub(crate) fn hold(&mut self, ids: &[u32]) {
        ids.iter().for_each(|&id| self.0[id as usize].free -= 1);
    }

    /// Starts over with another graph's semaphores. Runs keep the ones that still exist.
    pub(crate) fn rename(&mut self, graph: &Graph, runs: &mut [Run]) {
        let old = std::mem::replace(self, Self::new(graph));
        for run in runs {
            let ids = run
                .semaphores
                .iter()
                .map(|&id| &old.0[id as usize].id)
                .filter_map(|id| self.0.iter().position(|it| it.id == *id));
            run.semaphores = ids.map(|id| id as u32).collect();
            self.hold(&run.semaphores);
        }
    }

    pub(crate) fn id(&self, id: u32) -> &str {
        &self.0[id as usize].id
    }

    pub(crate) fn release(&mut self, ids: &[u32]) {
        ids.iter().for_each(|&id| self.0[id as usize].free += 1);
    }
}
