//! Subscriptions: how a source sends hints to a driver.

use std::os::fd::BorrowedFd;

/// A subscription for hints, which ends when it is dropped.
///
/// It either has a thread of its own and calls
/// [`Hints::request_pass`](crate::Hints::request_pass), or it has a descriptor, which the driver
/// polls on its own thread beside its timer. `()` is the subscription of a source without hints.
pub trait Subscription<E> {
    /// Returns a descriptor that is readable while events wait.
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// Reads all events that wait, without blocking. The driver calls it when the descriptor is
    /// readable.
    ///
    /// # Errors
    ///
    /// When no more events will come. The driver drops the subscription, and subscribes again
    /// later.
    fn drain(&mut self) -> Result<Drained, E> {
        Ok(Drained::Nothing)
    }
}

impl<E> Subscription<E> for () {}

/// The events that a subscription has drained, in sum. The greater one holds for several.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Drained {
    /// No event that matters: objects of others, or echoes of the source's own writes.
    Nothing,
    /// An object may have changed.
    Hint,
    /// Events were lost, so any object may have changed.
    Lost,
}
