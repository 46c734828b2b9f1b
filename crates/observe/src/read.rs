//! One dump, decoded message by message.

use trueup_netlink::codec::{EncodeError, Undecodable};
use trueup_netlink::{DumpStep, Error, ErrorKind, Socket};

/// How a dump can fail to be the whole truth.
pub(crate) enum Flaw {
    Interrupted,
    Undecodable(Undecodable),
}

/// Dumps, decodes, and appends to `items` what `keep` wants. Tells what speaks against the result
/// being whole.
pub(crate) fn read<T>(
    socket: &mut Socket,
    encode: impl FnOnce(&mut Vec<u8>) -> Result<(), EncodeError>,
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
        DumpStep::Message(message) => match decode(message.body) {
            Ok(Some(item)) => {
                if keep(&item) {
                    items.push(item);
                }
            }
            Ok(None) => {}
            Err(undecodable) => lost = Some(Flaw::Undecodable(undecodable)),
        },
    });
    match dump {
        Ok(dump) if dump.complete => Ok(lost),
        Ok(_) => Ok(Some(Flaw::Interrupted)),
        // A table that does not exist is empty.
        Err(error) if error.kind() == ErrorKind::Kernel && error.errno() == Some(libc::ENOENT) => {
            items.truncate(before);
            Ok(None)
        }
        Err(error) => Err(error),
    }
}
