//! Reads the objects of one kind by its codec's dumps.

use std::marker::PhantomData;
use std::ops::ControlFlow;

use trueup_net::{Kind, Link, ObjectKind};
use trueup_netlink::codec::{
    Consistency, DumpQuery, KindCodec, ReadScope, RowPosition, Undecodable,
};
use trueup_netlink::{DumpStep, Error, ErrorKind, Socket};

use crate::completeness::{Incomplete, ReadResult};
use crate::dump_guard::DumpGuard;
use crate::observer::Observer;

/// Reads a kind's objects within a scope for which `keep` returns true, in key order.
pub(crate) fn read_kind<K: KindCodec>(
    observer: &mut Observer,
    scope: &ReadScope,
    links: &[Link],
    mut keep: impl FnMut(&K) -> bool,
) -> ReadResult<K> {
    let mut all = Rows::default();
    for query in K::dumps(scope, observer.socket.strict()) {
        let (rows, incomplete) = observer.read_rows(scope, &query, &mut keep)?;
        all.add(rows, incomplete);
        all.is_sorted &= query.consistency != Consistency::Flagged;
    }
    all.rows.retain(|object| object.is_within(scope));
    K::complete(&mut all.rows, links);
    Ok(all.into_sorted())
}

impl Observer {
    /// Makes a dump, and returns the decoded objects for which `keep` returns true.
    pub(crate) fn read_rows<K: KindCodec>(
        &mut self,
        scope: &ReadScope,
        query: &DumpQuery,
        keep: impl FnMut(&K) -> bool,
    ) -> ReadResult<K> {
        let mut rows = DecodedRows { scope, query, keep, kind: PhantomData };
        self.read_query(query, &mut rows)
    }

    /// Repeats a dump until it is consistent.
    pub(crate) fn read_query<K: KindCodec>(
        &mut self,
        query: &DumpQuery,
        rows: &mut impl RowReader<K>,
    ) -> ReadResult<K> {
        let dump = DumpRequest { kind: K::KIND, request: &query.request, row_type: K::NEW };
        if query.consistency == Consistency::Flagged {
            return match self.read_flagged(&dump, rows) {
                Err(error) if is_empty::<K>(query, &error) => Ok((Vec::new(), None)),
                answer => answer,
            };
        }
        self.read_until_consistent(K::KIND, query.consistency, |socket, guard, items| {
            match read_dump(socket, guard, &dump, rows, items) {
                Err(error) if is_empty::<K>(query, &error) => Ok((None, true)),
                answer => answer,
            }
        })
    }

    /// Makes a dump that the kernel flags if it is interrupted.
    pub(crate) fn read_flagged<T>(
        &mut self,
        dump: &DumpRequest<'_>,
        rows: &mut impl RowReader<T>,
    ) -> ReadResult<T> {
        let mut items = Vec::new();
        let mut guard = DumpGuard::new(&mut self.listener, Consistency::Flagged);
        let (incomplete, _) = read_dump(&mut self.socket, &mut guard, dump, rows, &mut items)?;
        Ok((items, incomplete))
    }
}

/// Returns true if a dump's refusal means that there are no such objects: the kernel lacks the
/// kind, or the table.
fn is_empty<K: KindCodec>(query: &DumpQuery, error: &Error) -> bool {
    let is_one_table = matches!(query.consistency, Consistency::Routes { table: Some(_), .. });
    error.kind() == ErrorKind::Kernel
        && match error.errno() {
            Some(libc::EOPNOTSUPP) => K::IS_OPTIONAL,
            Some(libc::ENOENT) => is_one_table,
            _ => false,
        }
}

/// Decodes every row and keeps the objects for which `keep` returns true.
struct DecodedRows<'a, K, F> {
    scope: &'a ReadScope,
    query: &'a DumpQuery,
    keep: F,
    kind: PhantomData<K>,
}

impl<K: KindCodec, F: FnMut(&K) -> bool> RowReader<K> for DecodedRows<'_, K, F> {
    fn row(&mut self, body: &[u8], items: &mut Vec<K>) -> Result<Option<RowPosition>, Undecodable> {
        let (object, position) = K::decode_row(body, self.scope, self.query)?;
        items.extend(object.filter(|object| (self.keep)(object)));
        Ok(position)
    }
}

/// The rows of several dumps.
pub(crate) struct Rows<K> {
    rows: Vec<K>,
    is_sorted: bool,
    incomplete: Option<Incomplete>,
}

impl<K> Default for Rows<K> {
    fn default() -> Rows<K> {
        Rows { rows: Vec::new(), is_sorted: true, incomplete: None }
    }
}

impl<K: ObjectKind> Rows<K> {
    /// Adds the rows of a dump, which are in key order.
    pub(crate) fn add(&mut self, rows: Vec<K>, incomplete: Option<Incomplete>) {
        self.incomplete = incomplete.or(self.incomplete.take());
        match (self.rows.last(), rows.first()) {
            (None, _) => self.rows = rows,
            (Some(last), Some(first)) => {
                self.is_sorted &= last.key() <= first.key();
                self.rows.extend(rows);
            }
            (Some(_), None) => {}
        }
    }

    /// Returns all rows in key order.
    pub(crate) fn into_sorted(mut self) -> (Vec<K>, Option<Incomplete>) {
        if !self.is_sorted {
            self.rows.sort_by_cached_key(ObjectKind::key);
        }
        (self.rows, self.incomplete)
    }
}

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
    /// Begins an attempt of the dump: drops the rows of earlier attempts.
    fn begin(&mut self) {}

    /// Reads a row, appends the objects to keep to `items`, and returns the row's position in the
    /// dump.
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

/// Makes a dump under a guard and appends the kept rows to `items`. Returns the reason if the dump
/// itself shows that it is incomplete, and true if the guard found it undisturbed. After an error
/// `items` is unchanged.
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
            // A message of another type could contain anything.
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
