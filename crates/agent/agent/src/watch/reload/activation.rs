//! Puts a changed file in force.

use std::cell::RefCell;
use std::time::{Duration, Instant};

use crate::error::{Result, bail};
use trueup_rtnl::Rtnl;

use super::{POLL_INTERVAL, Reloader};
use crate::declared::Declared;
use crate::graph::RunningGraph;
use crate::options::{GRACE, options_error};
use crate::world::{COLLECTOR, EXPORTER};

/// The longest time until a file that could not be put in force is tried again.
const MAX_RETRY_INTERVAL: Duration = Duration::from_secs(5);

/// A good file that could not be put in force yet.
pub(crate) struct Waiting {
    pub(crate) declared: Declared,
    /// The time of the next try.
    pub(crate) next: Instant,
}

impl Reloader {
    pub(crate) fn read(&self) -> Result<Declared> {
        let declared = Declared::read(&self.path, self.writers, GRACE, &self.agent.sections)?;
        let in_force = self.in_force.lock();
        let was = in_force.declared.as_ref().map(|was| &was.file.settings.world);
        let is_same_world = was.is_none_or(|was| *was == declared.file.settings.world);
        match options_error(&declared.options, &self.options, is_same_world) {
            Some(error) => bail!("{}: {error}", declared.name),
            None => Ok(declared),
        }
    }

    /// Puts a file in force. If that fails, tries again later: settings may still be being written,
    /// for example.
    pub(crate) fn activate(
        &self,
        graph: &RunningGraph,
        declared: Declared,
        waiting: &mut Option<Waiting>,
    ) -> Result<()> {
        let mut declared = Some(declared);
        let done = self.try_activate(graph, &mut declared);
        *waiting = declared.map(|declared| Waiting {
            declared,
            next: Instant::now()
                + self.maker.looping.config.interval().clamp(POLL_INTERVAL, MAX_RETRY_INTERVAL),
        });
        done
    }

    /// Puts the file in force. Takes it out of `given` on success.
    fn try_activate(&self, graph: &RunningGraph, given: &mut Option<Declared>) -> Result<()> {
        let Some(declared) = given.as_ref() else {
            return Ok(());
        };
        self.file_error(declared).map_or(Ok(()), Err)?;
        // Before the lock below, which passes take.
        let paused = graph.pause_settings()?;
        // Under the lock, because a pass in between would show the new file's places for the old
        // file's objects.
        let mut in_force = self.in_force.lock();
        let (collecting, desired) = match &in_force.collecting {
            Some(collecting) => {
                let (collecting, desired) = collecting.of(declared)?;
                (Some(collecting), desired)
            }
            None => (None, declared.desired()),
        };
        let (maker, made) = (&self.maker, RefCell::new(Vec::new()));
        self.maker.reporter.set_untried(None);
        let replaced = graph.replace(
            &declared.file,
            declared.parts(&desired, &self.options),
            paused,
            |part| {
                made.borrow_mut().push(part.part());
                maker.looped(part)
            },
            |part, revision| maker.declare(part, revision),
            |part| maker.leave(part),
        );
        // Under the lock, which each report takes.
        self.maker.reporter.set_untried(Some(graph.untried()));
        replaced.inspect_err(|_| made.borrow().iter().for_each(|part| maker.leave(*part)))?;
        self.maker.reporter.set_managed(declared.managed());
        if let Some(collecting) = &collecting {
            let status = collecting.status();
            self.maker.reporter.world(|world| world.collection = status);
        }
        let exports = declared.exports();
        let was = in_force.declared.as_ref();
        if was.is_none_or(|was| was.file.collects != declared.file.collects) {
            declared.cautions().iter().for_each(|it| self.maker.reporter.note(it));
        }
        (in_force.declared, in_force.collecting) = (given.take(), collecting);
        drop(in_force);
        if let Some(exporting) = &self.exporting {
            exporting.declare(exports);
            graph.look_at(COLLECTOR)?;
            graph.look_at(EXPORTER)?;
        }
        Ok(())
    }

    /// Returns the error of a file that does not fit the namespace.
    fn file_error(&self, declared: &Declared) -> Option<crate::error::Error> {
        let desired = &declared.file.desired;
        let namespace = self.agent.namespace();
        let options = &self.options.network;
        let planned = Rtnl::new().plan(namespace, desired, &*self.ledger, options);
        // Any other error is not the file's; the next pass reports it.
        Some(declared.file_error(&planned.err()?)?.into())
    }
}
