//! Runs many tasks on a few threads.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::mem;
use std::num::NonZeroUsize;
use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use crate::sync::{Mutex, WakerId, after, lock, now, thread};
use crate::turns::Turns;
pub use crate::turns::{Due, Member, Turn};

/// A state machine that a [`Runner`] gives turns.
///
/// Its members wait for descriptors and instants. It gets a turn once one of them is due.
pub trait Task: Send + Sync {
    /// Does the work of the due members, and says for each what it waits for next. A break ends the
    /// task and drops it.
    ///
    /// The next turn comes once `due` is dropped. If a task drops it early, to work on several
    /// threads, it may be called again meanwhile.
    fn turn(&self, due: Due<'_>) -> ControlFlow<()>;

    /// Asks the task to end soon.
    fn stop(&self);
}

/// Waits for descriptors and timers, and runs due tasks on a few threads. Dropping it stops its
/// tasks without waiting for them.
///
/// Tasks take turns. So while one loop has a long pass, `n - 1` of `n` threads serve the others. A
/// panic ends only its own task.
///
/// ```
#[doc = include_str!("docs/easy.txt")]
/// # use std::{num::NonZeroUsize, time::Duration};
/// # use trueup_loop::{Config, Loop, Runner};
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let runner = Runner::start("pods", NonZeroUsize::MIN)?;
/// let it = Loop::new(Easy, (), 0, MemoryLedger::default(), (), Config::default());
/// let handle = runner.add(it, |ended| assert!(ended.is_ok()))?;
/// handle.force(Duration::from_secs(10))?;
/// runner.stop(Duration::from_secs(10))?;
/// assert!(handle.is_ended());
/// # Ok(())
/// # }
/// ```
pub struct Runner {
    inner: Arc<Inner>,
}

struct Inner {
    turns: Arc<Turns>,
    tasks: Mutex<Tasks>,
}

#[derive(Default)]
struct Tasks {
    by_number: BTreeMap<u64, Arc<dyn Task>>,
    /// The number of the last added task.
    last: u64,
}

impl Runner {
    /// Starts a runner without tasks, on `threads` new threads of this name.
    ///
    /// # Errors
    ///
    /// The operating system refuses a thread or a descriptor.
    pub fn start(name: &str, threads: NonZeroUsize) -> io::Result<Runner> {
        let inner = Arc::new(Inner { turns: Turns::new()?, tasks: Mutex::default() });
        // If a thread is refused, dropping this ends the others.
        let runner = Runner { inner };
        for _ in 0..threads.get() {
            let inner = Arc::clone(&runner.inner);
            let turns = Arc::clone(&inner.turns);
            turns.thread_begins();
            let thread = thread::Builder::new().name(name.to_owned());
            if let Err(refused) = thread.spawn(move || inner.work()) {
                turns.thread_ended();
                return Err(refused);
            }
        }
        Ok(runner)
    }

    /// Adds a task. `make` gets the task's first member; the task gets a turn at once. Returns
    /// false, and drops the task, if the runner was stopped.
    pub fn add_task<T: Task + 'static>(&self, make: impl FnOnce(Member) -> Arc<T>) -> bool {
        let Inner { turns, tasks } = &*self.inner;
        let number = {
            let mut tasks = lock(tasks);
            tasks.last += 1;
            tasks.last
        };
        let member = turns.add(number);
        let first = member.number();
        let task = make(member);
        let mut tasks = lock(tasks);
        if turns.is_stopping() {
            // Dropped after the lock is released.
            drop(tasks);
            return false;
        }
        tasks.by_number.insert(number, task);
        turns.wake(first);
        true
    }

    /// Returns the number of tasks that have not ended.
    pub fn len(&self) -> usize {
        lock(&self.inner.tasks).by_number.len()
    }

    /// True if all tasks have ended, or none was added.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Stops all tasks, and waits until they and the threads have ended. From this call on, no task
    /// can be added.
    ///
    /// # Errors
    ///
    /// [`TimedOut`](io::ErrorKind::TimedOut) if a turn lasted longer, or if the call comes from a
    /// thread of the runner, which would have to end first. Each task still ends after its turn.
    pub fn stop(&self, timeout: Duration) -> io::Result<()> {
        let until = after(now(), timeout);
        self.inner.stop();
        if self.inner.turns.wait_ended(until) {
            Ok(())
        } else {
            Err(io::ErrorKind::TimedOut.into())
        }
    }

    /// Stops all tasks like [`stop`](Self::stop), and returns the future of their end. It needs no
    /// runtime. If it is dropped, the tasks still end.
    pub fn stopped(&self) -> impl Future<Output = ()> + use<> {
        self.inner.stop();
        Stopped { turns: Arc::clone(&self.inner.turns), waker: WakerId::default() }
    }
}

/// The future of [`Runner::stopped`].
struct Stopped {
    turns: Arc<Turns>,
    waker: WakerId,
}

impl Future for Stopped {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let this = self.get_mut();
        this.turns.poll_ended(&mut this.waker, context)
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        self.turns.forget(&self.waker);
    }
}

impl Drop for Runner {
    fn drop(&mut self) {
        self.inner.stop();
    }
}

impl fmt::Debug for Runner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Runner").field("tasks", &self.len()).finish_non_exhaustive()
    }
}

impl Inner {
    fn stop(&self) {
        self.turns.stop();
        let tasks: Vec<_> = lock(&self.tasks).by_number.values().cloned().collect();
        tasks.iter().for_each(|task| task.stop());
    }

    /// Runs one thread.
    fn work(&self) {
        let mut buffer = Vec::new();
        while let Some((number, due)) = self.turns.next(&mut buffer) {
            let task = lock(&self.tasks).by_number.get(&number).cloned();
            // The task is not added yet, and gets a turn once it is; or it has ended.
            let Some(task) = task else {
                drop(due);
                continue;
            };
            let ended = match caught(|| task.turn(due)) {
                Some(ControlFlow::Continue(())) => None,
                _ => lock(&self.tasks).by_number.remove(&number),
            };
            // Another thread may have ended the task, so this may be the last reference.
            caught(|| drop((ended, task)));
        }
        self.turns.thread_ended();
    }
}

/// Calls foreign code. `None` if it panicked: this does not affect other tasks.
pub(crate) fn caught<T>(call: impl FnOnce() -> T) -> Option<T> {
    // Dropping the panic's payload may panic, too.
    catch_unwind(AssertUnwindSafe(call)).map_err(mem::forget).ok()
}
