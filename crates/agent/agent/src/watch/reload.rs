//! Reloads the file when it changes, and ends the loop when its namespace is replaced.
//!
//! A file comes into force if it can be read, if every device that it names exists or is declared,
//! and if no other user can write it. Until then the last good file stays in force. inotify reports
//! most changes at once. Once a second, the file's inode, size, times and possible writers are
//! compared as well. A file that is being written is not read: a part of a file would delete most
//! objects.

mod activation;

use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::error::{Context as _, Error, Result, bail, with_causes};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::io::Errno;
use trueup_file as file;
use trueup_reconcile::Ledger;

use self::activation::Waiting;
use super::exporting::Exporting;
use super::file_watch::{FileWatch, Stamp};
use super::in_force::InForce;
use super::part_maker::PartMaker;
use crate::agent::Agent;
use crate::desired_file::Writers;
use crate::graph::RunningGraph;
use crate::options::Options;

/// The interval of the comparison.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// The time without an event after which a changed file is read, because files are written in
/// pieces.
const SETTLE_TIME: Duration = Duration::from_millis(50);
/// The longest wait for this time without an event.
const MAX_SETTLE_TIME: Duration = Duration::from_millis(500);
/// The time for which a file that another process has open for writing is left alone.
const OPEN_FILE_TIMEOUT: Duration = Duration::from_secs(60);

/// The reason for a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cause {
    /// The interval is over.
    Timer,
    /// inotify reported a change, and no more events came.
    Changed,
    /// The user requested a reload.
    Requested,
}

pub(crate) struct Reloader {
    pub(crate) path: PathBuf,
    /// The users who may be able to write the file.
    pub(crate) writers: Writers,
    /// The stamp of the file that was read last.
    pub(crate) stamp: Stamp,
    /// A different stamp without an event, and the time when it was found.
    pub(crate) pending_stamp: Option<(Stamp, Instant)>,
    /// The last reported reason why the namespace could not be opened.
    pub(crate) namespace_error: Option<String>,
    /// The last reported reason why the removed journal could not be recreated.
    pub(crate) state_error: Option<String>,
    /// True if the last report says that the file cannot be watched, and is polled.
    pub(crate) is_polling: bool,
    pub(crate) agent: Agent,
    pub(crate) options: Options,
    /// For reading only. The loop writes it.
    pub(crate) ledger: Box<dyn Ledger + Send>,
    pub(crate) maker: PartMaker,
    pub(crate) in_force: InForce,
    pub(crate) reload_request: ReloadRequest,
    /// The file's exports. `None` without `[world]`.
    pub(crate) exporting: Option<Exporting>,
}

impl Reloader {
    /// Runs until a loop ends, and then ends the others. The watch is older than the first stamp,
    /// so no change is missed between the two.
    pub(crate) fn run(mut self, graph: &RunningGraph, watch: io::Result<FileWatch>) {
        let mut watch = self.report_watch(watch);
        let mut waiting = None;
        let mut reported = String::new();
        let mut next = Instant::now();
        while !self.maker.loops.is_ended() {
            let cause = self.wait(&mut watch, next);
            if next <= Instant::now() {
                next = Instant::now() + POLL_INTERVAL;
                if watch.is_none() {
                    watch = self.report_watch(FileWatch::new(&self.path));
                }
                if let Err(failure) = self.check_namespace().and_then(|()| self.check_state()) {
                    self.maker.loops.fail(failure);
                    return;
                }
            }
            let writing = watch.as_ref().and_then(FileWatch::last_write);
            match self.check_file(graph, &mut waiting, cause, writing) {
                Ok(is_loaded) => {
                    if is_loaded {
                        self.maker.reporter.file(None);
                        reported.clear();
                    }
                }
                Err(why) => {
                    let text = with_causes(&why);
                    if text != reported || cause == Cause::Requested {
                        self.maker.reporter.file(Some(&why));
                        reported = text;
                    }
                }
            }
            if cause == Cause::Requested {
                self.maker.loops.force();
                // A graph that has ended needs none.
                let _ended = graph.look_at_files_and_commands();
            }
        }
        self.maker.loops.stop();
    }

    /// Reports if the file can be watched again. The cause, such as a lack of descriptors, may have
    /// ended.
    fn report_watch(&mut self, watch: io::Result<FileWatch>) -> Option<FileWatch> {
        match watch {
            Ok(watch) => {
                if std::mem::take(&mut self.is_polling) {
                    self.maker.reporter.note("the file is watched for changes again");
                }
                Some(watch)
            }
            Err(error) => {
                self.report_polling(&error);
                None
            }
        }
    }

    fn report_polling(&mut self, error: &io::Error) {
        if std::mem::replace(&mut self.is_polling, true) {
            return;
        }
        self.maker.reporter.note(&format!(
            "cannot watch the file for changes, so they are seen within two seconds only, until \
             that works again: {error}"
        ));
    }

    /// Waits until `next`, a settled change of the file, or a request to reload.
    fn wait(&mut self, watch: &mut Option<FileWatch>, next: Instant) -> Cause {
        let mut first: Option<Instant> = None;
        let mut until = next;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let timeout = Timespec::try_from(left).unwrap_or_default();
            let reload_request = PollFd::new(self.reload_request.descriptor(), PollFlags::IN);
            let polled = match watch {
                None => poll(&mut [reload_request], Some(&timeout)),
                Some(watch) => {
                    let file = PollFd::from_borrowed_fd(watch.as_fd(), PollFlags::IN);
                    poll(&mut [reload_request, file], Some(&timeout))
                }
            };
            if self.reload_request.take() {
                return Cause::Requested;
            }
            if left.is_zero() || self.maker.loops.is_ended() {
                return first.map_or(Cause::Timer, |_| Cause::Changed);
            }
            match polled {
                Ok(_) => {}
                // Another thread handles the signal.
                Err(Errno::INTR) => continue,
                // Without memory it polls by timer.
                Err(_) => thread::sleep(left),
            }
            match watch.as_mut().map(FileWatch::drain) {
                Some(Ok(true)) => {
                    let now = Instant::now();
                    let first = *first.get_or_insert(now);
                    until = (now + SETTLE_TIME).min(first + MAX_SETTLE_TIME);
                }
                Some(Err(error)) => {
                    *watch = None;
                    self.report_polling(&error);
                }
                Some(Ok(false)) | None => {}
            }
        }
    }

    /// Checks that the name still leads to the same namespace, because our claims in one namespace
    /// do not hold in another.
    fn check_namespace(&mut self) -> Result<()> {
        let Some(named) = &self.agent.netns else {
            return Ok(());
        };
        // The target is kept open, so no other namespace gets its id.
        let target = self.agent.namespace().id();
        match named.id().and_then(|now| Ok(now == target?)) {
            Ok(true) => self.namespace_error = None,
            Ok(false) => bail!(
                "{named} is another network namespace now: start again to go on with that one"
            ),
            Err(error) if error.is_gone() => bail!("the network namespace is gone: {error}"),
            // It exists but cannot be seen, for lack of a privilege for example.
            Err(error) => {
                let why = with_causes(&error);
                if self.namespace_error.replace(why.clone()).as_ref() != Some(&why) {
                    self.maker.reporter.note(&format!(
                        "cannot see whether {named} is still the same network namespace, and will \
                         try again: {why}"
                    ));
                }
            }
        }
        Ok(())
    }

    /// Recreates the journal if it was removed. Otherwise another agent could start beside this
    /// one, and the records of this agent's objects would be lost at its end.
    fn check_state(&mut self) -> Result<()> {
        match self.maker.looping.state.keep_in_place() {
            Ok(false) => self.state_error = None,
            Ok(true) => {
                let directory = self.maker.looping.state.place.directory().display();
                self.maker.reporter.note(&format!(
                    "the journal in {directory} was removed, and was made anew with all that it had"
                ));
                self.state_error = None;
            }
            Err(error) if !may_pass(&error) => return Err(error),
            Err(error) => {
                let why = with_causes(&error);
                if self.state_error.replace(why.clone()).as_ref() != Some(&why) {
                    self.maker.reporter.note(&format!("no pass can run: {why}"));
                }
            }
        }
        Ok(())
    }

    /// Loads the file if it has changed, or could not be put in force before. Returns true if it
    /// came into force.
    fn check_file(
        &mut self,
        graph: &RunningGraph,
        waiting: &mut Option<Waiting>,
        cause: Cause,
        writing: Option<Instant>,
    ) -> Result<bool> {
        let stamp = Stamp::of(&self.path, self.writers);
        let is_being_written =
            writing.is_some_and(|last| Instant::now() < last + OPEN_FILE_TIMEOUT);
        let is_new = stamp != self.stamp && !is_being_written;
        if cause == Cause::Requested
            || is_new && (cause == Cause::Changed || self.has_settled(stamp))
        {
            self.maker.reporter.reload_begins();
            let declared = self.read();
            let done = if Stamp::of(&self.path, self.writers).is_rewritten(&stamp) {
                // Parts of the content may be old or missing.
                Ok(false)
            } else {
                let error = declared.as_ref().err().and_then(|why| why.file());
                // A lack of resources is not the file's fault, so it is read again.
                if !error.is_some_and(file::Error::is_transient) {
                    self.stamp = stamp;
                    *waiting = None;
                }
                declared.and_then(|it| self.activate(graph, it, waiting).map(|()| true))
            };
            self.maker.reporter.reload_ended();
            return done;
        }
        match waiting.take() {
            Some(Waiting { declared, next }) if next <= Instant::now() => {
                self.activate(graph, declared, waiting).map(|()| true)
            }
            other => {
                *waiting = other;
                Ok(false)
            }
        }
    }

    /// Returns true if a file that changed without an event has been the same for a while.
    fn has_settled(&mut self, stamp: Stamp) -> bool {
        let now = Instant::now();
        let pending_stamp = self.pending_stamp.filter(|(seen, _)| *seen == stamp);
        let (_, since) = *self.pending_stamp.insert(pending_stamp.unwrap_or((stamp, now)));
        since + MAX_SETTLE_TIME <= now
    }
}

/// A request to read the file again. Clones share it.
#[derive(Clone)]
pub(crate) struct ReloadRequest(Arc<(OwnedFd, AtomicBool)>);

impl ReloadRequest {
    pub(crate) fn new() -> Result<ReloadRequest> {
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        let descriptor = eventfd(0, flags)
            .map_err(std::io::Error::from)
            .context("cannot open an event descriptor")?;
        Ok(ReloadRequest(Arc::new((descriptor, AtomicBool::new(false)))))
    }

    /// Requests a read of the file, even if it has not changed, and a full pass.
    pub(crate) fn send(&self) {
        self.0.1.store(true, Ordering::Release);
        // If it is full, a request is pending already.
        let _ = rustix::io::write(&self.0.0, &1_u64.to_ne_bytes());
    }

    /// Returns the descriptor, which is readable while a request is pending.
    pub(crate) fn descriptor(&self) -> &OwnedFd {
        &self.0.0
    }

    /// Returns true if a reload was requested since the last call.
    pub(crate) fn take(&self) -> bool {
        let _ = rustix::io::read(&self.0.0, &mut [0; 8]);
        self.0.1.swap(false, Ordering::Acquire)
    }
}

/// True if the cause is a lack that may end, such as a full disk.
fn may_pass(error: &Error) -> bool {
    use io::ErrorKind::{OutOfMemory, QuotaExceeded, StorageFull};
    error.find().is_some_and(|it: &io::Error| {
        matches!(it.kind(), OutOfMemory | QuotaExceeded | StorageFull)
            || matches!(Errno::from_io_error(it), Some(Errno::MFILE | Errno::NFILE))
    })
}
