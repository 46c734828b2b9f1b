//! An engine's events: the provider's and the backend's, joined.

use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

use trueup_reconcile::{Drained, Subscribed, join};

use crate::{Error, ErrorKind, Subscription};

/// The subscriptions of the provider and of the backend.
pub(super) struct Events {
    parts: Vec<Box<dyn Subscription>>,
    /// Readable while a part is; `None` unless several parts have a descriptor.
    epoll: Option<OwnedFd>,
}

impl Events {
    /// Joins subscriptions. If one failed, the result is a failure: the driver subscribes again
    /// later.
    pub(super) fn join(
        provider: Subscribed<Box<dyn Subscription>, Error>,
        backend: Subscribed<Box<dyn Subscription>, Error>,
    ) -> Result<Events, Error> {
        let mut parts = Vec::new();
        for part in [provider, backend] {
            match part {
                Subscribed::Active(part) => parts.push(part),
                Subscribed::Unsupported => {}
                Subscribed::Failed(error) => return Err(error),
            }
        }
        let descriptors: Vec<BorrowedFd<'_>> =
            parts.iter().filter_map(|part| part.descriptor()).collect();
        let joined = (descriptors.len() > 1).then(|| join(&descriptors)).transpose();
        let epoll = joined.map_err(|error| {
            let message = "the descriptors of provider and backend cannot be joined";
            Error::new(ErrorKind::Backend, message).with_source(error)
        })?;
        Ok(Events { parts, epoll })
    }

    pub(super) fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        match &self.epoll {
            Some(epoll) => Some(epoll.as_fd()),
            None => self.parts.iter().find_map(|part| part.descriptor()),
        }
    }

    pub(super) fn drain(&mut self) -> Result<Drained, Error> {
        let mut sum = Drained::Nothing;
        for part in &mut self.parts {
            sum = sum.max(part.drain()?);
        }
        Ok(sum)
    }
}
