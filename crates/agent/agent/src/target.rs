//! Where an agent works: a network namespace, and the directory of its journals.

use std::path::PathBuf;

use crate::error::{Context as _, Result};
use trueup_netlink::Socket;
use trueup_rtnl::Namespace;

use crate::options::Options;
use crate::section::Sections;
use crate::state::{self, NamespaceKey, State, StateFile};

/// A namespace, held open so that all is done in the same one, and the directory of the journals.
pub struct Target {
    /// The namespace.
    pub namespace: Namespace,
    pub(crate) key: NamespaceKey,
    /// `None`: one of the usual ones.
    pub(crate) state_directory: Option<PathBuf>,
}

impl Target {
    /// Opens a namespace; `None` is the caller's own.
    ///
    /// # Errors
    ///
    /// When it cannot be opened.
    pub fn open(named: Option<&Namespace>, state_directory: Option<PathBuf>) -> Result<Target> {
        let namespace = match named {
            Some(namespace) => namespace.open()?,
            None => Namespace::current(),
        };
        let key = NamespaceKey::of(&namespace)?;
        Ok(Target { namespace, key, state_directory })
    }

    /// Refuses without `CAP_NET_ADMIN` in the user namespace that owns the network namespace.
    ///
    /// # Errors
    ///
    /// When the capability is missing, or that is not known.
    pub fn require_privilege(&self) -> Result<()> {
        match Socket::open(&self.namespace)?.check_privilege() {
            Err(error) if error.is_permission() => Err(error).context(
                "may not change this network namespace, and nothing was changed: that takes \
                 CAP_NET_ADMIN in the user namespace that owns it",
            ),
            asked => Ok(asked?),
        }
    }

    /// Returns the journal of the namespace and agent, if there is a directory for it.
    ///
    /// # Errors
    ///
    /// When that is not known.
    pub fn state(&self, options: &Options) -> Result<Option<StateFile>> {
        let agent = state::Agent::of(&options.network);
        StateFile::find(self.state_directory.as_deref(), &self.key, &agent)
    }

    /// Returns the journal of the namespace and agent.
    ///
    /// # Errors
    ///
    /// When there is no directory for it, or that is not known.
    pub fn require_state(&self, options: &Options) -> Result<StateFile> {
        self.state(options)?.context(state::NO_STATE_DIRECTORY)
    }

    /// Locks the journal, to write it. Returns also whether it had another domain, and which other
    /// files speak for the same, in words.
    ///
    /// # Errors
    ///
    /// When it cannot be opened and locked.
    pub fn claim(&self, options: &Options, sections: &Sections) -> Result<(State, Vec<String>)> {
        let state = self.require_state(options)?.claim(sections.ids())?;
        let notes = state.announce_domain(options.network.domain())?;
        Ok((state, notes))
    }
}
