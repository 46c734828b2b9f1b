//! A file with its options, as a run takes it.

mod missing;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crate::error::{Error, Result};
use trueup_file::{self as file, File, Location};
use trueup_net::Kind;
use trueup_rtnl::Namespace;
use trueup_world::{Export, Hosts, Protected};

use crate::desired_file::{self, Writers, is_stdin};
use crate::namespace::Desired;
use crate::options::{Options, options};
use crate::part::AnyPart;
use crate::section::Sections;
use crate::world::{self, Surroundings};

/// A file with the options of its passes.
///
/// ```no_run
/// use trueup_agent::Agent;
///
/// let agent = Agent::new(None, Some("/var/lib/example".into()))?;
/// let declared = agent.parse("edge.toml", "route = []")?;
/// for caution in declared.cautions() {
///     eprintln!("{caution}");
/// }
/// # Ok::<(), trueup_agent::Error>(())
/// ```
pub struct Declared {
    /// The name by which errors call the file.
    pub name: String,
    /// The parsed file, with the location of each object.
    pub file: File,
    /// The options of its passes, from its settings.
    pub options: Options,
    /// The parts of the sections from users' crates.
    own: Vec<Arc<dyn AnyPart>>,
}

impl Declared {
    /// Reads a file that only `writers` can write; `-` is the standard input. `grace` is the
    /// command's default.
    pub(crate) fn read(
        path: &Path,
        writers: Writers,
        grace: Duration,
        sections: &Sections,
    ) -> Result<Declared> {
        let name =
            if is_stdin(path) { "(standard input)".to_owned() } else { path.display().to_string() };
        let file = desired_file::read(&name, path, writers, &sections.names())?;
        Declared::new(name, file, grace, sections)
    }

    /// Makes it of a file, which errors call `name`. Fails if a section of a user's crate is wrong.
    pub(crate) fn new(
        name: String,
        file: File,
        grace: Duration,
        sections: &Sections,
    ) -> Result<Declared> {
        let options = options(&file.settings, grace)
            .map_err(|reserved| file::Error::at(&name, None, reserved.to_string()))?;
        let mut own = Vec::new();
        for (section, elements) in &file.own_sections {
            let part = sections.parse(section, elements);
            own.extend(part.map_err(|wrong| file::Error::new(&name, wrong))?);
        }
        Ok(Declared { name, file, options, own })
    }

    /// Returns the parts in the order in which they run. `namespace` is the desired state of the
    /// namespace, with the collected routes.
    pub(crate) fn parts(&self, namespace: &Desired, options: &Options) -> Vec<Arc<dyn AnyPart>> {
        let mut parts = [namespace.parts(options), self.own.clone()].concat();
        parts.sort_by_key(|part| part.part());
        parts
    }

    /// Returns the namespace's desired state, without collected routes.
    pub(crate) fn desired(&self) -> Desired {
        Desired {
            network: Arc::new(self.file.desired.clone()),
            settings: self.file.sysctl.clone(),
            ..Desired::default()
        }
    }

    /// Returns the file's exports in the store's form.
    pub(crate) fn exports(&self) -> Vec<Export> {
        world::exports(self.file.exports.as_deref().unwrap_or_default())
    }

    /// Returns the protected addresses, which no collected route may lead away. For a command that
    /// looks once.
    ///
    /// # Errors
    ///
    /// Fails if the kernel cannot be asked.
    pub fn protected(&self, namespace: &Namespace, named: &file::World) -> Result<Protected> {
        let protocol = self.options.network.protocol();
        let surroundings = Surroundings::new(namespace, named, protocol).resolved();
        Ok(surroundings.protected(&self.file)?.unwrap_or_default())
    }

    /// Returns a warning for each `[[collect]]` from any host, with its place in the file and the
    /// remedy. Returns none if an operator grants prefixes to hosts.
    pub fn cautions(&self) -> Vec<String> {
        if self.file.settings.world.as_ref().is_some_and(|world| world.grants_key.is_some()) {
            return Vec::new();
        }
        let collects = self.file.collects.iter().flatten().enumerate();
        let open = collects.filter(|(_, collect)| collect.from == Hosts::Any);
        open.map(|(index, collect)| {
            let within: Vec<String> = collect.within.iter().map(ToString::to_string).collect();
            format!(
                "{}: warning: [[collect]] from any host: each host can take each prefix within {}, \
                 also while the host that has it is away; write from = \"HOST\", and in `within` \
                 that host's prefix alone, or set grants_key in [world]",
                self.at(self.file.locations.of_collect(index)),
                within.join(", ")
            )
        })
        .collect()
    }

    /// Returns the file's name, with the line and the column if `place` is known.
    fn at(&self, place: Option<Location>) -> String {
        match place {
            Some(place) => format!("{}:{place}", self.name),
            None => self.name.clone(),
        }
    }

    /// Returns the number of managed objects of each kind.
    pub(crate) fn managed(&self) -> Vec<(&'static str, usize)> {
        let managed = self.file.desired.managed();
        let kinds = Kind::DECLARED.into_iter().filter(|kind| managed.contains(*kind));
        let counts = kinds.map(|kind| (kind.name(), self.file.locations.count(kind)));
        let sysctls = self.file.sysctl.as_ref().map(|sysctls| ("sysctl", sysctls.len()));
        let own = self.file.own_sections.iter().map(|(name, elements)| (*name, elements.len()));
        counts.chain(sysctls).chain(own).collect()
    }

    /// Returns the error of a pass that could not run, with the place in the file if the cause is
    /// there.
    pub(crate) fn explain(&self, error: Error) -> Error {
        let wrong = error.find().and_then(|error| self.file_error(error));
        wrong.map_or(error, Into::into)
    }

    /// Returns the error in the file, with its place. `None` unless the cause is an object that the
    /// pass could not take.
    pub(crate) fn file_error(&self, error: &trueup_rtnl::Error) -> Option<file::Error> {
        let wrong = error.desired()?;
        let (locations, kind) = (&self.file.locations, wrong.kind());
        let message = wrong.describe(|index| match locations.at(kind, index) {
            Some(place) => format!("that at {place}"),
            None => format!("item {index} of its kind"),
        });
        Some(file::Error::at(&self.name, locations.at(kind, wrong.index()), message))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use trueup_file::{File, TableNames};

    use super::*;
    use crate::section::Sections;

    fn cautions(sections: &str) -> Vec<String> {
        let text = format!("[world]\nstore = \"embedded\"\nhost = \"a\"\n{sections}");
        let file = File::parse("f.toml", text.as_bytes(), &TableNames::default()).unwrap();
        let declared =
            Declared::new("f.toml".to_owned(), file, Duration::ZERO, &Sections::default()).unwrap();
        declared.cautions()
    }

    const ANY: &str = "[[collect]]\nkind = \"route\"\nwithin = [\"10.20.0.0/16\"]\n";

    #[test]
    fn a_collection_from_any_host_is_warned_of_at_its_place() {
        let [warning] = &cautions(ANY)[..] else { panic!("{:?}", cautions(ANY)) };
        for words in [
            "f.toml:4:1: warning: ",
            "each prefix within 10.20.0.0/16",
            "from = \"HOST\"",
            "grants_key",
        ] {
            assert!(warning.contains(words), "no {words:?} in {warning}");
        }
        assert_eq!(cautions(&format!("{ANY}from = \"any\"\n")).len(), 1);
        assert_eq!(cautions(&format!("{ANY}from = \"b\"\n")), Vec::<String>::new());
        let key = format!("grants_key = \"{}\"\n{ANY}", "01".repeat(32));
        assert_eq!(cautions(&key), Vec::<String>::new());
        assert_eq!(cautions(""), Vec::<String>::new());
    }
}
