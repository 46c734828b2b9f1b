//! Sees to it that the loop works with the file as it is now, and with the namespace that it was
//! started for.
//!
//! A file is taken up when it can be read and when every device that it names is there or declared.
//! Until then the last good one stays in force. This is asked once a second, as any way to write a
//! file shows in its inode, size or times.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow, bail};
use trueup::diff::Kind;
use trueup::driver::Handle;
use trueup::reconcile::Ledger;
use trueup::{Namespace, Options, Rtnl};

use super::{GRACE, Shared};
use crate::commands::{Declared, Place, cookie};
use crate::output;

const PERIOD: Duration = Duration::from_secs(1);

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
}

/// Why options cannot be taken up by a loop that runs with others.
fn refusal(now: &Options, was: &Options) -> Option<String> {
    if now.protocol() != was.protocol() {
        return Some(format!(
            "`protocol` is {} now and was {}: what bears the former would be nobody's. Apply it \
             with empty sections first, then start again",
            now.protocol(),
            was.protocol()
        ));
    }
    let ownership = |kind| (now.ownership(kind), was.ownership(kind));
    let differs = [
        ("adopt", now.adopt() != was.adopt()),
        ("on_conflict", now.on_conflict() != was.on_conflict()),
        ("grace", now.grace() != was.grace()),
        (
            "ownership",
            Kind::ALL.map(ownership).iter().any(|(now, was)| now != was),
        ),
    ];
    let (key, _) = differs.into_iter().find(|(_, differs)| *differs)?;
    Some(format!(
        "`{key}` is another than it was: start again to use it"
    ))
}

pub(super) struct Attendant {
    pub(super) path: PathBuf,
    /// Of the file that was read last.
    pub(super) stamp: Stamp,
    pub(super) place: Place,
    /// What the place was named.
    pub(super) netns: Option<Namespace>,
    pub(super) options: Options,
    /// To read, while the loop writes it.
    pub(super) ledger: Box<dyn Ledger + Send>,
    pub(super) interval: Duration,
    pub(super) handle: Handle<Rtnl>,
    pub(super) shared: Arc<Shared>,
}

/// A good file of which a device is missing.
struct Waiting {
    declared: Declared,
    /// When it is tried again.
    next: Instant,
}

impl Attendant {
    /// Attends until the loop ends.
    pub(super) fn run(mut self) {
        let mut waiting = None;
        let mut said = String::new();
        while !self.handle.is_ended() {
            thread::sleep(PERIOD);
            if let Err(failure) = self.same_namespace() {
                self.shared.lock().failure = Some(failure);
                self.handle.stop();
                return;
            }
            match self.same_file(&mut waiting) {
                Ok(()) => {}
                Err(why) => {
                    let why = format!("{why:#}");
                    if why != said {
                        output::note(format_args!("the last good file stays in force: {why}"));
                        said = why;
                    }
                    continue;
                }
            }
            if waiting.is_none() {
                said.clear();
            }
        }
    }

    /// What is ours in one namespace is no claim to anything in another of the same name.
    fn same_namespace(&self) -> Result<()> {
        let Some(named) = &self.netns else {
            return Ok(());
        };
        let now =
            cookie(named).map_err(|error| anyhow!("the network namespace is gone: {error:#}"))?;
        if now != self.place.cookie {
            bail!("{named} is another network namespace now: start again to go on with that one");
        }
        Ok(())
    }

    /// Takes the file up if it is another than it was, or waits for a device no longer.
    fn same_file(&mut self, waiting: &mut Option<Waiting>) -> Result<()> {
        let stamp = Stamp::of(&self.path);
        let declared = if stamp != self.stamp {
            self.stamp = stamp;
            *waiting = None;
            let declared = Declared::read(&self.path, GRACE)?;
            if let Some(refusal) = refusal(&declared.options, &self.options) {
                bail!("{}: {refusal}", declared.name);
            }
            declared
        } else {
            match waiting.take() {
                None => return Ok(()),
                Some(waiting_still) if waiting_still.next > Instant::now() => {
                    *waiting = Some(waiting_still);
                    return Ok(());
                }
                Some(Waiting { declared, .. }) => declared,
            }
        };
        if let Some(wrong) = self.misdeclared(&declared) {
            *waiting = Some(Waiting {
                declared,
                next: Instant::now() + self.interval.max(PERIOD),
            });
            return Err(wrong);
        }
        let desired = declared.file.desired.clone();
        // A pass in between would tell a place of the new file for an object of the old one.
        let mut shared = self.shared.lock();
        shared.declared = Some(declared);
        // It ends: there is nothing left to reload for.
        let _ended = self.handle.set_desired(desired);
        Ok(())
    }

    /// What of a file cannot be in the namespace as it is.
    fn misdeclared(&self, declared: &Declared) -> Option<anyhow::Error> {
        let desired = &declared.file.desired;
        let namespace = &self.place.namespace;
        let planned = Rtnl::new().plan(namespace, desired, &*self.ledger, &self.options);
        // Any other error is no fault of the file; the next pass will meet it.
        Some(declared.misdeclared(&planned.err()?)?.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use trueup::rtnl::{OnConflict, Ownership};

    #[test]
    fn a_refusal_names_the_key() {
        let was = Options::default().with_grace(GRACE);
        assert_eq!(refusal(&was, &was), None);
        let by_ledger = was.with_ownership(Kind::Rule, Ownership::Ledger);
        for (key, now) in [
            ("protocol", was.with_protocol(117).unwrap()),
            ("adopt", was.with_adopt(true)),
            ("on_conflict", was.with_on_conflict(OnConflict::Take)),
            ("grace", was.with_grace(Duration::ZERO)),
            ("ownership", by_ledger),
            (
                "ownership",
                by_ledger.with_ownership(Kind::Rule, Ownership::Marker),
            ),
        ] {
            let refusal = refusal(&now, &was).unwrap();
            assert!(refusal.starts_with(&format!("`{key}` is ")), "{refusal}");
        }
    }
}
