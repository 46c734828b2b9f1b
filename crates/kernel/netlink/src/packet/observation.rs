//! [`Observation`]: the observed state, from messages.

use netlink_packet_route::RouteNetlinkMessage;
use trueup_net::{Kind, Kinds, LinkStatus, ObjectKind as _, Observed, OfKind, each_kind};

use super::object_message::{ObjectMessage, body_of};
use super::{Error, Message};
use crate::codec::{KindCodec as _, forwarding, link};

/// Collects the rows of dumps into an [`Observed`], the input of
/// [`trueup_net::plan`].
///
/// An object can depend on other messages: a veth's peer is only an index until the peer's link is
/// read. [`finish`](Self::finish) completes such objects.
///
/// The caller states which dumps are complete. rtnetlink 0.24 is of no help there: it does not
/// report a dump that the kernel flags as interrupted, and netlink-proto drops a message that
/// netlink-packet-route cannot parse, with a line in the log alone. trueup deletes nothing of a
/// kind that is not complete.
///
/// Gateways are not looked up, and routes from router advertisements are not marked: use
/// [trueup-observe](https://docs.rs/trueup-observe) for these.
#[derive(Clone, Debug, Default)]
pub struct Observation {
    observed: Observed,
    /// The kinds with a row that could not be read.
    unreadable: Kinds,
}

impl Observation {
    /// Starts without any object.
    #[must_use]
    pub fn new() -> Observation {
        Observation::default()
    }

    /// Adds the object of a row. Returns false if the message is about something else, such as a
    /// cached route. A bridge's forwarding entry is added to [`Observed::forwarding`].
    ///
    /// # Errors
    ///
    /// If the message lacks the object's identity. The kind is then incomplete.
    pub fn add<M: ObjectMessage>(&mut self, message: &M) -> Result<bool, Error> {
        let added = self.add_readable(message);
        if added.is_err() {
            self.unreadable = self.unreadable.with(M::Object::KIND);
        }
        added
    }

    fn add_readable<M: ObjectMessage>(&mut self, message: &M) -> Result<bool, Error> {
        let body = body_of(message)?;
        let unreadable = |undecodable| Error::unreadable(&undecodable);
        if M::Object::KIND == Kind::Link {
            let decoded = link::decode(&body).map_err(unreadable)?;
            let status = decoded.map(|(link, status)| (link.index, status));
            self.observed.link_status.extend(status);
        }
        if M::Object::KIND == Kind::Neighbour {
            let entry = forwarding::decode(&body).map_err(unreadable)?;
            if let Some(entry) = entry {
                self.observed.forwarding.push(entry);
                return Ok(true);
            }
        }
        let object = M::Object::decode(&body).map_err(unreadable)?;
        let is_object = object.is_some();
        if let Some(object) = object {
            M::observe(object, &mut self.observed);
        }
        Ok(is_object)
    }

    /// Adds the object of a row of any kind. Returns false for a message about something else.
    ///
    /// # Errors
    ///
    /// The same as [`add`](Self::add).
    pub fn add_message(&mut self, message: &Message) -> Result<bool, Error> {
        match message {
            Message::Route(RouteNetlinkMessage::NewLink(message)) => self.add(message),
            Message::Route(RouteNetlinkMessage::NewAddress(message)) => self.add(message),
            Message::Route(RouteNetlinkMessage::NewNeighbour(message)) => self.add(message),
            Message::Route(RouteNetlinkMessage::NewRoute(message)) => self.add(message),
            Message::Route(RouteNetlinkMessage::NewRule(message)) => self.add(message),
            Message::NewNexthop(message) => self.add(message),
            _ => Ok(false),
        }
    }

    /// Returns the observed state. `complete` lists the kinds whose dumps were added whole; kinds
    /// with an unreadable row are left out. Links must be among the dumps, since names resolve
    /// against them.
    #[must_use]
    pub fn finish(self, mut complete: Kinds) -> Observed {
        each_kind!(K => if self.unreadable.contains(K::KIND) {
            complete = complete.without(K::KIND);
        });
        let mut observed = self.observed.with_complete(complete);
        let statuses = &observed.link_status;
        let mut links: Vec<(_, LinkStatus)> = std::mem::take(&mut observed.links)
            .into_iter()
            .map(|link| {
                let status = statuses.get(&link.index).copied().unwrap_or_default();
                (link, status)
            })
            .collect();
        link::name_peers(&mut links);
        let links: Vec<_> = links.into_iter().map(|(link, _)| link).collect();
        each_kind!(K => K::complete(OfKind::<K>::of_kind_mut(&mut observed), &links));
        observed.links = links;
        observed
    }
}
