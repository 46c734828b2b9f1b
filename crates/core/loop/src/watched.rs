//! A value behind a lock, under which no foreign code runs.

use std::task::{Context, Poll};
use std::time::Instant;

use crate::runner::caught;
use crate::sync::{Condvar, Mutex, WakerId, Wakers, lock, wait_while};

/// A value behind a lock, with the threads and tasks that wait for its changes.
///
/// The lock is held only while one of these methods calls a closure. The closure is an `FnMut`, so
/// it consumes nothing that it captures, and none of this is dropped under the lock. It returns the
/// values that it removes, and the caller drops them. Wakers are cloned, woken and dropped without
/// the lock, too.
#[derive(Debug, Default)]
pub(crate) struct Watched<T> {
    locked: Mutex<(T, Wakers)>,
    /// Notified together with the tasks.
    changed: Condvar,
}

impl<T> Watched<T> {
    pub(crate) fn new(value: T) -> Self {
        Watched { locked: Mutex::new((value, Wakers::default())), changed: Condvar::new() }
    }

    /// Calls `section` under the lock. It must not call foreign code: it moves values in and out.
    pub(crate) fn with<R>(&self, mut section: impl FnMut(&mut T) -> R) -> R {
        let mut locked = lock(&self.locked);
        section(&mut locked.0)
    }

    /// Makes the waiting threads and tasks look again.
    pub(crate) fn notify(&self) {
        let wakers = lock(&self.locked).1.take();
        self.changed.notify_all();
        wakers.for_each(|waker| {
            // A panic of one task's waker must leave no other task waiting.
            let _ = caught(|| waker.wake());
        });
    }

    /// Waits until there is an answer, and returns it; `None` if `until` came first.
    pub(crate) fn wait<R>(&self, until: Instant, answer: impl Fn(&T) -> Option<R>) -> Option<R> {
        let is_open = |(value, _): &(T, Wakers)| answer(value).is_none();
        let locked = wait_while(&self.changed, lock(&self.locked), until, is_open);
        answer(&locked.0)
    }

    /// Returns the answer, or wakes the task when there may be one.
    pub(crate) fn poll<R>(
        &self,
        id: &mut WakerId,
        context: &Context<'_>,
        answer: impl Fn(&T) -> Option<R>,
    ) -> Poll<R> {
        // Declared before the lock, so dropped after it.
        let waker = context.waker().clone();
        let mut locked = lock(&self.locked);
        if let Some(answer) = answer(&locked.0) {
            return Poll::Ready(answer);
        }
        let replaced = locked.1.set(id, waker);
        drop(locked);
        drop(replaced);
        Poll::Pending
    }

    /// Removes the waker of a task that no longer waits.
    pub(crate) fn forget(&self, id: &WakerId) {
        let waker = lock(&self.locked).1.remove(id);
        drop(waker);
    }
}
