//! `doctor`: what is wrong with the store, this host's rights, and its session.

use std::fmt;
use std::process::ExitCode;

use anyhow::Result;
use serde::Serialize;
use trueup::world::{Filter, StoreMember};
use trueup_file::Overlap;

use super::{Opened, Store, WRONG, print};
use crate::world::{Collection, Use, owner};
use crate::{Common, output};

/// What was found about one thing.
#[derive(Serialize)]
struct Finding {
    about: String,
    state: String,
    problems: Vec<String>,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Finding {
            about,
            state,
            problems,
        } = self;
        write!(f, "{about}: {state}")?;
        problems
            .iter()
            .try_for_each(|problem| write!(f, "; problem: {problem}"))
    }
}

pub(super) fn doctor(common: &Common, store: &Store) -> Result<ExitCode> {
    let opened = store.open(common, Use::Read)?;
    let (declared, world) = (&opened.declared, &opened.world);
    let mut findings: Vec<Finding> = world.store().members()?.iter().map(member).collect();

    let collected = world.collect(&[Filter::all()]);
    match &collected {
        Ok(collected) => {
            let number = collected.resources.len();
            let resources = collected.resources.clone();
            let collection = Collection::new(&declared.file, world.host(), resources);
            let accepted = collection.accepted(&declared.file);
            let overlaps = accepted.overlaps.iter().map(overlap);
            let malformed = collected.malformed.iter().map(ToString::to_string);
            findings.push(Finding {
                about: "exports of all hosts".to_owned(),
                state: format!(
                    "{} readable at revision {}, {} refused",
                    output::count(number, "export", "exports"),
                    collected.revision.0,
                    accepted.refused.len()
                ),
                problems: malformed.chain(overlaps).collect(),
            });
        }
        Err(error) => findings.push(Finding {
            about: "exports of all hosts".to_owned(),
            state: "not readable".to_owned(),
            problems: vec![error.to_string()],
        }),
    }
    if let Some(user) = user_with_all_rights(&opened) {
        findings.push(user);
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

/// A user of etcd who may read what hosts keep for themselves has more rights than `init` gives.
fn user_with_all_rights(Opened { named, world, .. }: &Opened) -> Option<Finding> {
    let user = &named.credentials.as_ref()?.user;
    let private = format!("{}/private/", named.prefix);
    let is_read = world.store().read(private.as_bytes(), None).is_ok();
    let problem = "it may read what other hosts keep for themselves: `trueup world init` makes a \
                   user who may not";
    Some(Finding {
        about: format!("user {user}"),
        state: "its password is right".to_owned(),
        problems: is_read.then(|| problem.to_owned()).into_iter().collect(),
    })
}

fn overlap(overlap: &Overlap) -> String {
    let ((outer, of), (inner, within)) = (&overlap.outer, &overlap.inner);
    format!("{inner} ({within}) is a part of {outer} ({of}): the kernel prefers the longer one")
}

fn member(member: &StoreMember) -> Finding {
    let size = member.size.map(|size| format!(", {size} bytes"));
    let state = match member.is_leader {
        Some(true) => "leader",
        Some(false) => "follower",
        None => "unknown",
    };
    Finding {
        about: format!("member {}", member.name),
        state: format!("{state}{}", size.unwrap_or_default()),
        problems: member.faults.clone(),
    }
}

/// Whose session has this host's name.
fn session(Opened { state, world, .. }: &Opened) -> Result<Finding> {
    let about = format!("session of {}", world.host());
    let members = world.members()?;
    let Some(of) = members.get(world.host()) else {
        return Ok(Finding {
            about,
            state: "none; `trueup watch` begins one".to_owned(),
            problems: Vec::new(),
        });
    };
    let is_own = owner(state) == *of;
    let problem = format!(
        "it is of another owner, {of}: give one of the two hosts another name, if both run"
    );
    Ok(Finding {
        about,
        state: if is_own {
            "of this agent"
        } else {
            "of another owner"
        }
        .to_owned(),
        problems: (!is_own).then_some(problem).into_iter().collect(),
    })
}
