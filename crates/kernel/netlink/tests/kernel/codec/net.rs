//! A test's own namespace, and the objects in it.

use trueup_net::{Address, Dev, Family, IfName, Link, LinkKind, Neighbour, Route, Rule};
use trueup_netlink::codec::{self, EncodeError, KindCodec, ReadScope, Undecodable, existing, link};
use trueup_netlink::{DumpStep, Error, Namespace, Socket};
use trueup_testkit::fresh_netns;

/// The marker of the tests' own objects, and another writer's.
pub(crate) const OURS: u8 = 116;
pub(crate) const FOREIGN: u8 = 4;

pub(crate) struct Net {
    pub(crate) socket: Socket,
}

impl Net {
    /// Makes a fresh namespace with only lo, down.
    pub(crate) fn empty() -> Net {
        fresh_netns();
        let socket = Socket::open(&Namespace::current()).unwrap();
        Net { socket }
    }

    /// Makes a fresh namespace with two veth pairs, `a`-`a1` and `b`-`b1`, all up, without
    /// link-local addresses; `a` has 10.0.0.1/24 and 2001:db8::1/64, `b` 10.0.1.1/24 and
    /// 2001:db8:1::1/64.
    pub(crate) fn with_devices() -> (Net, Dev, Dev) {
        fresh_netns();
        Net::with_devices_in(&Namespace::current())
    }

    /// Makes the same in a given fresh namespace.
    pub(crate) fn with_devices_in(namespace: &Namespace) -> (Net, Dev, Dev) {
        let socket = Socket::open(namespace).unwrap();
        let mut net = Net { socket };
        let mut lo = Link::must_exist(name("lo"));
        lo.up = Some(true);
        net.send(|b| link::change(b, &lo, None, &existing))
            .unwrap_or_else(|error| panic!("{error}"));
        for end in ["a", "b"] {
            let kind = LinkKind::veth(name(&format!("{end}1")));
            let mut pair = Link::new(name(end), kind);
            pair.up = Some(true);
            net.send(|b| link::create(b, &pair, 0, &existing))
                .unwrap_or_else(|error| panic!("{error}"));
            let mut peer = Link::must_exist(name(&format!("{end}1")));
            peer.up = Some(true);
            net.send(|b| link::change(b, &peer, None, &existing))
                .unwrap_or_else(|error| panic!("{error}"));
        }
        let (a, b) = (net.dev("a"), net.dev("b"));
        for (dev, network) in
            [(a, "10.0.0.1/24"), (a, "2001:db8::1/64"), (b, "10.0.1.1/24"), (b, "2001:db8:1::1/64")]
        {
            let mut address = Address::new(dev, network.parse().unwrap());
            address.flags = trueup_net::AddressFlags::NODAD;
            net.send(|b| codec::create(b, &address, &existing))
                .unwrap_or_else(|error| panic!("{error}"));
        }
        (net, a, b)
    }

    pub(crate) fn send(
        &mut self,
        encode: impl FnOnce(&mut Vec<u8>) -> Result<(), EncodeError>,
    ) -> Result<(), Error> {
        let mut message = Vec::new();
        encode(&mut message).expect("it encodes");
        self.socket.request(&message)
    }

    pub(crate) fn dump<T>(
        &mut self,
        request: &[u8],
        decode: impl Fn(&[u8]) -> Result<Option<T>, Undecodable>,
    ) -> Vec<T> {
        let mut found = Vec::new();
        let dump = self.socket.dump(request, |step| match step {
            DumpStep::Begin => found.clear(),
            DumpStep::Message(message) => found.extend(decode(message.body).unwrap()),
            DumpStep::Part(_) => {}
        });
        assert!(dump.unwrap().complete);
        found
    }

    /// Returns the test's routes; the kernel's own come and go while links get ready.
    pub(crate) fn routes(&mut self, family: Family) -> Vec<Route> {
        let mut all = self.all_routes(family);
        all.retain(|route| [OURS, FOREIGN].contains(&route.protocol));
        all
    }

    /// Returns the objects that the kernel dumps for a scope.
    pub(crate) fn all<K: KindCodec>(&mut self, scope: &ReadScope) -> Vec<K> {
        let dumps = K::dumps(scope, self.socket.strict());
        dumps.iter().flat_map(|dump| self.dump(&dump.request, K::decode)).collect()
    }

    pub(crate) fn all_routes(&mut self, family: Family) -> Vec<Route> {
        self.all(&ReadScope::whole().with_family(family))
    }

    pub(crate) fn addresses(&mut self, family: Family) -> Vec<Address> {
        let mut all = self.all::<Address>(&ReadScope::whole());
        all.retain(|address| address.family() == family);
        all
    }

    /// Returns neighbours and proxy entries.
    pub(crate) fn neighbours(&mut self, family: Family) -> Vec<Neighbour> {
        let mut all = self.all::<Neighbour>(&ReadScope::whole());
        all.retain(|neighbour| neighbour.family() == family);
        all
    }

    pub(crate) fn rules(&mut self, family: Family) -> Vec<Rule> {
        self.all(&ReadScope::whole().with_family(family))
    }

    pub(crate) fn links(&mut self) -> Vec<Link> {
        let mut all = self.dump(&link::dump_request(), link::decode);
        link::name_peers(&mut all);
        all.into_iter().map(|(link, _)| link).collect()
    }

    pub(crate) fn link(&mut self, name: &str) -> Option<Link> {
        let links = self.links();
        links.into_iter().find(|link| link.name.as_str() == Some(name))
    }

    pub(crate) fn dev(&mut self, name: &str) -> Dev {
        Dev::index(self.link(name).unwrap().index)
    }
}

pub(crate) fn name(text: &str) -> IfName {
    text.parse().unwrap()
}
