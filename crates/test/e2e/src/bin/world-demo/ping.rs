//! A ping: an ICMP echo request, which the other host's kernel answers.

use std::io;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::time::{Duration, Instant};

use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketType, bind, ipproto, recv, sendto, socket,
};

const ECHO_REQUEST: u8 = 8;
const ECHO_REPLY: u8 = 0;
/// The time limit for an answer.
const BOUND: Duration = Duration::from_secs(10);

/// Sends a request from one address to another, in the calling thread's namespace. Returns the time
/// until the answer.
pub(crate) fn ping(from: Ipv4Addr, to: Ipv4Addr) -> io::Result<Duration> {
    let socket = socket(AddressFamily::INET, SocketType::RAW, Some(ipproto::ICMP))?;
    set_socket_timeout(&socket, Timeout::Recv, Some(BOUND))?;
    bind(&socket, &SocketAddrV4::new(from, 0))?;
    let [_, _, three, four] = to.octets();
    let begun = Instant::now();
    let flags = SendFlags::empty();
    sendto(&socket, &request([three, four]), flags, &SocketAddrV4::new(to, 0))?;
    let mut packet = [0; 128];
    loop {
        let (_, length) = recv(&socket, &mut packet, RecvFlags::empty())?;
        let packet = &packet[..length];
        // The IP header comes first; its length is in words of four bytes.
        let header = 4 * usize::from(packet.first().map_or(0, |byte| byte & 15));
        let Some([ECHO_REPLY, _, _, _, id @ ..]) = packet.get(header..header + 6) else {
            continue;
        };
        if *id == [three, four] {
            return Ok(begun.elapsed());
        }
        if begun.elapsed() > BOUND {
            return Err(io::ErrorKind::TimedOut.into());
        }
    }
}

/// Makes a request with an identifier: type, code, checksum, identifier, sequence number.
fn request(id: [u8; 2]) -> [u8; 8] {
    let mut message = [ECHO_REQUEST, 0, 0, 0, id[0], id[1], 0, 1];
    // RFC 1071: the complement of the sum in ones' complement.
    let words = message.chunks_exact(2);
    let sum: u32 = words.map(|it| u32::from(it[0]) << 8 | u32::from(it[1])).sum();
    let sum = (sum & 0xffff) + (sum >> 16);
    let [_, _, high, low] = (!sum).to_be_bytes();
    (message[2], message[3]) = (high, low);
    message
}
