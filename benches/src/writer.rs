//! Another writer: writes objects of all kinds, together and one by one.

use anyhow::{Result, ensure};
use trueup_net::{Object, with_object};
use trueup_netlink::codec::{self, EncodeError, existing};
use trueup_netlink::{Batch, Namespace, Socket};

/// The act on an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verb {
    /// Creates it exclusively: fails if it exists.
    Create,
    /// Replaces the route on its key.
    Replace,
    /// Deletes the object.
    Delete,
}
use Verb::{Create, Delete, Replace};

/// Appends the message for an act.
pub(crate) fn encode(buffer: &mut Vec<u8>, verb: Verb, object: &Object) -> Result<(), EncodeError> {
    with_object!(object, it => match verb {
        Create => codec::create(buffer, it, &existing),
        Replace => codec::replace(buffer, it, &existing),
        Delete => codec::delete(buffer, it, &existing),
    })
}

/// Returns the message for an act.
pub(crate) fn message(verb: Verb, object: &Object) -> Result<Vec<u8>> {
    let mut buffer = Vec::new();
    encode(&mut buffer, verb, object)?;
    Ok(buffer)
}

/// Encodes each item into messages, in batches.
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

/// Sends batches, and fails if the kernel refuses any message.
pub(crate) fn send(socket: &mut Socket, batches: &mut [Batch]) -> Result<()> {
    for batch in batches {
        let outcomes = socket.send_batch(batch)?;
        let refused = outcomes.iter().find(|outcome| **outcome != Some(Ok(())));
        ensure!(refused.is_none(), "refused: {refused:?}");
    }
    Ok(())
}

/// Does an act to all objects.
pub(crate) fn write(verb: Verb, objects: &[Object]) -> Result<()> {
    let mut batches = batches(objects, |buffer, object| encode(buffer, verb, object))?;
    send(&mut Socket::open(&Namespace::current())?, &mut batches)
}
