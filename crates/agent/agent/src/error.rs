//! The error type of an agent.

use std::error::Error as StdError;
use std::fmt;

type Cause = Box<dyn StdError + Send + Sync>;

/// The reason why an agent could not do its task.
///
/// ```no_run
/// use trueup_agent::Agent;
///
/// let agent = Agent::new(None, Some("/var/lib/example".into()))?;
/// if let Err(error) = agent.parse("edge.toml", "rout = []") {
///     // The error of the file has a line for each problem.
///     for problem in error.file().into_iter().flat_map(|file| file.diagnostics()) {
///         eprintln!("{}", problem.message);
///     }
/// }
/// # Ok::<(), trueup_agent::Error>(())
/// ```
#[derive(Debug)]
pub struct Error {
    kind: ErrorKind,
    /// The failed step. `None` if the cause says it all.
    message: Option<String>,
    cause: Option<Cause>,
}

/// The sort of an error, by the place of the remedy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The file cannot be read, or is not a valid desired state.
    File,
    /// A pass could not run.
    Pass,
    /// The state directory or the journal cannot be used.
    State,
    /// The store that hosts exchange routes through is not reachable, or is not the same store as
    /// before.
    World,
    /// The graph cannot run.
    Graph,
    /// Anything else, such as a refusal of the operating system.
    Other,
}

/// The result of an agent's method.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    pub(crate) fn new(message: impl Into<String>) -> Error {
        Error { kind: ErrorKind::Other, message: Some(message.into()), cause: None }
    }

    /// Makes the error of a pass that could not run.
    pub(crate) fn pass(cause: impl StdError + Send + Sync + 'static) -> Error {
        Error { kind: ErrorKind::Pass, message: None, cause: Some(Box::new(cause)) }
    }

    /// Returns the sort of the error, by the place of the remedy.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// Returns the error of the file, if that is the cause. It prints like a compiler's error.
    pub fn file(&self) -> Option<&trueup_file::Error> {
        self.find()
    }

    /// Returns the same error with the step that failed because of it.
    pub(crate) fn context(self, message: impl fmt::Display) -> Error {
        Error { kind: self.kind, message: Some(message.to_string()), cause: Some(Box::new(self)) }
    }

    /// Returns the first cause of type `T`.
    pub(crate) fn find<T: StdError + 'static>(&self) -> Option<&T> {
        cause_of(self.cause.as_deref()?)
    }
}

/// Returns the first error of type `T` among an error and its causes.
pub(crate) fn cause_of<'a, T: StdError + 'static>(
    error: &'a (dyn StdError + 'static),
) -> Option<&'a T> {
    let mut next = Some(error);
    while let Some(cause) = next {
        if let Some(found) = cause.downcast_ref() {
            return Some(found);
        }
        if let Some(own) = cause.downcast_ref::<Error>() {
            return own.find();
        }
        next = cause.source();
    }
    None
}

/// Returns an error with its causes in one line. Many errors name their cause themselves; this does
/// not repeat it.
pub fn with_causes(error: &(dyn StdError + 'static)) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let said = cause.to_string();
        // The netlink errors write the operating system's errors like this.
        let bare = said.split(" (os error").next().unwrap_or_default();
        if !text.ends_with(&said) && !text.ends_with(bare) {
            text = format!("{text}: {said}");
        }
        next = cause.source();
    }
    text
}

/// The alternate form `{:#}` adds the causes.
impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.message, &self.cause) {
            (Some(message), _) => f.write_str(message)?,
            (None, Some(cause)) => write!(f, "{cause}")?,
            (None, None) => {}
        }
        if f.alternate() {
            let mut next = self.source();
            while let Some(cause) = next {
                write!(f, ": {cause}")?;
                next = cause.source();
            }
        }
        Ok(())
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        let cause = self.cause.as_deref()?;
        if self.message.is_some() { Some(cause) } else { cause.source() }
    }
}

macro_rules! from {
    ($($kind:ident: $($of:ty),*;)*) => {$($(
        impl From<$of> for Error {
            fn from(cause: $of) -> Error {
                Error { kind: ErrorKind::$kind, message: None, cause: Some(Box::new(cause)) }
            }
        }
    )*)*};
}

from! {
    File: trueup_file::Error;
    Pass: trueup_rtnl::Error, trueup_sysctl::Error;
    State: trueup_journal::Error, trueup_reconcile::LedgerError;
    World: trueup_world::Error, trueup_world::GrantsError;
    Graph: trueup_graph::Error, trueup_loop::Error;
    Other: std::io::Error, trueup_netlink::Error, trueup_path::Error,
        std::string::FromUtf8Error;
}

impl From<trueup_graph::Failure> for Error {
    fn from(cause: trueup_graph::Failure) -> Error {
        Error { kind: ErrorKind::Graph, ..Error::new(cause.message) }
    }
}

/// Adds the step that failed to an error.
pub(crate) trait Context<T> {
    fn context(self, message: impl fmt::Display) -> Result<T>;

    fn with_context<M: fmt::Display>(self, message: impl FnOnce() -> M) -> Result<T>;
}

impl<T, E: Into<Error>> Context<T> for std::result::Result<T, E> {
    fn context(self, message: impl fmt::Display) -> Result<T> {
        self.map_err(|error| error.into().context(message))
    }

    fn with_context<M: fmt::Display>(self, message: impl FnOnce() -> M) -> Result<T> {
        self.map_err(|error| error.into().context(message()))
    }
}

impl<T> Context<T> for Option<T> {
    fn context(self, message: impl fmt::Display) -> Result<T> {
        self.ok_or_else(|| Error::new(message.to_string()))
    }

    fn with_context<M: fmt::Display>(self, message: impl FnOnce() -> M) -> Result<T> {
        self.ok_or_else(|| Error::new(message().to_string()))
    }
}

/// Makes an error of a message.
macro_rules! error {
    ($($words:tt)*) => { $crate::error::Error::new(format!($($words)*)) };
}

/// Returns an error of a message.
macro_rules! bail {
    ($($words:tt)*) => { return Err($crate::error::error!($($words)*)) };
}

pub(crate) use {bail, error};

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    #[test]
    fn an_error_has_each_of_its_causes_once_and_finds_them_by_type() {
        let named = Error::from(io::Error::from_raw_os_error(24))
            .context("cannot open it: Too many open files");
        assert_eq!(with_causes(&named), "cannot open it: Too many open files");
        let bare = Error::from(io::Error::from_raw_os_error(24))
            .context("cannot open it")
            .context("the pass broke off");
        let text = "the pass broke off: cannot open it: Too many open files (os error 24)";
        assert_eq!(with_causes(&bare), text);
        assert_eq!(format!("{bare:#}"), text);
        assert!(bare.find::<io::Error>().is_some() && bare.file().is_none());
    }
}
