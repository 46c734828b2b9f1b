//! A router that does one thing: it gives hosts a default route (RFC 4861).

use std::io;
use std::net::{Ipv6Addr, SocketAddrV6};

use rustix::net::sockopt::set_ipv6_multicast_hops;
use rustix::net::{AddressFamily, SendFlags, SocketType, ipproto, sendto, socket};

const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);
const ROUTER_ADVERTISEMENT: u8 = 134;

/// Sends a router advertisement out of a device of the calling thread's namespace, from its
/// link-local address. The lifetime is in seconds; 0 ends it.
///
/// A host in the same namespace accepts it if its `accept_ra_from_local` is set.
///
/// # Errors
///
/// If a system call fails.
pub fn advertise(index: u32, lifetime: u16) -> io::Result<()> {
    let socket = socket(AddressFamily::INET6, SocketType::RAW, Some(ipproto::ICMPV6))?;
    set_ipv6_multicast_hops(&socket, 255)?;
    // Type, code, checksum (by the kernel), hop limit, flags, lifetime, two timers.
    let mut message = [0; 16];
    message[0] = ROUTER_ADVERTISEMENT;
    message[6..8].copy_from_slice(&lifetime.to_be_bytes());
    let everybody = SocketAddrV6::new(ALL_NODES, 0, 0, index);
    sendto(&socket, &message, SendFlags::empty(), &everybody)?;
    Ok(())
}
