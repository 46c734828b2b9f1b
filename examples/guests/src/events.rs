//! QEMU's events, which tell that a pass is due before the timer does.
//!
//! They come through a second monitor socket, which this agent keeps open: the first one serves one
//! client at a time, and each conversation is short. The events only wake the loop; their content
//! is not used.

use std::collections::BTreeMap;
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::net::SocketFlags;
use serde::Deserialize;
use trueup_control::{Error, Subscription};
use trueup_reconcile::Drained;

use crate::qmp;

/// The guests whose events are watched while there is a subscription.
#[derive(Clone, Debug, Default)]
pub(crate) struct Events(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    /// Readable while events wait; `None` without a subscription.
    epoll: Option<Arc<OwnedFd>>,
    streams: BTreeMap<String, Stream>,
}

#[derive(Debug)]
struct Stream {
    socket: UnixStream,
    /// The beginning of an incomplete line.
    line: Vec<u8>,
}

/// A subscription for the events of all guests.
#[derive(Debug)]
pub(crate) struct EventSubscription {
    events: Events,
    epoll: Arc<OwnedFd>,
}

/// The longest line that QEMU writes unasked, in bytes.
const MAX_LINE: usize = 1 << 16;

/// The most reads of one guest's events at a time, so that no guest delays the others.
const MAX_READS: usize = 16;

/// After this command QEMU sends events. Its answer is a line that is no event.
const BEGIN: &[u8] = b"{\"execute\": \"qmp_capabilities\"}\n";

impl Events {
    /// Begins to watch all guests that [`watch`](Self::watch) names. An earlier subscription gets
    /// no more events.
    pub(crate) fn subscribe(&self) -> io::Result<EventSubscription> {
        let epoll = Arc::new(epoll::create(CreateFlags::CLOEXEC)?);
        let mut state = self.state();
        state.streams.clear();
        state.epoll = Some(Arc::clone(&epoll));
        let events = self.clone();
        Ok(EventSubscription { events, epoll })
    }

    /// Watches a guest, unless it is watched already. Does nothing without a subscription or a
    /// listening QEMU.
    pub(crate) fn watch(&self, guest: &str, socket: &Path) {
        let mut state = self.state();
        let (Some(epoll), false) = (&state.epoll, state.streams.contains_key(guest)) else {
            return;
        };
        if let Ok(stream) = Stream::open(epoll, socket) {
            state.streams.insert(guest.to_owned(), stream);
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Stream {
    /// Connects without waiting: a QEMU that hangs reads the command once it continues.
    fn open(epoll: &OwnedFd, socket: &Path) -> io::Result<Stream> {
        let mut socket = qmp::connect(socket, SocketFlags::NONBLOCK, Duration::from_secs(1))?;
        socket.write_all(BEGIN)?;
        epoll::add(epoll, &socket, EventData::new_u64(0), EventFlags::IN)?;
        Ok(Stream { socket, line: Vec::new() })
    }

    /// Reads everything available. Returns true if it includes an event that matters.
    fn drain(&mut self) -> io::Result<bool> {
        let (mut is_hint, mut buffer) = (false, [0; 4096]);
        // Unread data makes the descriptor readable again.
        for _ in 0..MAX_READS {
            let count = match self.socket.read(&mut buffer) {
                // The process has ended.
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(count) => count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(is_hint),
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            self.line.extend_from_slice(&buffer[..count]);
            while let Some(end) = self.line.iter().position(|byte| *byte == b'\n') {
                is_hint |= matters(&self.line[..end]);
                self.line.drain(..=end);
            }
            if self.line.len() > MAX_LINE {
                return Err(ErrorKind::InvalidData.into());
            }
        }
        Ok(is_hint)
    }
}

/// Returns true if a line is an event after which an object or a task may have changed. Other lines
/// do not count, nor do events that a guest can cause as often as it likes.
fn matters(line: &[u8]) -> bool {
    #[derive(Deserialize)]
    struct Event {
        event: String,
        #[serde(default)]
        data: Data,
    }
    #[derive(Default, Deserialize)]
    struct Data {
        status: Option<String>,
    }
    let Ok(event) = serde_json::from_slice::<Event>(line) else {
        return false;
    };
    match &*event.event {
        "JOB_STATUS_CHANGE" => event
            .data
            .status
            .as_deref()
            .is_some_and(|status| ["ready", "pending", "concluded"].contains(&status)),
        "DEVICE_DELETED" | "DEVICE_UNPLUG_GUEST_ERROR" => true,
        "SHUTDOWN" | "STOP" | "RESUME" => true,
        _ => false,
    }
}

impl Subscription for EventSubscription {
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.epoll.as_fd())
    }

    fn drain(&mut self) -> Result<Drained, Error> {
        let mut drained = Drained::Nothing;
        self.events.state().streams.retain(|_, stream| {
            let found = stream.drain();
            // A guest whose process has ended may have changed, too.
            if !matches!(found, Ok(false)) {
                drained = Drained::Hint;
            }
            found.is_ok()
        });
        Ok(drained)
    }
}

impl Drop for EventSubscription {
    fn drop(&mut self) {
        let mut state = self.events.state();
        let is_latest = |epoll: &Arc<OwnedFd>| Arc::ptr_eq(epoll, &self.epoll);
        if state.epoll.as_ref().is_some_and(is_latest) {
            *state = State::default();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_events_after_which_something_may_differ_matter() {
        for line in [
            r#"{"timestamp": {"seconds": 1}, "event": "STOP"}"#,
            r#"{"event": "JOB_STATUS_CHANGE", "data": {"status": "concluded", "id": "a.b"}}"#,
            r#"{"event": "JOB_STATUS_CHANGE", "data": {"status": "ready", "id": "a_commit"}}"#,
            r#"{"event": "DEVICE_DELETED", "data": {"path": "/x"}}"#,
        ] {
            assert!(matters(line.as_bytes()), "{line}");
        }
        for line in [
            "",
            "{",
            r#"{"return": {}}"#,
            r#"{"event": 7}"#,
            r#"{"event": "JOB_STATUS_CHANGE"}"#,
            r#"{"event": "JOB_STATUS_CHANGE", "data": {"status": "running"}}"#,
            r#"{"event": "RTC_CHANGE", "data": {"offset": 1}}"#,
        ] {
            assert!(!matters(line.as_bytes()), "{line}");
        }
    }
}
