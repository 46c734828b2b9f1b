//! A running case: the other writer's acts, our passes, and the checks after each.

use std::collections::BTreeSet;

use trueup_e2e::cases::author;
use trueup_e2e::cases::spec::DesiredSpec;
use trueup_e2e::desired::nothing;
use trueup_e2e::world::{Id, World, derived};
use trueup_net::Desired;
use trueup_reconcile::Report as _;
use trueup_rtnl::{Options, Report};
use trueup_testkit::{Action, Changes, Kind};

use crate::act::{Act, Case};
use crate::actor::Actor;
use crate::oracle::{as_desired, lines};
use crate::ours::{Ours, reasons};
use crate::owners::{Owners, Whose};
use crate::taken::{Taken, keeps_its_mark};

/// The number of passes that suffice if the other writer is quiet.
const FEW: usize = 4;

pub(crate) struct Run {
    pub(crate) other_writer: Actor,
    pub(crate) ours: Ours,
    pub(crate) owners: Owners,
    pub(crate) changes: Changes,
    /// The state before any act, which must return at the end.
    pub(crate) base: World,
    /// The overridden objects, if we may override.
    taken: Option<Taken>,
}

/// Returns the possible part of a specification's desired state.
pub(crate) fn desired(spec: &DesiredSpec) -> Desired {
    let mut spec = spec.clone();
    // No process may set the permanent pair up.
    if let Some(links) = &mut spec.links {
        links.retain(|link| author::LINKS[link.which] != author::FOREIGN[0]);
    }
    let present = BTreeSet::from([author::FOREIGN[0].to_owned(), "lo".to_owned()]);
    author::desired(&spec, &present, true)
}

impl Run {
    pub(crate) fn start(case: &Case, take: bool) -> Run {
        let other_writer = Actor::settle();
        let changes = Changes::watch();
        let options = Options::default().with_take(take);
        let ours = Ours::new(options, case.ledger);
        Run {
            other_writer,
            ours: match case.restarts {
                true => ours.restarting(),
                false => ours,
            },
            owners: Owners::new(!case.ledger),
            changes,
            base: World::look(),
            taken: take.then(Taken::default),
        }
    }

    /// Returns the fault with its history.
    pub(crate) fn describe(&self, wrong: &str) -> String {
        format!("{wrong}\n\nwhat happened:\n{}", self.other_writer.journal.join("\n"))
    }

    /// Makes the other writer's acts, and attributes the changes.
    pub(crate) fn invade(&mut self, acts: &[Act]) {
        let before = World::look();
        self.other_writer.say("the other writer:");
        self.other_writer.renamed.clear();
        for act in acts {
            self.other_writer.act(act);
        }
        self.invaded(&before);
    }

    fn invaded(&mut self, before: &World) {
        let after = World::look();
        self.owners.invaded(before, &after, &self.other_writer.renamed);
        if let Some(taken) = &mut self.taken {
            taken.invaded(before, &after);
        }
    }

    /// Ends a case: the other writer is quiet, and its objects are deleted before ours, or after.
    pub(crate) fn end(&mut self, wanted: &Desired, stays: bool) -> Result<(), String> {
        self.comes_to_rest(wanted)?;
        if !stays {
            self.withdraw();
            self.converges(wanted)?;
            self.say_desired(&nothing());
        } else {
            self.other_writer.say("everything of ours is to go, though he is there");
            let report = self.comes_to_rest(&nothing())?;
            self.what_is_left_has_a_reason(report)?;
            self.withdraw();
        }
        self.converges(&nothing())?;
        let now = World::look();
        let (left, lost) = (self.base.lacks(&now), now.lacks(&self.base));
        if left.is_empty() && lost.is_empty() {
            Ok(())
        } else {
            Err(format!("everything of both is gone, but left is\n{left}and lost is\n{lost}"))
        }
    }

    pub(crate) fn say_desired(&mut self, desired: &Desired) {
        self.other_writer.say("desired:");
        self.other_writer.journal.extend(lines(desired));
    }

    fn withdraw(&mut self) {
        let before = World::look();
        let owners = &self.owners;
        self.other_writer.withdraw(|id, row| {
            let whose = owners.whose(id, row);
            whose == Whose::His || whose == Whose::Open
        });
        self.other_writer.renamed.clear();
        self.invaded(&before);
    }

    /// Makes a pass with its checks: the other writer's objects are unchanged, and no announcement
    /// is about them.
    pub(crate) fn pass(&mut self, desired: &Desired) -> Result<(Option<Report>, usize), String> {
        let before = World::look();
        self.changes.take();
        let (report, describe) = self.ours.pass(desired);
        let announced = self.changes.announcements();
        let after = World::look();
        self.other_writer.journal.extend(describe);
        let mut wrong = String::new();
        for (id, row) in self.owners.of(&before, Whose::His) {
            if before.kept_of(id) == after.kept_of(id) {
                continue;
            }
            let taken = self.taken.as_mut();
            if taken.is_some_and(|taken| taken.permits(id, &before, &after, desired)) {
                continue;
            }
            wrong += &format!("was {}\n", before.line(row));
            for now in after.rows.get(id).into_iter().flatten() {
                wrong += &format!("is  {}\n", after.line(now));
            }
        }
        for (message, port, _) in &announced {
            let id = Id::of(message);
            let Some(rows) = before.rows.get(&id) else {
                continue;
            };
            // For a moved link and a usable IPv6 address, the kernel announces no port, and so no
            // writer.
            let describe = message.action == Action::Del || *port != 0;
            let taken = self.taken.as_ref().is_some_and(|taken| taken.holds(&id));
            let given_back = self.taken.is_some() && keeps_its_mark(&id);
            let excused = taken || given_back;
            if describe && !excused && self.owners.whose(&id, &rows[0]) == Whose::His {
                wrong += &format!("announced {message} (port {port})\n");
            }
        }
        if let Some(taken) = &mut self.taken {
            taken.forget_stranded(&after);
        }
        self.owners.passed(&before, &after);
        for (id, rows) in after.declared() {
            let came = !before.rows.contains_key(id);
            let taken = self.taken.as_mut();
            let back = came && taken.is_some_and(|taken| taken.gives_back(id, &after));
            if came && !back && self.owners.whose(id, &rows[0]) == Whose::His {
                wrong += &format!("came {}\n", after.line(&rows[0]));
            }
        }
        // The kernel announces a usable IPv6 address asynchronously.
        let moved = announced.iter().filter(|(message, port, _)| {
            let usable = (message.kind, message.action, *port) == (Kind::Address, Action::New, 0);
            !derived(message) && !usable
        });
        if wrong.is_empty() {
            Ok((report, moved.count()))
        } else {
            Err(format!("what is his was touched:\n{wrong}"))
        }
    }

    /// Makes passes, with a quiet other writer, until one changes nothing. If the state is not as
    /// desired, that pass must give a reason.
    fn comes_to_rest(&mut self, desired: &Desired) -> Result<Option<Report>, String> {
        for _ in 0..FEW {
            let (report, announced) = self.pass(desired)?;
            let applied = report.as_ref().map_or(0, |report| report.applied().count());
            if applied + announced > 0 {
                continue;
            }
            if let Some(report) = &report {
                if report.converged() {
                    as_desired(&self.owners, desired)?;
                } else if reasons(report) == 0 {
                    return Err("did not converge, and gave no reason".to_owned());
                }
            }
            return Ok(report);
        }
        Err(format!("{FEW} passes, and each changed something"))
    }

    /// Checks that without obstacles a few passes suffice, the last of which changes nothing.
    fn converges(&mut self, desired: &Desired) -> Result<(), String> {
        match self.comes_to_rest(desired)? {
            Some(report) if report.converged() => Ok(()),
            _ => Err("nothing is in the way, and still it does not converge".to_owned()),
        }
    }

    /// Checks that the report has reasons for our undesired objects and for overridden ones not
    /// restored.
    fn what_is_left_has_a_reason(&self, report: Option<Report>) -> Result<(), String> {
        let now = World::look();
        let left = self.owners.of(&now, Whose::Ours);
        let mut lines: String = left.map(|(_, row)| now.line(row) + "\n").collect();
        lines += &self.taken.as_ref().map_or(String::new(), Taken::lines);
        let excused = report.map_or(0, |report| reasons(&report));
        match lines.is_empty() || excused > 0 {
            true => Ok(()),
            false => Err(format!("left without a reason:\n{lines}")),
        }
    }
}
