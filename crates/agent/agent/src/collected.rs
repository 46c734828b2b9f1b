//! Other hosts' exports, for a command that reads the store once.

use trueup_net::Kind;
use trueup_world::{Accepted, Contest, Filter};

use crate::agent::Agent;
use crate::declared::Declared;
use crate::error::{Context as _, Result};
use crate::namespace::Desired;
use crate::world::{self, Collection, Retained, read_grants};

impl Agent {
    /// Reads the store, and returns the desired state with the collected routes. If the file
    /// collects, also returns which exports were accepted. Notes which hosts' exports are not known
    /// yet. Writes nothing to the store; `record` records which grants were seen. Fails if the
    /// store or the grants cannot be read, because the desired state is then unknown.
    pub(crate) fn collect(
        &self,
        declared: &Declared,
        record: impl FnOnce(&str) -> Result<(), trueup_world::Error>,
    ) -> Result<(Desired, Option<Accepted>)> {
        let mut desired = declared.desired();
        let (Some(named), Some(collects)) =
            (&declared.file.settings.world, &declared.file.collects)
        else {
            return Ok((desired, None));
        };
        let state = self.state_file(&declared.options)?;
        let (collected, granted) = world::open(named, state.directory(), world::Use::Read)
            .and_then(|world| {
                let granted = read_grants(&world, named, &state, record)?;
                Ok((world.collect(&[Filter::kind(Kind::Route.name())])?, granted))
            })
            .context("cannot read what other hosts export, so nothing is done")?;
        let incomplete = collected.incomplete.iter();
        let unknown: Vec<_> =
            incomplete.filter(|host| collects.iter().any(|it| it.from.contains(host))).collect();
        for host in &unknown {
            self.note(&format!(
                "it is not known yet what host {host} exports: routes that were collected before \
                 stay"
            ));
        }
        let retained = if unknown.is_empty() {
            Retained::default()
        } else {
            Retained::read(&self.namespace, &declared.options.network, collects)?
        };
        let protected = declared.protected(&self.namespace, named)?;
        let resources = collected.resources;
        let collection =
            Collection::new(&declared.file, &named.host, protected, granted, &resources);
        desired.offer(collection.routes(&declared.file, &retained));
        let accepted = Some(collection.accepted(&declared.file));
        Ok((desired, accepted))
    }

    /// Reads the store once. Returns the contests between other hosts' exports and this file's, and
    /// a line for each export of this file that is not granted to this host.
    ///
    /// # Errors
    ///
    /// Fails if the store cannot be read.
    pub fn contests(&self, declared: &Declared) -> Result<(Vec<Contest>, Vec<String>)> {
        let exports = declared.file.exports.as_ref().filter(|it| !it.is_empty());
        let (Some(named), Some(_)) = (&declared.file.settings.world, exports) else {
            return Ok(Default::default());
        };
        let state = self.state_file(&declared.options)?;
        let world = world::open(named, state.directory(), world::Use::Read)?;
        let granted = read_grants(&world, named, &state, |_| Ok(()))?;
        let mut resources = world.collect(&[Filter::kind(Kind::Route.name())])?.resources;
        // Includes exports that are addressed to one host.
        resources.extend(world.exports()?);
        let protected = declared.protected(&self.namespace, named)?;
        let collection =
            Collection::new(&declared.file, &named.host, protected, granted, &resources);
        Ok((collection.contests(), collection.ungranted(&declared.file)))
    }
}
