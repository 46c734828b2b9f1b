//! Sees to it that the loop works with the file as it is now, and with the namespace that it was
//! started for.
//!
//! A file is taken up when it can be read and when every device that it names is there or declared.
//! Until then the last good one stays in force. FileWatch are heard of at once; once a second it is asked as well, as any way to
//! write a file shows in its inode, size or times, and not every way is heard of. What is being written is not read: in a part
//! of a file most of what is desired is missing, and would be taken down.

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
use trueup::driver::Handle;
use trueup::reconcile::Ledger;
use trueup::{Namespace, Rtnl};
use trueup_file as file;

use super::file_watch::FileWatch;
use super::reporter::{Change, Reporter};
use super::{GRACE, Shared};
use crate::commands::{Declared, Target};
use crate::host::{Host, Options};
use crate::output;

/// How often it is asked.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// How long nothing more is heard of a file before it is read: whoever writes one writes it in pieces.
const SETTLE_TIME: Duration = Duration::from_millis(50);
/// How long it is waited for that.
const MAX_SETTLE_TIME: Duration = Duration::from_millis(500);
/// For how long a file is left alone that somebody has written to and not closed.
const OPEN_FILE_TIMEOUT: Duration = Duration::from_secs(60);
/// After how long a file that waits for a device is tried again at the latest.
const MAX_RETRY_INTERVAL: Duration = Duration::from_secs(5);

/// Why one looks at the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cause {
    /// It is time.
    Timer,
    /// A change was heard of, and is over.
    Changed,
    /// Somebody wants it read.
    Requested,
}

/// What tells one content of a file from the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stamp(Option<[i128; 5]>);

impl Stamp {
    /// The stamp of a file now; one that cannot be asked has one of its own.
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

    /// Whether it is that of the same file, which was written since.
    fn is_rewritten(&self, before: &Stamp) -> bool {
        let inode = |stamp: &Stamp| stamp.0.map(|[dev, ino, ..]| (dev, ino));
        self != before && inode(self) == inode(before)
    }
}

/// Why options cannot be taken up by a loop that runs with others.
fn options_error(all: &Options, were: &Options) -> Option<String> {
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
        ("sysctl_revert", all.settings != were.settings),
    ];
    let (key, _) = differs.into_iter().find(|(_, differs)| *differs)?;
    Some(format!(
        "`{key}` has changed, which takes a restart: start again to use it"
    ))
}

/// Has the file read again. Clones are the same.
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

    /// Have it read again, also if nothing has changed, and run a pass over all of it.
    pub(super) fn send(&self) {
        self.0.1.store(true, Ordering::Release);
        // It is full: then it has been rung already.
        let _ = rustix::io::write(&self.0.0, &1_u64.to_ne_bytes());
    }

    /// Whether it was rung since the last time.
    fn take(&self) -> bool {
        let _ = rustix::io::read(&self.0.0, &mut [0; 8]);
        self.0.1.swap(false, Ordering::Acquire)
    }
}

pub(super) struct Reloader {
    pub(super) path: PathBuf,
    /// Of the file that was read last.
    pub(super) stamp: Stamp,
    /// That of another which was not heard of, when it was first seen.
    pub(super) pending_stamp: Option<(Stamp, Instant)>,
    /// Why the namespace could not be opened by its name, as was last reported.
    pub(super) namespace_error: Option<String>,
    /// Whether it was last reported that changes of the file are not heard of.
    pub(super) is_polling: bool,
    pub(super) target: Target,
    /// What the place was named.
    pub(super) netns: Option<Namespace>,
    pub(super) options: Options,
    /// To read, while the loop writes it.
    pub(super) ledger: Box<dyn Ledger + Send>,
    pub(super) interval: Duration,
    pub(super) handle: Handle<Host>,
    pub(super) shared: Arc<Shared>,
    pub(super) reporter: Reporter,
    pub(super) reload_request: ReloadRequest,
}

/// A good file of which a device is missing.
struct Waiting {
    declared: Declared,
    /// When it is tried again.
    next: Instant,
}

impl Reloader {
    /// Attends until the loop ends.
    pub(super) fn run(mut self) {
        let mut watch = self.watch_file();
        let mut waiting = None;
        let mut reported = String::new();
        let mut next = Instant::now();
        while !self.handle.is_ended() {
            let cause = self.wait(&mut watch, next);
            if next <= Instant::now() {
                next = Instant::now() + POLL_INTERVAL;
                self.reporter.check_reader();
                if watch.is_none() {
                    watch = self.watch_file();
                }
                if let Err(failure) = self.check_namespace() {
                    self.shared.lock().failure = Some(failure);
                    self.handle.stop();
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
                // The pass comes whether anybody waits for it or not.
                let _ = self.handle.force(Duration::ZERO);
            }
        }
    }

    /// Has watch of the file heard of, if that can be had now. What it takes, such as a
    /// descriptor, may be there a moment later.
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

    /// Waits until a time, or until the file may have changed and nothing more is heard of it, or the reload_request is rung.
    fn wait(&mut self, watch: &mut Option<FileWatch>, next: Instant) -> Cause {
        let mut first: Option<Instant> = None;
        let mut until = next;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let timeout = Timespec::try_from(left).unwrap_or_default();
            let reload_request = PollFd::new(&self.reload_request.0.0, PollFlags::IN);
            let heard = match watch {
                None => poll(&mut [reload_request], Some(&timeout)),
                Some(watch) => {
                    let file = PollFd::from_borrowed_fd(watch.as_fd(), PollFlags::IN);
                    poll(&mut [reload_request, file], Some(&timeout))
                }
            };
            if self.reload_request.take() {
                return Cause::Requested;
            }
            if left.is_zero() || self.handle.is_ended() {
                return first.map_or(Cause::Timer, |_| Cause::Changed);
            }
            match heard {
                Ok(_) => {}
                // A signal that is somebody else's.
                Err(rustix::io::Errno::INTR) => continue,
                // Without memory: then by timer.
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

    /// What is ours in one namespace is no claim to anything in another of the same name.
    fn check_namespace(&mut self) -> Result<()> {
        let Some(named) = &self.netns else {
            return Ok(());
        };
        match named.cookie() {
            Ok(now) if now == self.target.cookie => self.namespace_error = None,
            Ok(_) => bail!(
                "{named} is another network namespace now: start again to go on with that one"
            ),
            Err(error) if error.is_gone() => bail!("the network namespace is gone: {error}"),
            // It is there, and could not be opened, such as for want of a descriptor.
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

    /// Takes the file up if it is another than it was, or waits for a device no longer. Whether it did.
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
                // A part of it may be of the former, or missing.
                true => Ok(false),
                false => {
                    let error = declared.as_ref().err();
                    let error = error.and_then(|why| why.downcast_ref::<file::Error>());
                    // What ran out for a moment is no property of the file: then it is read again.
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

    /// Whether a file of which nothing was heard has been as it is for a while.
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
        match options_error(&declared.options, &self.options) {
            Some(options_error) => bail!("{}: {options_error}", declared.name),
            None => Ok(declared),
        }
    }

    /// Has the loop work with it, unless a device is missing.
    fn activate(&self, declared: Declared, waiting: &mut Option<Waiting>) -> Result<()> {
        if let Some(wrong) = self.file_error(&declared) {
            *waiting = Some(Waiting {
                declared,
                next: Instant::now() + self.interval.clamp(POLL_INTERVAL, MAX_RETRY_INTERVAL),
            });
            return Err(wrong);
        }
        self.reporter.set_managed(&declared.managed());
        let desired = declared.desired();
        // A pass in between would tell a place of the new file for an object of the old one.
        let mut shared = self.shared.lock();
        shared.declared = Some(declared);
        // It ends: there is nothing left to reload for.
        let _ended = self.handle.set_desired(desired);
        Ok(())
    }

    /// What of a file cannot be in the namespace as it is.
    fn file_error(&self, declared: &Declared) -> Option<anyhow::Error> {
        let desired = &declared.file.desired;
        let namespace = &self.target.namespace;
        let options = &self.options.network;
        let planned = Rtnl::new().plan(namespace, desired, &*self.ledger, options);
        // Any other error is no fault of the file; the next pass will meet it.
        Some(declared.file_error(&planned.err()?)?.into())
    }
}
#[cfg(test)]
mod tests {
    use super::*;
    use trueup::diff::Protocols;
    use trueup::rtnl::{OnConflict, Ownership};

    #[test]
    fn a_refusal_names_the_key() {
        let was = trueup::Options::default().with_grace(GRACE);
        let of = |network| Options {
            network,
            ..Options::default()
        };
        assert_eq!(options_error(&of(was), &of(was)), None);
        let by_ledger = was.with_ownership(Kind::Rule, Ownership::Ledger);
        for (key, now) in [
            ("protocol", was.with_protocol(117).unwrap()),
            ("adopt", was.with_adopt(true)),
            (
                "adopt_protocols",
                was.with_adopt_protocols(Protocols::NONE.with(12)),
            ),
            ("on_conflict", was.with_on_conflict(OnConflict::Take)),
            ("grace", was.with_grace(Duration::ZERO)),
            ("ownership", by_ledger),
            (
                "ownership",
                by_ledger.with_ownership(Kind::Rule, Ownership::Marker),
            ),
        ] {
            let options_error = options_error(&of(now), &of(was)).unwrap();
            assert!(
                options_error.starts_with(&format!("`{key}` is ")),
                "{options_error}"
            );
        }
        let reverting = Options {
            settings: trueup::sysctl::Options::default().with_revert(true),
            ..of(was)
        };
        let options_error = options_error(&reverting, &of(was)).unwrap();
        assert!(
            options_error.starts_with("`sysctl_revert` is "),
            "{options_error}"
        );
    }
}
