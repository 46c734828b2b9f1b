//! One dump, decoded row by row.

use trueup_diff::Kind;
use trueup_netlink::codec::{EncodeError, Undecodable};
use trueup_netlink::{DumpStep, Error, Socket};

use crate::completeness::Incomplete;
use crate::dump_guard::{DumpGuard, RowPosition};

/// A dump to make, and the reader of its rows.
pub(crate) struct DumpRequest<E, R> {
    pub(crate) kind: Kind,
    /// Encodes the request.
    pub(crate) encode: E,
    /// The message type of the rows.
    pub(crate) row_type: u16,
    pub(crate) rows: R,
}

/// Reads the rows of a dump as they arrive.
pub(crate) trait RowReader<T> {
    /// Begins an attempt of the dump: forgets the rows of earlier attempts.
    fn begin(&mut self) {}

    /// Reads a row, appends to `items` what to keep of it, and returns its position in the dump.
    fn row(&mut self, body: &[u8], items: &mut Vec<T>) -> Result<Option<RowPosition>, Undecodable>;
}

impl<T, R: RowReader<T>> RowReader<T> for &mut R {
    fn begin(&mut self) {
        (**self).begin();
    }

    fn row(&mut self, body: &[u8], items: &mut Vec<T>) -> Result<Option<RowPosition>, Undecodable> {
        (**self).row(body, items)
    }
}

/// Decodes every row and keeps those that `keep` wants.
pub(crate) struct DecodedRows<D, K> {
    pub(crate) decode: D,
    pub(crate) keep: K,
}

impl<T, D, K> RowReader<T> for DecodedRows<D, K>
where
    D: Fn(&[u8]) -> Result<Option<T>, Undecodable>,
    K: FnMut(&T) -> bool,
{
    fn row(&mut self, body: &[u8], items: &mut Vec<T>) -> Result<Option<RowPosition>, Undecodable> {
        let item = (self.decode)(body)?;
        items.extend(item.filter(|item| (self.keep)(item)));
        Ok(None)
    }
}

/// Makes a dump under a guard and appends the kept rows to `items`. Returns why the dump is
/// incomplete by its own account, and whether the guard found it undisturbed. After an error `items`
/// is as before.
pub(crate) fn read_dump<T>(
    socket: &mut Socket,
    guard: &mut DumpGuard<'_>,
    dump: DumpRequest<impl FnOnce(&mut Vec<u8>) -> Result<(), EncodeError>, impl RowReader<T>>,
    items: &mut Vec<T>,
) -> Result<(Option<Incomplete>, bool), Error> {
    let DumpRequest {
        kind,
        encode,
        row_type,
        mut rows,
    } = dump;
    let mut request = Vec::new();
    if encode(&mut request).is_err() {
        // Requests are of a fixed, small size.
        return Ok((Some(Incomplete::Interrupted(kind)), false));
    }
    guard.open(socket)?;
    let before = items.len();
    let mut lost = None;
    let dump = socket.dump(&request, |step| match step {
        DumpStep::Begin => {
            items.truncate(before);
            lost = None;
            rows.begin();
            guard.begin();
        }
        // A message of another type could hold anything.
        DumpStep::Message(message) if message.header.kind != row_type => {
            lost = Some(Incomplete::Undecodable(kind, "its type is another"));
            guard.row(None);
        }
        DumpStep::Message(message) => match rows.row(message.body, items) {
            Ok(position) => guard.row(position),
            Err(undecodable) => {
                lost = Some(Incomplete::Undecodable(kind, undecodable.why));
                guard.row(None);
            }
        },
        DumpStep::Part(length) => guard.part(length),
    });
    match dump {
        Ok(dump) if dump.complete => Ok((lost, guard.end(socket)?)),
        Ok(_) => Ok((Some(Incomplete::Interrupted(kind)), false)),
        Err(error) => {
            items.truncate(before);
            Err(error)
        }
    }
}
