//! The threads of this crate.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{Builder, JoinHandle};

use crate::{Error, ErrorKind};

/// Starts a thread.
///
/// # Errors
///
/// Fails if the operating system refuses it.
pub(crate) fn start(
    name: &str,
    work: impl FnOnce() + Send + 'static,
) -> Result<JoinHandle<()>, Error> {
    Builder::new().name(name.into()).spawn(work).map_err(|error| {
        let message = format!("the thread {name} does not start: {error}");
        Error::new(ErrorKind::Store, message).with_source(error)
    })
}

/// The owner's side of a flag that ends threads. They end soon after it is dropped.
#[derive(Debug, Default)]
pub(crate) struct Running(Arc<AtomicBool>);

/// The threads' side of the flag.
#[derive(Clone)]
pub(crate) struct Stopped(Arc<AtomicBool>);

impl Running {
    /// Returns the threads' side of the flag.
    pub(crate) fn stopped(&self) -> Stopped {
        Stopped(Arc::clone(&self.0))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

impl Stopped {
    /// Returns true if the thread must end.
    pub(crate) fn get(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }
}
