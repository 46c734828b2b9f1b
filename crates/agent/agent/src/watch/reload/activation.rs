//! Puts a changed file in force.

use std::cell::RefCell;
use std::time::{Duration, Instant};

use crate::error::{Result, bail};
use trueup_rtnl::Rtnl;

use super::options::options_error;
use super::{POLL_INTERVAL, Reloader};
use crate::declared::Declared;
use crate::watch::GRACE;
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
        let declared = Declared::read(&self.path, self.writers, GRACE, &self.maker.sections)?;
        let shared = self.shared.lock();
        let was = shared.declared.as_ref();
        let world = |of: &Declared| of.file.settings.world.clone();
        let is_same_world = was.is_none_or(|was| world(was) == world(&declared));
        match options_error(&declared.options, &self.options, is_same_world) {
            Some(error) => bail!("{}: {error}", declared.name),
            None => Ok(declared),
        }
    }

    /// Puts a file in force. If that fails it is tried again: settings are still being written, for
    /// example.
    pub(crate) fn activate(&self, declared: Declared, waiting: &mut Option<Waiting>) -> Result<()> {
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
            maker.join(part, &*source);
            made.borrow_mut().push(part);
            Ok(source)
        };
        let declare = |part, revision| maker.declare(part, revision);
        let leave = |part| maker.leave(part);
        let (file, parts) = (&declared.file, maker.sections.parts(declared, &desired));
        self.reporter.set_untried(None);
        let replaced = self.running.replace(file, parts, paused, make, declare, leave);
        // Under the lock, which each report takes.
        self.reporter.set_untried(Some(self.running.untried()));
        replaced.inspect_err(|_| made.borrow().iter().for_each(|part| maker.leave(*part)))?;
        self.reporter.set_managed(declared.managed());
        if let Some(collecting) = &collecting {
            let status = collecting.status();
            self.reporter.world(|world| world.collection = status);
        }
        let exports = declared.exports();
        let collects = |of: &Declared| of.file.collects.clone();
        if shared.declared.as_ref().map(collects) != Some(collects(declared)) {
            declared.cautions().iter().for_each(|it| self.reporter.note(it));
        }
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
    fn file_error(&self, declared: &Declared) -> Option<crate::error::Error> {
        let desired = &declared.file.desired;
        let namespace = &self.target.namespace;
        let options = &self.options.network;
        let planned = Rtnl::new().plan(namespace, desired, &*self.ledger, options);
        // Any other error is not the file's; the next pass reports it.
        Some(declared.file_error(&planned.err()?)?.into())
    }
}
