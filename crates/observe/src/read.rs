//! One dump, decoded message by message.

use trueup_netlink::codec::{EncodeError, Undecodable};
use trueup_netlink::{DumpStep, Error, Socket};

/// How a dump can fail to be the whole truth.
pub(crate) enum Flaw {
    Interrupted,
    /// A message could not be read, and why.
    Undecodable(&'static str),
}

/// Dumps, decodes messages of type `new`, and appends to `items` what `keep` wants. Tells what
/// speaks against the result being whole. After an error `items` is as before.
pub(crate) fn read<T>(
    socket: &mut Socket,
    encode: impl FnOnce(&mut Vec<u8>) -> Result<(), EncodeError>,
    new: u16,
    decode: impl Fn(&[u8]) -> Result<Option<T>, Undecodable>,
    mut keep: impl FnMut(&T) -> bool,
    items: &mut Vec<T>,
) -> Result<Option<Flaw>, Error> {
    let mut request = Vec::new();
    if encode(&mut request).is_err() {
        // Requests are of a fixed, small size.
        return Ok(Some(Flaw::Interrupted));
    }
    let before = items.len();
    let mut lost = None;
    let dump = socket.dump(&request, |step| match step {
        DumpStep::Begin => {
            items.truncate(before);
            lost = None;
        }
        // A row is of this type; of any other nobody knows what it was to say.
        DumpStep::Message(message) if message.header.kind != new => {
            lost = Some(Flaw::Undecodable("its type is another"));
        }
        DumpStep::Message(message) => match decode(message.body) {
            Ok(Some(item)) => {
                if keep(&item) {
                    items.push(item);
                }
            }
            Ok(None) => {}
            Err(undecodable) => lost = Some(Flaw::Undecodable(undecodable.why)),
        },
    });
    match dump {
        Ok(dump) if dump.complete => Ok(lost),
        Ok(_) => Ok(Some(Flaw::Interrupted)),
        Err(error) => {
            items.truncate(before);
            Err(error)
        }
    }
}
