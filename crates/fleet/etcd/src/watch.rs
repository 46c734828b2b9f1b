//! Watches: a stream from one member, with a bounded queue of events for the reader.

mod assembly;

use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

use etcd_client::{Client, WatchOptions, WatchResponseStream, WatchStream};
use tokio::sync::{Semaphore, mpsc as mpsc_async};
use tokio::task::AbortHandle;
use trueup_world::{Error, ErrorKind, Revision, StoreEvent, StoreWatch};

use crate::endpoints::{Endpoints, Repeat};
use crate::failure::Failure;
use crate::read::{first_key, range_end};
use crate::runtime::Runtime;
use assembly::{Assembly, cancelled, size_of, tells_progress_in_order};

/// The most bytes of events in the queue for the reader. Further events wait at the member.
const ROOM: u32 = 4 << 20;

pub(crate) struct EtcdWatch {
    events: Receiver<(Result<StoreEvent, Error>, u32)>,
    room: Arc<Semaphore>,
    task: AbortHandle,
    /// Requests for the watch's progress.
    requests: mpsc_async::Sender<()>,
    /// The error with which the watch ended.
    ended: Option<Error>,
    /// Its thread fetches the events.
    _runtime: Arc<Runtime>,
}

impl EtcdWatch {
    pub(crate) fn begin(
        runtime: &Arc<Runtime>,
        endpoints: &Arc<Endpoints>,
        prefix: &[u8],
        after: Revision,
    ) -> Result<EtcdWatch, Error> {
        let (events, receiver) = mpsc::channel();
        let room = Arc::new(Semaphore::new(ROOM as usize));
        let (url, (stream, is_ordered)) = runtime.run(endpoints.config.timeout, {
            let (endpoints, prefix) = (Arc::clone(endpoints), prefix.to_vec());
            async move {
                let stream = endpoints
                    .call(Repeat::Safe, endpoints.deadline(), |client| {
                        create(&endpoints, client, &prefix, after)
                    })
                    .await?;
                Ok((endpoints.config.endpoints[endpoints.current()].clone(), stream))
            }
        })?;
        let (mut sender, stream) = stream.split();
        let (requests, mut requested) = mpsc_async::channel(1);
        runtime.handle().spawn(async move {
            while requested.recv().await.is_some() {
                // If this fails, the stream's other half reports the error.
                let _ = sender.request_progress().await;
            }
        });
        let assembly = Assembly::new(after, is_ordered, endpoints.config.read_limits);
        let forward = forward(stream, url, assembly, events, Arc::clone(&room));
        Ok(EtcdWatch {
            events: receiver,
            room,
            task: runtime.handle().spawn(forward).abort_handle(),
            requests,
            ended: None,
            _runtime: Arc::clone(runtime),
        })
    }
}

impl StoreWatch for EtcdWatch {
    fn next(&mut self, timeout: Duration) -> Result<Option<StoreEvent>, Error> {
        if let Some(error) = &self.ended {
            return Err(error.clone());
        }
        let result = match self.events.recv_timeout(timeout) {
            Ok((result, size)) => {
                self.room.add_permits(size as usize);
                result
            }
            Err(RecvTimeoutError::Timeout) => return Ok(None),
            Err(RecvTimeoutError::Disconnected) => {
                Err(Error::new(ErrorKind::Unavailable, "etcd: the watch ended without a reason"))
            }
        };
        self.ended = result.as_ref().err().cloned();
        result.map(Some)
    }

    fn request_progress(&mut self) -> Result<(), Error> {
        if let Some(error) = &self.ended {
            return Err(error.clone());
        }
        // If a request is waiting already, another one is not needed.
        let _ = self.requests.try_send(());
        Ok(())
    }
}

impl Drop for EtcdWatch {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Creates a watch at a member, and waits for the confirmation.
async fn create(
    endpoints: &Endpoints,
    client: Client,
    prefix: &[u8],
    after: Revision,
) -> Result<(WatchStream, bool), Failure> {
    // A read comes first. If the token is too old, etcd refuses the read, while a watch would
    // report a lack of permission. The read also brings the member up to date.
    let read = client.kv_client().get(first_key(prefix), None).await?.0;
    let newest = endpoints.check(read.header.as_ref())?;
    if newest < after.0 {
        let message = format!(
            "the store is at revision {newest}, and was at {after}: it was restored from an older \
             copy; read anew"
        );
        return Err(Failure::void(ErrorKind::Compacted, message));
    }
    // Starts at `after` itself, and leaves out its changes below. If the next one is the
    // compacted revision, a start there would silently miss a deletion (etcd#19179).
    let start = i64::try_from(after.0.max(1))
        .map_err(|_| Failure::void(ErrorKind::Invalid, format!("a revision of {after}")))?;
    let options = WatchOptions::new()
        .with_range(range_end(prefix))
        .with_start_revision(start)
        .with_progress_notify()
        .with_fragment();
    let mut stream = client.watch_client().watch(first_key(prefix), Some(options)).await?;
    match stream.message().await? {
        Some(answer) if answer.0.canceled => return Err(cancelled(&answer.0)),
        Some(answer) if answer.0.created => endpoints.check(answer.0.header.as_ref())?,
        _ => return Err(Failure::broken("the watch was not created")),
    };
    let version = client.maintenance_client().status().await;
    let is_ordered = version.is_ok_and(|status| tells_progress_in_order(status.version()));
    Ok((stream, is_ordered))
}

/// Sends a stream's events, until it ends or the reader is gone.
async fn forward(
    mut stream: WatchResponseStream,
    url: String,
    mut assembly: Assembly,
    events: Sender<(Result<StoreEvent, Error>, u32)>,
    room: Arc<Semaphore>,
) {
    let mut ready = vec![StoreEvent::Progress(Revision(assembly.delivered()))];
    loop {
        for event in ready.drain(..) {
            let size = size(&event).min(ROOM);
            match room.acquire_many(size).await {
                Ok(permit) => permit.forget(),
                Err(_) => return,
            }
            if events.send((Ok(event), size)).is_err() {
                return;
            }
        }
        let response = match stream.message().await {
            Ok(Some(response)) => assembly.take(response.0, Instant::now()),
            Ok(None) => Err(Failure::broken("the member ended the watch")),
            Err(error) => Err(Failure::from(error)),
        };
        match response {
            Ok(events) => ready = events,
            Err(failure) => {
                // The reader may be gone, too.
                let _ = events.send((Err(failure.into_error(&url, false)), 0));
                return;
            }
        }
    }
}

fn size(event: &StoreEvent) -> u32 {
    let size: usize = match event {
        StoreEvent::Changes { changes, .. } => {
            changes.iter().map(|(key, now)| size_of(key, now.as_ref()) + 64).sum()
        }
        StoreEvent::Progress(_) => 0,
    };
    u32::try_from(size + 64).unwrap_or(u32::MAX)
}
