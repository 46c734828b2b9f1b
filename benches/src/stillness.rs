//! The cost of a loop with nothing to do, in a namespace with busy other writers: processor time of
//! its thread, passes, and its changing messages, of which there must be none.

use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow, ensure};
use trueup_loop::Config;
use trueup_net::Object;
use trueup_netlink::{Namespace, Socket};
use trueup_testkit::crash::Points;
use trueup_works::clock::processor_of_thread;

use crate::crowd;
use crate::kept::looped;
use crate::writer::{Verb, message};

/// Measures what a loop costs beside busy other writers.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// For how many seconds.
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// How many objects other writers change a second.
    #[arg(long, default_value_t = 1_000)]
    rate: u32,
    /// How many routes are ours.
    #[arg(long, default_value_t = 1_000)]
    managed: u32,
    /// How many foreign ones stay as they are.
    #[arg(long, default_value_t = 100_000)]
    foreign: u32,
}

const BOUND: Duration = Duration::from_secs(30);

pub(crate) fn main(options: &Options) -> Result<()> {
    let Options { managed, foreign, .. } = *options;
    let lasts = Duration::from_secs(options.seconds);
    crowd::enter(foreign)?;

    // It records everything that is sent.
    let points = Points::counted();
    let through = points.namespace(Namespace::current());
    // The thread's processor time at the end of the last pass; only the thread can read it.
    let used = Arc::new(Mutex::new(None));
    let told = Arc::clone(&used);
    let looped =
        looped(through, crowd::desired(managed, 100)?, Config::default()).on_report(move |_, _| {
            let now = (Instant::now(), processor_of_thread());
            *told.lock().unwrap_or_else(PoisonError::into_inner) = Some(now);
        });
    let handle = looped.handle();
    let thread = thread::spawn(move || {
        let ended = looped.run();
        (ended, Instant::now(), processor_of_thread())
    });
    handle.wait_converged(handle.stats().desired, BOUND)?;
    let begun = used.lock().unwrap_or_else(PoisonError::into_inner).take();
    let (begin, already) = begun.context("no pass was told")?;
    let (before, sent) = (handle.stats(), changes(&points).len());

    let count = churn(options.rate, lasts)?;

    let after = handle.stats();
    let changes = &changes(&points)[sent..];
    handle.stop();
    handle.wait_ended(BOUND)?;
    let (ended, end, total) = thread.join().map_err(|_| anyhow!("the loop panicked"))?;
    ended?;
    let (wall, used) = ((end - begin).as_secs_f64(), (total? - already?).as_secs_f64());
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

/// Makes and deletes objects of all kinds as other writers, at `rate` a second. Returns their
/// number.
fn churn(rate: u32, lasts: Duration) -> Result<u32> {
    let objects = mixed()?;
    let mut socket = Socket::open(&Namespace::current())?;
    let (begin, mut count) = (Instant::now(), 0);
    for verb in [Verb::Create, Verb::Delete].into_iter().cycle() {
        for object in &objects {
            if begin.elapsed() > lasts {
                return Ok(count);
            }
            let request = message(verb, object)?;
            socket.request(&request).with_context(|| format!("{verb:?} {object:?}"))?;
            count += 1;
            let due = Duration::from_secs(1) * count / rate;
            thread::sleep(due.saturating_sub(begin.elapsed()));
        }
    }
    Ok(count)
}

fn few(all: Vec<Object>) -> impl Iterator<Item = Object> {
    all.into_iter()
        .enumerate()
        .filter_map(|(at, object)| (at % 2 == 0 || at % 50 == 1).then_some(object))
        .take(130)
}

/// Returns a mixture: half are routes, a quarter neighbours, an eighth each addresses and rules.
/// Few of the latter are IPv6: for a rule the kernel walks all IPv6 routes, for an address it joins
/// groups again. Each would take the time of a hundred others.
fn mixed() -> Result<Vec<Object>> {
    let [routes, addresses, neighbours, rules] = crowd::theirs(500)?;
    let mut rest = few(addresses).chain(few(rules)).chain(neighbours.into_iter().take(260));
    Ok(routes.into_iter().flat_map(|route| [Some(route), rest.next()]).flatten().collect())
}

/// Returns the changes sent so far, in words.
fn changes(points: &Points) -> Vec<String> {
    let mut sent = points.passed();
    let verbs = ["create", "update", "delete"].map(|verb| format!("before send: {verb}"));
    sent.retain(|what| verbs.iter().any(|verb| what.starts_with(verb)));
    sent
}
