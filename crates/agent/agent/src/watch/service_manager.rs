//! Notifications to the service manager, by the protocol of `sd_notify(3)`: ready, reloading,
//! stopping, a status line, and the watchdog. Without `NOTIFY_SOCKET` none are sent.
//!
//! A thread of its own sends them, so that neither a slow manager nor a long read of a new file
//! delays a pass or the watchdog. The crate `sd-notify` (0.5) sends without a time limit and does
//! not support abstract socket names, so the socket is ours.

use std::env;
use std::ffi::OsStr;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::path::Path;
use std::process;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::error::{Context as _, Result, bail};
use rustix::time::{ClockId, clock_gettime};
use trueup_path::{Place, TrustedUsers};

use super::event::Event;
use super::loops::Loops;
use super::reporter::Observer;
use trueup_net::render::clean;

/// The longest time to send one message.
const SEND_TIMEOUT: Duration = Duration::from_secs(1);

/// The service manager, if there is one. Clones share it.
#[derive(Clone)]
pub(crate) struct Service(Option<Sender<Message>>);

/// The thread that sends. Dropping it waits until all messages are sent, and only the last of
/// several statuses. A manager that does not read delays this by some seconds.
pub(crate) struct NotifierThread(Option<(Sender<Message>, JoinHandle<()>)>);

#[derive(Debug, PartialEq, Eq)]
enum Message {
    Ready,
    Reloading,
    Stopping,
    Status(String),
    /// No message follows.
    End,
}

impl Service {
    /// Connects to the manager in the environment. `loops` decide about the watchdog. Fails if the
    /// environment names a manager that cannot be reached, because the process that set it waits
    /// for an answer.
    pub(crate) fn begin(loops: Loops) -> Result<(Service, NotifierThread)> {
        let Some(name) = env::var_os("NOTIFY_SOCKET").filter(|name| !name.is_empty()) else {
            return Ok((Service(None), NotifierThread(None)));
        };
        let shown = name.display();
        let socket = connect(&name).with_context(|| {
            format!("cannot reach the service manager at NOTIFY_SOCKET={shown}")
        })?;
        let (sender, messages) = channel();
        let watchdog = watchdog(
            env::var("WATCHDOG_USEC").ok().as_deref(),
            env::var("WATCHDOG_PID").ok().as_deref(),
        );
        let notifier = Notifier { socket, messages, watchdog, loops };
        let thread = thread::Builder::new()
            .name("service".into())
            .spawn(move || notifier.run())
            .context("cannot start a thread")?;
        Ok((Service(Some(sender.clone())), NotifierThread(Some((sender, thread)))))
    }

    /// Returns an observer that sends the manager's events.
    pub(crate) fn observer(self) -> Observer {
        Box::new(move |event| match event {
            Event::Ready | Event::Reloaded => self.send(Message::Ready),
            Event::Reloading => self.send(Message::Reloading),
            Event::Stopping => self.send(Message::Stopping),
            Event::Status(status) => self.send(Message::Status(status.clone())),
            _ => {}
        })
    }

    fn send(&self, message: Message) {
        if let Some(sender) = &self.0 {
            // The other end goes when we do.
            let _ = sender.send(message);
        }
    }
}

impl Drop for NotifierThread {
    fn drop(&mut self) {
        if let Some((sender, thread)) = self.0.take() {
            // Threads without an end may keep a sender. A thread that panicked does not send.
            let _ = sender.send(Message::End);
            let _ = thread.join();
        }
    }
}

struct Notifier {
    socket: UnixDatagram,
    messages: Receiver<Message>,
    watchdog: Option<Duration>,
    loops: Loops,
}

impl Notifier {
    /// Sends until the last message.
    fn run(self) {
        let half = self.watchdog.map(|watchdog| watchdog / 2);
        let mut due = half.map(|_| Instant::now());
        loop {
            if let (Some(half), Some(at)) = (half, due)
                && at <= Instant::now()
            {
                due = Some(Instant::now() + half);
                // Otherwise the manager restarts us.
                if self.loops.is_within(half * 2) {
                    self.send("WATCHDOG=1");
                }
            }
            let message = match due {
                None => self.messages.recv().map_err(|_| RecvTimeoutError::Disconnected),
                Some(at) => {
                    self.messages.recv_timeout(at.saturating_duration_since(Instant::now()))
                }
            };
            match message {
                Ok(message) => {
                    let waiting = std::iter::once(message).chain(self.messages.try_iter());
                    for message in due_of(waiting.collect()) {
                        if message == Message::End {
                            return;
                        }
                        self.tell(&message);
                    }
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    fn tell(&self, message: &Message) {
        match message {
            Message::Ready => self.send("READY=1"),
            Message::Stopping => self.send("STOPPING=1"),
            // A line feed would end the status, and begin another message.
            Message::Status(status) => self.send(&format!("STATUS={}", clean(status))),
            Message::Reloading => {
                let now = clock_gettime(ClockId::Monotonic);
                let microseconds = now.tv_sec * 1_000_000 + now.tv_nsec / 1000;
                self.send(&format!("RELOADING=1\nMONOTONIC_USEC={microseconds}"));
            }
            Message::End => {}
        }
    }

    fn send(&self, words: &str) {
        // A manager that is gone or does not read must not stop the passes.
        let _ = self.socket.send(words.as_bytes());
    }
}

/// Returns the waiting messages that are due. Of statuses and finished reloads, only the last one.
fn due_of(mut waiting: Vec<Message>) -> Vec<Message> {
    let mut later = Vec::new();
    waiting.reverse();
    waiting.retain(|message| {
        let kind = std::mem::discriminant(message);
        let is_last = !later.contains(&kind);
        later.push(kind);
        is_last
    });
    waiting.reverse();
    waiting
}

/// Connects to the socket at a path. A leading `@` marks an abstract name.
#[expect(clippy::disallowed_methods, reason = "in a folder that `trueup_path` holds")]
fn connect(name: &OsStr) -> Result<UnixDatagram> {
    let socket = UnixDatagram::unbound()?;
    socket.set_write_timeout(Some(SEND_TIMEOUT))?;
    match name.as_bytes().split_first() {
        Some((b'@', abstract_name)) => {
            socket.connect_addr(&SocketAddr::from_abstract_name(abstract_name)?)?;
        }
        Some((b'/', _)) => {
            let place = place_of_ours(Path::new(name))?;
            socket.connect(place.path_by_descriptor())?;
        }
        _ => bail!("it is neither a path nor a name that begins with @"),
    }
    Ok(socket)
}

/// Returns the place of the socket if root or we have made it: the environment may come from
/// another user.
fn place_of_ours(path: &Path) -> Result<Place> {
    let users = TrustedUsers::current()?;
    let place = users.followed_place(path)?;
    let held = place.hold()?.context("there is no such socket")?;
    if !users.is_ours(&place, &held)? {
        bail!("another user could have put that socket there: unset NOTIFY_SOCKET");
    }
    Ok(place)
}

/// Returns the watchdog's interval, if it is meant for this process.
fn watchdog(microseconds: Option<&str>, pid: Option<&str>) -> Option<Duration> {
    if let Some(pid) = pid
        && pid.parse() != Ok(process::id())
    {
        return None;
    }
    let microseconds: u64 = microseconds?.parse().ok()?;
    (microseconds > 1).then(|| Duration::from_micros(microseconds))
}

#[cfg(test)]
mod tests {
    use trueup_testkit::Scratch;

    use super::*;

    #[test]
    fn of_what_waits_the_last_of_each_kind_is_sent() {
        let status = |number: usize| Message::Status(number.to_string());
        let mut waiting: Vec<Message> = (0..10_000).map(status).collect();
        waiting.extend([Message::Reloading, Message::Ready, Message::Reloading]);
        waiting.extend([status(1), Message::Ready, Message::Stopping, status(2)]);
        waiting.push(Message::End);
        let due = [Message::Reloading, Message::Ready, Message::Stopping, status(2), Message::End];
        assert_eq!(due_of(waiting), due);
    }

    #[test]
    fn the_watchdog_is_ours_or_none() {
        let own = process::id().to_string();
        let half_a_minute = Some(Duration::from_secs(30));
        assert_eq!(watchdog(Some("30000000"), None), half_a_minute);
        assert_eq!(watchdog(Some("30000000"), Some(&own)), half_a_minute);
        for (microseconds, pid) in [
            (None, None),
            (Some("0"), None),
            (Some("soon"), None),
            (Some("-3"), None),
            (Some("30000000"), Some("1")),
            (Some("30000000"), Some("")),
        ] {
            assert_eq!(watchdog(microseconds, pid), None, "{microseconds:?} {pid:?}");
        }
    }

    #[test]
    fn a_manager_is_reached_by_path_or_by_abstract_name() {
        let name = format!("trueup-test-{}", process::id());
        let there = SocketAddr::from_abstract_name(&name).unwrap();
        let manager = UnixDatagram::bind_addr(&there).unwrap();
        let socket = connect(OsStr::new(&format!("@{name}"))).unwrap();
        socket.send(b"READY=1").unwrap();
        let mut received = [0; 16];
        let length = manager.recv(&mut received).unwrap();
        assert_eq!(&received[..length], b"READY=1");
        for wrong in ["vsock:2:1234", "relative/path", "/nowhere/at/all"] {
            assert!(connect(OsStr::new(wrong)).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_socket_of_another_user_is_no_manager() {
        use std::os::unix::fs::chown;
        let folder = Scratch::make("manager").unwrap();
        let path = folder.join("notify");
        let _manager = UnixDatagram::bind(&path).unwrap();
        connect(path.as_os_str()).unwrap();
        if chown(&path, Some(4_242), None).is_ok() {
            let refused = connect(path.as_os_str()).unwrap_err().to_string();
            assert!(refused.contains("another user"), "{refused}");
        }
    }
}
