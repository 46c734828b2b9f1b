//! The tasks that wait for news.

use std::collections::BTreeMap;
use std::task::Waker;

/// The wakers of the tasks that wait. A task has at most one.
#[derive(Debug, Default)]
pub(crate) struct Wakers {
    last: u64,
    waiting: BTreeMap<u64, Waker>,
}

/// A task's place among the wakers. The task's future has it, and removes it when dropped.
#[derive(Debug, Default)]
pub(crate) struct WakerId(Option<u64>);

impl Wakers {
    /// Has a task woken at the next news, in place of what it set before.
    pub(crate) fn set(&mut self, id: &mut WakerId, waker: &Waker) {
        let id = *id.0.get_or_insert_with(|| {
            self.last += 1;
            self.last
        });
        self.waiting.insert(id, waker.clone());
    }

    /// Forgets a task that does not wait any more.
    pub(crate) fn remove(&mut self, id: &WakerId) -> Option<Waker> {
        self.waiting.remove(&id.0?)
    }

    /// Takes all, to wake them after the lock.
    pub(crate) fn take(&mut self) -> impl Iterator<Item = Waker> + use<> {
        std::mem::take(&mut self.waiting).into_values()
    }
}
