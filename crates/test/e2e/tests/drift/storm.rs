//! More events than any reader can handle: all at once, and without end.

use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use trueup_loop::Config;
use trueup_net::{Desired, Object, Routes};
use trueup_rtnl::{Namespace, Rtnl};
use trueup_testkit::{Kind, is_long, raw_dump, uplinks};

use crate::agent::{Agent, BOUND, until};
use crate::alone;
use crate::layer::{self, Fault};
use crate::other_writer::{Do, HIS, OURS, OtherWriter, route, v4, v6, wanted};

/// The number of events in a burst.
const EVENTS: usize = 100_000;
/// The permitted growth of the process's memory in bytes. Holding an event would take at least 60,
/// so six million for all.
const GROWTH: u64 = 5_500_000;

pub(crate) fn a_burst_is_one_overrun_and_is_mended() {
    alone::run("burst");
}

fn routes(all: impl IntoIterator<Item = u32>) -> Desired {
    let all = all.into_iter().flat_map(|at| [v4(at), v6(at)]);
    Desired::default().with_routes(all.map(wanted).collect::<Routes>())
}

/// Returns true if the routes with our marker are exactly the desired ones.
fn stands(desired: &Desired) -> bool {
    let mut there = Vec::new();
    for family in [2, 10] {
        let rows = raw_dump(Kind::Route, family).into_iter();
        there.extend(rows.filter(|row| row.protocol() == Some(OURS)));
    }
    // RTA_DST
    let mut there: Vec<_> = there.iter().map(|row| row.attrs[&1].clone()).collect();
    let wanted = desired.routes.iter().flat_map(Routes::iter);
    let mut wanted: Vec<Vec<u8>> = wanted
        .map(|route| match route.dst.address() {
            std::net::IpAddr::V4(address) => address.octets().to_vec(),
            std::net::IpAddr::V6(address) => address.octets().to_vec(),
        })
        .collect();
    there.sort();
    wanted.sort();
    there == wanted
}

/// Runs in a separate process.
pub(crate) fn burst() {
    uplinks(1);
    let mut other_writer = OtherWriter::open();
    let desired = routes(0..100);
    let namespace = layer::over(Namespace::current(), Fault::SmallestBuffer);
    // The timer starts no pass.
    let config = Config::default().with_interval(Duration::from_secs(3_600));
    let agent = Agent::start(Rtnl::new(), namespace, desired.clone(), config);
    agent.converges();
    // With our marker: the agent gets no announcements of other routes.
    let churned: Vec<Object> =
        (200..250).flat_map(|at| [route(v4(at), OURS), route(v6(at), OURS)]).collect();
    let mine: Vec<Object> =
        (0..40).flat_map(|at| [route(v4(at), OURS), route(v6(at), OURS)]).collect();

    let before = agent.handle().stats();
    held(&agent, &mut other_writer, &churned, &mine);
    until("what was done is undone", || stands(&desired));
    agent.converges();
    let after = agent.handle().stats();
    // If the uplink's announcements overran the first pass, and no full pass has ended since, the
    // overrun is still counted as that one.
    let record = 1.max(before.overruns)..=before.overruns + 1;
    assert!(record.contains(&after.overruns), "reported once: {after:?}");
    assert!(after.full_passes > before.full_passes + 1, "a whole pass follows: {after:?}");

    // Without holding the agent back: it may keep up.
    let begin = Instant::now();
    let passes = agent.passes();
    storm(&mut other_writer, &churned, &mine);
    until("what was done is undone", || stands(&desired));
    agent.converges();
    let debounce = Config::default().debounce();
    let most = begin.elapsed().as_secs_f64() / debounce.as_secs_f64() + 2.0;
    let passes = agent.passes() - passes;
    assert!(passes as f64 <= most, "{passes} passes in {:?}", begin.elapsed());

    // A full pass ends the last overrun.
    agent.handle().force(BOUND).unwrap();
    let after = agent.handle().stats();
    // The program itself is in memory by now, which counts as well.
    fs::write("/proc/self/clear_refs", "5").unwrap();
    let memory = peak();
    held(&agent, &mut other_writer, &churned, &mine);
    until("what was done is undone", || stands(&desired));
    agent.converges();
    let last = agent.handle().stats();
    assert!(last.overruns > after.overruns, "{last:?}");
    let numbers: Vec<u64> = (1..=last.overruns).collect();
    assert_eq!(agent.record().overruns, numbers, "each is reported");

    let growth = peak() - memory;
    assert!(growth < GROWTH, "{growth} bytes more");
    eprintln!("burst: {growth} bytes more, {passes} passes, {} overruns", last.overruns);
    agent.stop();
}

/// Makes a storm while a pass of the agent is held, so that its events must overrun.
fn held(agent: &Agent, other_writer: &mut OtherWriter, churned: &[Object], ours: &[Object]) {
    let gate = agent.gate();
    let passes = agent.passes();
    agent.handle().hint().unwrap();
    until("a pass is held", || agent.passes() > passes);
    storm(other_writer, churned, ours);
    drop(gate);
}

/// Creates and deletes routes regardless of the agent, until there were enough events. At the end
/// half of them exist, and many of ours do not.
fn storm(other_writer: &mut OtherWriter, churned: &[Object], ours: &[Object]) {
    for _ in 0..EVENTS / churned.len() / 2 {
        other_writer.tries(Do::Create, churned);
        other_writer.tries(Do::Delete, churned);
    }
    other_writer.tries(Do::Create, &churned[..churned.len() / 2]);
    other_writer.tries(Do::Delete, ours);
}

pub(crate) fn a_permanent_writer_neither_starves_nor_spins_us() {
    const TABLE: u32 = 20_000;
    uplinks(1);
    let mut other_writer = OtherWriter::open();
    // Of four destinations in a row, one is the other writer's, one sometimes ours, and two are
    // free for routes that come and go.
    let his: Vec<Object> = (0..TABLE).map(|at| route(v6(4 * at), HIS)).collect();
    other_writer.create(&his);
    let ours = |at: u32| 400 * (at % 200) + 1;
    let desired =
        Desired::default().with_routes((0..200).map(|at| wanted(v6(ours(at)))).collect::<Routes>());
    let interval = Duration::from_millis(500);
    let config = Config::default().with_interval(interval).with_interval_factor(0);
    let agent = Agent::start(Rtnl::new(), Namespace::current(), desired, config);
    agent.converges();

    let quiet = AtomicBool::new(false);
    let rounds = if is_long() { 60 } else { 4 };
    thread::scope(|scope| {
        let _quiet = Quiet(&quiet);
        let writes = scope.spawn(|| {
            let mut writer = OtherWriter::open();
            let churned: Vec<Object> =
                (0..1_000).map(|at| route(v6(4 * (at * 997 % TABLE) + 2), HIS)).collect();
            let mut count = 0;
            while !quiet.load(Ordering::Relaxed) {
                // Write at most one batch at a time, and leave nothing behind.
                for some in churned.chunks(100) {
                    let both = [Do::Create, Do::Delete];
                    writer.write(both.iter().flat_map(|verb| some.iter().map(|it| (*verb, it))));
                    count += 2 * some.len();
                }
            }
            count
        });
        let begin = (Instant::now(), agent.handle().stats(), agent.passes());
        let any_suspect = || agent.record().passes[begin.2..].iter().any(|pass| pass.suspect);
        let mut done = 0;
        // The number of suspect passes depends on the writer's speed.
        while done < rounds || !any_suspect() && begin.0.elapsed() < BOUND {
            let dst = v6(ours(done * 13));
            assert!(other_writer.takes(&route(dst, OURS)), "it was there");
            until("what is ours comes back", || other_writer.sees_ours(dst));
            thread::sleep(Duration::from_millis(300));
            done += 1;
        }
        // A pass is reported at its end.
        until("each is reported", || {
            let record = agent.record();
            let applied = record.passes[begin.2..].iter().map(|pass| pass.applied);
            applied.sum::<usize>() >= done as usize
        });
        let (elapsed, after) = (begin.0.elapsed(), agent.handle().stats());
        let record = agent.record();
        let during = &record.passes[begin.2..];
        let (passes, seconds) = (during.len(), elapsed.as_secs_f64());
        // At most one for each debounce, and one for each interval, less its jitter.
        let most = seconds / 0.1 + seconds / (interval.as_secs_f64() * 0.9) + 2.0;
        assert!(passes as f64 <= most, "{passes} passes in {elapsed:?}");
        let whole = after.full_passes - begin.1.full_passes;
        assert!(whole > 0, "the timer is not starved either");
        let suspect = during.iter().filter(|pass| pass.suspect).count();
        let converged = during.iter().filter(|pass| pass.converged).count();
        assert!(during.iter().all(|pass| !(pass.suspect && pass.converged)));
        assert!(suspect > 0, "{converged} converged");
        let applied: usize = during.iter().map(|pass| pass.applied).sum();
        assert_eq!(applied, done as usize, "what was deleted, and no more");
        drop(record);
        quiet.store(true, Ordering::Relaxed);
        let count = writes.join().unwrap();
        eprintln!(
            "permanent writer: {:.0} writes a second, {passes} passes in {elapsed:.1?}, {whole} of them whole, \
             {suspect} suspect, {converged} converged",
            count as f64 / seconds
        );
    });
    // The last announced pass may still be under way.
    until("converged at last", || agent.record().passes.last().is_some_and(|pass| pass.converged));
    agent.stop();
}

/// Ends the writer, even if the test fails.
struct Quiet<'a>(&'a AtomicBool);

impl Drop for Quiet<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Returns the peak resident memory in bytes (`VmHWM`).
///
/// Writing 5 to `clear_refs` resets it to the current use (proc_pid_clear_refs(5)).
fn peak() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:"));
    let kibibytes = line.and_then(|line| line.split_whitespace().nth(1));
    kibibytes.unwrap().parse::<u64>().unwrap() * 1024
}
