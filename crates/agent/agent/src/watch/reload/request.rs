//! [`ReloadRequest`]: a request of another thread.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::error::{Context as _, Result};
use rustix::event::{EventfdFlags, eventfd};

/// A request to read the file again. Clones share it.
#[derive(Clone)]
pub(crate) struct ReloadRequest(Arc<(OwnedFd, AtomicBool)>);

impl ReloadRequest {
    pub(crate) fn new() -> Result<ReloadRequest> {
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        let descriptor = eventfd(0, flags)
            .map_err(std::io::Error::from)
            .context("cannot open an event descriptor")?;
        Ok(ReloadRequest(Arc::new((descriptor, AtomicBool::new(false)))))
    }

    /// Requests to read the file, also if it has not changed, and to run a full pass.
    pub(crate) fn send(&self) {
        self.0.1.store(true, Ordering::Release);
        // If it is full, a request is pending already.
        let _ = rustix::io::write(&self.0.0, &1_u64.to_ne_bytes());
    }

    /// Returns the descriptor that is readable while a request is pending.
    pub(crate) fn descriptor(&self) -> &OwnedFd {
        &self.0.0
    }

    /// Returns true if a reload was requested since the last call.
    pub(crate) fn take(&self) -> bool {
        let _ = rustix::io::read(&self.0.0, &mut [0; 8]);
        self.0.1.swap(false, Ordering::Acquire)
    }
}
