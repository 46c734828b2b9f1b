//! At the same time: the other writer acts while our passes run. Then it is quiet, and the state
//! must be as after turns.
//!
//! A pass reads and then acts. Where the kernel has no guard, changes in between are not seen: a
//! replace of a route or an address ignores the owner of the replaced one, and so does the delete
//! of an address. So the loss of another writer's object is excused only if it was written on a key
//! during the same pass that wrote there. Deletes of routes and rules name the protocol, and are
//! never excused. For links, IPv6 addresses and neighbours, the kernel does not always announce the
//! writer. For these kinds the test checks the other writer's estate, where we have nothing.
//!
//! Here the other writer does not use our marker, as the writer could not be known.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use trueup_e2e::property;
use trueup_e2e::world::{Id, Place, World, derived};
use trueup_testkit::fields::OURS;
use trueup_testkit::{Action, Changes, Kind, RawMessage, quiet_netns};

use crate::act::{self, Act, Case};
use crate::actor::Actor;
use crate::owners::Owners;
use crate::run::{Run, desired};

const NLM_F_REPLACE: u16 = 0x100;

pub(crate) fn whatever_he_does_while_we_pass_his_stays_and_ours_comes() {
    property::run("race", 8, act::case, |case| {
        quiet_netns();
        let mut run = Run::start(case, false);
        race(&mut run, case).map_err(|wrong| run.describe(&wrong))
    });
}

/// The other writer's objects, far from any of ours.
const ESTATE: [&str; 13] = [
    "link add e0 index 4000 type veth peer name e1",
    "link set e0 up",
    "link set e1 up",
    "address add 10.77.0.1/24 dev e0",
    "address add fd77::1/64 dev e0 nodad",
    "neighbour add 10.77.0.9 lladdr 02:00:00:00:77:09 nud permanent dev e0",
    "neighbour add fd77::9 lladdr 02:00:00:00:77:09 nud permanent dev e0",
    "route add 10.78.0.0/16 via 10.77.0.9 proto static",
    "route add 10.78.0.0/16 via 10.77.0.9 proto static table 100",
    "route add fd78::/32 via fd77::9 proto static",
    "rule add priority 700 from 10.78.0.0/16 lookup 100",
    "-6 rule add priority 700 from fd78::/32 lookup 100",
    "link add e2 type bridge",
];

fn race(run: &mut Run, case: &Case) -> Result<(), String> {
    run.other_writer.hold(&ESTATE.map(str::to_owned));
    run.base = World::look();
    let wanted = case.desired.each_ref().map(desired);
    let acts: Vec<Act> = case.turns.iter().flat_map(|turn| &turn.acts).cloned().collect();
    run.changes.take();

    // Odd while a pass runs.
    let pass = AtomicU32::new(0);
    let over = AtomicBool::new(false);
    let (other_writer, ours, changes) = (&mut run.other_writer, &mut run.ours, &mut run.changes);
    let (announced, describe) = thread::scope(|scope| {
        let writes = scope.spawn(|| {
            for act in &acts {
                other_writer.act(&act.clone().without_our_marker());
            }
        });
        let listens = scope.spawn(|| listen(changes, &pass, &over));
        let mut describe = Vec::new();
        for desired in wanted.iter().cycle() {
            pass.fetch_add(1, Ordering::SeqCst);
            describe.extend(ours.pass(desired).1);
            pass.fetch_add(1, Ordering::SeqCst);
            if writes.is_finished() {
                break;
            }
        }
        writes.join().unwrap();
        over.store(true, Ordering::SeqCst);
        (listens.join().unwrap(), describe)
    });
    run.other_writer.say("meanwhile:");
    run.other_writer.journal.extend(describe);
    let wrong = judge(&announced, &run.base, &run.other_writer);
    if !wrong.is_empty() {
        return Err(format!("what is his was touched:\n{wrong}"));
    }
    let missing = World::look().lacks(&run.base);
    if !missing.is_empty() {
        return Err(format!("his estate is not as it was:\n{missing}"));
    }
    run.owners = Owners::found(run.owners.by_marker, &World::look(), &run.other_writer.touched);
    run.end(&wanted[1], case.stays)
}

/// The numbers of the first and the last pass in which it may have happened, and the announcement
/// with the request's port and flags.
type Announced = (RangeInclusive<u32>, (RawMessage, u32, u16));

/// Returns all announcements until `over`.
fn listen(changes: &mut Changes, pass: &AtomicU32, over: &AtomicBool) -> Vec<Announced> {
    let mut announced = Vec::new();
    let mut from = pass.load(Ordering::SeqCst);
    loop {
        // Read it before the last take, so that nothing is missed.
        let last = over.load(Ordering::SeqCst);
        let before = pass.load(Ordering::SeqCst);
        let taken = changes.announcements();
        let to = pass.load(Ordering::SeqCst);
        announced.extend(taken.into_iter().map(|one| (from..=to, one)));
        // All announcements up to then were taken.
        from = before;
        if last {
            return announced;
        }
        thread::sleep(Duration::from_micros(200));
    }
}

/// Tracks the owner of each key, and reports every write of ours over an object that was the other
/// writer's before the pass began.
fn judge(announced: &[Announced], base: &World, other_writer: &Actor) -> String {
    let mut his: BTreeMap<Place, u32> = BTreeMap::new();
    for (id, _) in base.declared() {
        his.insert(id.place(), 0);
    }
    let mut wrong = String::new();
    for (during, (message, port, flags)) in announced {
        let id = Id::of(message);
        if matches!(message.kind, Kind::Link | Kind::Neighbour) || derived(message) {
            continue;
        }
        let by_him = other_writer.ports.contains(port);
        // For all other kinds the kernel announces the writer.
        let by_us = !by_him && *port != 0;
        let before = his.get(&id.place()).is_some_and(|wrote| wrote < during.start());
        let deleted = message.action == Action::Del;
        let guarded = matches!(message.kind, Kind::Route | Kind::Rule);
        let over = match message.kind {
            Kind::Route => flags & NLM_F_REPLACE != 0,
            Kind::Rule => false,
            _ => true,
        };
        let touched = match deleted {
            true if guarded => id.protocol != OURS,
            true => id.protocol != OURS && before,
            false => over && before,
        };
        if by_us && touched {
            wrong += &format!("in pass {during:?}, by port {port}, flags {flags:#x}: {message}\n");
        }
        if deleted {
            his.remove(&id.place());
        } else if by_him && id.protocol != OURS {
            his.insert(id.place(), *during.end());
        } else {
            his.remove(&id.place());
        }
    }
    wrong
}
