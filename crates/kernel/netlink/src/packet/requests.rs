//! [`requests`]: an op as messages.

use std::borrow::Cow;
use std::collections::BTreeMap;

use netlink_packet_core::{
    NLM_F_ACK, NetlinkHeader, NetlinkMessage, NetlinkPayload, NetlinkSerializable,
};
use trueup_net::{Action, Dev, Object, Plan, Reason, with_object};

use super::{Error, Message};
use crate::codec::{self, Announce as _, Change, KindCodec as _, Part};
use crate::wire::Messages;

/// Returns the messages that carry out a plan's op, in their order, for any transport to send.
///
/// Most ops take one message. An update of a link takes up to three, as the kernel refuses some
/// attributes beside others; an update of an address and the move of an IPv4 route to another
/// gateway may take two. Send each message only after the kernel has acknowledged the one before
/// it, and an op only after the ops in [`Plan::needs`]. An op on hold ([`Plan::hold`]) and a
/// position without an op have no messages.
///
/// The flags are those of the request (`NLM_F_CREATE` and `NLM_F_EXCL` to create, `NLM_F_REPLACE`
/// to change), and `NLM_F_ACK`, since an op must have an answer. The transport sets the sequence
/// number.
///
/// `M` is the transport's type of messages: [`Message`], or netlink-packet-route's own, which has
/// none for nexthop objects.
///
/// `indexes` has the interface index for each device that the plan creates
/// ([`Devices::planned`](trueup_net::Devices::planned)), so that later ops can refer to it. The
/// kernel refuses an index in use. `trueup_apply::draw_indexes` draws random ones.
///
/// If two messages move an IPv4 route, the second one deletes the former route. If the kernel
/// answers `ESRCH` to it, another writer has taken that route away: delete the new route, and read
/// the kernel's state again.
///
/// ```
/// use std::collections::BTreeMap;
/// use netlink_packet_route::RouteNetlinkMessage;
/// use trueup_net::{Desired, Family, Observed, Owned, Policy, Rule, RuleAction, plan};
/// use trueup_netlink::packet::requests;
///
/// let rule = Rule::new(Family::Inet, 900, RuleAction::Lookup(100));
/// let desired = Desired::default().with_rules([rule]);
/// let plan = plan(&desired, &Observed::default(), &Owned::default(), Policy::default())?;
/// let made = requests::<RouteNetlinkMessage>(&plan, 0, &BTreeMap::new())?;
/// assert_eq!(made.len(), 1);
/// assert_eq!(made[0].header.message_type, 32); // RTM_NEWRULE
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
///
/// If a device has no index, if the message would affect more than its object, or if
/// netlink-packet-route's types cannot hold a value.
pub fn requests<M>(
    plan: &Plan,
    position: usize,
    indexes: &BTreeMap<Dev, u32>,
) -> Result<Vec<NetlinkMessage<M>>, Error>
where
    M: TryFrom<Message> + NetlinkSerializable,
    Error: From<M::Error>,
{
    let Some(op) = plan.ops.get(position).filter(|_| plan.hold(position).is_none()) else {
        return Ok(Vec::new());
    };
    let was = op.was();
    let steps: Vec<(Action, Part, Cow<'_, Object>)> = if plan.appends_then_deletes(op) {
        let former = was.clone().unwrap_or(Cow::Borrowed(&op.object));
        vec![
            (Action::Create, Part::Append, Cow::Borrowed(&op.object)),
            (Action::Delete, Part::Whole, former),
        ]
    } else if op.reason == Reason::Beside {
        vec![(op.action, Part::Append, Cow::Borrowed(&op.object))]
    } else {
        let parts = with_object!(&op.object, object: K => {
            K::parts(op.action, object, of_kind(was.as_deref()))
        });
        parts.iter().map(|part| (op.action, *part, Cow::Borrowed(&op.object))).collect()
    };

    let mut buffer = Vec::new();
    for (action, part, object) in steps {
        let resolve = |dev: Dev| dev.as_index().or_else(|| indexes.get(&dev).copied());
        with_object!(&*object, object: K => {
            let by_name = |name: &_| plan.devices.dev(name);
            let chosen = |dev| indexes.get(&dev).copied();
            let change = Change::new(action, object, &resolve)
                .with_was(of_kind(was.as_deref()))
                .with_is_unmarked(plan.unstored.contains(op.object.kind()))
                .with_names(&by_name, &chosen);
            K::encode(&mut buffer, part, &change).map_err(|error| {
                let attribute = match error {
                    codec::EncodeError::Unresolved(_) => Some(object.attribute_of(&error)),
                    _ => None,
                };
                Error::refused(op.object.kind(), attribute, error)
            })?;
        });
    }
    Messages::new(&buffer)
        .map(|message| {
            let mut header = NetlinkHeader::default();
            header.flags = message.header.flags | NLM_F_ACK;
            let payload = NetlinkPayload::InnerMessage(M::try_from(Message::of(&message)?)?);
            let mut request = NetlinkMessage::new(header, payload);
            request.finalize();
            Ok(request)
        })
        .collect()
}

fn of_kind<'a, K>(object: Option<&'a Object>) -> Option<&'a K>
where
    &'a K: TryFrom<&'a Object>,
{
    object?.try_into().ok()
}
