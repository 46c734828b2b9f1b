//! Shrinks a failing script: fewer turns, acts, faults and desired objects, as long as it breaks
//! the same invariant.

use trueup_net::{Collection, Desired, Keyed};

use crate::run::run;
use crate::script::{Injection, Script};

/// The limit of runs for shrinking.
const MOST_RUNS: usize = 600;

pub(crate) fn shrink(script: &Script, invariant: u8) -> Script {
    let mut shrinking = Shrinking { best: script.clone(), invariant, runs: 0 };
    shrinking.whole();
    shrinking.best
}

struct Shrinking {
    best: Script,
    invariant: u8,
    runs: usize,
}

impl Shrinking {
    fn whole(&mut self) {
        self.keep_what_was_drawn();
        loop {
            let before = self.runs;
            let size = size_of(&self.best);
            self.remove_each(
                |script| script.turns.len(),
                |script, at| drop(script.turns.remove(at)),
            );
            for turn in 0..self.best.turns.len() {
                self.remove_each(
                    |script| script.turns[turn].acts.len(),
                    |script, at| drop(script.turns[turn].acts.remove(at)),
                );
                self.remove_each(
                    |script| script.turns[turn].faults.len(),
                    |script, at| drop(script.turns[turn].faults.remove(at)),
                );
                self.attempt(|script| script.turns[turn].disk.clear());
                self.attempt(|script| script.turns[turn].event = None);
                self.attempt(|script| script.turns[turn].desired = None);
                // Keep the routes' dependencies: without them the run could never converge.
                let first = if self.invariant == 8 { 2 } else { 0 };
                for part in first..PARTS {
                    self.remove_each(
                        |script| script.turns[turn].desired.as_ref().map_or(0, |it| len(it, part)),
                        |script, at| {
                            if let Some(desired) = &mut script.turns[turn].desired {
                                remove(desired, part, at);
                            }
                        },
                    );
                }
            }
            self.attempt(|script| script.setup.limit = None);
            self.attempt(|script| script.setup.by_ledger = false);
            self.attempt(|script| script.setup.is_masked = false);
            if size == size_of(&self.best) || self.runs == before || self.runs > MOST_RUNS {
                return;
            }
        }
    }

    /// Replaces drawn acts by their results.
    fn keep_what_was_drawn(&mut self) {
        let done = run(&self.best);
        self.attempt(|script| {
            for (turn, of_turn) in script.turns.iter_mut().enumerate() {
                let acts = of_turn.acts.len();
                for (slot, act) in of_turn.acts.iter_mut().enumerate() {
                    if let Some(known) = done.drawn.get(&(turn, slot)) {
                        *act = known.clone();
                    }
                }
                for (slot, (_, injection)) in of_turn.faults.iter_mut().enumerate() {
                    let known = done.drawn.get(&(turn, acts + slot));
                    if let (Injection::Act(act), Some(known)) = (injection, known) {
                        *act = known.clone();
                    }
                }
            }
        });
    }

    fn attempt(&mut self, change: impl FnOnce(&mut Script)) -> bool {
        let mut script = self.best.clone();
        change(&mut script);
        self.runs += 1;
        if self.runs > MOST_RUNS || script.turns.is_empty() {
            return false;
        }
        let fails = run(&script).violation.is_some_and(|it| it.invariant == self.invariant);
        if fails {
            self.best = script;
        }
        fails
    }

    /// Removes each element of a list without which the script still fails, the last first.
    fn remove_each(&mut self, len: impl Fn(&Script) -> usize, remove: impl Fn(&mut Script, usize)) {
        for at in (0..len(&self.best)).rev() {
            self.attempt(|script| remove(script, at));
        }
    }
}

fn size_of(script: &Script) -> usize {
    let turns = script.turns.iter();
    turns
        .map(|turn| {
            let desired = turn.desired.as_ref();
            let objects: usize = (0..PARTS).map(|part| desired.map_or(0, |it| len(it, part))).sum();
            let rest = usize::from(turn.event.is_some()) + usize::from(desired.is_some());
            1 + turn.acts.len() + turn.faults.len() + turn.disk.len() + objects + rest
        })
        .sum()
}

const PARTS: usize = 5;

fn len(desired: &Desired, part: usize) -> usize {
    match part {
        0 => desired.links.as_ref().map_or(0, Collection::len),
        1 => desired.addresses.as_ref().map_or(0, Collection::len),
        2 => desired.neighbours.as_ref().map_or(0, Collection::len),
        3 => desired.routes.as_ref().map_or(0, |routes| routes.iter().count()),
        _ => desired.rules.as_ref().map_or(0, Collection::len),
    }
}

fn remove(desired: &mut Desired, part: usize, at: usize) {
    match part {
        0 => remove_at(&mut desired.links, at),
        1 => remove_at(&mut desired.addresses, at),
        2 => remove_at(&mut desired.neighbours, at),
        3 => {
            let routes = desired.routes.take();
            desired.routes = routes.map(|routes| {
                let routes = routes.iter().enumerate().filter(|(of, _)| *of != at);
                routes.map(|(_, route)| route).collect()
            });
        }
        _ => remove_at(&mut desired.rules, at),
    }
}

fn remove_at<A: Keyed>(objects: &mut Option<Collection<A>>, at: usize) {
    if let Some(objects) = objects {
        let key = objects.keys().nth(at).cloned();
        key.iter().for_each(|key| drop(objects.remove(key)));
    }
}
