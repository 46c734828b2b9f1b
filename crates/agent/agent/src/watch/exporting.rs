//! A file's exports as a vertex. Its runs change nothing in the kernel.

use std::time::Duration;

use trueup_graph::{SourceVertex, Vertex};
use trueup_loop::{Config, Loop};
use trueup_reconcile::Report as _;
use trueup_reconcile::{MemoryLedger, Outcome};
use trueup_world::{Error, Export, ExportReport, Exporter, SessionEvent, World};

use super::reporter::Reporter;
use super::world_status::Exports;

/// The time between two passes over the exports. The keeper restores exports that a lost lease
/// took.
const INTERVAL: Duration = Duration::from_secs(60);

/// A file's exports with their loop. Clones share them.
#[derive(Clone)]
pub(crate) struct Exporting {
    source: SourceVertex<Exporter>,
    reporter: Reporter,
}

impl Exporting {
    /// Makes the loop. Its session begins when the first exports are declared.
    pub(crate) fn new(
        world: World,
        owner: String,
        ttl: Duration,
        reporter: &Reporter,
    ) -> Exporting {
        let (of_session, of_pass) = (reporter.clone(), reporter.clone());
        let exporter = Exporter::new(world, owner, ttl).on_event(move |event, session| {
            let (note, is_error) = words(event);
            of_session.note(&note);
            of_session.world(|world| {
                world.exports.session(&session);
                world.exports.error = is_error.then_some(note);
            });
        });
        let config = Config::default().with_interval(INTERVAL);
        let ledger = MemoryLedger::default();
        let passes =
            Loop::new(exporter, (), Vec::new(), ledger, (), config).on_report(move |_, result| {
                of_pass.world(|world| note_pass(&mut world.exports, result));
            });
        Exporting { source: SourceVertex::of_loop(passes), reporter: reporter.clone() }
    }

    /// Declares these exports in place of the earlier ones.
    pub(crate) fn declare(&self, exports: Vec<Export>) {
        let declared = exports.len();
        self.reporter.world(|world| {
            world.exports.declared = declared;
            // Unknown until the next pass.
            world.exports.is_in_place = false;
        });
        // The loop runs until the program ends.
        let _ended = self.source.handle().set_desired(exports);
    }

    pub(crate) fn vertex(&self) -> Box<dyn Vertex> {
        Box::new(self.source.clone())
    }
}

fn note_pass(exports: &mut Exports, result: Result<&ExportReport, &Error>) {
    match result {
        Ok(report) => {
            exports.session(&report.session);
            exports.is_in_place = report.converged();
            exports.error = report.ops.iter().find_map(|op| match &op.outcome {
                Outcome::Failed(error) => Some(format!("{}: {error}", op.key)),
                _ => None,
            });
        }
        Err(error) => {
            exports.is_in_place = false;
            exports.error = Some(format!("the exports are not in place: {error}"));
        }
    }
}

/// Returns the event of a session in words, and true if it is a lasting error.
fn words(event: SessionEvent) -> (String, bool) {
    match event {
        SessionEvent::Restored { exported, failed } => (
            format!(
                "the lease of the exports had ended: {exported} are made again, {failed} are not"
            ),
            false,
        ),
        SessionEvent::CutOff { error, .. } => {
            (format!("the lease of the exports is not renewed: {error}"), true)
        }
        SessionEvent::Reconnected => ("the lease of the exports is renewed again".into(), false),
        SessionEvent::Failed(error) => {
            (format!("the lease of the exports is not renewed: {error}"), true)
        }
        SessionEvent::Ended(error) => (format!("nothing is exported any more: {error}"), true),
        _ => ("the lease of the exports has changed".into(), false),
    }
}
