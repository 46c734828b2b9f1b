//! One dump, decoded message by message.

use trueup_diff::Kind;
use trueup_netlink::codec::{EncodeError, Undecodable};
use trueup_netlink::{DumpStep, Error, Socket};

use crate::snapshot::Incomplete;
use crate::witness::{Place, Window};

/// How a dump can fail to be the whole truth by its own word.
pub(crate) enum Flaw {
    Interrupted,
    /// A message could not be read, and why.
    Undecodable(&'static str),
}

impl Flaw {
    pub(crate) fn doubt(self, kind: Kind) -> Incomplete {
        match self {
            Flaw::Interrupted => Incomplete::Interrupted(kind),
            Flaw::Undecodable(why) => Incomplete::Undecodable(kind, why),
        }
    }
}

/// What is dumped, and what is made of it.
pub(crate) struct Dump<E, R> {
    pub(crate) encode: E,
    /// The type of its messages.
    pub(crate) new: u16,
    pub(crate) rows: R,
}

/// Takes the rows of a dump as they arrive.
pub(crate) trait Rows<T> {
    /// The dump begins, maybe not for the first time.
    fn begin(&mut self) {}

    /// Reads a row, appends to `items` what is to be kept of it, and tells where in the dump it is.
    fn row(&mut self, body: &[u8], items: &mut Vec<T>) -> Result<Option<Place>, Undecodable>;
}

impl<T, R: Rows<T>> Rows<T> for &mut R {
    fn begin(&mut self) {
        (**self).begin();
    }

    fn row(&mut self, body: &[u8], items: &mut Vec<T>) -> Result<Option<Place>, Undecodable> {
        (**self).row(body, items)
    }
}

/// Rows that are read whole, of which some are kept.
pub(crate) struct Decoded<D, K> {
    pub(crate) decode: D,
    pub(crate) keep: K,
}

impl<T, D, K> Rows<T> for Decoded<D, K>
where
    D: Fn(&[u8]) -> Result<Option<T>, Undecodable>,
    K: FnMut(&T) -> bool,
{
    fn row(&mut self, body: &[u8], items: &mut Vec<T>) -> Result<Option<Place>, Undecodable> {
        let item = (self.decode)(body)?;
        items.extend(item.filter(|item| (self.keep)(item)));
        Ok(None)
    }
}

/// Dumps within a window, and appends to `items` what is to be kept. Tells what speaks against the result being whole, and
/// whether the window gives grounds to think so. After an error `items` is as before.
pub(crate) fn read<T>(
    socket: &mut Socket,
    window: &mut Window<'_>,
    dump: Dump<impl FnOnce(&mut Vec<u8>) -> Result<(), EncodeError>, impl Rows<T>>,
    items: &mut Vec<T>,
) -> Result<(Option<Flaw>, bool), Error> {
    let Dump {
        encode,
        new,
        mut rows,
    } = dump;
    let mut request = Vec::new();
    if encode(&mut request).is_err() {
        // Requests are of a fixed, small size.
        return Ok((Some(Flaw::Interrupted), false));
    }
    window.open(socket)?;
    let before = items.len();
    let mut lost = None;
    let dump = socket.dump(&request, |step| match step {
        DumpStep::Begin => {
            items.truncate(before);
            lost = None;
            rows.begin();
            window.begin();
        }
        // A row is of this type; of any other nobody knows what it was to say.
        DumpStep::Message(message) if message.header.kind != new => {
            lost = Some(Flaw::Undecodable("its type is another"));
            window.row(None);
        }
        DumpStep::Message(message) => match rows.row(message.body, items) {
            Ok(place) => window.row(place),
            Err(undecodable) => {
                lost = Some(Flaw::Undecodable(undecodable.why));
                window.row(None);
            }
        },
        DumpStep::Part(length) => window.part(length),
    });
    match dump {
        Ok(dump) if dump.complete => Ok((lost, window.end(socket)?)),
        Ok(_) => Ok((Some(Flaw::Interrupted), false)),
        Err(error) => {
            items.truncate(before);
            Err(error)
        }
    }
}
