//! Group commit: one commit, and one sync, for all writes that wait at the same moment.
//!
//! The first waiting thread becomes the leader and commits for all waiting ones, while later
//! threads gather for the next commit. This needs no extra thread and no delay: a single write
//! commits at once.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, RwLock};

use redb::Database;

use crate::database::{open_database, open_for_writing};
use crate::files::NewFile;
use crate::journal_file::JournalFile;
use crate::record::{Change, RECORDS, Transaction};
use crate::storage::ReadOnly;
use crate::{Error, Stats};

/// One caller's write. A refusal concerns only its caller; any other error fails the whole commit.
type Write = Box<dyn FnOnce(&mut Transaction<'_>) -> Result<(), Error> + Send>;

#[derive(Debug)]
pub(crate) struct GroupCommit {
    file: Arc<JournalFile>,
    access: RwLock<Access>,
    queue: Mutex<Queue>,
    /// The waits of groups with even and odd numbers. At any moment there are two groups: a leader
    /// commits one, and the other gathers. So the end of one group does not wake the other's
    /// threads.
    group_done: [Condvar; 2],
    /// The waits for a moment without a leader.
    no_leader: Condvar,
}

/// The waiting writes, numbered by groups; each group is one commit.
#[derive(Default)]
struct Queue {
    waiting: Vec<Write>,
    /// The number of the group that new writes join.
    open_group: u64,
    /// All groups before this one are done.
    done_before: u64,
    /// True while a thread commits.
    has_leader: bool,
    /// The first group that failed. All groups after it have failed too.
    failed_group: Option<u64>,
    commits: u64,
    changes: u64,
}

impl std::fmt::Debug for Queue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Queue").field("done_before", &self.done_before).finish_non_exhaustive()
    }
}

impl GroupCommit {
    /// Starts with `database` open for reading. `new` if its file does not exist yet.
    pub(crate) fn new(file: Arc<JournalFile>, database: Database, new: Option<NewFile>) -> Self {
        GroupCommit {
            file,
            access: RwLock::new(Access::ReadOnly(database, new)),
            queue: Mutex::default(),
            group_done: Default::default(),
            no_leader: Condvar::new(),
        }
    }

    /// Starts with `database` open for reading, and refuses every write.
    pub(crate) fn read_only(file: Arc<JournalFile>, database: Database) -> Self {
        file.fail(Error::opened_read_only());
        let commits = GroupCommit::new(file, database, None);
        commits.queue().failed_group = Some(0);
        commits
    }

    /// Runs `work` and returns its result once its changes are durable. A refusal writes nothing.
    pub(crate) fn write<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Transaction<'_>) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        let answer = Arc::new(Mutex::new(None));
        let answered = Arc::clone(&answer);
        let write: Write = Box::new(move |transaction| {
            let result = work(transaction);
            let fatal = result
                .as_ref()
                .err()
                .filter(|error| error.refusal().is_none() && !error.is_of_record())
                .cloned();
            *answered.lock().unwrap_or_else(PoisonError::into_inner) = Some(result);
            fatal.map_or(Ok(()), Err)
        });

        let mut queue = self.queue();
        if queue.failed_group.is_some() {
            return Err(self.read_only_error());
        }
        let group = queue.open_group;
        queue.waiting.push(write);
        while queue.done_before <= group {
            queue =
                if queue.has_leader { wait(self.condvar(group), queue) } else { self.lead(queue) };
        }
        if let Some(failed) = queue.failed_group.filter(|failed| *failed <= group) {
            drop(queue);
            return Err(match self.file.failed() {
                Some(error) if failed == group && !error.is_before_writing() => {
                    Error::not_durable(error)
                }
                _ => self.read_only_error(),
            });
        }
        drop(queue);
        answer
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take()
            .unwrap_or_else(|| Err(self.read_only_error()))
    }

    /// Runs `work` with the database as the last commit left it.
    pub(crate) fn read<T>(
        &self,
        work: impl FnOnce(&Database) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let access = self.access.read().unwrap_or_else(PoisonError::into_inner);
        work(access.database().ok_or_else(|| self.read_only_error())?)
    }

    /// Runs `work` between two commits, with exclusive access to the database.
    pub(crate) fn exclusively<T>(
        &self,
        work: impl FnOnce(&mut Database) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let mut queue = self.queue();
        while queue.has_leader {
            queue = wait(&self.no_leader, queue);
        }
        if queue.failed_group.is_some() {
            return Err(self.read_only_error());
        }
        queue.has_leader = true;
        drop(queue);
        let mut leader = Leader(self, None);
        let mut access = self.access.write().unwrap_or_else(PoisonError::into_inner);
        let result = self
            .file
            .check_in_place()
            .and_then(|()| access.ensure_writable(&self.file, &[]))
            .and_then(|()| match &mut *access {
                Access::Writable(database) => work(database),
                Access::ReadOnly(..) | Access::Unreadable => Err(self.read_only_error()),
            });
        drop(access);
        leader.1 = Some(result.as_ref().map(|_| None).map_err(Error::clone));
        drop(leader);
        result.map_err(|error| {
            if error.is_before_writing() {
                self.read_only_error()
            } else {
                Error::not_durable(&error)
            }
        })
    }

    pub(crate) fn file(&self) -> &Arc<JournalFile> {
        &self.file
    }

    pub(crate) fn stats(&self) -> Stats {
        let queue = self.queue();
        Stats { commits: queue.commits, changes: queue.changes, ..self.file.stats() }
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn condvar(&self, group: u64) -> &Condvar {
        &self.group_done[(group % 2) as usize]
    }

    fn read_only_error(&self) -> Error {
        match self.file.failed() {
            Some(cause) => Error::read_only(cause),
            None => Error::read_only(&Error::damaged("the cause is not known")),
        }
    }

    /// Commits the writes of all waiting threads.
    fn lead<'a>(&'a self, mut queue: MutexGuard<'a, Queue>) -> MutexGuard<'a, Queue> {
        let group = std::mem::take(&mut queue.waiting);
        queue.open_group += 1;
        queue.has_leader = true;
        drop(queue);
        let mut leader = Leader(self, None);
        leader.1 = Some(self.commit(group));
        drop(leader);
        self.queue()
    }

    /// Commits a group. Returns the number of changes; `None` if there was nothing to write.
    fn commit(&self, group: Vec<Write>) -> Result<Option<u64>, Error> {
        self.file.check_in_place()?;
        let access = self.access.read().unwrap_or_else(PoisonError::into_inner);
        let database = access.database().ok_or_else(|| self.read_only_error())?;
        let is_first = matches!(*access, Access::ReadOnly(..));
        if !is_first {
            self.file.check_opener()?;
        }
        let of_redb = database.begin_write().map_err(|error| self.not_committed(error))?;
        let table = of_redb.open_table(RECORDS).map_err(|error| self.not_committed(error))?;
        let mut transaction = Transaction::new(table, is_first)?;
        for write in group {
            write(&mut transaction)?;
        }
        let summary = transaction.finish()?;
        let ended = if summary.is_none() || is_first {
            of_redb.abort().map_err(redb::Error::from)
        } else {
            of_redb.commit().map_err(redb::Error::from)
        };
        ended.map_err(|error| self.not_committed(error))?;
        let Some(summary) = summary else {
            return Ok(None);
        };
        if is_first {
            // The changes were made in memory, to find out if there are any. Only the leader opens
            // the database for writing, so it is still closed here.
            drop(access);
            let mut access = self.access.write().unwrap_or_else(PoisonError::into_inner);
            access.ensure_writable(&self.file, &summary.recorded)?;
        }
        self.file.mark(summary.number);
        Ok(Some(summary.changes))
    }

    fn not_committed(&self, error: impl Into<redb::Error>) -> Error {
        self.file.error(error, "cannot commit")
    }

    /// Records the error, and closes the database.
    fn turn_read_only(&self, error: Error) {
        let is_taken_over = error.is_held();
        self.file.fail(error);
        let mut access = self.access.write().unwrap_or_else(PoisonError::into_inner);
        access.close(&self.file, is_taken_over);
    }
}

impl Drop for GroupCommit {
    fn drop(&mut self) {
        let access = self.access.get_mut().unwrap_or_else(PoisonError::into_inner);
        access.check_before_close(&self.file);
        self.file.before_close();
    }
}

fn wait<'a>(condvar: &Condvar, queue: MutexGuard<'a, Queue>) -> MutexGuard<'a, Queue> {
    condvar.wait(queue).unwrap_or_else(PoisonError::into_inner)
}

/// The right to commit, until dropped. If it is dropped without a result, it reports a panic.
struct Leader<'a>(&'a GroupCommit, Option<Result<Option<u64>, Error>>);

impl Drop for Leader<'_> {
    fn drop(&mut self) {
        let commits = self.0;
        let result = self.1.take().unwrap_or_else(|| Err(Error::damaged("redb panicked")));
        if let Err(error) = &result {
            commits.turn_read_only(error.clone());
        }
        let mut queue = commits.queue();
        match result {
            Ok(Some(changes)) => {
                queue.commits += 1;
                queue.changes += changes;
            }
            Ok(None) => {}
            Err(_) => {
                let failed = queue.done_before;
                queue.failed_group.get_or_insert(failed);
                // The writes that gathered meanwhile fail too: no later commit follows.
                queue.waiting.clear();
                queue.open_group += 1;
                commits.condvar(queue.open_group).notify_all();
            }
        }
        queue.has_leader = false;
        queue.done_before = queue.open_group;
        // One thread of the gathering group becomes the leader.
        commits.condvar(queue.open_group).notify_one();
        commits.condvar(queue.open_group.wrapping_add(1)).notify_all();
        commits.no_leader.notify_all();
    }
}

#[derive(Debug)]
pub(crate) enum Access {
    /// Open for reading: before the first change, and after a failed write. Writes to it stay in
    /// memory.
    ReadOnly(Database, Option<NewFile>),
    /// Open for writing.
    Writable(Database),
    /// Closed: after a failed write the storage could not be read, or another opener writes.
    Unreadable,
}

impl Access {
    pub(crate) fn database(&self) -> Option<&Database> {
        match self {
            Access::ReadOnly(database, _) | Access::Writable(database) => Some(database),
            Access::Unreadable => None,
        }
    }

    /// Opens the database for writing unless it is open, and makes the first changes. Refuses a
    /// database that another opener has taken over.
    pub(crate) fn ensure_writable(
        &mut self,
        file: &Arc<JournalFile>,
        changes: &[Change],
    ) -> Result<(), Error> {
        match self {
            Access::ReadOnly(_, new) => {
                let database = open_for_writing(file, new.as_ref(), changes)?;
                *self = Access::Writable(database);
                Ok(())
            }
            Access::Writable(_) => file.check_opener(),
            Access::Unreadable => Ok(()),
        }
    }

    /// Closes the database, which must write no more. Opens the storage's current content for
    /// reading, unless another opener has taken over.
    pub(crate) fn close(&mut self, file: &Arc<JournalFile>, is_taken_over: bool) {
        if is_taken_over {
            *self = Access::Unreadable;
            return;
        }
        match open_database(&(Arc::new(ReadOnly(Arc::clone(file))) as _)) {
            Ok(database) => *self = Access::ReadOnly(database, None),
            // The state before the first change is still valid: that change may not be durable.
            Err(_) if matches!(*self, Access::ReadOnly(..)) => {}
            Err(_) => *self = Access::Unreadable,
        }
    }

    /// Makes the file fail if another opener has it: redb reads and writes when it closes the file.
    pub(crate) fn check_before_close(&self, file: &JournalFile) {
        let checked = match self {
            Access::Writable(_) => file.check_opener(),
            Access::ReadOnly(_, None) => file.check_unchanged().map(drop),
            Access::ReadOnly(..) | Access::Unreadable => Ok(()),
        };
        if let Err(error) = checked {
            file.fail(error);
        }
    }
}
