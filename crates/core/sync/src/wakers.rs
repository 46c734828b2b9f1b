//! The wakers of tasks that wait.

use std::collections::BTreeMap;
use std::task::Waker;

/// The wakers of waiting tasks, at most one for each task.
///
/// They are kept under the lock of the state for which the tasks wait. A waker may run any code when
/// it is cloned, called or dropped, so callers do each of these without the lock.
///
/// ```
/// use std::task::Waker;
/// use trueup_sync::{Mutex, WakerId, Wakers, lock};
///
/// let (waiting, mut id) = (Mutex::new(Wakers::default()), WakerId::default());
/// let replaced = lock(&waiting).set(&mut id, Waker::noop().clone());
/// assert!(replaced.is_none());
/// let wakers = lock(&waiting).take(); // the lock is released at the end of this line
/// assert_eq!(wakers.map(Waker::wake).count(), 1);
/// ```
#[derive(Debug, Default)]
pub struct Wakers {
    last: u64,
    waiting: BTreeMap<u64, Waker>,
}

/// A task's key among the wakers. The task's future holds it, and removes the waker when dropped.
#[derive(Debug, Default)]
pub struct WakerId(Option<u64>);

impl Wakers {
    /// Wakes a task at the next event. Returns the task's earlier waker, to drop without the lock.
    #[must_use]
    pub fn set(&mut self, id: &mut WakerId, waker: Waker) -> Option<Waker> {
        let id = *id.0.get_or_insert_with(|| {
            self.last += 1;
            self.last
        });
        self.waiting.insert(id, waker)
    }

    /// Removes the waker of a task that no longer waits. Returns it, to drop without the lock.
    #[must_use]
    pub fn remove(&mut self, id: &WakerId) -> Option<Waker> {
        self.waiting.remove(&id.0?)
    }

    /// Takes all wakers; wake them after the lock is released.
    pub fn take(&mut self) -> impl Iterator<Item = Waker> + use<> {
        std::mem::take(&mut self.waiting).into_values()
    }
}
