//! Renewing leases.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use etcd_client::{Client, LeaseKeepAliveStream, LeaseKeeper};
use tokio::time::{Instant, timeout_at};
use trueup_world::{Error, ErrorKind, LeaseId};

use crate::endpoints::{Endpoints, Repeat};
use crate::failure::Failure;

/// The streams on which leases are renewed, by lease. Only one call at a time uses a stream. A
/// stream is not used after a failure, because a late answer would be taken for the next one's.
#[derive(Default)]
pub(crate) struct Keepers(Mutex<Inner>);

#[derive(Default)]
struct Inner {
    streams: HashMap<LeaseId, Keeper>,
    /// The number of restorations of the store when each lease was first renewed.
    restorations: HashMap<LeaseId, u64>,
}

impl Inner {
    /// Returns the number of restorations when a lease was first renewed, and takes out its stream.
    fn take(&mut self, lease: LeaseId) -> (Option<u64>, Option<Keeper>) {
        (self.restorations.get(&lease).copied(), self.streams.remove(&lease))
    }
}

/// Makes the failure of a lease in a restored store. A store must be stopped to be restored, which
/// ends its streams. So this is checked when a new stream begins. The lease counts as ended,
/// because its keys may have changed.
fn of_restored(lease: LeaseId) -> Failure {
    let message = format!(
        "the store was restored from an older copy, so lease {:x} counts as ended",
        lease.0
    );
    Failure::void(ErrorKind::LeaseEnded, message)
}

struct Keeper {
    requests: LeaseKeeper,
    answers: LeaseKeepAliveStream,
}

/// A renewal of a lease.
pub(crate) struct Renewed {
    /// The time of the request. The member renewed the lease later.
    sent: std::time::Instant,
    /// The time to live in the answer.
    time: Duration,
}

impl Renewed {
    /// Returns the rest of the time to live.
    pub(crate) fn rest(&self) -> Duration {
        self.time.saturating_sub(self.sent.elapsed())
    }
}

impl Keepers {
    /// Renews a lease. Returns the time that it has at least, with the time of the request.
    pub(crate) async fn renew(
        &self,
        endpoints: &Endpoints,
        lease: LeaseId,
    ) -> Result<Renewed, Error> {
        let deadline = endpoints.deadline();
        let (before, keeper) = self.locked().take(lease);
        if let Some(keeper) = keeper {
            // Half of the time is left for another member.
            let end = Instant::now() + endpoints.config.timeout / 2;
            match timeout_at(end, keeper.renew()).await {
                Ok(Ok((keeper, renewed))) => {
                    self.locked().streams.insert(lease, keeper);
                    return Ok(renewed);
                }
                Ok(Err(failure)) if failure.kind == ErrorKind::LeaseEnded => {
                    self.forget(lease);
                    return Err(endpoints.error(endpoints.current(), failure, false));
                }
                Ok(Err(_)) | Err(_) => {}
            }
        }
        let opened = endpoints
            .call(Repeat::Safe, deadline, |client| open(endpoints, client, lease, before))
            .await;
        if opened.as_ref().is_err_and(|error| error.kind() == ErrorKind::LeaseEnded) {
            self.forget(lease);
        }
        let (keeper, renewed, restorations) = opened?;
        let mut inner = self.locked();
        inner.restorations.entry(lease).or_insert(restorations);
        inner.streams.insert(lease, keeper);
        Ok(renewed)
    }

    /// Ends the stream of a lease.
    pub(crate) fn forget(&self, lease: LeaseId) {
        let mut inner = self.locked();
        inner.streams.remove(&lease);
        inner.restorations.remove(&lease);
    }

    fn locked(&self) -> std::sync::MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Renews a lease on a new stream. `before` is the number of the store's restorations when it was
/// first renewed. Also returns the current number.
async fn open(
    endpoints: &Endpoints,
    client: Client,
    lease: LeaseId,
    before: Option<u64>,
) -> Result<(Keeper, Renewed, u64), Failure> {
    let restorations = endpoints.restorations(&client).await?;
    if before.is_some_and(|before| before != restorations) {
        return Err(of_restored(lease));
    }
    let (requests, answers) = client.lease_client().keep_alive(lease.0).await?;
    // The client does not return the time to live of the first answer.
    let (keeper, renewed) = Keeper { requests, answers }.renew().await?;
    Ok((keeper, renewed, restorations))
}

impl Keeper {
    async fn renew(mut self) -> Result<(Keeper, Renewed), Failure> {
        let sent = std::time::Instant::now();
        self.requests.keep_alive().await?;
        let Some(answer) = self.answers.message().await? else {
            return Err(Failure::broken("the stream of keep-alives ended"));
        };
        // If the lease is gone, the answer is 0, without an error.
        match u64::try_from(answer.ttl()) {
            Ok(seconds @ 1..) => {
                let time = Duration::from_secs(seconds);
                Ok((self, Renewed { sent, time }))
            }
            _ => Err(Failure::void(ErrorKind::LeaseEnded, "the lease has ended")),
        }
    }
}
