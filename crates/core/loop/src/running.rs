//! A loop on a thread of its own, for a caller that has no thread for it.

use std::time::Duration;

use trueup_reconcile::Source;

use crate::sync::thread::{self, JoinHandle};
use crate::{Error, ErrorKind, Handle, Loop};

/// A loop that runs on a thread of its own. Dropping it stops the loop, without waiting for it.
#[derive(Debug)]
pub struct Running<S: Source> {
    handle: Handle<S>,
    thread: Option<JoinHandle<Result<(), Error>>>,
}

impl<S: Source> Loop<'static, S> {
    /// Runs the loop on a new thread with this name, without NULs, which a thread's name cannot
    /// hold.
    ///
    /// # Errors
    ///
    /// When the operating system refuses a thread.
    pub fn spawn(self, name: &str) -> Result<Running<S>, Error>
    where
        Self: Send + 'static,
    {
        let handle = self.handle();
        let thread = thread::Builder::new()
            .name(name.replace('\0', ""))
            .spawn(move || self.run())
            .map_err(Error::os)?;
        Ok(Running { handle, thread: Some(thread) })
    }
}

impl<S: Source> Running<S> {
    /// Returns the loop's controls.
    pub fn handle(&self) -> &Handle<S> {
        &self.handle
    }

    /// Stops the loop and waits for its thread.
    ///
    /// # Errors
    ///
    /// [`Timeout`](ErrorKind::Timeout) if a pass lasted longer: the loop still ends after that
    /// pass. The error of [`Loop::run`]. [`Panicked`](ErrorKind::Panicked) if the source or a
    /// callback panicked.
    pub fn stop(mut self, timeout: Duration) -> Result<(), Error> {
        self.handle.stop();
        self.handle.wait_ended(timeout)?;
        // The loop is dropped, so the thread is about to return.
        match self.thread.take().map(JoinHandle::join) {
            Some(Ok(result)) => result,
            Some(Err(_panic)) => Err(Error::new(ErrorKind::Panicked)),
            None => Ok(()),
        }
    }
}

impl<S: Source> Drop for Running<S> {
    fn drop(&mut self) {
        self.handle.stop();
    }
}
