//! The members of the cluster, for diagnostics.

use std::collections::HashMap;
use std::sync::Arc;

use etcd_client::Client;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout_at};
use trueup_world::{Error, StoreMember};

use crate::endpoints::Endpoints;
use crate::failure::{Failure, cut};

/// The most members, addresses and faults that are shown. A cluster has at most seven members.
const MOST: usize = 64;

/// A member's answer about itself.
struct Status {
    id: u64,
    client: Client,
    /// The member's newest revision.
    revision: i64,
    is_leader: bool,
    size: Option<u64>,
    size_in_use: Option<u64>,
    quota: Option<u64>,
    faults: Vec<String>,
}

/// Asks all endpoints at once. Takes the list of members from the first that answers, which may
/// have no leader. Asks those that answer for a hash of their data. The hashes must be equal.
pub(crate) async fn members(endpoints: Arc<Endpoints>) -> Result<Vec<StoreMember>, Error> {
    let last_end = endpoints.deadline();
    let end = last_end - endpoints.config.timeout / 4;
    let mut tasks = JoinSet::new();
    for index in 0..endpoints.config.endpoints.len() {
        let endpoints = Arc::clone(&endpoints);
        tasks.spawn(async move {
            let asked = timeout_at(end, ask(&endpoints, index)).await;
            (index, asked.unwrap_or_else(|_| Err(Failure::timeout(true))))
        });
    }
    let mut list = None;
    let mut statuses = HashMap::new();
    let mut unreachable = HashMap::new();
    let mut last = None;
    while let Some(joined) = tasks.join_next().await {
        match joined {
            Ok((_, Ok((members, status)))) => {
                list.get_or_insert(members);
                statuses.insert(status.id, status);
            }
            Ok((index, Err(failure))) => {
                let error = endpoints.error(index, failure, false);
                unreachable.insert(endpoints.url(index).to_owned(), error.to_string());
                last = Some(error);
            }
            // The task was aborted or panicked. The member counts as silent.
            Err(_) => {}
        }
    }
    let Some(list) = list else {
        return Err(last.unwrap_or_else(|| endpoints.error(0, Failure::timeout(true), false)));
    };
    compare(&mut statuses, last_end).await;
    let mut members: Vec<_> = list
        .into_iter()
        .map(|(id, mut member)| {
            if let Some(status) = statuses.remove(&id) {
                member.is_leader = Some(status.is_leader);
                member.size = status.size;
                member.size_in_use = status.size_in_use;
                member.quota = status.quota;
                member.faults = status.faults;
            } else {
                let mut faults = member.endpoints.iter().filter_map(|url| unreachable.remove(url));
                member.faults = vec![faults.next().unwrap_or_else(|| {
                    "not asked: no endpoint of the configuration is its own".to_owned()
                })];
            }
            member
        })
        .collect();
    members.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(members)
}

async fn ask(
    endpoints: &Endpoints,
    index: usize,
) -> Result<(Vec<(u64, StoreMember)>, Status), Failure> {
    let client = endpoints.connect(index, false).await?;
    let answer = client.maintenance_client().status().await?.0;
    endpoints.check(answer.header.as_ref())?;
    let header = answer.header.unwrap_or_default();
    let id = header.member_id;
    // Each member's answer has the alarms of all members.
    let own = id.to_string();
    let faults = (answer.errors.iter())
        .filter(|fault| !fault.starts_with("memberID:") || fault.contains(&own))
        .take(MOST);
    let status = Status {
        id,
        client: client.clone(),
        revision: header.revision,
        is_leader: answer.leader == id,
        size: bytes(answer.db_size),
        size_in_use: bytes(answer.db_size_in_use),
        quota: bytes(answer.db_size_quota),
        faults: faults.map(|fault| cut(fault.trim()).to_owned()).collect(),
    };
    let list = client.cluster_client().member_list().await?.0;
    let members = list.members.into_iter().take(MOST).map(|member| {
        let without_answer = StoreMember {
            name: cut(&member.name).to_owned(),
            endpoints: member.client_ur_ls.into_iter().take(MOST).collect(),
            is_leader: None,
            size: None,
            size_in_use: None,
            quota: None,
            faults: Vec::new(),
        };
        (member.id, without_answer)
    });
    Ok((members.collect(), status))
}

/// Converts a size in bytes from a status. `None` for 0, which a member without this field sends.
fn bytes(field: i64) -> Option<u64> {
    u64::try_from(field).ok().filter(|bytes| *bytes > 0)
}

/// Finds the members whose data differs from that of most others, at a revision that all have.
/// Leaves out members that do not answer in time, or not to this user.
async fn compare(statuses: &mut HashMap<u64, Status>, end: Instant) {
    let Some(at) = statuses.values().map(|status| status.revision).min() else {
        return;
    };
    let mut tasks = JoinSet::new();
    for (&id, status) in &*statuses {
        let mut client = status.client.maintenance_client();
        tasks.spawn(async move {
            let answer = timeout_at(end, client.hash_kv(at)).await.ok()?.ok()?;
            // The hash covers only uncompacted data.
            Some((id, (answer.hash(), answer.compact_version())))
        });
    }
    let mut hashes = HashMap::new();
    while let Some(joined) = tasks.join_next().await {
        hashes.extend(joined.ok().flatten());
    }
    let is_comparable =
        hashes.values().all(|it| it.1 == hashes.values().next().map_or(0, |it| it.1));
    for (id, hash) in &hashes {
        let count = hashes.values().filter(|it| *it == hash).count();
        let is_odd = count * 2 <= hashes.len() && count < hashes.len();
        if let Some(status) = statuses.get_mut(id).filter(|_| is_odd && is_comparable) {
            status.faults.push(format!(
                "its data differs from that of other members at revision {at}: remove it, and add \
                 it again without its data"
            ));
        }
    }
}
