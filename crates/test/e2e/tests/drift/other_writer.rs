//! The other writer: it writes objects by the hundred thousand, and reads without dumps, which
//! would lose rows as ours do.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use trueup_net::{Dev, Family, IfName, NextHop, NextHops, Object, Prefix, Route, with_object};
use trueup_netlink::codec::{self, EncodeError, KindCodec as _, existing};
use trueup_netlink::wire::MessageWriter;
use trueup_netlink::{BATCH_MESSAGES, Batch, Socket};
use trueup_rtnl::{DEFAULT_PROTOCOL, Namespace};

/// `RTPROT_STATIC`: the protocol of the other writer's objects.
pub(crate) const HIS: u8 = 4;
/// The protocol of our objects.
pub(crate) const OURS: u8 = DEFAULT_PROTOCOL;

/// Returns the `at`-th /32 of 20.0.0.0/8.
pub(crate) fn v4(at: u32) -> Prefix {
    Prefix::host(Ipv4Addr::from((20 << 24) + at).into())
}

/// Returns the `at`-th /128 of 2001:db8::/96.
pub(crate) fn v6(at: u32) -> Prefix {
    Prefix::host(Ipv6Addr::from((0x2001_0db8_u128 << 96) + u128::from(at)).into())
}

/// Returns a gateway on `up0` of `trueup_testkit::uplinks`.
fn gateway(family: Family) -> IpAddr {
    match family {
        Family::Inet => Ipv4Addr::new(10, 200, 0, 2).into(),
        Family::Inet6 => Ipv6Addr::new(0xfd00, 0x200, 0, 0, 0, 0, 0, 2).into(),
    }
}

/// Returns a desired route.
pub(crate) fn wanted(dst: Prefix) -> Route<IfName> {
    Route::new(dst, NextHops::One(NextHop::via(gateway(dst.family()))))
}

/// Returns a route to write, with a protocol.
pub(crate) fn route(dst: Prefix, protocol: u8) -> Object {
    let hop: NextHop<Dev> = NextHop::via(gateway(dst.family()));
    let route = Route::new(dst, NextHops::One(hop));
    Object::Route(route.with_protocol(protocol).canonical())
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Do {
    Create,
    Delete,
}

pub(crate) struct OtherWriter {
    socket: Socket,
    batch: Batch,
}

impl OtherWriter {
    /// Opens a writer in the calling thread's namespace.
    pub(crate) fn open() -> OtherWriter {
        OtherWriter { socket: Socket::open(&Namespace::current()).unwrap(), batch: Batch::new() }
    }

    /// Writes all objects, one after the other; each must succeed.
    #[track_caller]
    pub(crate) fn write<'a>(&mut self, all: impl IntoIterator<Item = (Do, &'a Object)>) {
        for (verb, object) in all {
            if !self.push(verb, object) {
                self.flush();
                assert!(self.push(verb, object));
            }
        }
        self.flush();
    }

    #[track_caller]
    pub(crate) fn create<'a>(&mut self, all: impl IntoIterator<Item = &'a Object>) {
        self.write(all.into_iter().map(|object| (Do::Create, object)));
    }

    /// Writes all objects, and ignores failures: an object may exist already, or be gone.
    pub(crate) fn tries(&mut self, verb: Do, all: &[Object]) {
        for some in all.chunks(BATCH_MESSAGES / 2) {
            for object in some {
                assert!(self.push(verb, object));
            }
            self.socket.send_batch(&mut self.batch).unwrap();
        }
    }

    /// Deletes an object, and returns true if it existed.
    pub(crate) fn takes(&mut self, object: &Object) -> bool {
        assert!(self.push(Do::Delete, object));
        self.socket.send_batch(&mut self.batch).unwrap() == [Some(Ok(()))]
    }

    fn push(&mut self, verb: Do, object: &Object) -> bool {
        self.batch.push(|buffer| encode(buffer, verb, object)).unwrap()
    }

    #[track_caller]
    fn flush(&mut self) {
        let outcomes = self.socket.send_batch(&mut self.batch).unwrap();
        let refused = outcomes.iter().find(|outcome| **outcome != Some(Ok(())));
        assert_eq!(refused, None);
    }

    /// Returns true if there is a route to exactly this destination, and it is ours. It asks the
    /// kernel for the matching route.
    pub(crate) fn sees_ours(&mut self, dst: Prefix) -> bool {
        const RTM_GETROUTE: u16 = 26;
        const RTA_DST: u16 = 1;
        // Ask for the route itself, not for its result for a packet.
        const RTM_F_FIB_MATCH: u32 = 0x2000;
        let mut request = Vec::new();
        let mut message = MessageWriter::begin(&mut request, RTM_GETROUTE, 0);
        let family = match dst.family() {
            Family::Inet => 2,
            Family::Inet6 => 10,
        };
        let mut header = [0; 12];
        header[..2].copy_from_slice(&[family, dst.len()]);
        header[8..].copy_from_slice(&RTM_F_FIB_MATCH.to_ne_bytes());
        message.body(&header);
        match dst.address() {
            IpAddr::V4(address) => message.attr(RTA_DST, &address.octets()),
            IpAddr::V6(address) => message.attr(RTA_DST, &address.octets()),
        }
        message.finish().unwrap();
        let found = self.socket.query(&request, |reply| Route::decode(reply.body).unwrap());
        // If there is no route, the kernel refuses.
        let found = found.ok().flatten();
        found.is_some_and(|route| route.dst == dst && route.protocol == OURS)
    }
}

fn encode(buffer: &mut Vec<u8>, verb: Do, object: &Object) -> Result<(), EncodeError> {
    with_object!(object, it => match verb {
        Do::Create => codec::create(buffer, it, &existing),
        Do::Delete => codec::delete(buffer, it, &existing),
    })
}
