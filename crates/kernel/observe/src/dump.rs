//! A single dump, decoded row by row.

use std::ops::ControlFlow;

use trueup_net::Kind;
use trueup_netlink::codec::{RowPosition, Undecodable};
use trueup_netlink::{DumpStep, Error, Socket};

use crate::completeness::Incomplete;
use crate::dump_guard::DumpGuard;

/// A dump to make.
pub(crate) struct DumpRequest<'a> {
    pub(crate) kind: Kind,
    /// The request, one netlink message.
    pub(crate) request: &'a [u8],
    /// The message type of the rows.
    pub(crate) row_type: u16,
}

/// Reads the rows of a dump as they arrive.
pub(crate) trait RowReader<T> {
    /// Begins an attempt of the dump: forgets the rows of earlier attempts.
    fn begin(&mut self) {}

    /// Reads a row, appends to `items` what to keep of it, and returns its position in the dump.
    fn row(&mut self, body: &[u8], items: &mut Vec<T>) -> Result<Option<RowPosition>, Undecodable>;
}

impl<T, F> RowReader<T> for F
where
    F: FnMut(&[u8]) -> Result<Option<T>, Undecodable>,
{
    fn row(&mut self, body: &[u8], items: &mut Vec<T>) -> Result<Option<RowPosition>, Undecodable> {
        items.extend(self(body)?);
        Ok(None)
    }
}

/// Makes a dump under a guard and appends the kept rows to `items`. Returns why the dump is
/// incomplete by its own account, and whether the guard found it undisturbed. After an error
/// `items` is as before.
pub(crate) fn read_dump<T>(
    socket: &mut Socket,
    guard: &mut DumpGuard<'_>,
    dump: &DumpRequest<'_>,
    rows: &mut impl RowReader<T>,
    items: &mut Vec<T>,
) -> Result<(Option<Incomplete>, bool), Error> {
    let DumpRequest { kind, request, row_type } = *dump;
    guard.open(socket)?;
    let before = items.len();
    let mut lost = None;
    let dump = socket.dump_while(request, |step| {
        match step {
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
            DumpStep::Part(length) => return guard.part(length),
        }
        ControlFlow::Continue(())
    });
    match dump {
        Ok(None) => Ok((None, false)),
        Ok(Some(dump)) if dump.complete => Ok((lost, guard.end(socket)?)),
        Ok(Some(_)) => Ok((Some(Incomplete::Interrupted(kind)), false)),
        Err(error) => {
            items.truncate(before);
            Err(error)
        }
    }
}
