//! [`Incomplete`]: the reason why a kind was not read completely.

use std::fmt;

use trueup_net::Kind;
use trueup_netlink::Error;

/// The reason why a kind was not read completely.
///
/// ```
/// use trueup_net::Kind;
/// use trueup_observe::Incomplete;
///
/// assert_eq!(Incomplete::Interrupted(Kind::Route).kind(), Kind::Route);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Incomplete {
    /// The kernel flagged the dump of that kind as interrupted in every attempt.
    Interrupted(Kind),
    /// A row came twice in every attempt, so other rows may be missing.
    Repeated(Kind),
    /// Another writer changed the kind during every attempt, so that the kernel skipped rows. The
    /// snapshot has the rows of all attempts.
    Changing(Kind),
    /// A message of that kind could not be read.
    Undecodable(Kind, &'static str),
}

impl Incomplete {
    /// Returns the kind of which nothing may be deleted, because objects may be missing.
    pub fn kind(&self) -> Kind {
        match self {
            Incomplete::Interrupted(kind)
            | Incomplete::Repeated(kind)
            | Incomplete::Changing(kind)
            | Incomplete::Undecodable(kind, _) => *kind,
        }
    }
}

impl fmt::Display for Incomplete {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Incomplete::Interrupted(kind) => write!(f, "the {kind} dump was interrupted each time"),
            Incomplete::Repeated(kind) => write!(f, "the {kind} dump repeated a row each time"),
            Incomplete::Changing(kind) => {
                write!(f, "another writer changed {kind}s during every attempt to read them")
            }
            Incomplete::Undecodable(kind, why) => {
                write!(f, "a row of the {kind} dump cannot be read: {why}")
            }
        }
    }
}

/// The rows read, and the reason if they are incomplete.
pub(crate) type ReadResult<T> = Result<(Vec<T>, Option<Incomplete>), Error>;
