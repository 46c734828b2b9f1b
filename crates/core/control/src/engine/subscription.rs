//! The subscription of an engine: that of its provider and that of its backend, as one.

use std::fmt;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use trueup_reconcile::{Drained, Subscribed, Subscription};

use crate::{BackendSubscription, Error, ErrorKind, ProviderSubscription};

/// The subscription of an engine: that of its provider, that of its backend, and hints of starts
/// that took long.
pub struct EngineSubscription {
    parts: Vec<BackendSubscription>,
    /// Readable while a part is, if several have a descriptor.
    epoll: Option<OwnedFd>,
}

impl EngineSubscription {
    /// If one of both failed, all did: the driver subscribes again later.
    pub(super) fn new(
        provider: Subscribed<ProviderSubscription, Error>,
        backend: Subscribed<BackendSubscription, Error>,
    ) -> Subscribed<EngineSubscription, Error> {
        let mut parts = Vec::new();
        for part in [provider, backend] {
            match part {
                Subscribed::Active(part) => parts.push(part),
                Subscribed::Unsupported => {}
                Subscribed::Failed(error) => return Subscribed::Failed(error),
            }
        }
        let descriptors = parts.iter().filter_map(|part| part.descriptor());
        let descriptors: Vec<BorrowedFd<'_>> = descriptors.collect();
        let epoll = match descriptors.len() {
            0 | 1 => Ok(None),
            _ => join(&descriptors).map(Some),
        };
        match epoll {
            Ok(epoll) => Subscribed::Active(EngineSubscription { parts, epoll }),
            Err(error) => {
                let message = "the descriptors of provider and backend cannot be joined";
                let error = Error::new(ErrorKind::Backend, message).with_source(error);
                Subscribed::Failed(error)
            }
        }
    }
}

/// Makes a descriptor that is readable while one of these is.
fn join(descriptors: &[BorrowedFd<'_>]) -> std::io::Result<OwnedFd> {
    let epoll = epoll::create(CreateFlags::CLOEXEC)?;
    for descriptor in descriptors {
        epoll::add(&epoll, descriptor, EventData::new_u64(0), EventFlags::IN)?;
    }
    Ok(epoll)
}

impl Subscription<Error> for EngineSubscription {
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        match &self.epoll {
            Some(epoll) => Some(epoll.as_fd()),
            None => self.parts.iter().find_map(|part| part.descriptor()),
        }
    }

    fn drain(&mut self) -> Result<Drained, Error> {
        let mut sum = Drained::Nothing;
        for part in &mut self.parts {
            match (part.drain()?, sum) {
                (Drained::Nothing, _) | (_, Drained::Lost) => {}
                (drained, _) => sum = drained,
            }
        }
        Ok(sum)
    }
}

impl fmt::Debug for EngineSubscription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("EngineSubscription")
    }
}
