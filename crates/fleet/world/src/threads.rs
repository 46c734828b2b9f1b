//! The threads of this crate.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{Builder, JoinHandle};

use crate::{Error, ErrorKind};

/// Starts a thread.
///
/// # Errors
///
/// When the operating system refuses it.
pub(crate) fn start(
    name: &str,
    work: impl FnOnce() + Send + 'static,
) -> Result<JoinHandle<()>, Error> {
    Builder::new().name(name.into()).spawn(work).map_err(|error| {
        let message = format!("the thread {name} does not start: {error}");
        Error::new(ErrorKind::Store, message).with_source(error)
    })
}

/// Whether threads are to end. They end soon after it is dropped.
#[derive(Debug, Default)]
pub(crate) struct Running(Arc<AtomicBool>);

/// What a thread looks at.
#[derive(Clone)]
pub(crate) struct Stopped(Arc<AtomicBool>);

impl Running {
    /// Returns what the threads look at.
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
    /// True if the thread is to end.
    pub(crate) fn get(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }
}
