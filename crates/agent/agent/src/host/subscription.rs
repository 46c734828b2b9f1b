//! The events that make parts run.

use std::os::fd::BorrowedFd;

use trueup_reconcile::{Drained, Source, Subscription};
use trueup_rtnl::{self as rtnl, Rtnl};
use trueup_sysctl as sysctl;

use super::Error;

/// The events that make a part run.
pub enum HostSubscription {
    Network(<Rtnl as Source>::Subscription),
    /// Those of settings, and of devices.
    Settings(sysctl::Changes),
}

impl Subscription<Error> for HostSubscription {
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        match self {
            HostSubscription::Network(of) => Subscription::<rtnl::Error>::descriptor(of),
            HostSubscription::Settings(of) => Subscription::<sysctl::Error>::descriptor(of),
        }
    }

    fn drain(&mut self) -> Result<Drained, Error> {
        Ok(match self {
            HostSubscription::Network(of) => Subscription::<rtnl::Error>::drain(of)?,
            HostSubscription::Settings(of) => Subscription::<sysctl::Error>::drain(of)?,
        })
    }
}
