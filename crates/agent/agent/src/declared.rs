//! A file with its options, and what it declares with what other hosts export.

mod cautions;
mod missing;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crate::error::{Context as _, Error, Result};
use trueup_file::{self as file, File};
use trueup_net::Kind;
use trueup_rtnl::Namespace;
use trueup_world::{Accepted, Contest, Export, Filter, Protected};

use crate::desired::Desired;
use crate::desired_file::{self, Writers, is_stdin};
use crate::options::{Options, options};
use crate::section::Sections;
use crate::source::AnyDesired;
use crate::target::Target;
use crate::world::{self, Collection, Retained, Surroundings, read_grants};

/// What is desired, with what is collected.
pub struct Collected {
    pub desired: Desired,
    /// What became of what other hosts export, if the file collects.
    pub accepted: Option<Accepted>,
    /// What is not known yet.
    pub notes: Vec<String>,
}

/// A file with its options.
pub struct Declared {
    /// Its name in errors.
    pub name: String,
    /// What it declares.
    pub file: File,
    /// The options of its passes.
    pub options: Options,
    /// What the sections of users' crates desire.
    pub(crate) own: BTreeMap<&'static str, AnyDesired>,
}

impl Declared {
    /// Reads a file that only these users can write; `-` is the standard input. `grace` is the
    /// default of the command.
    pub fn read(
        path: &Path,
        writers: Writers,
        grace: Duration,
        sections: &Sections,
    ) -> Result<Declared> {
        let name = match is_stdin(path) {
            true => "(standard input)".to_owned(),
            false => path.display().to_string(),
        };
        let file = desired_file::read(&name, path, writers, &sections.names())?;
        Declared::new(name, file, grace, sections)
    }

    /// Makes one of a file, which errors call `name`.
    ///
    /// # Errors
    ///
    /// When a section of a user's crate is wrong.
    pub fn new(name: String, file: File, grace: Duration, sections: &Sections) -> Result<Declared> {
        let options = options(&file.settings, grace)
            .map_err(|reserved| file::Error::at(&name, None, reserved.to_string()))?;
        let mut own = BTreeMap::new();
        for (section, elements) in &file.own_sections {
            match sections.parse(section, elements) {
                Ok(desired) => own.extend(desired.map(|desired| (*section, desired))),
                Err(wrong) => return Err(file::Error::new(&name, wrong).into()),
            }
        }
        Ok(Declared { name, file, options, own })
    }

    /// Returns the desired state of the namespace.
    pub fn desired(&self) -> Desired {
        Desired {
            network: Arc::new(self.file.desired.clone()),
            settings: self.file.sysctl.clone(),
            ..Desired::default()
        }
    }

    /// Returns the exports.
    pub fn exports(&self) -> Vec<Export> {
        world::exports(self.file.exports.as_deref().unwrap_or_default())
    }

    /// Reads the store, and returns the desired state with what is collected, for a command that
    /// looks once. Writes nothing to the store. `record` records which grants were seen.
    ///
    /// # Errors
    ///
    /// When the store cannot be read, or it is not known what hosts may export: then it is not known
    /// what is desired.
    pub fn collect(
        &self,
        target: &Target,
        record: impl FnOnce(&str) -> Result<(), trueup_world::Error>,
    ) -> Result<Collected> {
        let mut desired = self.desired();
        let (Some(named), Some(collects)) = (&self.file.settings.world, &self.file.collects) else {
            return Ok(Collected { desired, accepted: None, notes: Vec::new() });
        };
        let state = target.require_state(&self.options)?;
        let (collected, granted) = world::open(named, state.directory(), world::Use::Read)
            .and_then(|world| {
                let granted = read_grants(&world, named, &state, record)?;
                Ok((world.collect(&[Filter::kind(Kind::Route.name())])?, granted))
            })
            .context("cannot read what other hosts export, so nothing is done")?;
        let takes_from = |host: &&String| collects.iter().any(|it| it.from.contains(host));
        let incomplete: Vec<&String> = collected.incomplete.iter().filter(takes_from).collect();
        let notes = incomplete.iter().map(|host| {
            format!(
                "it is not known yet what host {host} exports: routes that were collected before \
                 stay"
            )
        });
        let notes = notes.collect();
        let retained = match incomplete.is_empty() {
            true => Retained::default(),
            // Of those hosts it is not known yet what they export.
            false => {
                let options = &self.options.network;
                Retained::read(&target.namespace, options, collects)?
            }
        };
        let protected = self.protected(&target.namespace, named)?;
        let resources = collected.resources;
        let collection = Collection::new(&self.file, &named.host, protected, granted, &resources);
        let network = Arc::make_mut(&mut desired.network);
        let routes = network.routes.get_or_insert_default();
        let collected = collection.routes(&self.file, &retained);
        for (key, route) in collected {
            drop(routes.insert(route));
            routes.offer(key);
        }
        let accepted = Some(collection.accepted(&self.file));
        Ok(Collected { desired, accepted, notes })
    }

    /// Returns what no collected route may lead away, for a command that looks once.
    ///
    /// # Errors
    ///
    /// When the kernel cannot be asked.
    pub fn protected(&self, namespace: &Namespace, named: &file::World) -> Result<Protected> {
        let protocol = self.options.network.protocol();
        let surroundings = Surroundings::new(namespace, named, protocol).resolved();
        Ok(surroundings.protected(&self.file)?.unwrap_or_default())
    }

    /// Reads the store once, and returns what other hosts export of the prefixes that the file
    /// exports, and in words what of these is not granted to this host.
    ///
    /// # Errors
    ///
    /// When the store cannot be read.
    pub fn contests(&self, target: &Target) -> Result<(Vec<Contest>, Vec<String>)> {
        let exports = self.file.exports.as_ref().filter(|it| !it.is_empty());
        let (Some(named), Some(_)) = (&self.file.settings.world, exports) else {
            return Ok(Default::default());
        };
        let state = target.require_state(&self.options)?;
        let world = world::open(named, state.directory(), world::Use::Read)?;
        let granted = read_grants(&world, named, &state, |_| Ok(()))?;
        let mut resources = world.collect(&[Filter::kind(Kind::Route.name())])?.resources;
        // Also those to a host by name.
        resources.extend(world.exports()?);
        let protected = self.protected(&target.namespace, named)?;
        let collection = Collection::new(&self.file, &named.host, protected, granted, &resources);
        Ok((collection.contests(), collection.ungranted(&self.file)))
    }

    /// Returns the number of objects of each kind that the file manages.
    pub fn managed(&self) -> Vec<(&'static str, usize)> {
        let managed = self.file.desired.managed();
        let kinds = Kind::DECLARED.into_iter().filter(|kind| managed.contains(*kind));
        let counts = kinds.map(|kind| (kind.name(), self.file.locations.count(kind)));
        let sysctls = self.file.sysctl.as_ref();
        let sysctls = sysctls.map(|sysctls| ("sysctl", sysctls.len()));
        let own = self.file.own_sections.iter().map(|(name, elements)| (*name, elements.len()));
        counts.chain(sysctls).chain(own).collect()
    }

    /// Returns why a pass could not run, with the place in the file if the cause is there.
    pub(crate) fn explain(&self, error: Error) -> Error {
        let wrong = error.find().and_then(|error| self.file_error(error));
        wrong.map_or(error, Into::into)
    }

    /// Returns the error in the file, with its place, if an object that the pass could not take is
    /// the cause.
    pub fn file_error(&self, error: &trueup_rtnl::Error) -> Option<file::Error> {
        let wrong = error.desired()?;
        let place = |index| self.file.locations.at(wrong.kind(), index);
        let message = wrong.describe(|index| match place(index) {
            Some(place) => format!("that at {place}"),
            None => format!("item {index} of its kind"),
        });
        Some(file::Error::at(&self.name, place(wrong.index()), message))
    }
}
