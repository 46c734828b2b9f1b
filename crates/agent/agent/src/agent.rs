//! An agent: where it works and what it runs. Each way to run it is in a file above: `apply`, `plan`,
//! `collected`, `doctor` and `watch`.

use std::path::{Path, PathBuf};
use std::time::Duration;

use trueup_file::{File, TableNames};
use trueup_netlink::Socket;
use trueup_rtnl::Namespace;

use crate::declared::Declared;
use crate::desired_file::Writers;
use crate::error::{Context as _, Result};
use crate::options::Options;
use crate::section::{Section, Sections};
use crate::state::{self, NamespaceKey, State, StateFile};

/// An agent of a network namespace. What it makes agree with a file is the network, sysctls, files and
/// commands, and the [sections](Section) that were added.
pub struct Agent {
    /// Held open, so that all is done in the same one.
    pub(crate) namespace: Namespace,
    pub(crate) key: NamespaceKey,
    /// The name of the namespace, if it has one.
    pub(crate) netns: Option<Namespace>,
    /// The directory of the journals; `None`: one of the usual ones.
    pub(crate) state_directory: Option<PathBuf>,
    pub(crate) sections: Sections,
    on_note: Box<dyn Fn(&str) + Send + Sync>,
}

impl Agent {
    /// Makes the agent of a namespace; `None` is the caller's own. Its journal is in the directory
    /// `state`, or in one of the usual ones.
    ///
    /// # Errors
    ///
    /// When the namespace cannot be opened.
    pub fn new(netns: Option<&Namespace>, state: Option<PathBuf>) -> Result<Agent> {
        let namespace = match netns {
            Some(named) => named.open()?,
            None => Namespace::current(),
        };
        Ok(Agent {
            key: NamespaceKey::of(&namespace)?,
            namespace,
            netns: netns.cloned(),
            state_directory: state,
            sections: Sections::default(),
            on_note: Box::new(|_| {}),
        })
    }

    /// Adds a section.
    #[must_use]
    pub fn with_section(self, section: impl Section) -> Agent {
        Agent { sections: self.sections.with(section), ..self }
    }

    /// Sets what is called with what the user should know beside the results: of the journal, of the
    /// file, of other hosts.
    #[must_use]
    pub fn on_note(self, call: impl Fn(&str) + Send + Sync + 'static) -> Agent {
        Agent { on_note: Box::new(call), ..self }
    }

    pub(crate) fn note(&self, note: &str) {
        (self.on_note)(note);
    }

    /// Returns the namespace.
    pub fn namespace(&self) -> &Namespace {
        &self.namespace
    }

    /// Returns the journal.
    ///
    /// # Errors
    ///
    /// When there is no directory for it, or that is not known.
    pub fn state_file(&self, options: &Options) -> Result<StateFile> {
        self.find_state_file(options)?.with_context(state::no_state_directory)
    }

    /// Returns the journal, if there is a directory for it. Fails if that is not known.
    pub(crate) fn find_state_file(&self, options: &Options) -> Result<Option<StateFile>> {
        let agent = state::Agent::of(&options.network);
        StateFile::find(self.state_directory.as_deref(), &self.key, &agent)
    }

    /// Locks the journal, to write it. Returns also whether it had another domain, and which other
    /// files speak for the same, in words.
    pub(crate) fn claim(&self, options: &Options) -> Result<(State, Vec<String>)> {
        let state = self.state_file(options)?.claim(self.sections.ledgers())?;
        let notes = state.announce_domain(options.network.domain())?;
        Ok((state, notes))
    }

    /// Refuses without `CAP_NET_ADMIN` in the user namespace that owns the network namespace.
    pub(crate) fn require_privilege(&self) -> Result<()> {
        match Socket::open(&self.namespace)?.check_privilege() {
            Err(error) if error.is_permission() => Err(error).context(
                "may not change this network namespace, and nothing was changed: that takes \
                 CAP_NET_ADMIN in the user namespace that owns it",
            ),
            asked => Ok(asked?),
        }
    }

    /// Parses a text, which errors call `name`.
    ///
    /// # Errors
    ///
    /// When it is no desired state.
    pub fn parse(&self, name: &str, text: &str) -> Result<Declared> {
        let tables = TableNames::system()?;
        let file = File::parse_with(name, text.as_bytes(), &tables, &self.sections.names())?;
        self.declare(name, file)
    }

    /// Takes what is desired as values instead of a text. Errors call it `name`.
    ///
    /// ```
    /// # trueup_testkit::example();
    /// # let blue = trueup_testkit::named_netns("blue");
    /// # blue.ip(&["link", "set", "lo", "up"]);
    /// # let state = std::env::temp_dir().join(format!("trueup-values-{}", std::process::id()));
    /// use trueup_agent::{Agent, File};
    /// use trueup_net::{Desired, NextHop, NextHops, Route};
    ///
    /// let out_of_lo = NextHops::One(NextHop::dev("lo".parse()?));
    /// let routes = [Route::new("10.2.0.0/16".parse()?, out_of_lo)];
    /// let file = File::default().with_desired(Desired::default().with_routes(routes));
    ///
    /// let agent = Agent::new(Some(&"blue".parse()?), Some(state.clone()))?;
    /// let mut applied = agent.apply(&agent.declare("the routes of blue", file)?)?;
    /// let report = applied.passed()?;
    /// assert!(applied.is_converged_with(&report));
    /// # assert!(blue.ip(&["route", "show", "10.2.0.0/16"]).contains("proto 116"));
    /// # std::fs::remove_dir_all(state)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// When a setting cannot be, such as a marker that is another program's.
    pub fn declare(&self, name: &str, file: File) -> Result<Declared> {
        Declared::new(name.to_owned(), file, Duration::ZERO, &self.sections)
    }

    /// Reads a file that only these users can write; `-` is the standard input.
    ///
    /// # Errors
    ///
    /// When it cannot be read, or is no desired state.
    pub fn read(&self, path: &Path, writers: Writers) -> Result<Declared> {
        Declared::read(path, writers, Duration::ZERO, &self.sections)
    }
}
