//! Reads of ranges, and etcd's entries. A member's answers are checked: it decides neither how much
//! is held, nor how long a read goes on.

use std::sync::Arc;

use etcd_client::proto::PbKeyValue;
use etcd_client::{Client, GetOptions};
use trueup_world::{Entry, ErrorKind, LeaseId, Revision};

use crate::endpoints::{Endpoints, revision};
use crate::failure::Failure;

/// The entries in the first page of a read, unless they are larger than an answer may be.
const PAGE: usize = 1000;
/// The largest page in bytes, to which pages grow fourfold each time. etcd before 3.4.24 walks over
/// all further keys for each page. A million keys in small pages took minutes.
const GROWN: usize = 12 << 20;

/// Reads a range, in pages of one revision.
pub(crate) async fn read(
    endpoints: Arc<Endpoints>,
    client: Client,
    prefix: Arc<[u8]>,
    mut at: i64,
) -> Result<(Revision, Vec<Entry>), Failure> {
    let config = &endpoints.config;
    let mut reads = client.kv_client().max_decoding_message_size(config.largest_answer());
    let end = range_end(&prefix);
    let what = format!("the list of {}", prefix.escape_ascii());
    let mut entries: Vec<Entry> = Vec::new();
    let mut bytes = 0;
    let mut from = first_key(&prefix);
    let (mut page, mut largest) = (PAGE, usize::MAX);
    loop {
        // The first page is linearisable, as is etcd's default. So are the others, in case a member
        // lags behind that revision.
        let options = GetOptions::new()
            .with_range(end.clone())
            .with_revision(at)
            .with_limit(i64::try_from(page).unwrap_or(i64::MAX));
        let answer = match reads.get(from.clone(), Some(options)).await {
            Ok(answer) => answer.0,
            Err(error) => {
                let failure = Failure::from(error);
                if failure.kind != ErrorKind::TooLarge || page == 1 {
                    return Err(failure);
                }
                largest = page / 2;
                page = (page / 8).max(1);
                continue;
            }
        };
        let newest = endpoints.check(answer.header.as_ref())?;
        if at == 0 {
            at = i64::try_from(newest).unwrap_or(i64::MAX);
        }
        if newest < revision(at)? || answer.kvs.len() > page {
            return Err(Failure::broken(
                "the answer to a read is older, or has more entries, than was asked for",
            ));
        }
        let before = bytes;
        for kv in answer.kvs {
            if kv.key < from || !kv.key.starts_with(&prefix[..]) {
                return Err(Failure::broken(
                    "the answer to a read has a key twice, or one that was not asked for",
                ));
            }
            from = [&kv.key, &[0][..]].concat();
            bytes += kv.key.len() + kv.value.len();
            entries.push(entry(kv)?);
            config.read_limits.check(&what, entries.len(), bytes)?;
        }
        if !answer.more {
            break;
        }
        let size = bytes - before;
        if size == 0 {
            return Err(Failure::broken("the answer to a read says more, and has none"));
        }
        if 4 * (size + 64 * page) <= GROWN {
            page = (4 * page).min(largest);
        }
    }
    Ok((Revision(revision(at)?), entries))
}

/// Reads one key.
pub(crate) async fn read_key(
    endpoints: Arc<Endpoints>,
    client: Client,
    key: Arc<[u8]>,
) -> Result<Option<Entry>, Failure> {
    let answer = client.kv_client().get(&*key, None).await?.0;
    endpoints.check(answer.header.as_ref())?;
    let found = answer.kvs.into_iter().next();
    if found.as_ref().is_some_and(|kv| *kv.key != *key) {
        return Err(Failure::broken("the answer to a read has another key"));
    }
    found.map(entry).transpose()
}

/// Returns the first key that begins with a prefix. etcd has no empty key.
pub(crate) fn first_key(prefix: &[u8]) -> Vec<u8> {
    if prefix.is_empty() { vec![0] } else { prefix.to_vec() }
}

/// Returns the end of the range of keys that begin with a prefix: the next key that does not. etcd
/// writes "all further keys" as a zero byte.
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

/// Converts etcd's entry. Fails if a field is not valid.
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
