//! What keeps hints coming.

use std::os::fd::BorrowedFd;

/// What keeps hints coming until it is dropped.
///
/// There are two ways, and a subscription may go either: it has a thread of its own and calls
/// [`Hints::request_pass`](crate::Hints::request_pass), or it names a descriptor, which the driver then polls on its own thread, beside
/// its timer. `()` is the subscription of a source that gives no hints.
pub trait Subscription<E> {
    /// Readable whenever there is something to attend to.
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// Takes in what has been heard, without waiting. The driver calls it when the descriptor is readable.
    ///
    /// # Errors
    ///
    /// When nothing more will be heard: then the driver drops it, and asks for another at its next interval.
    fn drain(&mut self) -> Result<Drained, E> {
        Ok(Drained::Nothing)
    }
}

impl<E> Subscription<E> for () {}

/// What a subscription has heard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Drained {
    /// Nothing that matters: another's affair, or the echo of our own writes.
    Nothing,
    /// Something may have changed: a hint.
    Hint,
    /// Something was lost on the way, so that everything is doubtful.
    Lost,
}
