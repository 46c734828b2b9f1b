//! Connections, each on a thread of its own.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::sync::{Arc, Weak};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use socket2::Socket;

use super::answer::{MAX_REQUEST, answer, is_whole};

/// The most connections at a time. A further one takes the place of the oldest.
const MAX_CONNECTIONS: usize = 8;

/// The longest time that a connection may last, until the client has read the response.
const CONNECTION_TIMEOUT: Duration = Duration::from_secs(5);

/// Serves each connection until the process ends.
pub(crate) fn accept(
    listener: &Socket,
    page: &Arc<impl Fn() -> Option<String> + Send + Sync + 'static>,
) -> ! {
    let mut clients: VecDeque<Client> = VecDeque::new();
    loop {
        let Ok((stream, _)) = listener.accept() else {
            // Too many open files, or a client that has gone. This must not spin.
            thread::sleep(Duration::from_millis(100));
            continue;
        };
        clients.retain(|client| !client.thread.is_finished());
        if clients.len() >= MAX_CONNECTIONS
            && let Some(oldest) = clients.pop_front()
        {
            oldest.close();
        }
        // Without a thread the connection is closed.
        clients.extend(Client::serve(stream, Arc::clone(page)));
    }
}

/// A connected client.
struct Client {
    /// The client's thread holds it.
    stream: Weak<Socket>,
    thread: JoinHandle<()>,
}

impl Client {
    fn serve(
        stream: Socket,
        page: Arc<impl Fn() -> Option<String> + Send + Sync + 'static>,
    ) -> io::Result<Client> {
        let stream = Arc::new(stream);
        let client = Arc::downgrade(&stream);
        let mut connection = Connection { stream, deadline: Instant::now() + CONNECTION_TIMEOUT };
        let thread = thread::Builder::new().name("metrics".into()).spawn(move || {
            // A client that went away or is too slow gets no response.
            let _ = connection.serve(&*page);
        })?;
        Ok(Client { stream: client, thread })
    }

    /// Closes the connection and waits for its thread, so that the number of threads stays limited.
    fn close(self) {
        if let Some(stream) = self.stream.upgrade() {
            // The client may have gone.
            let _ = stream.shutdown(Shutdown::Both);
        }
        // A thread that panicked has ended as well.
        let _ = self.thread.join();
    }
}

/// A connection that ends at its deadline, whatever the client does.
struct Connection {
    stream: Arc<Socket>,
    deadline: Instant,
}

impl Connection {
    fn serve(&mut self, page: &dyn Fn() -> Option<String>) -> io::Result<()> {
        let mut request = Vec::new();
        let mut piece = [0; 1024];
        while request.len() <= MAX_REQUEST && !is_whole(&request) {
            match self.read(&mut piece)? {
                0 => break,
                read => request.extend(piece.iter().take(read)),
            }
        }
        if request.is_empty() {
            return Ok(());
        }
        self.write_all(answer(&request, page).as_bytes())?;
        self.stream.shutdown(Shutdown::Write)?;
        // Closing a connection with unread bytes resets it, and the client loses the response.
        while self.read(&mut piece)? > 0 {}
        Ok(())
    }

    fn time_left(&self) -> io::Result<Duration> {
        let left = self.deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        Ok(left)
    }
}

impl Read for Connection {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.stream.set_read_timeout(Some(self.time_left()?))?;
        (&*self.stream).read(into)
    }
}

impl Write for Connection {
    fn write(&mut self, from: &[u8]) -> io::Result<usize> {
        self.stream.set_write_timeout(Some(self.time_left()?))?;
        (&*self.stream).write(from)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::{UnixListener, UnixStream};

    use trueup_testkit::Scratch;

    use super::*;

    #[test]
    fn a_client_that_comes_when_all_places_are_taken_takes_that_of_the_oldest() {
        let folder = Scratch::make("clients").unwrap();
        let path = folder.join("socket");
        let listener: Socket = UnixListener::bind(&path).unwrap().into();
        let page = Arc::new(|| Some("page\n".to_owned()));
        thread::spawn(move || accept(&listener, &page));
        let connect = || {
            let stream = UnixStream::connect(&path).unwrap();
            stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
            stream
        };
        let mut idle: VecDeque<_> = (0..MAX_CONNECTIONS).map(|_| connect()).collect();
        let mut newest = connect();
        newest.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").unwrap();
        let mut answer = String::new();
        newest.read_to_string(&mut answer).unwrap();
        assert!(answer.ends_with("\r\n\r\npage\n"), "{answer:?}");
        let mut oldest = idle.pop_front().unwrap();
        assert_eq!(oldest.read(&mut [0]).unwrap(), 0, "it is closed");
    }
}
