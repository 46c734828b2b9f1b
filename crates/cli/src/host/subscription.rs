//! The events that make parts run.

use std::os::fd::{AsFd as _, BorrowedFd};

use trueup::diff::{Kind, Kinds};
use trueup::observe::{Monitor, WatchScope};
use trueup::reconcile::{Drained, Source, Subscription};
use trueup::{Namespace, Rtnl, rtnl};

use super::Error;

/// The events that make a part run.
pub(crate) enum HostSubscription {
    Network(<Rtnl as Source>::Subscription),
    /// The monitor of devices.
    Devices(Box<Monitor>),
}

impl HostSubscription {
    /// Listens to the events of devices alone, for what is about them.
    pub(super) fn of_devices(scope: &Namespace) -> Result<HostSubscription, rtnl::Error> {
        let mut monitor = Monitor::open(scope)?;
        let mut links = WatchScope::new(Kinds::NONE.with(Kind::Link), 0);
        links.any_protocol = links.kinds;
        monitor.set_scope(links)?;
        Ok(HostSubscription::Devices(Box::new(monitor)))
    }
}

impl Subscription<Error> for HostSubscription {
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        match self {
            HostSubscription::Network(of) => Subscription::<rtnl::Error>::descriptor(of),
            HostSubscription::Devices(monitor) => Some(monitor.as_fd()),
        }
    }

    fn drain(&mut self) -> Result<Drained, Error> {
        match self {
            HostSubscription::Network(of) => Ok(Subscription::<rtnl::Error>::drain(of)?),
            HostSubscription::Devices(monitor) => {
                let found = monitor.drain().map_err(rtnl::Error::from)?;
                drop(monitor.take_dirty());
                Ok(match found.is_dirty {
                    _ if found.lost => Drained::Lost,
                    true => Drained::Hint,
                    false => Drained::Nothing,
                })
            }
        }
    }
}
