//! What a loop costs that has nothing to do, in a namespace where other writers are busy: processor
//! time of its thread, passes, and the messages that it sends to change anything, of which there
//! are to be none.

use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use nix::sys::resource::{UsageWho, getrusage};
use trueup_benches::crowd;
use trueup_benches::writer::{self, Verb, encode};
use trueup_loop::{Config, Loop};
use trueup_net::Object;
use trueup_netlink::{Namespace, Socket};
use trueup_rtnl::{MemoryLedger, Options, Rtnl};
use trueup_testkit::crash::Points;

#[allow(missing_docs, reason = "the macro documents the flags, not the struct that it makes")]
mod flags {
    xflags::xflags! {
        /// Measures what a loop costs beside busy other writers.
        cmd stillness {
            /// For how many seconds; 60 by default.
            optional --seconds seconds: u64
            /// How many objects other writers change a second; 1,000 by default.
            optional --rate changes: u32
            /// How many routes are ours; 1,000 by default.
            optional --managed routes: u32
            /// How many foreign ones stay as they are; 100,000 by default.
            optional --foreign routes: u32
        }
    }
}

const BOUND: Duration = Duration::from_secs(30);

fn main() -> Result<()> {
    trueup_testkit::enter()?;
    let flags = flags::Stillness::from_env_or_exit();
    let lasts = Duration::from_secs(flags.seconds.unwrap_or(60));
    let rate = flags.rate.unwrap_or(1_000);
    let managed = flags.managed.unwrap_or(1_000);
    let foreign = flags.foreign.unwrap_or(100_000);
    trueup_testkit::quiet_netns();
    crowd::make_links();
    writer::create(&crowd::foreign_routes(foreign))?;

    // It sees all that is sent.
    let points = Points::counted();
    let through = points.namespace(Namespace::current());
    let (options, ledger) = (Options::default(), MemoryLedger::default());
    let desired = crowd::desired(managed, 100)?;
    let config = Config::default();
    let it = Loop::new(Rtnl::new(), through, desired, ledger, options, config);
    let handle = it.handle();
    // What the thread had used when the last pass was over, which only it can tell.
    let used = Arc::new(Mutex::new(None));
    let message = Arc::clone(&used);
    let it = it.on_report(move |_| {
        let mut message = message.lock().unwrap_or_else(PoisonError::into_inner);
        *message = Some((Instant::now(), thread_time()));
    });
    let looped = thread::spawn(move || {
        let ended = it.run();
        (ended, Instant::now(), thread_time())
    });
    handle.wait_converged(handle.stats().desired, BOUND)?;
    let begun = *used.lock().unwrap_or_else(PoisonError::into_inner);
    let (before, sent) = (handle.stats(), changes(&points).len());

    let count = churn(rate, lasts)?;

    let after = handle.stats();
    let changes = &changes(&points)[sent..];
    handle.stop();
    handle.wait_ended(BOUND)?;
    let (ended, end, total) = looped.join().map_err(|_| anyhow::anyhow!("the loop panicked"))?;
    ended?;
    let Some((begin, already)) = begun else {
        anyhow::bail!("no pass was told");
    };
    let (wall, used) = ((end - begin).as_secs_f64(), total? - already?);
    println!(
        "{managed} routes of ours among {foreign} foreign ones, {:.0} foreign changes a second, {wall:.0} s",
        f64::from(count) / lasts.as_secs_f64()
    );
    println!(
        "loop's thread {:.2} % of a core ({used:.3} s); {} whole passes, {} others, {} hints; {} messages that \
         change anything",
        100.0 * used / wall,
        after.full_passes - before.full_passes,
        after.dirty_passes - before.dirty_passes,
        after.hints - before.hints,
        changes.len()
    );
    ensure!(changes.is_empty(), "it wrote: {changes:?}");
    ensure!(after.ops == before.ops, "it had something to do");
    Ok(())
}

/// Other writers make and delete objects of all kinds, so many a second. Gives their number.
fn churn(rate: u32, lasts: Duration) -> Result<u32> {
    let objects = mixed()?;
    let mut socket = Socket::open(&Namespace::current())?;
    let mut request = Vec::new();
    let begin = Instant::now();
    let mut count: u32 = 0;
    loop {
        for verb in [Verb::Create, Verb::Delete] {
            for object in &objects {
                if begin.elapsed() > lasts {
                    return Ok(count);
                }
                request.clear();
                encode(&mut request, verb, object)?;
                socket.request(&request).with_context(|| format!("{verb:?} {object:?}"))?;
                count += 1;
                let due = Duration::from_secs(1) * count / rate;
                thread::sleep(due.saturating_sub(begin.elapsed()));
            }
        }
    }
}

/// Half of them routes, a quarter neighbours, an eighth each addresses and rules. Of these few are
/// IPv6: a rule has the kernel walk all IPv6 routes, an address has it join groups anew, and each
/// would take the time of a hundred others.
fn mixed() -> Result<Vec<Object>> {
    let [routes, addresses, neighbours, rules] = crowd::theirs(500)?;
    let few = |all: Vec<Object>| {
        let every = |(at, object)| (at % 2 == 0 || at % 50 == 1).then_some(object);
        all.into_iter().enumerate().filter_map(every).take(130)
    };
    let mut rest = few(addresses).chain(few(rules)).chain(neighbours.into_iter().take(260));
    let mut all = Vec::new();
    for route in routes {
        all.push(route);
        all.extend(rest.next());
    }
    Ok(all)
}

/// What was sent so far to change anything, in words.
fn changes(points: &Points) -> Vec<String> {
    let mut sent = points.passed();
    let verbs = ["create", "update", "delete"].map(|verb| format!("before send: {verb}"));
    sent.retain(|what| verbs.iter().any(|verb| what.starts_with(verb)));
    sent
}

/// Processor time of the calling thread, user and kernel, seconds.
fn thread_time() -> Result<f64, nix::Error> {
    let usage = getrusage(UsageWho::RUSAGE_THREAD)?;
    let seconds =
        |time: nix::sys::time::TimeVal| time.tv_sec() as f64 + time.tv_usec() as f64 * 1e-6;
    Ok(seconds(usage.user_time()) + seconds(usage.system_time()))
}
