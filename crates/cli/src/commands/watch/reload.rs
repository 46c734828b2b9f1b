//! Reloads the file when it changes, and ends the loop when its namespace is replaced.
//!
//! A file comes into force when it can be read and every device that it names exists or is
//! declared. Until then the last good file stays in force. inotify reports most changes at once;
//! once a second the file's inode, size and times are compared as well. A file that is being
//! written is not read: a part of a file would delete most objects.

use std::cell::RefCell;
use std::fs;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use trueup::diff::Kind;
use trueup::reconcile::Ledger;
use trueup::{Namespace, Rtnl};
use trueup_file as file;

use super::exporting::Exporting;
use super::file_watch::FileWatch;
use super::loops::PartMaker;
use super::reporter::{Change, Reporter};
use super::{GRACE, Shared};
use crate::commands::{Declared, Target};
use crate::graph::RunningGraph;
use crate::host::Options;
use crate::output;
use crate::world::{COLLECTOR, EXPORTER};

/// The interval of the comparison.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// The time without an event after which a changed file is read, because files are written in
/// pieces.
const SETTLE_TIME: Duration = Duration::from_millis(50);
/// The longest wait for that.
const MAX_SETTLE_TIME: Duration = Duration::from_millis(500);
/// The time for which a file that another process has open for writing is left alone.
const OPEN_FILE_TIMEOUT: Duration = Duration::from_secs(60);
/// The longest time until a file that waits for a device is tried again.
const MAX_RETRY_INTERVAL: Duration = Duration::from_secs(5);

/// Why the file is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cause {
    /// The interval is over.
    Timer,
    /// inotify reported a change, and no more events came.
    Changed,
    /// A reload was requested.
    Requested,
}

/// The inode, size and times of a file, which differ for each content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stamp(Option<[i128; 5]>);

impl Stamp {
    /// Returns the stamp of a file now; files that cannot be read share one.
    pub(super) fn of(path: &Path) -> Stamp {
        let nanoseconds =
            |seconds: i64, rest: i64| i128::from(seconds) * 1_000_000_000 + i128::from(rest);
        Stamp(fs::metadata(path).ok().map(|file| {
            [
                file.dev().into(),
                file.ino().into(),
                file.size().into(),
                nanoseconds(file.mtime(), file.mtime_nsec()),
                nanoseconds(file.ctime(), file.ctime_nsec()),
            ]
        }))
    }

    /// Returns true if the same file was written since.
    fn is_rewritten(&self, before: &Stamp) -> bool {
        let inode = |stamp: &Stamp| stamp.0.map(|[dev, ino, ..]| (dev, ino));
        self != before && inode(self) == inode(before)
    }
}

/// Returns why a running loop cannot use other options, or another `[world]`.
fn options_error(all: &Options, were: &Options, is_same_world: bool) -> Option<String> {
    let (now, was) = (&all.network, &were.network);
    if now.protocol() != was.protocol() {
        return Some(format!(
            "`protocol` is {} now and was {}: objects with the old number would have no owner. \
             Apply it with empty sections first, then start again",
            now.protocol(),
            was.protocol()
        ));
    }
    let ownership = |kind| (now.ownership(kind), was.ownership(kind));
    let differs = [
        ("adopt", now.adopt() != was.adopt()),
        (
            "adopt_protocols",
            now.adopt_protocols() != was.adopt_protocols(),
        ),
        ("on_conflict", now.on_conflict() != was.on_conflict()),
        ("grace", now.grace() != was.grace()),
        (
            "ownership",
            Kind::DECLARED
                .map(ownership)
                .iter()
                .any(|(now, was)| now != was),
        ),
        ("domain", now.domain() != was.domain()),
        ("sysctl_revert", all.settings != were.settings),
        ("world", !is_same_world),
    ];
    let (key, _) = differs.into_iter().find(|(_, differs)| *differs)?;
    Some(format!(
        "`{key}` is changed, which a running loop cannot use: start again"
    ))
}

/// A request to read the file again. Clones share it.
#[derive(Clone)]
pub(super) struct ReloadRequest(Arc<(OwnedFd, AtomicBool)>);

impl ReloadRequest {
    pub(super) fn new() -> Result<ReloadRequest> {
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        let descriptor = eventfd(0, flags).context("cannot open an event descriptor")?;
        Ok(ReloadRequest(Arc::new((
            descriptor,
            AtomicBool::new(false),
        ))))
    }

    /// Requests to read the file, also if it has not changed, and to run a full pass.
    pub(super) fn send(&self) {
        self.0.1.store(true, Ordering::Release);
        // If it is full, a request is pending already.
        let _ = rustix::io::write(&self.0.0, &1_u64.to_ne_bytes());
    }

    /// Returns true if a reload was requested since the last call.
    fn take(&self) -> bool {
        let _ = rustix::io::read(&self.0.0, &mut [0; 8]);
        self.0.1.swap(false, Ordering::Acquire)
    }
}

pub(super) struct Reloader {
    pub(super) path: PathBuf,
    /// The stamp of the file that was read last.
    pub(super) stamp: Stamp,
    /// Another stamp that was found without an event, and when.
    pub(super) pending_stamp: Option<(Stamp, Instant)>,
    /// The last reported reason why the namespace could not be opened.
    pub(super) namespace_error: Option<String>,
    /// The file cannot be watched, as last reported, so it is polled.
    pub(super) is_polling: bool,
    pub(super) target: Target,
    /// The namespace as the command line names it.
    pub(super) netns: Option<Namespace>,
    pub(super) options: Options,
    /// Read here while the loop writes it.
    pub(super) ledger: Box<dyn Ledger + Send>,
    pub(super) interval: Duration,
    pub(super) maker: PartMaker,
    pub(super) shared: Arc<Shared>,
    pub(super) reporter: Reporter,
    pub(super) reload_request: ReloadRequest,
    /// The exports, if the file has `[world]`.
    pub(super) exporting: Option<Exporting>,
    pub(super) running: RunningGraph,
}

/// A good file of which a device is missing.
struct Waiting {
    declared: Declared,
    /// The time of the next try.
    next: Instant,
}

impl Reloader {
    /// Runs until the loop ends.
    pub(super) fn run(mut self) {
        let mut watch = self.watch_file();
        let mut waiting = None;
        let mut reported = String::new();
        let mut next = Instant::now();
        while !self.maker.loops.is_ended() {
            let cause = self.wait(&mut watch, next);
            if next <= Instant::now() {
                next = Instant::now() + POLL_INTERVAL;
                self.reporter.check_reader();
                if watch.is_none() {
                    watch = self.watch_file();
                }
                if let Err(failure) = self.check_namespace() {
                    self.shared.lock().failure = Some(failure);
                    self.maker.loops.stop();
                    return;
                }
            }
            let writing = watch.as_ref().and_then(FileWatch::last_write);
            match self.check_file(&mut waiting, cause, writing) {
                Ok(is_loaded) => {
                    if is_loaded {
                        self.reporter.file(&Change::Loaded);
                        reported.clear();
                    }
                }
                Err(why) => {
                    let text = output::with_causes(why.as_ref());
                    if text != reported || cause == Cause::Requested {
                        self.reporter.file(&Change::Refused(&why));
                        reported = text;
                    }
                }
            }
            if cause == Cause::Requested {
                self.maker.loops.force();
            }
        }
    }

    /// Starts to watch the file, if that works now. A lack of descriptors, for example, may end.
    fn watch_file(&mut self) -> Option<FileWatch> {
        match FileWatch::new(&self.path) {
            Ok(watch) => {
                if std::mem::take(&mut self.is_polling) {
                    self.reporter.note("the file is watched for changes again");
                }
                Some(watch)
            }
            Err(error) => {
                self.report_polling(&error);
                None
            }
        }
    }

    fn report_polling(&mut self, error: &std::io::Error) {
        if std::mem::replace(&mut self.is_polling, true) {
            return;
        }
        self.reporter.note(&format!(
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
            let reload_request = PollFd::new(&self.reload_request.0.0, PollFlags::IN);
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
                // A signal that another thread handles.
                Err(rustix::io::Errno::INTR) => continue,
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

    /// Checks that the name still leads to the same namespace: our claims in one do not hold in
    /// another.
    fn check_namespace(&mut self) -> Result<()> {
        let Some(named) = &self.netns else {
            return Ok(());
        };
        // The target is kept open, so no other namespace gets its id.
        let target = self.target.namespace.id();
        match named.id().and_then(|now| Ok(now == target?)) {
            Ok(true) => self.namespace_error = None,
            Ok(false) => bail!(
                "{named} is another network namespace now: start again to go on with that one"
            ),
            Err(error) if error.is_gone() => bail!("the network namespace is gone: {error}"),
            // It exists and cannot be seen, for lack of a privilege for example.
            Err(error) => {
                let why = output::with_causes(&error);
                if self.namespace_error.as_ref() != Some(&why) {
                    self.reporter.note(&format!(
                        "cannot see whether {named} is still the same network namespace, and will \
                         try again: {why}"
                    ));
                    self.namespace_error = Some(why);
                }
            }
        }
        Ok(())
    }

    /// Loads the file if it has changed, or if a missing device may exist by now. Returns true if
    /// it came into force.
    fn check_file(
        &mut self,
        waiting: &mut Option<Waiting>,
        cause: Cause,
        writing: Option<Instant>,
    ) -> Result<bool> {
        let stamp = Stamp::of(&self.path);
        let is_being_written =
            writing.is_some_and(|last| Instant::now() < last + OPEN_FILE_TIMEOUT);
        let is_new = stamp != self.stamp && !is_being_written;
        if cause == Cause::Requested
            || is_new && (cause == Cause::Changed || self.has_settled(stamp))
        {
            self.reporter.reload_begins();
            let declared = self.read();
            let done = match Stamp::of(&self.path).is_rewritten(&stamp) {
                // A part of it may be old, or missing.
                true => Ok(false),
                false => {
                    let error = declared.as_ref().err();
                    let error = error.and_then(|why| why.downcast_ref::<file::Error>());
                    // A lack of resources is no property of the file, so it is read again.
                    if !error.is_some_and(file::Error::is_transient) {
                        self.stamp = stamp;
                        *waiting = None;
                    }
                    declared.and_then(|it| self.activate(it, waiting).map(|()| true))
                }
            };
            self.reporter.reload_ended();
            return done;
        }
        match waiting.take() {
            Some(Waiting { declared, next }) if next <= Instant::now() => {
                self.activate(declared, waiting).map(|()| true)
            }
            other => {
                *waiting = other;
                Ok(false)
            }
        }
    }

    /// Returns true if a file without an event has been the same for a while.
    fn has_settled(&mut self, stamp: Stamp) -> bool {
        let now = Instant::now();
        let pending_stamp = self.pending_stamp.filter(|(seen, _)| *seen == stamp);
        let (_, since) = *self
            .pending_stamp
            .insert(pending_stamp.unwrap_or((stamp, now)));
        since + MAX_SETTLE_TIME <= now
    }

    fn read(&self) -> Result<Declared> {
        let declared = Declared::read(&self.path, GRACE)?;
        let shared = self.shared.lock();
        let was = shared.declared.as_ref();
        let world = |of: &Declared| of.file.settings.world.clone();
        let is_same_world = was.is_none_or(|was| world(was) == world(&declared));
        match options_error(&declared.options, &self.options, is_same_world) {
            Some(error) => bail!("{}: {error}", declared.name),
            None => Ok(declared),
        }
    }

    /// Puts a file in force. Where that fails it is tried again: a device is missing, for example,
    /// or settings are still being written.
    fn activate(&self, declared: Declared, waiting: &mut Option<Waiting>) -> Result<()> {
        let mut declared = Some(declared);
        let done = self.try_activate(&mut declared);
        *waiting = declared.map(|declared| Waiting {
            declared,
            next: Instant::now() + self.interval.clamp(POLL_INTERVAL, MAX_RETRY_INTERVAL),
        });
        done
    }

    /// Takes the file if it is in force then.
    fn try_activate(&self, given: &mut Option<Declared>) -> Result<()> {
        let Some(declared) = given.as_ref() else {
            return Ok(());
        };
        self.file_error(declared).map_or(Ok(()), Err)?;
        // Before the lock below, which passes take.
        let paused = self.running.pause_settings()?;
        // Under the lock, because a pass in between would show places of the new file for objects
        // of the old one.
        let mut shared = self.shared.lock();
        let (collecting, desired) = match &shared.collecting {
            Some(collecting) => {
                let (collecting, desired) = collecting.of(declared)?;
                (Some(collecting), desired)
            }
            None => (None, declared.desired()),
        };
        let maker = &self.maker;
        let made = RefCell::new(Vec::new());
        let make = |part, desired| {
            let source = maker.make(part, desired)?;
            // Its first pass may be over before the graph is said to be replaced.
            maker.join(part, &source);
            made.borrow_mut().push(part);
            Ok(source)
        };
        let declare = |part, revision| maker.declare(part, revision);
        let leave = |part| maker.leave(part);
        let (file, parts) = (&declared.file, desired.parts());
        let replaced = self
            .running
            .replace(file, parts, paused, make, declare, leave);
        replaced.inspect_err(|_| made.borrow().iter().for_each(|part| maker.leave(*part)))?;
        self.reporter.set_managed(&declared.managed());
        if let Some(collecting) = &collecting {
            let status = collecting.status();
            self.reporter.world(|world| world.collection = status);
        }
        let exports = declared.exports();
        (shared.declared, shared.collecting) = (given.take(), collecting);
        drop(shared);
        if let Some(exporting) = &self.exporting {
            exporting.declare(exports);
            self.running.look_at(COLLECTOR)?;
            self.running.look_at(EXPORTER)?;
        }
        Ok(())
    }

    /// Returns the error of a file that does not fit the namespace.
    fn file_error(&self, declared: &Declared) -> Option<anyhow::Error> {
        let desired = &declared.file.desired;
        let namespace = &self.target.namespace;
        let options = &self.options.network;
        let planned = Rtnl::new().plan(namespace, desired, &*self.ledger, options);
        // Any other error is not the file's; the next pass reports it.
        Some(declared.file_error(&planned.err()?)?.into())
    }
}
#[cfg(test)]
mod tests {
    use super::*;
    use trueup::diff::{Domain, Protocols};
    use trueup::rtnl::{OnConflict, Ownership};

    #[test]
    fn a_refusal_names_the_key() {
        let was = trueup::Options::default().with_grace(GRACE);
        let of = |network: &trueup::Options| Options {
            network: network.clone(),
            ..Options::default()
        };
        assert_eq!(options_error(&of(&was), &of(&was), true), None);
        let now = || was.clone();
        let by_ledger = now().with_ownership(Kind::Rule, Ownership::Ledger);
        for (key, now) in [
            ("protocol", now().with_protocol(117).unwrap()),
            ("adopt", now().with_adopt(true)),
            (
                "adopt_protocols",
                now().with_adopt_protocols(Protocols::NONE.with(12)),
            ),
            ("on_conflict", now().with_on_conflict(OnConflict::Take)),
            ("grace", now().with_grace(Duration::ZERO)),
            ("ownership", by_ledger.clone()),
            (
                "ownership",
                by_ledger.with_ownership(Kind::Rule, Ownership::Marker),
            ),
            (
                "domain",
                now().with_domain(Domain::default().with_tables([100..=199])),
            ),
        ] {
            let options_error = options_error(&of(&now), &of(&was), true).unwrap();
            assert!(
                options_error.starts_with(&format!("`{key}` is ")),
                "{options_error}"
            );
        }
        let reverting = Options {
            settings: trueup::sysctl::Options::default().with_revert(true),
            ..of(&was)
        };
        let options_error = options_error(&reverting, &of(&was), true).unwrap();
        assert!(
            options_error.starts_with("`sysctl_revert` is "),
            "{options_error}"
        );
    }
}
