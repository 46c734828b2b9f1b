//! One commit, and one sync, for all the writes that wait at the same moment. Not what is written.
//!
//! Whoever comes first leads: it commits for all who wait, while those who come meanwhile gather for the next commit.
//! There is no thread of our own, and no waiting for company: alone, a write commits at once.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, RwLock};

use redb::Database;

use crate::frame::Frame;
use crate::opening::{self, NewFile, View, look, view};
use crate::record::{Change, RECORDS, Tx};
use crate::{Error, Stats};

/// What a write does. An error that is not a refusal ends the whole commit.
type Work = Box<dyn FnOnce(&mut Tx<'_>) -> Result<(), Error> + Send>;

#[derive(Debug)]
pub(crate) struct Commits {
    frame: Arc<Frame>,
    opened: RwLock<Opened>,
    queue: Mutex<Queue>,
    turn: Condvar,
}

#[derive(Debug)]
enum Opened {
    /// For reading: before the first change, and after a failed write. What is written to it stays in memory.
    Seen(Database, Option<NewFile>),
    /// For writing.
    Written(Database),
    /// After a failed write nothing can be read.
    Lost,
}

impl Opened {
    fn database(&self) -> Option<&Database> {
        match self {
            Opened::Seen(database, _) | Opened::Written(database) => Some(database),
            Opened::Lost => None,
        }
    }
}

#[derive(Default)]
struct Queue {
    waiting: Vec<Work>,
    /// The number of the group that gathers.
    gathering: u64,
    /// All groups before this one are over.
    over: u64,
    /// Someone commits.
    led: bool,
    /// The first group that failed. It and all after it have failed.
    failed: Option<u64>,
    commits: u64,
    changes: u64,
}

impl std::fmt::Debug for Queue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Queue")
            .field("over", &self.over)
            .finish_non_exhaustive()
    }
}

impl Commits {
    /// Of what was `seen`; `new` if there is no file yet.
    pub(crate) fn new(frame: Arc<Frame>, seen: Database, new: Option<NewFile>) -> Self {
        Commits {
            frame,
            opened: RwLock::new(Opened::Seen(seen, new)),
            queue: Mutex::default(),
            turn: Condvar::new(),
        }
    }

    /// Of what was `seen`, and is not to be changed.
    pub(crate) fn peeked(frame: Arc<Frame>, seen: Database) -> Self {
        frame.fail(Error::peeked());
        let commits = Commits::new(frame, seen, None);
        commits.queue().failed = Some(0);
        commits
    }

    /// Does `work` and returns what it says once that is durable. Of a refusal nothing is written.
    pub(crate) fn write<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Tx<'_>) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        let answer = Arc::new(Mutex::new(None));
        let put = Arc::clone(&answer);
        let work: Work = Box::new(move |tx| {
            let result = work(tx);
            let fatal = result
                .as_ref()
                .err()
                .filter(|error| error.refusal().is_none())
                .cloned();
            *put.lock().unwrap_or_else(PoisonError::into_inner) = Some(result);
            fatal.map_or(Ok(()), Err)
        });

        let mut queue = self.queue();
        if queue.failed.is_some() {
            return Err(self.read_only());
        }
        let group = queue.gathering;
        queue.waiting.push(work);
        while queue.over <= group {
            queue = if queue.led {
                self.turn
                    .wait(queue)
                    .unwrap_or_else(PoisonError::into_inner)
            } else {
                self.lead(queue)
            };
        }
        if let Some(failed) = queue.failed.filter(|failed| *failed <= group) {
            drop(queue);
            return Err(match self.frame.failed() {
                Some(error) if failed == group => Error::not_durable(error),
                _ => self.read_only(),
            });
        }
        drop(queue);
        let answer = answer.lock().unwrap_or_else(PoisonError::into_inner).take();
        answer.unwrap_or_else(|| Err(self.read_only()))
    }

    /// Reads what is durable. After a failed write also what may or may not be.
    pub(crate) fn read<T>(&self, work: impl FnOnce(&View) -> Result<T, Error>) -> Result<T, Error> {
        let opened = self.opened.read().unwrap_or_else(PoisonError::into_inner);
        let database = opened.database().ok_or_else(|| self.read_only())?;
        work(&view(database)?)
    }

    /// Has the database alone, between two commits.
    pub(crate) fn alone<T>(
        &self,
        work: impl FnOnce(&mut Database) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let mut queue = self.queue();
        while queue.led {
            queue = self
                .turn
                .wait(queue)
                .unwrap_or_else(PoisonError::into_inner);
        }
        if queue.failed.is_some() {
            return Err(self.read_only());
        }
        queue.led = true;
        drop(queue);
        let mut leader = Leader(self, None);
        let mut opened = self.opened.write().unwrap_or_else(PoisonError::into_inner);
        let result = self
            .open_for_writing(&mut opened, &[])
            .and_then(|()| match &mut *opened {
                Opened::Written(database) => work(database),
                Opened::Seen(..) | Opened::Lost => Err(self.read_only()),
            });
        drop(opened);
        leader.1 = Some(result.as_ref().map(|_| None).map_err(Error::clone));
        drop(leader);
        result.map_err(|error| Error::not_durable(&error))
    }

    pub(crate) fn frame(&self) -> &Arc<Frame> {
        &self.frame
    }

    pub(crate) fn stats(&self) -> Stats {
        let queue = self.queue();
        Stats {
            commits: queue.commits,
            changes: queue.changes,
            ..self.frame.stats()
        }
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn read_only(&self) -> Error {
        match self.frame.failed() {
            Some(cause) => Error::read_only(cause),
            None => Error::read_only(&Error::damaged("the cause is not known")),
        }
    }

    /// Commits for all who wait.
    fn lead<'a>(&'a self, mut queue: MutexGuard<'a, Queue>) -> MutexGuard<'a, Queue> {
        let group = std::mem::take(&mut queue.waiting);
        queue.gathering += 1;
        queue.led = true;
        drop(queue);
        let mut leader = Leader(self, None);
        leader.1 = Some(self.commit(group));
        drop(leader);
        self.queue()
    }

    /// The number of changes; `None` if there was nothing to write.
    fn commit(&self, group: Vec<Work>) -> Result<Option<u64>, Error> {
        let during = "cannot commit";
        let opened = self.opened.read().unwrap_or_else(PoisonError::into_inner);
        let database = opened.database().ok_or_else(|| self.read_only())?;
        let first = matches!(*opened, Opened::Seen(..));
        let transaction = database
            .begin_write()
            .map_err(|error| self.frame.error(error, during))?;
        let table = transaction
            .open_table(RECORDS)
            .map_err(|error| self.frame.error(error, during))?;
        let mut tx = Tx::new(table, first)?;
        for work in group {
            work(&mut tx)?;
        }
        let done = tx.finish()?;
        let ended = if done.is_none() || first {
            transaction.abort().map_err(redb::Error::from)
        } else {
            transaction.commit().map_err(redb::Error::from)
        };
        ended.map_err(|error| self.frame.error(error, during))?;
        let Some(done) = done else {
            return Ok(None);
        };
        if first {
            // It was done in memory, to see whether there is a change at all. Nobody else opens it meanwhile.
            drop(opened);
            let mut opened = self.opened.write().unwrap_or_else(PoisonError::into_inner);
            self.open_for_writing(&mut opened, &done.kept)?;
        }
        self.frame.mark(done.number);
        Ok(Some(done.changes))
    }

    /// Unless it is already, and with the changes that ask for it.
    fn open_for_writing(&self, opened: &mut Opened, changes: &[Change]) -> Result<(), Error> {
        if let Opened::Seen(_, new) = opened {
            *opened = Opened::Written(opening::write(&self.frame, new.as_ref(), changes)?);
        }
        Ok(())
    }

    /// Lets go of the database that must not write any more, and keeps what can be read of the storage as it is now.
    fn turn_read_only(&self, error: Error) {
        self.frame.fail(error);
        let mut opened = self.opened.write().unwrap_or_else(PoisonError::into_inner);
        match look(self.frame.storage()) {
            Ok(seen) => *opened = Opened::Seen(seen, None),
            // What was seen before the first change is still so: that change is not known to be durable.
            Err(_) if matches!(*opened, Opened::Seen(..)) => {}
            Err(_) => *opened = Opened::Lost,
        }
    }
}

/// Leads until dropped. What it has not said by then was a panic.
struct Leader<'a>(&'a Commits, Option<Result<Option<u64>, Error>>);

impl Drop for Leader<'_> {
    fn drop(&mut self) {
        let commits = self.0;
        let panicked = || Err(Error::damaged("redb panicked"));
        let outcome = self.1.take().unwrap_or_else(panicked);
        if let Err(error) = &outcome {
            commits.turn_read_only(error.clone());
        }
        let mut queue = commits.queue();
        match outcome {
            Ok(Some(changes)) => {
                queue.commits += 1;
                queue.changes += changes;
            }
            Ok(None) => {}
            Err(_) => {
                let failed = queue.over;
                queue.failed.get_or_insert(failed);
                // Those who gathered meanwhile are not to be led by anybody any more.
                queue.waiting.clear();
                queue.gathering += 1;
            }
        }
        queue.led = false;
        queue.over = queue.gathering;
        commits.turn.notify_all();
    }
}
