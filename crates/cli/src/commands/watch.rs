//! `trueup watch`: the loop over the rtnetlink source, until a signal ends it.
//!
//! Two threads beside it: one waits for signals, one sees to it that the file and the namespace are
//! still those that the loop works with. What they find out, the loop is told.

mod attend;

use std::path::Path;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Error, Result, bail};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use trueup::Rtnl;
use trueup::driver::{Config, Loop};
use trueup::rtnl::{Error as PassError, Report};

use self::attend::Attendant;
use super::{Declared, Place, is_stdin, privilege};
use crate::output::Format;
use crate::{Common, output};

/// How long what bears our marker and was never declared is left alone, unless the file says otherwise: whoever writes the file
/// may be behind a sibling.
const GRACE: Duration = Duration::from_secs(10);

pub(crate) fn watch(common: &Common, file: &Path, interval: Duration) -> Result<ExitCode> {
    if is_stdin(file) {
        bail!("`watch` reads its file again when it changes: name a file, not `-`");
    }
    // From here on a signal ends the loop between passes, and not a pass halfway.
    let mut signals = Signals::new([SIGINT, SIGTERM]).context("cannot wait for signals")?;
    let stamp = attend::Stamp::of(file);
    let declared = Declared::read(file, GRACE)?;
    let place = Place::open(common)?;
    privilege::require(&place)?;
    let state = place.state(common, &declared.options)?.claim()?;

    let shared = Arc::new(Shared::default());
    let passes = Loop::new(
        Rtnl::new(),
        place.namespace.clone(),
        declared.file.desired.clone(),
        state.ledger(),
        declared.options,
        Config::default().with_interval(interval),
    )
    .context("cannot start the loop")?;
    let handle = passes.handle();
    let mut teller = Teller {
        format: common.format,
        shared: Arc::clone(&shared),
        told: String::new(),
    };
    let attendant = Attendant {
        path: file.to_owned(),
        stamp,
        place,
        netns: common.netns.clone(),
        options: declared.options,
        ledger: Box::new(state.ledger()),
        interval,
        handle: handle.clone(),
        shared: Arc::clone(&shared),
    };
    shared.lock().declared = Some(declared);

    thread::Builder::new()
        .name("signals".into())
        .spawn(move || {
            if signals.forever().next().is_some() {
                handle.stop();
            }
        })
        .context("cannot start a thread")?;
    thread::Builder::new()
        .name("attendant".into())
        .spawn(move || attendant.run())
        .context("cannot start a thread")?;
    passes
        .on_report(move |outcome| teller.tell(outcome))
        .run()
        .context("the loop broke off")?;
    match shared.lock().failure.take() {
        None => Ok(ExitCode::SUCCESS),
        Some(failure) => Err(failure),
    }
}

/// What the threads share.
#[derive(Default)]
struct Shared(Mutex<Inner>);

/// Under the lock.
#[derive(Default)]
struct Inner {
    /// The file in force.
    declared: Option<Declared>,
    /// Why the loop was stopped, if not by a signal.
    failure: Option<Error>,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        // Nothing that can panic halfway runs under the lock.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Prints what comes of the passes.
struct Teller {
    format: Format,
    shared: Arc<Shared>,
    /// What was last said of what could not be done.
    told: String,
}

impl Teller {
    fn tell(&mut self, outcome: Result<&Report, &PassError>) {
        match outcome {
            Ok(report) => {
                let remains = output::remains(report);
                let news = remains != self.told || output::is_news(report);
                if news && let Err(error) = output::report(self.format, report) {
                    // A full disk under a log is no reason to leave the network alone.
                    output::note(format_args!("{error:#}"));
                }
                self.told = remains;
            }
            Err(error) => {
                let shared = self.shared.lock();
                let declared = shared.declared.as_ref();
                let why = match declared.and_then(|declared| declared.misdeclared(error)) {
                    Some(wrong) => wrong.to_string(),
                    None => error.to_string(),
                };
                drop(shared);
                if why != self.told {
                    output::note(format_args!("the pass could not run: {why}"));
                    self.told = why;
                }
            }
        }
    }
}
