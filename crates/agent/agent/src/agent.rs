//! An agent: where it works, what it runs, and each way to run it.

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::error::Result;
use trueup_file::{File, TableNames};
use trueup_rtnl::Namespace;

use crate::declared::Declared;
use crate::desired_file::Writers;
use crate::section::{Section, Sections};
use crate::target::Target;
use crate::watch::event::Event;
use crate::watch::{Config, Observer, Watch};

/// An agent of a network namespace. What it makes agree with a file is the network, sysctls, files and
/// commands, and the [sections](Section) that were added.
pub struct Agent {
    pub(crate) target: Target,
    /// The name of the namespace, if it has one.
    netns: Option<Namespace>,
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
        let target = Target::open(netns, state)?;
        Ok(Agent {
            target,
            netns: netns.cloned(),
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

    /// Returns where it works.
    pub fn target(&self) -> &Target {
        &self.target
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

    /// Reads a file and locks the journal, to run until it is stopped. `observer` is called with
    /// each event.
    ///
    /// # Errors
    ///
    /// When the file cannot be read, or the agent could not run.
    pub fn watch(
        self,
        path: &Path,
        config: Config,
        observer: impl FnMut(&Event<'_>) + Send + 'static,
    ) -> Result<Watch> {
        let observer: Observer = Box::new(observer);
        Watch::open(path, self.target, self.netns, config, &self.sections, observer)
    }
}
