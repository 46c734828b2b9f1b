//! Watches: what etcd sends, put together to whole revisions.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

use etcd_client::proto::{PbEvent, PbWatchResponse};
use etcd_client::{Client, EventType, WatchOptions, WatchResponseStream, WatchStream};
use tokio::sync::{Semaphore, mpsc as mpsc_async};
use tokio::task::AbortHandle;
use trueup_world::{Error, ErrorKind, KeyChange, Revision, StoreEvent, StoreWatch};

use crate::endpoints::{Endpoints, Repeat, revision};
use crate::failure::Failure;
use crate::runtime::Runtime;
use crate::store::{entry, range_end};

/// So many bytes of events wait for the reader; further ones wait at the member.
const ROOM: u32 = 4 << 20;

pub(crate) struct EtcdWatch {
    events: Receiver<(Result<StoreEvent, Error>, u32)>,
    room: Arc<Semaphore>,
    task: AbortHandle,
    /// Has the member asked how far the watch is.
    requests: mpsc_async::Sender<()>,
    /// The error with which it ended.
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
                let create = |client| create(&endpoints, client, &prefix, after);
                let deadline = endpoints.deadline();
                let stream = endpoints.call(Repeat::Safe, deadline, create).await?;
                Ok((
                    endpoints.config.endpoints[endpoints.current()].clone(),
                    stream,
                ))
            }
        })?;
        let (mut sender, stream) = stream.split();
        let (requests, mut requested) = mpsc_async::channel(1);
        runtime.handle().spawn(async move {
            while requested.recv().await.is_some() {
                // The other half of the stream says what is wrong.
                let _ = sender.request_progress().await;
            }
        });
        let assembly = Assembly::new(after, is_ordered);
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
            Err(RecvTimeoutError::Disconnected) => Err(Error::new(
                ErrorKind::Unavailable,
                "etcd: the watch ended without a reason",
            )),
        };
        self.ended = result.as_ref().err().cloned();
        result.map(Some)
    }

    fn request_progress(&mut self) -> Result<(), Error> {
        if let Some(error) = &self.ended {
            return Err(error.clone());
        }
        // One that waits already says the same.
        let _ = self.requests.try_send(());
        Ok(())
    }
}

impl Drop for EtcdWatch {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Creates a watch at a member, and waits until it is there.
async fn create(
    endpoints: &Endpoints,
    client: Client,
    prefix: &[u8],
    after: Revision,
) -> Result<(WatchStream, bool), Failure> {
    // A read first. It is refused where the token is too old, which a watch would take for a lack
    // of permission; and it brings the member up to date.
    let read = client.kv_client().get(some_key(prefix), None).await?.0;
    let newest = endpoints.check(read.header.as_ref())?;
    if newest < after.0 {
        let message = format!(
            "the store is at revision {newest}, and was at {after}: it was restored from an older \
             copy; read anew"
        );
        return Err(Failure::void(ErrorKind::Compacted, message));
    }
    // From `after` itself, whose changes are left out below. From the next one on a deletion would
    // be missing without a word if that is the compacted revision (etcd#19179).
    let start = i64::try_from(after.0.max(1))
        .map_err(|_| Failure::void(ErrorKind::Invalid, format!("a revision of {after}")))?;
    let options = WatchOptions::new()
        .with_range(range_end(prefix))
        .with_start_revision(start)
        .with_progress_notify()
        .with_fragment();
    let key = some_key(prefix);
    let mut stream = client.watch_client().watch(key, Some(options)).await?;
    let Some(created) = stream.message().await? else {
        return Err(Failure::broken("the watch was not created"));
    };
    let created = created.0;
    if created.canceled {
        return Err(cancelled(&created));
    }
    if !created.created {
        return Err(Failure::broken("the watch was not created"));
    }
    endpoints.check(created.header.as_ref())?;
    let version = client.maintenance_client().status().await;
    let is_ordered = version.is_ok_and(|status| tells_progress_in_order(status.version()));
    Ok((stream, is_ordered))
}

/// True if a member of that version answers how far a watch is only after all changes up to there.
/// Before 3.4.25 and 3.5.8 the answer may overtake them (etcd#15220).
fn tells_progress_in_order(version: &str) -> bool {
    let mut numbers = version.split(['.', '-']).map(|number| number.parse().ok());
    let mut next = || numbers.next().flatten().unwrap_or(0u32);
    match (next(), next(), next()) {
        (3, 4, patch) => patch >= 25,
        (3, 5, patch) => patch >= 8,
        (major, minor, _) => (major, minor) > (3, 5),
    }
}

/// The first key of a range: etcd has no empty one.
fn some_key(prefix: &[u8]) -> Vec<u8> {
    match prefix {
        [] => vec![0],
        prefix => prefix.to_vec(),
    }
}

fn cancelled(response: &PbWatchResponse) -> Failure {
    if response.compact_revision > 0 {
        let message = format!(
            "changes before revision {} are compacted: read anew",
            response.compact_revision
        );
        return Failure::void(ErrorKind::Compacted, message);
    }
    let reason = &response.cancel_reason;
    let other = || Failure::broken(format!("the watch was cancelled: {reason:?}"));
    Failure::from_message(reason).unwrap_or_else(other)
}

/// Sends what a stream brings, until it ends or the reader is gone.
async fn forward(
    mut stream: WatchResponseStream,
    url: String,
    mut assembly: Assembly,
    events: Sender<(Result<StoreEvent, Error>, u32)>,
    room: Arc<Semaphore>,
) {
    let mut ready = vec![StoreEvent::Progress(Revision(assembly.delivered))];
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
    let changes = match event {
        StoreEvent::Changes { changes, .. } => &changes[..],
        StoreEvent::Progress(_) => &[],
    };
    let sizes = changes.iter().map(|change| match change {
        KeyChange::Put(entry) => entry.key.len() + entry.value.len(),
        KeyChange::Deleted(key) => key.len(),
    });
    u32::try_from(sizes.map(|size| size + 64).sum::<usize>() + 64).unwrap_or(u32::MAX)
}

/// Puts responses together to whole revisions: etcd sends a large one in parts.
struct Assembly {
    /// All changes up to here are delivered.
    delivered: u64,
    /// Of a response that is not whole yet.
    parts: Vec<PbEvent>,
    /// True if the answer to a request of progress comes after all changes up to there.
    is_ordered: bool,
    /// Where it is not: an answer, and when it came. No change has come since.
    answered: Option<(u64, Instant)>,
    /// Up to where all is delivered by such answers.
    believed: u64,
}

/// So long no change comes until an answer is believed that may have overtaken some.
const QUIET: Duration = Duration::from_secs(1);
/// The id of no watch: of the answer to a request of progress.
const ALL_WATCHES: i64 = -1;

impl Assembly {
    fn new(after: Revision, is_ordered: bool) -> Assembly {
        Assembly {
            delivered: after.0,
            parts: Vec::new(),
            is_ordered,
            answered: None,
            believed: 0,
        }
    }

    fn take(
        &mut self,
        response: PbWatchResponse,
        now: Instant,
    ) -> Result<Vec<StoreEvent>, Failure> {
        if response.canceled {
            return Err(cancelled(&response));
        }
        if response.watch_id == ALL_WATCHES && !self.is_ordered {
            let newest = revision(response.header.map_or(0, |header| header.revision))?;
            return Ok(self.believe(newest, now));
        }
        let is_progress = response.events.is_empty() && self.parts.is_empty();
        self.parts.extend(response.events);
        if response.fragment {
            return Ok(Vec::new());
        }
        if is_progress {
            let newest = response.header.map_or(0, |header| header.revision);
            let newest = revision(newest)?;
            if response.created || newest < self.delivered {
                return Ok(Vec::new());
            }
            self.delivered = newest;
            return Ok(vec![StoreEvent::Progress(Revision(newest))]);
        }
        let mut revisions: BTreeMap<u64, BTreeMap<Vec<u8>, KeyChange>> = BTreeMap::new();
        for event in self.parts.drain(..) {
            let (made_by, change) = change(event)?;
            // Delivered before: a member may repeat itself.
            if made_by > self.delivered {
                let key = change.key().to_vec();
                revisions.entry(made_by).or_default().insert(key, change);
            }
        }
        self.answered = None;
        if let Some((late, _)) = revisions
            .first_key_value()
            .filter(|it| *it.0 <= self.believed)
        {
            let message = format!(
                "changes of revision {late} came after etcd said that all up to {} had: read anew",
                self.believed
            );
            return Err(Failure::void(ErrorKind::Compacted, message));
        }
        let last = revisions.keys().next_back().copied();
        self.delivered = last.unwrap_or(self.delivered);
        let event = |(made_by, changes): (u64, BTreeMap<Vec<u8>, KeyChange>)| StoreEvent::Changes {
            revision: Revision(made_by),
            changes: changes.into_values().collect(),
        };
        Ok(revisions.into_iter().map(event).collect())
    }
}

impl Assembly {
    /// Takes an answer that may have overtaken changes: an earlier one is believed if none has come
    /// since, for a while.
    fn believe(&mut self, newest: u64, now: Instant) -> Vec<StoreEvent> {
        let known = self.believed.max(self.delivered);
        match self.answered {
            Some((earlier, _)) if earlier <= known => self.answered = Some((newest, now)),
            Some((earlier, at)) if now.duration_since(at) >= QUIET && self.parts.is_empty() => {
                self.believed = earlier;
                self.answered = Some((newest, now));
                return vec![StoreEvent::Progress(Revision(earlier))];
            }
            Some(_) => {}
            None => self.answered = Some((newest, now)),
        }
        Vec::new()
    }
}

/// A change and the revision that made it.
fn change(event: PbEvent) -> Result<(u64, KeyChange), Failure> {
    let unknown = |what: &str| Failure::void(ErrorKind::Store, format!("a watch event {what}"));
    let kv = event.kv.ok_or_else(|| unknown("without a key"))?;
    let made_by = revision(kv.mod_revision)?;
    match EventType::try_from(event.r#type) {
        Ok(EventType::Put) => Ok((made_by, KeyChange::Put(entry(kv)?))),
        Ok(EventType::Delete) => Ok((made_by, KeyChange::Deleted(kv.key))),
        Err(_) => Err(unknown(&format!("of type {}", event.r#type))),
    }
}

#[cfg(test)]
mod tests;
