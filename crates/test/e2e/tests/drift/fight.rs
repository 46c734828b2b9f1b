//! Another writer deletes an object of ours whenever it exists.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use trueup_loop::Config;
use trueup_net::{Desired, Routes};
use trueup_rtnl::{Namespace, Rtnl};
use trueup_testkit::{is_long, uplinks};

use crate::agent::{Agent, until, within};
use crate::other_writer::{OURS, OtherWriter, route, v4, v6, wanted};

/// The interval at which the other writer looks for the object.
const HIS_TURN: Duration = Duration::from_millis(200);
/// Returns the tolerance for a reported delay: for the passes themselves on a busy machine. The
/// long run is concurrent with storms.
fn slack() -> Duration {
    Duration::from_secs(if is_long() { 30 } else { 3 })
}

pub(crate) fn a_writer_that_deletes_without_end_is_reported_and_answered_with_delays() {
    let lasts = Duration::from_secs(if is_long() { 60 } else { 8 });
    uplinks(1);
    let desired = Desired::default()
        .with_routes((0..20).flat_map(|at| [v4(at), v6(at)]).map(wanted).collect::<Routes>());
    let agent = Agent::start(Rtnl::new(), Namespace::current(), desired, Config::default());
    agent.converges();

    let fought = v6(3);
    let over = AtomicBool::new(false);
    let begin = (Instant::now(), agent.passes());
    let (taken, absences) = thread::scope(|scope| {
        let _over = Over(&over);
        let deletes = scope.spawn(|| {
            let mut other_writer = OtherWriter::open();
            let mut taken = 0;
            while begin.0.elapsed() < lasts && !over.load(Ordering::Relaxed) {
                taken += usize::from(other_writer.takes(&route(fought, OURS)));
                thread::sleep(HIS_TURN);
            }
            taken
        });
        let watches = absences(&agent, &over, fought);
        (deletes.join().unwrap(), watches)
    });

    let record = agent.record();
    let during = &record.passes[begin.1..];
    let restored: usize = during.iter().map(|pass| pass.applied).sum();
    // Each deletion implies a restoration; only the last restoration may still be due.
    assert!(taken - restored <= 1, "taken {taken} times, restored {restored} times");
    assert!(restored >= 3, "before it counts as a fight, and after: {restored}");
    // The first three are almost immediate, the next after 1 s, 2 s, 4 s and so on.
    let bound = 4 + (lasts.as_secs_f64() + 1.0).log2().ceil() as usize;
    assert!(restored <= bound, "{restored} times in {lasts:?}");
    // While the object is absent, there is no event and no pass. After each restoration, one pass
    // sees the delete, and one runs when the delay is over.
    let timer = lasts.as_secs_f64() / (Config::default().interval().as_secs_f64() * 0.9);
    let most = 4 * restored + timer as usize + 4;
    assert!(during.len() <= most, "{} passes: {during:#?}", during.len());
    assert!(record.contentions > 0, "it is reported");
    for (absent, held) in &absences {
        assert!(*absent <= *held + slack(), "gone for {absent:?}, reported {held:?}");
    }
    eprintln!(
        "fight: taken {taken} times, restored {restored} times, {} passes, gone for {absences:.1?}",
        during.len()
    );
    let left = during.iter().rev().find_map(|pass| pass.held);
    drop(record);

    // The other writer has stopped, so the object is back for good.
    let left = left.unwrap_or_default();
    let mut eye = OtherWriter::open();
    within(left + 2 * slack(), "it is back", || eye.sees_ours(fought));
    until("nothing is amiss", || agent.record().passes.last().is_some_and(|pass| pass.converged));
    agent.stop();
}

/// Watches the object until the deleter ends: returns the length of each absence, and the longest
/// delay reported during it.
fn absences(
    agent: &Agent,
    over: &AtomicBool,
    dst: trueup_net::Prefix,
) -> Vec<(Duration, Duration)> {
    let lasts = Duration::from_secs(if is_long() { 60 } else { 8 });
    let mut eye = OtherWriter::open();
    let mut all = Vec::new();
    let mut gone: Option<(Instant, usize)> = None;
    let begin = Instant::now();
    while begin.elapsed() < lasts && !over.load(Ordering::Relaxed) {
        match (eye.sees_ours(dst), gone) {
            (false, None) => gone = Some((Instant::now(), agent.passes())),
            (true, Some((since, passes))) => {
                let record = agent.record();
                // Include the pass that was under way when the object was first missing.
                let during = &record.passes[passes.saturating_sub(1)..];
                let held = during.iter().filter_map(|pass| pass.held).max();
                all.push((since.elapsed(), held.unwrap_or_default()));
                gone = None;
            }
            _ => {}
        }
        thread::sleep(Duration::from_millis(5));
    }
    all
}

/// Ends the deleter, even if the test fails.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
