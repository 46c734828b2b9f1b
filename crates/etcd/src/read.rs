//! Reads of ranges, and entries as etcd has them.

use etcd_client::proto::PbKeyValue;
use etcd_client::{Client, GetOptions};
use trueup_world::{Entry, LeaseId, Revision, Snapshot};

use crate::endpoints::{Endpoints, revision};
use crate::failure::Failure;

/// So many entries are read at once first, unless they are larger than [`ANSWER`].
const PAGE: i64 = 1000;
/// Up to so many bytes a page grows, fourfold each time: for each one etcd before 3.4.24 walks over
/// all keys behind it, and a million of them in small pages took minutes.
const GROWN: usize = 24 << 20;
/// The largest answer to a read, in bytes. It has room for some 40 of the largest values.
const ANSWER: usize = 64 << 20;

/// Reads a range, in pages of one revision.
pub(crate) async fn read(
    endpoints: &Endpoints,
    client: Client,
    prefix: Vec<u8>,
    mut at: i64,
) -> Result<Snapshot, Failure> {
    let mut client = client.kv_client().max_decoding_message_size(ANSWER);
    let end = range_end(&prefix);
    let mut entries = Vec::new();
    let mut from = match prefix.is_empty() {
        true => vec![0],
        false => prefix,
    };
    let mut page = PAGE;
    loop {
        // The first page is linearisable, as etcd's default is; and so are the others, so that a
        // member that lags behind has their revision.
        let options = GetOptions::new()
            .with_range(end.clone())
            .with_revision(at)
            .with_limit(page);
        let answer = match client.get(from.clone(), Some(options)).await {
            Ok(answer) => answer.0,
            Err(error) if is_too_large(&error) && page > 1 => {
                page = (page / 8).max(1);
                continue;
            }
            Err(error) => return Err(error.into()),
        };
        let newest = endpoints.check(answer.header.as_ref())?;
        if at == 0 {
            at = i64::try_from(newest).unwrap_or(i64::MAX);
        }
        let mut size = 0;
        for kv in answer.kvs {
            size += kv.key.len() + kv.value.len() + 64;
            entries.push(entry(kv)?);
        }
        if 4 * size <= GROWN {
            page *= 4;
        }
        match (answer.more, entries.last()) {
            (true, Some(Entry { key, .. })) => from = [key, &[0][..]].concat(),
            _ => break,
        }
    }
    Ok(Snapshot {
        revision: Revision(revision(at)?),
        entries,
    })
}

fn is_too_large(error: &etcd_client::Error) -> bool {
    matches!(error, etcd_client::Error::GRpcStatus(status)
        if status.message().contains("decoded message length too large"))
}

/// The end of the range of keys that begin with a prefix: the next key that does not. etcd's sign
/// for all keys from the first one on is a zero byte.
pub(crate) fn range_end(prefix: &[u8]) -> Vec<u8> {
    let mut end = prefix.to_vec();
    while let Some(last) = end.pop() {
        if last < u8::MAX {
            end.push(last + 1);
            return end;
        }
    }
    vec![0]
}

/// An entry of etcd's as one of ours.
pub(crate) fn entry(kv: PbKeyValue) -> Result<Entry, Failure> {
    Ok(Entry {
        created: Revision(revision(kv.create_revision)?),
        modified: Revision(revision(kv.mod_revision)?),
        lease: (kv.lease != 0).then_some(LeaseId(kv.lease)),
        key: kv.key,
        value: kv.value,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_ends_before_the_next_key_without_the_prefix() {
        assert_eq!(range_end(b"/a"), b"/b");
        assert_eq!(range_end(b"a\xff\xff"), b"b");
        assert_eq!(range_end(b"\xff"), [0]);
        assert_eq!(range_end(b""), [0]);
    }
}
