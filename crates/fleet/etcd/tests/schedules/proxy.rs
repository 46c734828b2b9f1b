//! A slow network: a proxy between a host and the members. (Not every kernel has netem.)

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use trueup_testkit::Node;

/// Proxies on a host, one for each member. They end with the process.
pub(crate) struct Proxies {
    /// Their ports on the host, in the order of the members.
    pub(crate) ports: Vec<u16>,
    /// The milliseconds by which each byte is delayed, in either direction.
    delay: Arc<AtomicU64>,
}

impl Proxies {
    pub(crate) fn start(host: &Node, members: &[SocketAddr]) -> Proxies {
        let delay = Arc::new(AtomicU64::new(0));
        let start = |&member: &SocketAddr| {
            let delay = Arc::clone(&delay);
            host.inside(move || {
                let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
                let port = listener.local_addr().unwrap().port();
                // A thread that starts in a namespace stays in it.
                thread::spawn(move || accept(&listener, member, &delay));
                port
            })
        };
        let ports = members.iter().map(start).collect();
        Proxies { ports, delay }
    }

    pub(crate) fn set_delay(&self, delay: Duration) {
        let millis = u64::try_from(delay.as_millis()).unwrap();
        self.delay.store(millis, Ordering::Relaxed);
    }
}

fn accept(listener: &TcpListener, member: SocketAddr, delay: &Arc<AtomicU64>) {
    for client in listener.incoming() {
        let Ok(client) = client else { continue };
        let delay = Arc::clone(delay);
        thread::spawn(move || {
            let connected = TcpStream::connect_timeout(&member, Duration::from_secs(1));
            // Otherwise the client's connection ends here, too.
            if let Ok(server) = connected {
                let ends = |stream: &TcpStream| stream.try_clone().unwrap();
                carry(ends(&client), ends(&server), Arc::clone(&delay));
                carry(server, client, delay);
            }
        });
    }
}

/// Copies one stream to the other with a delay, until either ends.
fn carry(mut from: TcpStream, mut to: TcpStream, delay: Arc<AtomicU64>) {
    let (bytes, received) = mpsc::channel::<(Instant, Vec<u8>)>();
    let closer = [from.try_clone().unwrap(), to.try_clone().unwrap()];
    thread::spawn(move || {
        let mut buffer = [0; 16 << 10];
        while let Ok(length @ 1..) = from.read(&mut buffer) {
            let delay = Duration::from_millis(delay.load(Ordering::Relaxed));
            let late = (Instant::now() + delay, buffer[..length].to_vec());
            if bytes.send(late).is_err() {
                break;
            }
        }
    });
    thread::spawn(move || {
        for (at, bytes) in received {
            thread::sleep(at.saturating_duration_since(Instant::now()));
            if to.write_all(&bytes).is_err() {
                break;
            }
        }
        for stream in closer {
            let _ = stream.shutdown(Shutdown::Both);
        }
    });
}
