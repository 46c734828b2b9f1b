//! The prefixes of this host that others also export: since when, and the notes about them.

use std::collections::BTreeMap;
use std::time::{Duration, Instant, SystemTime};

use serde_json::{Value, json};
use trueup_world::{Contest, ContestEffect};

use crate::status::seconds;

/// The subject of a contest: this host's export, the other host, and the effect. The number of the
/// other host's exports does not matter.
type Id = (String, String, ContestEffect);

/// A contest, and the time when this process first saw it.
#[derive(Clone, Debug, PartialEq)]
pub struct Contested {
    pub since: SystemTime,
    pub contest: Contest,
}

impl Contested {
    fn id(&self) -> Id {
        let Contest { name, other: (_, origin), effect, .. } = &self.contest;
        (name.clone(), origin.exporter.clone(), *effect)
    }

    pub(crate) fn json(&self) -> Value {
        let Contest { name, dst, created, other: (theirs, origin), count, effect, .. } =
            &self.contest;
        json!({
            "export": name,
            "dst": dst.to_string(),
            "revision": created.map(|it| it.0),
            "effect": effect.name(),
            "host": origin.exporter,
            "other_export": origin.name,
            "other_dst": theirs.to_string(),
            "other_revision": origin.created.0,
            "count": count,
            "since": seconds(self.since),
        })
    }
}

/// Returns the current contests. Earlier ones keep their times.
pub(crate) fn contested(contests: Vec<Contest>, before: &[Contested]) -> Vec<Contested> {
    let now = SystemTime::now();
    let known: BTreeMap<Id, SystemTime> = before.iter().map(|it| (it.id(), it.since)).collect();
    let found = contests.into_iter().map(|contest| {
        let mut found = Contested { since: now, contest };
        found.since = known.get(&found.id()).copied().unwrap_or(now);
        found
    });
    found.collect()
}

/// The time until a contest is noted again. So a host that exports and withdraws without end cannot
/// fill the log.
const QUIET: Duration = Duration::from_secs(60);

/// The most contests noted at once.
const MOST: usize = 20;

/// The notes about contests so far.
#[derive(Default)]
pub(crate) struct ContestNotes(BTreeMap<Id, Noted>);

struct Noted {
    at: Instant,
    /// True until the contest's end is noted.
    is_there: bool,
}

impl ContestNotes {
    /// Returns the notes that are due at `now`.
    pub(crate) fn due(&mut self, contested: &[Contested], now: Instant) -> Vec<String> {
        let there: BTreeMap<Id, &Contest> =
            contested.iter().map(|it| (it.id(), &it.contest)).collect();
        let mut notes = Vec::new();
        for (id, noted) in &mut self.0 {
            if noted.is_there && !there.contains_key(id) {
                noted.is_there = false;
                let (name, host, _) = id;
                let export = name.escape_debug();
                notes.push(format!("export `{export}` is no longer contested by host {host}"));
            }
        }
        self.0.retain(|_, noted| noted.is_there || now.saturating_duration_since(noted.at) < QUIET);
        for (id, contest) in there {
            self.0.entry(id).or_insert_with(|| {
                notes.push(contest.to_string());
                Noted { at: now, is_there: true }
            });
        }
        let more = notes.len().saturating_sub(MOST);
        notes.truncate(MOST);
        if more > 0 {
            notes.push(format!(
                "{more} more changes of contested exports: `trueup world doctor` lists them"
            ));
        }
        notes
    }
}

#[cfg(test)]
mod tests {
    use trueup_file::{File, TableNames, exported_route};
    use trueup_world::{Acceptance, Entry, Hosts, ResourceKey, Revision};

    use super::*;

    const FILE: &str = "[world]\nstore = \"embedded\"\nhost = \"a\"\n[[export]]\nname = \"pods\"\n\
                        route = { dst = \"10.20.1.0/24\", via = \"10.0.0.11\" }\n";

    fn contests(hosts: &[&str]) -> Vec<Contested> {
        let file = File::parse("f", FILE.as_bytes(), &TableNames::default()).unwrap();
        let own = file.exports.iter().flatten().map(|it| (&*it.name, &it.route));
        let mut acceptance = Acceptance::new(&[], "a", exported_route).with_exports(own);
        for exporter in hosts {
            let key = ResourceKey {
                exporter: (*exporter).to_owned(),
                recipient: Hosts::Any,
                kind: "route".to_owned(),
                name: b"x".to_vec(),
            };
            let data = b"{ \"dst\": \"10.20.1.0/24\", \"via\": \"10.0.0.9\" }".to_vec();
            let (created, revision) = (Revision(7), Revision(7));
            let entry =
                Entry { key: Vec::new(), value: data, created, modified: revision, lease: None };
            acceptance.insert(&key, &entry.into());
        }
        contested(acceptance.contests(), &[])
    }

    #[test]
    fn a_contest_is_noted_once_with_the_taker_and_its_end_as_well() {
        let (mut notes, begun) = (ContestNotes::default(), Instant::now());
        let taken = contests(&["b"]);
        let noted = notes.due(&taken, begun);
        assert!(matches!(&noted[..], [one] if one.contains("is taken by host b")), "{noted:?}");
        assert_eq!(notes.due(&taken, begun + QUIET), Vec::<String>::new());
        let ended = notes.due(&[], begun + QUIET);
        assert_eq!(ended, ["export `pods` is no longer contested by host b"]);
        // It is new again, and the minute since the note is over.
        assert_eq!(notes.due(&taken, begun + 2 * QUIET).len(), 1);
    }

    #[test]
    fn a_host_that_flaps_fills_no_log_and_one_that_stays_is_noted_after_all() {
        let (mut notes, begun) = (ContestNotes::default(), Instant::now());
        let taken = contests(&["b"]);
        let mut number = 0;
        for n in 0..1_000 {
            let at = begun + n * Duration::from_millis(50);
            number += notes.due(&taken, at).len() + notes.due(&[], at).len();
        }
        assert_eq!(number, 2);
        assert!(notes.due(&taken, begun + QUIET / 2).is_empty());
        assert_eq!(notes.due(&taken, begun + QUIET).len(), 1);
    }

    #[test]
    fn many_takers_are_summed_up() {
        let hosts: Vec<String> = (0..100).map(|n| format!("h{n}")).collect();
        let hosts: Vec<&str> = hosts.iter().map(|it| &**it).collect();
        let noted = ContestNotes::default().due(&contests(&hosts), Instant::now());
        assert_eq!(noted.len(), MOST + 1);
        assert!(noted[MOST].starts_with("80 more"), "{}", noted[MOST]);
    }

    #[test]
    fn a_contest_keeps_its_time_while_it_lasts() {
        let mut before = contests(&["b"]);
        before[0].since = SystemTime::UNIX_EPOCH;
        let all = contests(&["b", "c"]).into_iter().map(|it| it.contest);
        let now = contested(all.collect(), &before);
        let is_old: Vec<bool> = now.iter().map(|it| it.since == SystemTime::UNIX_EPOCH).collect();
        assert_eq!(is_old, [true, false]);
        assert_eq!(now[0].json()["host"], "b");
        assert_eq!(now[0].json()["effect"], "takes");
    }
}
