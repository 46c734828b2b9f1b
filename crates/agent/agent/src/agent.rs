//! An agent: its namespace, its journal and its sections. The modules `apply`, `plan`, `collected`,
//! `doctor` and `watch` each add a way to run it.

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

/// An agent of a network namespace. It makes the network, sysctls, files, commands and the added
/// [sections](Section) agree with a file.
///
/// ```no_run
/// use trueup_agent::Agent;
///
/// let agent = Agent::new(Some(&"blue".parse()?), Some("/var/lib/example".into()))?
///     .on_note(|note| eprintln!("{note}"));
/// let declared = agent.parse("edge.toml", "[[link]]\nname = \"eth0\"\nup = true\n")?;
/// println!("in place: {}", agent.plan(&declared)?.is_converged());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Agent {
    /// Held open, so that every step works in the same namespace.
    pub(crate) namespace: Namespace,
    pub(crate) key: NamespaceKey,
    /// The name of the namespace, if it has one.
    pub(crate) netns: Option<Namespace>,
    /// The directory of the journals. If `None`, one of the usual directories.
    pub(crate) state_directory: Option<PathBuf>,
    pub(crate) sections: Sections,
    on_note: Box<dyn Fn(&str) + Send + Sync>,
}

impl Agent {
    /// Makes the agent of a namespace. If `netns` is `None`, that is the caller's own namespace.
    /// The journal is in the directory `state`, or in one of the usual directories if that is
    /// `None`.
    ///
    /// # Errors
    ///
    /// Fails if the namespace cannot be opened.
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

    /// Adds a section from the caller's crate.
    #[must_use]
    pub fn with_section(self, section: impl Section) -> Agent {
        Agent { sections: self.sections.with(section), ..self }
    }

    /// Sets the callback for notes to the user, which come beside the results. They are about the
    /// journal, the file and other hosts.
    #[must_use]
    pub fn on_note(self, call: impl Fn(&str) + Send + Sync + 'static) -> Agent {
        Agent { on_note: Box::new(call), ..self }
    }

    pub(crate) fn note(&self, note: &str) {
        (self.on_note)(note);
    }

    /// Returns the namespace, which this agent holds open.
    pub fn namespace(&self) -> &Namespace {
        &self.namespace
    }

    /// Returns the place of the journal for these options.
    ///
    /// # Errors
    ///
    /// Fails if the journal has no directory, or if the directory cannot be determined.
    pub fn state_file(&self, options: &Options) -> Result<StateFile> {
        self.find_state_file(options)?.with_context(state::no_state_directory)
    }

    /// Returns the place of the journal, or `None` if it has no directory. Fails if this cannot be
    /// determined.
    pub(crate) fn find_state_file(&self, options: &Options) -> Result<Option<StateFile>> {
        let agent = state::Agent::of(&options.network);
        StateFile::find(self.state_directory.as_deref(), &self.key, &agent)
    }

    /// Locks the journal for writing. Also returns notes: whether the journal had another domain,
    /// and which other files declare the same one.
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

    /// Parses `text`. Errors call it `name`.
    ///
    /// # Errors
    ///
    /// Fails if the text is not a valid desired state.
    pub fn parse(&self, name: &str, text: &str) -> Result<Declared> {
        let tables = TableNames::system()?;
        let file = File::parse_with(name, text.as_bytes(), &tables, &self.sections.names())?;
        self.declare(name, file)
    }

    /// Takes the desired state as values instead of text. Errors call it `name`.
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
    /// Fails if a setting is not allowed, such as another program's marker.
    pub fn declare(&self, name: &str, file: File) -> Result<Declared> {
        Declared::new(name.to_owned(), file, Duration::ZERO, &self.sections)
    }

    /// Reads a file that only `writers` can write. The path `-` is the standard input.
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be read, or is not a valid desired state.
    pub fn read(&self, path: &Path, writers: Writers) -> Result<Declared> {
        Declared::read(path, writers, Duration::ZERO, &self.sections)
    }
}
