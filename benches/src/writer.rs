//! Whoever else writes: objects of all kinds, at once, and each by itself.

use anyhow::{Result, ensure};
use trueup_net::{Object, with_object};
use trueup_netlink::codec::{self, EncodeError, existing};
use trueup_netlink::{Batch, Namespace, Socket};

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

/// Appends a message that does it.
pub(crate) fn encode(buffer: &mut Vec<u8>, verb: Verb, object: &Object) -> Result<(), EncodeError> {
    with_object!(object, it => match verb {
        Create => codec::create(buffer, it, &existing),
        Replace => codec::replace(buffer, it, &existing),
        Delete => codec::delete(buffer, it, &existing),
    })
}

/// The message by itself.
pub(crate) fn message(verb: Verb, object: &Object) -> Result<Vec<u8>> {
    let mut buffer = Vec::new();
    encode(&mut buffer, verb, object)?;
    Ok(buffer)
}

/// Makes messages by an encoder for each item, in batches.
pub(crate) fn batches<T>(
    items: impl IntoIterator<Item = T>,
    encode: impl Fn(&mut Vec<u8>, &T) -> Result<(), EncodeError>,
) -> Result<Vec<Batch>> {
    let mut batches = vec![Batch::new()];
    for item in items {
        let last = batches.len() - 1;
        if !batches[last].push(|buffer| encode(buffer, &item))? {
            let mut batch = Batch::new();
            ensure!(batch.push(|buffer| encode(buffer, &item))?);
            batches.push(batch);
        }
    }
    Ok(batches)
}

/// Sends batches, none of whose messages the kernel may refuse.
pub(crate) fn send(socket: &mut Socket, batches: &mut [Batch]) -> Result<()> {
    for batch in batches {
        let outcomes = socket.send_batch(batch)?;
        let refused = outcomes.iter().find(|outcome| **outcome != Some(Ok(())));
        ensure!(refused.is_none(), "refused: {refused:?}");
    }
    Ok(())
}

/// Does it to all of them.
pub(crate) fn write(verb: Verb, objects: &[Object]) -> Result<()> {
    let mut batches = batches(objects, |buffer, object| encode(buffer, verb, object))?;
    send(&mut Socket::open(&Namespace::current())?, &mut batches)
}
