//! Shared parts of the tests: queues, and jobs that hold a worker until they are released.

use std::hash::Hash;
use std::num::NonZeroUsize;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use trueup_queue::{Config, Queue, Ticket};

/// A time limit longer than any test needs.
pub(crate) const LONG: Duration = Duration::from_secs(60);
/// A delay that never ends.
pub(crate) const NEVER: Duration = Duration::from_secs(36_000);

pub(crate) fn config(workers: usize) -> Config {
    Config::new(NonZeroUsize::new(workers).unwrap())
}

pub(crate) fn queue<K: Hash + Eq + Send + 'static>(workers: usize) -> Queue<K> {
    Queue::new(config(workers)).unwrap()
}

/// Waits for a job's value.
pub(crate) fn done<T>(ticket: &Ticket<T>) -> T {
    ticket.wait(LONG).unwrap().done().unwrap()
}

/// Closes a queue and checks that every job ran.
pub(crate) fn end<K: Hash + Eq + Send + 'static>(queue: &Queue<K>) {
    assert!(queue.close_within(LONG).unwrap().is_empty());
}

/// A job that runs until this is dropped.
pub(crate) struct Held {
    pub(crate) go: Sender<()>,
    pub(crate) ticket: Ticket<()>,
}

/// Makes a worker run a job of `key`, and returns once the job has begun.
pub(crate) fn hold<K: Hash + Eq + Send + 'static>(queue: &Queue<K>, key: K) -> Held {
    let (go, gone): (Sender<()>, Receiver<()>) = channel();
    let (begin, begun) = channel();
    let ticket = queue.submit(key, move || {
        begin.send(()).unwrap();
        // The error means that the other end was dropped.
        let _ = gone.recv();
    });
    let ticket = ticket.unwrap();
    begun.recv_timeout(LONG).unwrap();
    Held { go, ticket }
}

/// The numbers of the jobs that ran, in order.
#[derive(Clone, Default)]
pub(crate) struct Log(Arc<Mutex<Vec<u32>>>);

impl Log {
    pub(crate) fn job(&self, number: u32) -> impl FnOnce() + Send + use<> {
        let log = Arc::clone(&self.0);
        move || log.lock().unwrap().push(number)
    }

    pub(crate) fn all(&self) -> Vec<u32> {
        self.0.lock().unwrap().clone()
    }
}
