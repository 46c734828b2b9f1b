//! The errors of the crate.

use std::error::Error as StdError;
use std::fmt;
use std::io;
use std::sync::Arc;

/// An error of a queue, or of a wait for a ticket.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Error {
    /// The timeout passed first. The job continues, and the ticket can be waited for again.
    Timeout,
    /// The wait was refused because it could not end: the awaited job needs the waiting job to end
    /// first.
    Deadlock,
    /// The ticket's outcome was already returned.
    Taken,
    /// The operating system refused a thread.
    Os(Arc<io::Error>),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Error::Timeout => "not over within the time given: wait again, or cancel",
            Error::Deadlock => {
                "would wait, in a job of the queue, for what needs that job to end first: submit \
                 the rest as another job instead"
            }
            Error::Taken => "the outcome of this ticket was returned before",
            Error::Os(cause) => return write!(f, "the operating system refused a thread: {cause}"),
        })
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        match self {
            Error::Os(cause) => Some(&**cause),
            _ => None,
        }
    }
}

/// The reason why a queue did not accept a job, with the job.
///
/// ```
/// use std::num::NonZeroUsize;
/// use trueup_queue::{Config, Queue};
///
/// let queue = Queue::new(Config::new(NonZeroUsize::MIN))?;
/// queue.close();
/// let rejected = queue.submit("eth0", || 7).unwrap_err();
/// assert!(rejected.is_closed());
/// let job = rejected.into_job(); // nothing is lost
/// assert_eq!(job(), 7);
/// # Ok::<(), trueup_queue::Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Rejected<J> {
    /// The queue accepts no jobs any longer; the job is as it was given.
    Closed(J),
    /// Too many jobs wait: of this key, or of all keys.
    Full(J),
}

impl<J> Rejected<J> {
    /// Returns the rejected job, to submit it again later.
    pub fn into_job(self) -> J {
        match self {
            Rejected::Closed(job) | Rejected::Full(job) => job,
        }
    }

    /// True if no later submission can succeed either.
    pub fn is_closed(&self) -> bool {
        matches!(self, Rejected::Closed(_))
    }

    /// True if too many jobs wait.
    pub fn is_full(&self) -> bool {
        matches!(self, Rejected::Full(_))
    }
}

impl<J> fmt::Debug for Rejected<J> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Rejected::Closed(_) => "Closed(..)",
            Rejected::Full(_) => "Full(..)",
        })
    }
}

impl<J> fmt::Display for Rejected<J> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Rejected::Closed(_) => "the queue is closed",
            Rejected::Full(_) => {
                "too many jobs wait: submit again when some have run, or raise the limit"
            }
        })
    }
}

impl<J> StdError for Rejected<J> {}
