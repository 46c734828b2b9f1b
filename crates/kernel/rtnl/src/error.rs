//! Errors that stop a pass, or refuse an option.

use std::fmt;

use trueup_net::{DEFAULT_PROTOCOL, DesiredError, Kind, Protocols};
use trueup_netlink::{self as netlink, Namespace};
use trueup_reconcile::LedgerError;

/// The reason why a pass could not run, or an option was refused. The kernel was not changed.
///
/// ```
/// use trueup_rtnl::{ErrorKind, Options};
///
/// let error = Options::default().with_protocol(4).unwrap_err(); // `static`, of an operator
/// assert_eq!(error.kind(), ErrorKind::Reserved);
/// assert!(!error.is_retryable());
/// ```
#[derive(Debug)]
pub struct Error(Repr);

#[derive(Debug)]
enum Repr {
    Netlink(netlink::Error),
    Desired(DesiredError),
    Links(String),
    LinksChanged,
    Ledger(LedgerError),
    Unmarked(Kind),
    Ended(String),
    Reserved(u8),
}

/// The kinds of [`Error`], for callers that react to some of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The namespace does not exist or cannot be entered.
    Namespace,
    /// The subscription's namespace is gone, or another has its name. Objects that were ours in the
    /// former prove nothing in the latter.
    Ended,
    /// The kernel could not be read.
    Observe,
    /// The ledger could not be read, so it is not known which objects are ours.
    Ledger,
    /// Options require the marker as proof for a kind on which this kernel does not store it.
    Unmarked,
    /// The desired state is invalid. [`Error::desired`] gives the object and the reason.
    Desired,
    /// The protocol number cannot be the marker, because other writers use it.
    Reserved,
}

impl Error {
    /// Returns the kind, for callers that react to some errors.
    pub fn kind(&self) -> ErrorKind {
        match &self.0 {
            Repr::Netlink(error) if error.kind() == netlink::ErrorKind::Namespace => {
                ErrorKind::Namespace
            }
            Repr::Netlink(_) | Repr::Links(_) | Repr::LinksChanged => ErrorKind::Observe,
            Repr::Desired(_) => ErrorKind::Desired,
            Repr::Ledger(_) => ErrorKind::Ledger,
            Repr::Unmarked(_) => ErrorKind::Unmarked,
            Repr::Ended(_) => ErrorKind::Ended,
            Repr::Reserved(_) => ErrorKind::Reserved,
        }
    }

    /// Returns the wrong desired object with its problem, if this is the error.
    pub fn desired(&self) -> Option<&DesiredError> {
        match &self.0 {
            Repr::Desired(error) => Some(error),
            _ => None,
        }
    }

    /// Returns the kernel's errno, or `None` if it gave none.
    pub fn errno(&self) -> Option<i32> {
        match &self.0 {
            Repr::Netlink(error) => error.errno(),
            _ => None,
        }
    }

    /// Returns true if a later pass may succeed without other changes.
    pub fn is_retryable(&self) -> bool {
        match &self.0 {
            Repr::Netlink(error) => error.is_retryable(),
            Repr::Links(_) | Repr::LinksChanged | Repr::Ledger(_) => true,
            Repr::Desired(_) | Repr::Unmarked(_) | Repr::Ended(_) | Repr::Reserved(_) => false,
        }
    }

    /// Returns the ledger's own error if the kind is [`Ledger`](ErrorKind::Ledger); `None`
    /// otherwise.
    pub fn ledger(&self) -> Option<&LedgerError> {
        match &self.0 {
            Repr::Ledger(error) => Some(error),
            _ => None,
        }
    }

    pub(crate) fn links(doubt: String) -> Error {
        Error(Repr::Links(doubt))
    }

    pub(crate) fn links_changed() -> Error {
        Error(Repr::LinksChanged)
    }

    /// Returns true if interfaces changed during the pass, so that another pass is due.
    pub(crate) fn have_links_changed(&self) -> bool {
        matches!(self.0, Repr::LinksChanged)
    }

    pub(crate) fn unmarked(kind: Kind) -> Error {
        Error(Repr::Unmarked(kind))
    }

    pub(crate) fn reserved(protocol: u8) -> Error {
        Error(Repr::Reserved(protocol))
    }

    pub(crate) fn replaced(scope: &Namespace) -> Error {
        Error(Repr::Ended(format!(
            "{scope} is another network namespace now: start again to go on with that one"
        )))
    }

    /// Returns the error for a namespace that could be opened before, and now cannot.
    pub(crate) fn of_reopening(error: netlink::Error) -> Error {
        Error(if error.is_gone() {
            Repr::Ended(format!("the network namespace is gone: {error}"))
        } else {
            // It exists, but a descriptor, a thread or a privilege was lacking to open it.
            Repr::Netlink(error)
        })
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Repr::Netlink(error) => error.fmt(f),
            Repr::Desired(error) => error.fmt(f),
            Repr::Links(doubt) => write!(f, "the links could not be read whole: {doubt}"),
            Repr::LinksChanged => f.write_str("interfaces have changed during the pass"),
            Repr::Ledger(error) => write!(f, "the ledger cannot be read: {error}"),
            Repr::Ended(why) => f.write_str(why),
            Repr::Reserved(number) => {
                write!(f, "protocol {number} cannot mark what is ours: ")?;
                match Protocols::registered_name(*number) {
                    Some(name) => {
                        write!(f, "it is registered as `{name}`, whose objects would count as ours")
                    }
                    None => f.write_str(
                        "0 to 4 and 9 are the kernel's own, and what `ip` and hand-made routes bear",
                    ),
                }?;
                let (first, last) = (Protocols::UNASSIGNED.start(), Protocols::UNASSIGNED.end());
                write!(
                    f,
                    "; choose one that no other agent on the host uses, such as \
                     {DEFAULT_PROTOCOL}: {first} to {last} are unassigned"
                )
            }
            Repr::Unmarked(kind) => write!(
                f,
                "this kernel stores no marker on objects of kind {kind}: leave their ownership to the ledger"
            ),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.0 {
            Repr::Netlink(error) => Some(error),
            Repr::Desired(error) => Some(error),
            Repr::Ledger(error) => Some(error),
            _ => None,
        }
    }
}

impl From<LedgerError> for Error {
    fn from(error: LedgerError) -> Error {
        Error(Repr::Ledger(error))
    }
}

impl From<netlink::Error> for Error {
    fn from(error: netlink::Error) -> Error {
        Error(Repr::Netlink(error))
    }
}

impl From<DesiredError> for Error {
    fn from(error: DesiredError) -> Error {
        Error(Repr::Desired(error))
    }
}
