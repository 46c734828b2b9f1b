//! A thread that records all events of routes with their times.

use std::collections::HashSet;
use std::fs;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use trueup_net::{Object, Prefix};
use trueup_netlink::wire::Message;
use trueup_netlink::{Group, Multicast, Namespace, codec};

/// The requested size of its queue in bytes; the kernel gives less unless the caller is the
/// machine's root.
const QUEUE: usize = 8 << 20;
/// The interval at which it checks if it must end.
const TICK: Duration = Duration::from_millis(100);

/// A route that was added, changed or deleted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Heard {
    /// The time at which the event was received.
    pub(crate) at: Instant,
    /// The route's destination.
    pub(crate) prefix: Prefix,
    /// Its first gateway now; `None` if it was deleted, or has none.
    pub(crate) via: Option<IpAddr>,
}

/// A running listener. Dropping it ends the thread.
pub(crate) struct Listener {
    heard: Receiver<Heard>,
    losses: Arc<AtomicUsize>,
    is_ended: Arc<AtomicBool>,
    thread: Option<JoinHandle<Result<()>>>,
    /// The thread's directory below `/proc`.
    folder: PathBuf,
}

impl Listener {
    /// Listens in the calling thread's namespace from now on.
    pub(crate) fn start() -> Result<Listener> {
        let groups = [Group::IPV4_ROUTE, Group::IPV6_ROUTE];
        let mut socket = Multicast::open(&Namespace::current(), &groups)?;
        socket.set_receive_buffer(QUEUE)?;
        let (sender, heard) = channel();
        let (folders, folder) = channel();
        let losses = Arc::new(AtomicUsize::new(0));
        let is_ended = Arc::new(AtomicBool::new(false));
        let (lost, end) = (Arc::clone(&losses), Arc::clone(&is_ended));
        let thread = thread::Builder::new().name("listener".into()).spawn(move || {
            drop(folders.send(fs::read_link("/proc/thread-self")));
            listen(&mut socket, &sender, &lost, &end)
        })?;
        let folder = Path::new("/proc").join(folder.recv().context("the listener ended")??);
        Ok(Listener { heard, losses, is_ended, thread: Some(thread), folder })
    }

    /// Returns the time of the first event for each of these prefixes, and skips others. Prefixes
    /// without an event within `bound` are missing.
    pub(crate) fn wait_all(
        &self,
        mut prefixes: HashSet<Prefix>,
        bound: Duration,
    ) -> Result<Vec<Instant>> {
        let end = Instant::now() + bound;
        let mut times = Vec::with_capacity(prefixes.len());
        while !prefixes.is_empty() {
            let left = end.saturating_duration_since(Instant::now());
            match self.heard.recv_timeout(left) {
                Ok(heard) if prefixes.remove(&heard.prefix) => times.push(heard.at),
                Ok(_) => {}
                Err(RecvTimeoutError::Timeout) => break,
                Err(RecvTimeoutError::Disconnected) => bail!("the listener ended"),
            }
        }
        Ok(times)
    }

    /// Returns the events so far that were not waited for.
    pub(crate) fn take(&self) -> Vec<Heard> {
        self.heard.try_iter().collect()
    }

    /// Returns the processor time that the thread has used so far.
    pub(crate) fn processor(&self) -> Result<Duration> {
        let text = fs::read_to_string(self.folder.join("schedstat"))?;
        Ok(Duration::from_nanos(text.split_whitespace().next().unwrap_or_default().parse()?))
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.is_ended.store(true, Ordering::Relaxed);
        let losses = self.losses.load(Ordering::Relaxed);
        if losses > 0 {
            eprintln!("the listener's queue was full {losses} times");
        }
        match self.thread.take().map(JoinHandle::join) {
            Some(Ok(Err(error))) => eprintln!("the listener: {error:#}"),
            Some(Err(_)) => eprintln!("the listener panicked"),
            _ => {}
        }
    }
}

fn listen(
    socket: &mut Multicast,
    sender: &Sender<Heard>,
    losses: &AtomicUsize,
    is_ended: &AtomicBool,
) -> Result<()> {
    while !is_ended.load(Ordering::Relaxed) {
        let received = socket.receive(TICK, |event| {
            if let Some(heard) = read(&event) {
                // At the end of a run the receiver may be gone.
                let _ = sender.send(heard);
            }
        });
        match received {
            Ok(_) => {}
            Err(error) if error.is_loss() => drop(losses.fetch_add(1, Ordering::Relaxed)),
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

fn read(event: &Message<'_>) -> Option<Heard> {
    let at = Instant::now();
    let (Object::Route(route), is_deleted) = codec::decode(event).ok()?? else {
        return None;
    };
    let via = route.nexthops.as_slice().first().and_then(|hop| hop.via);
    Some(Heard { at, prefix: route.dst, via: via.filter(|_| !is_deleted) })
}
