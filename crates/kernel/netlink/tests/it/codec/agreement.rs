//! netlink-packet-route reads our encoding as the same object, and we decode its encoding as the
//! same.

use netlink_packet_core::{Emitable, Parseable};
use netlink_packet_route::address::AddressMessage;
use netlink_packet_route::link::{LinkAttribute, LinkMessage};
use netlink_packet_route::neighbour::NeighbourMessage;
use netlink_packet_route::route::RouteMessage;
use netlink_packet_route::rule::RuleMessage;
use proptest::prelude::*;
use trueup_net::{Address, LinkKind, Neighbour, Route, Rule};
use trueup_netlink::codec::{
    self, EncodeError, KindCodec as _, address, existing, link, neighbour, route, rule,
};
use trueup_netlink::wire::{Messages, NLM_F_CREATE, NLM_F_EXCL, NLM_F_REPLACE, NLM_F_REQUEST};

use super::{model, theirs, theirs_link};

/// Returns the type, the flags and the body of the one message that `encode` appends.
fn encoded(encode: impl FnOnce(&mut Vec<u8>) -> Result<(), EncodeError>) -> (u16, u16, Vec<u8>) {
    let mut buffer = Vec::new();
    encode(&mut buffer).unwrap();
    let mut messages = Messages::new(&buffer);
    let message = messages.next().unwrap();
    assert!(messages.next().is_none());
    (message.header.kind, message.header.flags, message.body.to_vec())
}

/// Returns netlink-packet-route's bytes. Names lack their NUL, which only zeroed bytes provide.
fn emitted(message: &impl Emitable) -> Vec<u8> {
    let mut bytes = vec![0; message.buffer_len()];
    message.emit(&mut bytes);
    bytes
}

fn sorted<T: std::fmt::Debug>(attributes: &[T]) -> Vec<String> {
    let mut all: Vec<_> = attributes.iter().map(|one| format!("{one:?}")).collect();
    all.sort();
    all
}

const CREATE: u16 = NLM_F_REQUEST | NLM_F_CREATE | NLM_F_EXCL;
const REPLACE: u16 = NLM_F_REQUEST | NLM_F_CREATE | NLM_F_REPLACE;

proptest! {
    #[test]
    fn routes(ours in model::route()) {
        let expected = theirs::route(&ours);
        let (kind, flags, body) = encoded(|b| codec::create(b, &ours, &existing));
        prop_assert_eq!((kind, flags), (route::NEW, CREATE));
        let parsed = RouteMessage::parse(&body).unwrap();
        prop_assert_eq!(&parsed.header, &expected.header);
        prop_assert_eq!(sorted(&parsed.attributes), sorted(&expected.attributes));
        let (kind, flags, same) = encoded(|b| codec::replace(b, &ours, &existing));
        prop_assert_eq!((kind, flags, &same), (route::NEW, REPLACE, &body));

        for bytes in [emitted(&expected), body] {
            prop_assert_eq!(Route::decode(&bytes), Ok(Some(ours.clone())));
        }

        let (kind, flags, body) = encoded(|b| codec::delete(b, &ours, &existing));
        prop_assert_eq!((kind, flags), (route::DELETE, NLM_F_REQUEST));
        let mut deleted = Route::decode(&body).unwrap().unwrap();
        // The wildcard, and metrics, which are not part of the identity.
        deleted.scope = ours.scope;
        deleted.metrics = ours.metrics.clone();
        prop_assert_eq!(deleted, ours);
    }

    #[test]
    fn addresses(ours in model::address()) {
        let expected = theirs::address(&ours);
        let (kind, flags, body) = encoded(|b| codec::create(b, &ours, &existing));
        prop_assert_eq!((kind, flags), (address::NEW, CREATE));
        let parsed = AddressMessage::parse(&body).unwrap();
        prop_assert_eq!(&parsed.header, &expected.header);
        prop_assert_eq!(sorted(&parsed.attributes), sorted(&expected.attributes));
        let (kind, flags, same) = encoded(|b| codec::replace(b, &ours, &existing));
        prop_assert_eq!((kind, flags, &same), (address::NEW, REPLACE, &body));

        for bytes in [emitted(&expected), body] {
            prop_assert_eq!(Address::decode(&bytes), Ok(Some(ours.clone())));
        }

        let (kind, flags, body) = encoded(|b| codec::delete(b, &ours, &existing));
        prop_assert_eq!((kind, flags), (address::DELETE, NLM_F_REQUEST));
        let deleted = Address::decode(&body).unwrap().unwrap();
        if ours.address.is_ipv6() {
            prop_assert_eq!(deleted.flags, ours.flags);
        }
        prop_assert_eq!(
            (deleted.dev, deleted.address, deleted.peer, deleted.label),
            (ours.dev, ours.address, ours.peer, ours.label)
        );
    }

    #[test]
    fn neighbours(ours in model::neighbour()) {
        let expected = theirs::neighbour(&ours);
        let (kind, flags, body) = encoded(|b| codec::create(b, &ours, &existing));
        prop_assert_eq!((kind, flags), (neighbour::NEW, CREATE));
        let parsed = NeighbourMessage::parse(&body[..]).unwrap();
        prop_assert_eq!(&parsed.header, &expected.header);
        prop_assert_eq!(sorted(&parsed.attributes), sorted(&expected.attributes));
        let (kind, flags, same) = encoded(|b| codec::replace(b, &ours, &existing));
        prop_assert_eq!((kind, flags, &same), (neighbour::NEW, REPLACE, &body));

        for bytes in [emitted(&expected), body] {
            prop_assert_eq!(Neighbour::decode(&bytes), Ok(Some(ours.clone())));
        }

        let (kind, flags, body) = encoded(|b| codec::delete(b, &ours, &existing));
        prop_assert_eq!((kind, flags), (neighbour::DELETE, NLM_F_REQUEST));
        let deleted = Neighbour::decode(&body).unwrap().unwrap();
        prop_assert_eq!(
            (deleted.dev, deleted.dst, deleted.proxy),
            (ours.dev, ours.dst, ours.proxy)
        );
    }

    #[test]
    fn rules(ours in model::rule()) {
        let expected = theirs::rule(&ours);
        let (kind, flags, body) = encoded(|b| codec::create(b, &ours, &existing));
        prop_assert_eq!((kind, flags), (rule::NEW, CREATE));
        let parsed = RuleMessage::parse(&body).unwrap();
        prop_assert_eq!(&parsed.header, &expected.header);
        prop_assert_eq!(sorted(&parsed.attributes), sorted(&expected.attributes));
        for bytes in [emitted(&expected), body.clone()] {
            prop_assert_eq!(Rule::decode(&bytes), Ok(Some(ours.clone())));
        }
        // A delete writes the same.
        let (kind, flags, same) = encoded(|b| codec::delete(b, &ours, &existing));
        prop_assert_eq!((kind, flags, same), (rule::DELETE, NLM_F_REQUEST, body));
    }

    #[test]
    fn links(ours in model::link()) {
        let mut expected = theirs_link::link(&ours);
        expected.header.index = ours.index;
        let (kind, flags, body) = encoded(|b| link::create(b, &ours, 0, &existing));
        prop_assert_eq!((kind, flags), (link::NEW, CREATE));
        let mut parsed = LinkMessage::parse(&body).unwrap();
        prop_assert_eq!(&parsed.header, &expected.header);
        // An empty `IFLA_INFO_DATA` means the same as none.
        for attribute in &mut parsed.attributes {
            if let (LinkAttribute::LinkInfo(info), Some(LinkKind::Ifb | LinkKind::Dummy)) =
                (attribute, &ours.kind)
            {
                info.truncate(1);
            }
        }
        prop_assert_eq!(sorted(&parsed.attributes), sorted(&expected.attributes));

        let alias = String::from_utf8(ours.alias.clone().unwrap().into_vec()).unwrap();
        expected.attributes.push(LinkAttribute::IfAlias(alias));
        let decoded = link::decode(&emitted(&expected)).unwrap().unwrap();
        prop_assert_eq!(decoded.1.peer, None);
        prop_assert_eq!(decoded.0, ours);
    }
}
