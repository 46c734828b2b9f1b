//! Why a pass over a part could not run.

use std::fmt;

use trueup_rtnl as rtnl;
use trueup_sysctl as sysctl;

/// Why a pass could not run, or ended early.
#[derive(Debug)]
pub enum Error {
    Network(rtnl::Error),
    Settings(sysctl::Error),
}

impl Error {
    /// Returns the error if it is the network source's.
    pub fn network(&self) -> Option<&rtnl::Error> {
        match self {
            Error::Network(error) => Some(error),
            Error::Settings(_) => None,
        }
    }
}

impl From<rtnl::Error> for Error {
    fn from(error: rtnl::Error) -> Error {
        Error::Network(error)
    }
}

impl From<sysctl::Error> for Error {
    fn from(error: sysctl::Error) -> Error {
        Error::Settings(error)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Network(error) => error.fmt(f),
            Error::Settings(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(match self {
            Error::Network(error) => error,
            Error::Settings(error) => error,
        })
    }
}
