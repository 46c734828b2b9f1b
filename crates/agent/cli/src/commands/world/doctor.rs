//! `doctor`: the problems of the store, of this host's rights, and of its session.

use std::fmt;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Result;
use serde::Serialize;
use trueup::world::{Filter, Grants, StoreMember};
use trueup_file::File;

use super::{Opened, Store, WRONG, print};
use crate::commands::note_cautions;
use crate::{Common, output};
use trueup_agent::exchange::{Collection, Use, open, owner, read_grants};

/// A finding about one subject, with its problems.
#[derive(Serialize)]
struct Finding {
    about: String,
    state: String,
    problems: Vec<String>,
}

impl Finding {
    fn new(
        about: impl Into<String>,
        state: impl Into<String>,
        problems: impl IntoIterator<Item = String>,
    ) -> Finding {
        Finding {
            about: about.into(),
            state: state.into(),
            problems: problems.into_iter().collect(),
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Finding { about, state, problems } = self;
        write!(f, "{about}: {state}")?;
        problems.iter().try_for_each(|problem| write!(f, "; problem: {problem}"))
    }
}

const OF_ALL: &str = "exports of all hosts";

pub(super) fn doctor(common: &Common, store: &Store) -> Result<ExitCode> {
    let opened = store.open(common, Use::Read)?;
    note_cautions(&opened.declared);
    let (declared, world) = (&opened.declared, &opened.world);
    let mut findings: Vec<Finding> = world.store().members()?.iter().map(member).collect();
    findings.extend(endpoints(&opened));

    let (granted, of_grants) = grants(&opened);
    findings.extend(of_grants);
    let collected = world.collect(&[Filter::all()]);
    match &collected {
        Ok(collected) => {
            let number = collected.resources.len();
            let mut resources = collected.resources.clone();
            // Includes exports that are addressed to one host.
            resources.extend(world.exports().unwrap_or_default());
            let collection = opened.collection(granted, &resources)?;
            findings.extend(own_exports(&declared.file, &collection));
            let accepted = collection.accepted(&declared.file);
            let overlaps = accepted.overlaps.iter().map(ToString::to_string);
            let malformed = collected.malformed.iter().map(ToString::to_string);
            let state = format!(
                "{} readable at revision {}, {} refused",
                output::count(number, "export", "exports"),
                collected.revision.0,
                accepted.refused.len()
            );
            findings.push(Finding::new(OF_ALL, state, malformed.chain(overlaps)));
        }
        Err(error) => findings.push(Finding::new(OF_ALL, "not readable", [error.to_string()])),
    }
    findings.extend(access(&opened, collected.is_ok()));
    #[cfg(feature = "etcd")]
    if let Some((state, problems)) = super::exposure::exposure(&opened) {
        let about = "clients without a user and a certificate";
        findings.push(Finding::new(about, state, problems));
    }
    if collected.is_ok() {
        findings.push(session(&opened)?);
    }
    let is_wrong = findings.iter().any(|it| !it.problems.is_empty());
    for finding in &findings {
        print(common.format, finding)?;
    }
    Ok(ExitCode::from(if is_wrong { WRONG } else { 0 }))
}

/// Returns the valid grants of the operator with a finding about them. Both are `None` if the file
/// has no key.
fn grants(opened: &Opened) -> (Option<Arc<Grants>>, Option<Finding>) {
    let Opened { named, state, world, .. } = opened;
    match read_grants(world, named, state, |_| Ok(())) {
        Ok(None) => (None, None),
        Ok(Some(grants)) => {
            let hosts = output::count(grants.prefixes().len(), "host", "hosts");
            let state = format!("list {} of {hosts}", grants.serial());
            (Some(grants), Some(Finding::new("grants", state, [])))
        }
        Err(error) => {
            let state = "none count, so that nothing is taken from any host";
            (None, Some(Finding::new("grants", state, [output::with_causes(&error)])))
        }
    }
}

/// Returns a finding about this host's exports: which of them lose traffic to other hosts, since
/// which revision, and which are not granted.
fn own_exports(declared: &File, collection: &Collection) -> Option<Finding> {
    let number = declared.exports.as_ref().map_or(0, Vec::len);
    let contests = collection.contests();
    let taken = contests.iter().filter(|it| it.is_loss()).count();
    let contested = contests.iter().map(ToString::to_string);
    (number > 0).then(|| {
        let takers =
            output::count(taken, "export of another host takes", "exports of other hosts take");
        let state = format!("{number} declared, {takers} from them");
        let problems = contested.chain(collection.ungranted(declared));
        Finding::new("exports of this host", state, problems)
    })
}

/// Returns a finding for each endpoint of the file, with its response time.
fn endpoints(opened: &Opened) -> Vec<Finding> {
    let named = &opened.named;
    let Some(urls) = &named.endpoints else {
        return Vec::new();
    };
    let findings = urls.iter().map(|url| {
        let (state, problem) = match latency(opened, url) {
            Ok(took) => {
                let slow = (took > named.ttl / SLOW).then(|| {
                    format!(
                        "that is much of the time to live, {} s, and a lease that is renewed too \
                         late ends: give endpoints that are nearer, or a longer ttl",
                        named.ttl.as_secs()
                    )
                });
                (format!("answers a read in {:.1} ms", took.as_secs_f64() * 1e3), slow)
            }
            Err(error) => ("no answer".to_owned(), Some(output::with_causes(error.as_ref()))),
        };
        Finding::new(format!("endpoint {url}"), state, problem)
    });
    findings.collect()
}

/// A response that takes this share of the time to live is slow.
const SLOW: u32 = 10;

/// Returns the duration of a read through one endpoint, once it is connected.
fn latency(Opened { named, state, .. }: &Opened, url: &str) -> Result<Duration> {
    let mut alone = named.clone();
    alone.endpoints = Some(vec![url.to_owned()]);
    let world = open(&alone, state.directory(), Use::Read)?;
    // A key that every host may read.
    let key = format!("{}/cluster/size", named.prefix);
    world.store().read(key.as_bytes(), None)?;
    let begun = Instant::now();
    world.store().read(key.as_bytes(), None)?;
    Ok(begun.elapsed())
}

/// Checks that etcd refuses a host's forbidden reads. A user of etcd who may read other hosts'
/// private keys has more rights than `init` gives.
fn access(Opened { named, world, .. }: &Opened, is_readable: bool) -> Option<Finding> {
    let Some((user, _)) = &named.credentials else {
        let is_open = named.endpoints.is_some() && is_readable;
        let state = "off, so that every client may do everything: `trueup world init` turns it on";
        return is_open.then(|| Finding::new("access control", state, []));
    };
    let private = format!("{}/private/", named.prefix);
    let is_read = world.store().read(private.as_bytes(), None).is_ok();
    let problem = "it may read what other hosts keep for themselves: `trueup world init` makes a \
                   user who may not";
    Some(Finding::new(
        format!("user {user}"),
        "its password is right",
        is_read.then(|| problem.to_owned()),
    ))
}

/// The remedy if the database of a member of etcd is full, or nearly full.
const MAKE_ROOM: &str = "compact the history (`etcdctl compact REVISION`), give its room back \
                         (`etcdctl defrag`), and end the alarm (`etcdctl alarm disarm`); if that \
                         is not enough, start the members with a larger --quota-backend-bytes";

/// The percentage of its quota at which a database is nearly full.
const NEARLY_FULL: u64 = 80;

fn member(member: &StoreMember) -> Finding {
    let state = match member.is_leader {
        Some(true) => "leader",
        Some(false) => "follower",
        None => "unknown",
    };
    let mut problems = member.faults.clone();
    let is_alarmed = problems.iter().any(|fault| fault.contains("NOSPACE"));
    let used = member.size.zip(member.quota);
    let is_nearly_full =
        used.is_some_and(|(size, quota)| size > quota.saturating_mul(NEARLY_FULL) / 100);
    if is_alarmed {
        problems.push(format!("its database is full, and nothing is written: {MAKE_ROOM}"));
    } else if is_nearly_full {
        problems.push(format!(
            "its database has more than {NEARLY_FULL} % of its quota, and with all of it nothing \
             is written: {MAKE_ROOM}"
        ));
    }
    Finding::new(format!("member {}", member.name), format!("{state}{}", size(member)), problems)
}

/// Returns the size and the limit of a member's database.
fn size(member: &StoreMember) -> String {
    let Some(size) = member.size else {
        return String::new();
    };
    let Some(in_use) = member.size_in_use else {
        return format!(", {size} bytes");
    };
    let quota = match member.quota {
        Some(quota) => format!("quota {quota}"),
        None => "quota not reported: its --quota-backend-bytes, 2 GB unless set".to_owned(),
    };
    format!(", {size} bytes, {in_use} in use, {quota}")
}

/// Returns a finding about the owner of the session with this host's name.
fn session(Opened { state, world, .. }: &Opened) -> Result<Finding> {
    let about = format!("session of {}", world.host());
    let members = world.members()?;
    let Some(of) = members.get(world.host()) else {
        return Ok(Finding::new(about, "none; `trueup watch` begins one", []));
    };
    let is_own = state.world_id()?.is_some_and(|id| owner(&id) == *of);
    if is_own {
        return Ok(Finding::new(about, "of this agent", []));
    }
    let problem = format!(
        "it is of another owner, {of}: give one of the two hosts another name, if both run"
    );
    Ok(Finding::new(about, "of another owner", [problem]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_database_near_its_quota_is_a_problem_with_its_remedy() {
        let mut of = StoreMember {
            name: "m0".to_owned(),
            endpoints: Vec::new(),
            is_leader: Some(false),
            size: Some(80),
            size_in_use: Some(40),
            quota: Some(100),
            faults: Vec::new(),
        };
        let finding = member(&of).to_string();
        assert_eq!(finding, "member m0: follower, 80 bytes, 40 in use, quota 100");
        of.size = Some(81);
        let problems = member(&of).problems;
        assert!(matches!(&problems[..], [one] if one.contains("etcdctl defrag")), "{problems:?}");
        of.quota = None;
        let finding = member(&of);
        assert!(finding.state.contains("--quota-backend-bytes"), "{finding}");
        assert!(finding.problems.is_empty(), "{finding}");
    }
}
