//! Whoever else writes: objects of all kinds, at once, and each by itself.

use anyhow::{Result, bail, ensure};
use trueup_net::Object;
use trueup_netlink::codec::{self, EncodeError, existing};
use trueup_netlink::{Batch, Namespace, Outcome, Push, Socket};

/// What is done to an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    /// It is made, exclusively.
    Create,
    /// It is deleted.
    Delete,
}

/// Appends a message that does it.
///
/// # Errors
///
/// For links, which no process writes here, and for what cannot be encoded.
pub fn encode(buffer: &mut Vec<u8>, verb: Verb, object: &Object) -> Result<(), EncodeError> {
    let resolve = &existing;
    match (object, verb) {
        (Object::Route(it), Verb::Create) => codec::route::create(buffer, it, resolve),
        (Object::Route(it), Verb::Delete) => codec::route::delete(buffer, it, resolve),
        (Object::Address(it), Verb::Create) => codec::address::create(buffer, it, resolve),
        (Object::Address(it), Verb::Delete) => codec::address::delete(buffer, it, resolve),
        (Object::Neighbour(it), Verb::Create) => codec::neighbour::create(buffer, it, resolve),
        (Object::Neighbour(it), Verb::Delete) => codec::neighbour::delete(buffer, it, resolve),
        (Object::Rule(it), Verb::Create) => codec::rule::create(buffer, it),
        (Object::Rule(it), Verb::Delete) => codec::rule::delete(buffer, it),
        (Object::Nexthop(it), Verb::Create) => codec::nexthop::create(buffer, it, resolve),
        (Object::Nexthop(it), Verb::Delete) => codec::nexthop::delete(buffer, it.id),
        _ => Err(EncodeError::Refused("no process writes this kind here")),
    }
}

/// Creates all of them, in batches.
///
/// # Errors
///
/// When any is refused.
pub fn create(objects: &[Object]) -> Result<()> {
    write(Verb::Create, objects)
}

/// Creates or deletes all of them, in batches.
///
/// # Errors
///
/// When any is refused.
pub fn write(verb: Verb, objects: &[Object]) -> Result<()> {
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
        let refused = outcomes.iter().find(|outcome| **outcome != Outcome::Done);
        if let Some(refused) = refused {
            bail!("refused: {refused:?}");
        }
    }
    ensure!(batch.is_empty(), "all was sent");
    Ok(())
}
