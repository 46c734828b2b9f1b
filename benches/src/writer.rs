//! Whoever else writes: objects of all kinds, at once, and each by itself.

use anyhow::{Result, bail, ensure};
use trueup_net::Object;
use trueup_netlink::codec::{EncodeError, address, existing, neighbour, nexthop, route, rule};
use trueup_netlink::{Batch, Namespace, Outcome, Push, Socket};

/// What is done to an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verb {
    /// It is made, exclusively.
    Create,
    /// It takes the place of the one on its key: a route.
    Replace,
    /// It is deleted.
    Delete,
}
use Verb::{Create, Delete, Replace};

/// Appends a message that does it: not of links, which no process writes here.
pub(crate) fn encode(buffer: &mut Vec<u8>, verb: Verb, object: &Object) -> Result<(), EncodeError> {
    let resolve = &existing;
    match (object, verb) {
        (Object::Route(it), Create) => route::create(buffer, it, resolve),
        (Object::Route(it), Replace) => route::replace(buffer, it, resolve),
        (Object::Route(it), Delete) => route::delete(buffer, it, resolve),
        (Object::Address(it), Create) => address::create(buffer, it, resolve),
        (Object::Address(it), Delete) => address::delete(buffer, it, resolve),
        (Object::Neighbour(it), Create) => neighbour::create(buffer, it, resolve),
        (Object::Neighbour(it), Delete) => neighbour::delete(buffer, it, resolve),
        (Object::Rule(it), Create) => rule::create(buffer, it),
        (Object::Rule(it), Delete) => rule::delete(buffer, it),
        (Object::Nexthop(it), Create) => nexthop::create(buffer, it, resolve),
        (Object::Nexthop(it), Delete) => nexthop::delete(buffer, it.id),
        _ => Err(EncodeError::Refused("no process writes this kind here")),
    }
}

/// The message by itself.
pub(crate) fn message(verb: Verb, object: &Object) -> Result<Vec<u8>> {
    let mut buffer = Vec::new();
    encode(&mut buffer, verb, object)?;
    Ok(buffer)
}

/// Creates or deletes all of them, in batches.
pub(crate) fn write(verb: Verb, objects: &[Object]) -> Result<()> {
    let mut socket = Socket::open(&Namespace::current())?;
    let mut batch = Batch::new();
    let mut left = objects.iter().peekable();
    while let Some(object) = left.peek() {
        if batch.push(|buffer| encode(buffer, verb, object))? == Push::Added {
            left.next();
            if left.peek().is_some() {
                continue;
            }
        }
        let outcomes = socket.send_batch(&mut batch)?;
        if let Some(refused) = outcomes.iter().find(|outcome| **outcome != Outcome::Done) {
            bail!("refused: {refused:?}");
        }
    }
    ensure!(batch.is_empty(), "all was sent");
    Ok(())
}
