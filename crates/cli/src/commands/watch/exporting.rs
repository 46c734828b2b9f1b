//! The exports of a file, by a loop of their own beside that of the namespace. Nothing that happens
//! to them changes anything in the kernel.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result};
use trueup::driver::{Config, Loop};
use trueup::reconcile::MemoryLedger;
use trueup::world::{Export, Exporter, Session, SessionEvent, World};
use trueup::{Report as _, world};

use super::loops::Loops;
use super::reporter::Reporter;
use super::world_status::Exports;

/// How often the end of the namespace's loop, and the state of the session, are looked at.
const TICK: Duration = Duration::from_millis(500);
/// The time between two tries to begin the session.
const RETRY: Duration = Duration::from_secs(1);
/// The time between two passes over the exports. The keeper restores what a lost lease took.
const INTERVAL: Duration = Duration::from_secs(60);

/// The exports. Clones share them.
#[derive(Clone)]
pub(super) struct Exporting {
    declared: Sender<Vec<Export>>,
    status: Arc<Mutex<Exports>>,
}

/// What the thread works with.
struct Thread {
    world: World,
    owner: String,
    ttl: Duration,
    declared: Receiver<Vec<Export>>,
    status: Arc<Mutex<Exports>>,
    loops: Loops,
    reporter: Reporter,
}

impl Exporting {
    /// Starts the thread. It begins a session when the first exports are declared.
    pub(super) fn start(
        world: World,
        owner: String,
        ttl: Duration,
        loops: Loops,
        reporter: Reporter,
    ) -> Result<Exporting> {
        let (sender, declared) = channel();
        let status = Arc::<Mutex<Exports>>::default();
        let exporting = Exporting {
            declared: sender,
            status: Arc::clone(&status),
        };
        let thread = Thread {
            world,
            owner,
            ttl,
            declared,
            status,
            loops,
            reporter,
        };
        thread::Builder::new()
            .name("exporting".into())
            .spawn(move || thread.run())
            .context("cannot start a thread")?;
        Ok(exporting)
    }

    /// Declares the exports. Without any, nothing is begun that is not begun yet.
    pub(super) fn declare(&self, exports: Vec<Export>) {
        lock(&self.status).declared = exports.len();
        // The thread is there until the program ends.
        let _ended = self.declared.send(exports);
    }

    pub(super) fn status(&self) -> Exports {
        lock(&self.status).clone()
    }
}

impl Thread {
    fn run(self) {
        if let Err(error) = self.export() {
            let why = format!("nothing is exported: {error:#}");
            self.reporter.note(&why);
            lock(&self.status).error = Some(why);
        }
    }

    fn export(&self) -> Result<()> {
        let Some((session, exports)) = self.begin() else {
            return Ok(());
        };
        let (reporter, status) = (self.reporter.clone(), Arc::clone(&self.status));
        // It renews the lease until it is dropped, at the end of this function.
        let _keeper = session.keep(move |event| {
            let (note, error) = words(event);
            reporter.note(&note);
            lock(&status).error = error.then_some(note);
        })?;
        let status = Arc::clone(&self.status);
        let exporter = Exporter::new(session.clone());
        let ledger = MemoryLedger::default();
        let config = Config::default().with_interval(INTERVAL);
        let passes = Loop::new(exporter, (), exports, ledger, (), config);
        let passes = passes.on_report(move |pass| {
            let mut status = lock(&status);
            match pass.result {
                Ok(report) => {
                    status.is_in_place = report.converged();
                    status.error = report.ops.iter().find_map(|op| match &op.outcome {
                        world::ExportOutcome::Failed(error) => Some(format!("{}: {error}", op.key)),
                        _ => None,
                    });
                }
                Err(error) => {
                    status.is_in_place = false;
                    status.error = Some(error.to_string());
                }
            }
        });
        let passes = passes.spawn("exports").context("cannot start a thread")?;
        while !self.loops.is_ended() {
            let found = session.status();
            {
                let mut status = lock(&self.status);
                status.losses = found.losses;
                status.cut_off_since = found.cut_off_since;
            }
            match self.declared.recv_timeout(TICK) {
                Ok(exports) => drop(passes.handle().set_desired(exports)),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        Ok(())
    }

    /// Begins the session, as soon as there is something to export and the store is reached.
    /// Returns the exports of now; nothing if the program ends before.
    fn begin(&self) -> Option<(Session, Vec<Export>)> {
        let mut exports = self.declared.recv().ok()?;
        let mut reported = String::new();
        while !self.loops.is_ended() {
            if !exports.is_empty() {
                match Session::begin(self.world.clone(), &self.owner, self.ttl) {
                    Ok(session) => {
                        lock(&self.status).error = None;
                        return Some((session, exports));
                    }
                    Err(error) => {
                        let why = format!("nothing is exported yet: {error}");
                        if why != reported {
                            self.reporter.note(&why);
                        }
                        lock(&self.status).error = Some(why.clone());
                        reported = why;
                    }
                }
            }
            match self.declared.recv_timeout(RETRY) {
                Ok(newer) => exports = newer,
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return None,
            }
        }
        None
    }
}

/// Returns what happened to the session, in words, and whether it is an error that lasts.
fn words(event: SessionEvent) -> (String, bool) {
    match event {
        SessionEvent::Restored { exported, failed } => (
            format!(
                "the lease of the exports had ended: {exported} are made again, {failed} are not"
            ),
            false,
        ),
        SessionEvent::CutOff { error, .. } => (
            format!("the lease of the exports is not renewed: {error}"),
            true,
        ),
        SessionEvent::Reconnected => ("the lease of the exports is renewed again".into(), false),
        SessionEvent::Failed(error) => (
            format!("the lease of the exports is not renewed: {error}"),
            true,
        ),
        SessionEvent::Ended(error) => (format!("nothing is exported any more: {error}"), true),
        _ => ("the lease of the exports has changed".into(), false),
    }
}

fn lock(status: &Mutex<Exports>) -> MutexGuard<'_, Exports> {
    // Nothing that can panic halfway runs under the lock.
    status.lock().unwrap_or_else(PoisonError::into_inner)
}
