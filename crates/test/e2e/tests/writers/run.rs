//! A case under way: the other writer's deeds, our passes, and what is proved of each.

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

/// With a quiet other writer so many passes are enough.
const FEW: usize = 4;

pub(crate) struct Run {
    pub(crate) other_writer: Actor,
    pub(crate) ours: Ours,
    pub(crate) owners: Owners,
    pub(crate) changes: Changes,
    /// What was there before anybody acted, and is to be in the end.
    pub(crate) base: World,
    /// Where what is his may be taken, what was.
    taken: Option<Taken>,
}

/// What a specification desires, of what can be.
pub(crate) fn desired(spec: &DesiredSpec) -> Desired {
    let mut spec = spec.clone();
    // No process may set the pair up.
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

    /// What is wrong, and how it came to that.
    pub(crate) fn describe(&self, wrong: &str) -> String {
        format!("{wrong}\n\nwhat happened:\n{}", self.other_writer.journal.join("\n"))
    }

    /// The other writer acts, and no other process.
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

    /// He is quiet from now on, and goes before all of ours does, or after.
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

    /// A pass with its proofs: what is his is as it was, and nothing was announced of it.
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
            // The kernel announces by itself that a link moved and that an IPv6 address is usable,
            // and not by whom one was written.
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
        // That an IPv6 address is usable the kernel tells in its own time.
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

    /// With a quiet other writer: after a few passes one changes nothing, and says why where it is
    /// not as desired.
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

    /// With no process in the way a few passes are enough, of which the last changes nothing.
    fn converges(&mut self, desired: &Desired) -> Result<(), String> {
        match self.comes_to_rest(desired)? {
            Some(report) if report.converged() => Ok(()),
            _ => Err("nothing is in the way, and still it does not converge".to_owned()),
        }
    }

    /// What of ours is there and is not to be, and what was taken and is not restored, is so for
    /// what the report says.
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
