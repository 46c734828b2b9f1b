//! Many hosts on one etcd: the time until each knows all exports, the time until a change is known
//! everywhere, and the effects when all hosts, or the store, restart. Beside it, in the same run,
//! etcd's own time from a put to its event, with one bare watch.

use std::collections::BTreeMap;
use std::fs;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow, ensure};
use etcd_client::{Client, EventType, WatchOptions};
use trueup_contracts::etcd::{Cluster, ClusterOptions};
use trueup_etcd::{Config, EtcdStore};
use trueup_works::clock::{processor_of, resident};
use trueup_world::{Event, Export, Filter, Keeper, ResourceKey, Session, WatchConfig, World};

use crate::usage::Times;

/// Measures many hosts on one etcd.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// How many hosts.
    #[arg(long, default_value_t = 1_000)]
    hosts: usize,
    /// How many exports each has.
    #[arg(long, default_value_t = 20)]
    exports: usize,
    /// For how many seconds changes are made, ten a second.
    #[arg(long, default_value_t = 20)]
    seconds: u64,
    /// How many members etcd has.
    #[arg(long, default_value_t = 1)]
    members: usize,
}

const PREFIX: &str = "/trueup";
const TTL: Duration = Duration::from_secs(120);
/// The time limit of each phase.
const BOUND: Duration = Duration::from_secs(300);
/// The interval between changes in the steady state.
const INTERVAL: Duration = Duration::from_millis(100);
const STACK: usize = 128 << 10;

pub(crate) fn main(options: &Options) -> Result<()> {
    let Options { hosts, exports, seconds, members } = *options;
    let mut cluster = Cluster::start(&ClusterOptions::local(members))?;
    cluster.wait_for_leader()?;

    // All hosts share this machine with etcd: a second on a separate machine may be a minute here.
    let patient = Duration::from_secs(60);
    let config = cluster.config().with_timeout(patient).with_keep_alive(patient / 2, patient);
    let bare = bare(&config)?;
    println!("etcd alone, from a put to its event: {}", Times::of(bare));

    let before = Usage::now()?;
    let world = Counts::new(hosts, exports);
    let mut all = start(&config, hosts, exports, &world)?;
    wait("all know all", || world.complete.load(Ordering::Relaxed) >= hosts)?;
    let usage = Usage::now()?.since(&before);
    println!("{hosts} hosts with {exports} exports each: all know all after {usage}");
    println!("{}", world.shown());
    println!(
        "memory: {:.2} MB for each host, etcd {:.0} MB",
        usage.memory_mb / hosts as f64,
        Usage::now()?.etcd_mb
    );

    let before = Usage::now()?;
    let changes = steady(&all, &world, seconds, hosts)?;
    let usage = Usage::now()?.since(&before);
    println!(
        "10 changes a second for {seconds} s, each known to all {hosts} hosts after {}; {usage}",
        Times::of(changes)
    );

    let before = Usage::now()?;
    let losses = all.iter().map(Host::losses).sum::<u64>();
    cluster.kill(0)?;
    cluster.restart(0)?;
    world.listed.store(0, Ordering::Relaxed);
    cluster.wait_for_leader()?;
    // If a host sees this change, its watch continues.
    let sign = Instant::now();
    change(&all[0], 1_000_000)?;
    world.wait_for_change(1_000_000, hosts)?;
    let resumed = sign.elapsed();
    let lost = all.iter().map(Host::losses).sum::<u64>() - losses;
    println!(
        "the store starts again: a change is known to all {:.1} s after its leader, {lost} leases \
         lost, {} values read anew; {}",
        resumed.as_secs_f64(),
        world.listed.load(Ordering::Relaxed),
        Usage::now()?.since(&before)
    );

    let before = Usage::now()?;
    all.drain(..).for_each(Host::stop);
    let world = Counts::new(hosts, exports);
    let all = start(&config, hosts, exports, &world)?;
    wait("all know all again", || world.complete.load(Ordering::Relaxed) >= hosts)?;
    let usage = Usage::now()?.since(&before);
    println!("all hosts start again at once: all know all after {usage}");
    all.into_iter().for_each(Host::stop);
    Ok(())
}

/// The hosts' observations so far.
#[derive(Default)]
struct Counts {
    /// The number of exports of each host.
    exports: usize,
    /// The number of all exports.
    expected: usize,
    /// The number of hosts that know all exports.
    complete: AtomicUsize,
    /// For each change, the number of hosts that have seen it, and the time of the last.
    seen: Mutex<BTreeMap<u64, (usize, Option<Instant>)>>,
    /// The number of values that came with a list.
    listed: AtomicU64,
    /// The number of interruptions of watches.
    cuts: AtomicU64,
    ended: AtomicBool,
}

impl Counts {
    fn new(hosts: usize, exports: usize) -> Arc<Counts> {
        Arc::new(Counts { exports, expected: hosts * exports, ..Counts::default() })
    }

    fn shown(&self) -> String {
        format!(
            "{} values came with lists, {} by events; {} watches were interrupted",
            self.listed.load(Ordering::Relaxed),
            (self.expected * self.expected / self.exports) as u64
                - self.listed.load(Ordering::Relaxed),
            self.cuts.load(Ordering::Relaxed)
        )
    }

    /// Returns an export's position among all; `None` for a foreign key.
    fn position(&self, key: &ResourceKey) -> Option<usize> {
        let host: usize = key.exporter.strip_prefix("host")?.parse().ok()?;
        let name = std::str::from_utf8(&key.name).ok()?;
        Some(host * self.exports + name.strip_prefix("export")?.parse::<usize>().ok()?)
    }

    fn note(&self, change: u64) {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let (count, last) = seen.entry(change).or_default();
        *count += 1;
        *last = Some(Instant::now());
    }

    /// Waits until `hosts` hosts have seen a change; returns the time of the last.
    fn wait_for_change(&self, change: u64, hosts: usize) -> Result<Instant> {
        let mut at = None;
        wait("a change is known everywhere", || {
            let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
            at = seen.get(&change).filter(|(count, _)| *count >= hosts).and_then(|(_, last)| *last);
            at.is_some()
        })?;
        at.context("it was seen")
    }
}

/// A host: a session that is kept alive, and a watch of the exports for it and for any host.
struct Host {
    session: Session,
    _keeper: Keeper,
    thread: JoinHandle<Result<()>>,
    counts: Arc<Counts>,
}

impl Host {
    fn start(config: Config, number: usize, exports: usize, counts: &Arc<Counts>) -> Result<Host> {
        let store = Arc::new(EtcdStore::open(config)?);
        let world = World::new(store, PREFIX, &format!("host{number}"))?;
        let session = Session::begin(world.clone(), "benchmark", TTL)?;
        let keeper = session.keep(|_| {})?;
        let own: Vec<Export> = (0..exports).map(|export| data(number, export, 0)).collect();
        session.declare(&own)?.into_result()?;
        let seen = Arc::clone(counts);
        let thread =
            thread::Builder::new().stack_size(STACK).spawn(move || watch(&world, &seen))?;
        Ok(Host { session, _keeper: keeper, thread, counts: Arc::clone(counts) })
    }

    fn losses(&self) -> u64 {
        self.session.status().losses
    }

    fn stop(self) {
        self.counts.ended.store(true, Ordering::Relaxed);
        // A failed thread shows by a missing count.
        let _ = self.thread.join();
    }
}

fn data(host: usize, export: usize, change: u64) -> Export {
    let (high, low) = (host / 250, host % 250);
    let data = format!(
        "{{\"dst\": \"10.{high}.{low}.{}/32\", \"via\": \"10.0.0.11\", \"metric\": {change}}}",
        export % 250
    );
    Export::new("route", format!("export{export}"), data)
}

fn change(host: &Host, change: u64) -> Result<Instant> {
    let number: usize = host.session.world().host()[4..].parse()?;
    let begun = Instant::now();
    let export = data(number, 0, change);
    host.session.export(&[export])?.into_result()?;
    Ok(begun)
}

/// Counts the events of a watch, until all ends.
fn watch(world: &World, counts: &Counts) -> Result<()> {
    let filters = [Filter::kind("route")];
    let mut watch = world.watch_resources(&filters, WatchConfig::default())?;
    // The newest change of each export; `None` if it is absent.
    let mut known = vec![None; counts.expected];
    let (mut count, mut is_complete) = (0, false);
    while !counts.ended.load(Ordering::Relaxed) {
        let mut take = |key: &ResourceKey, change: Option<u64>| {
            let position = counts.position(key)?;
            let was = std::mem::replace(known.get_mut(position)?, change);
            count += usize::from(change.is_some());
            count -= usize::from(was.is_some());
            match change {
                Some(change) if change > 0 && was != Some(change) => counts.note(change),
                _ => {}
            }
            Some(())
        };
        match watch.next(Duration::from_millis(500))? {
            Some(Event::Ready(view) | Event::Resync(view)) => {
                let listed = view.values.len() as u64;
                counts.listed.fetch_add(listed, Ordering::Relaxed);
                for (key, (resource, _)) in view.values {
                    take(&key, change_of(&resource.value));
                }
            }
            Some(Event::Changed { id, value, .. }) => drop(take(&id, change_of(&value.value))),
            Some(Event::Deleted { id, .. }) => drop(take(&id, None)),
            Some(Event::Interrupted { .. }) => drop(counts.cuts.fetch_add(1, Ordering::Relaxed)),
            _ => {}
        }
        if !is_complete && count == counts.expected {
            is_complete = true;
            counts.complete.fetch_add(1, Ordering::Relaxed);
        }
    }
    Ok(())
}

fn change_of(data: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(data).ok()?;
    let metric = text.rsplit_once(": ")?.1.trim_end_matches('}');
    metric.parse().ok()
}

/// Starts all hosts at once, each in a thread.
fn start(config: &Config, hosts: usize, exports: usize, counts: &Arc<Counts>) -> Result<Vec<Host>> {
    let starting = (0..hosts).map(|number| {
        let (config, counts) = (config.clone(), Arc::clone(counts));
        Ok(thread::Builder::new().stack_size(STACK).spawn(move || {
            // If the store is busy, retry, as an agent does.
            let begun = Instant::now();
            loop {
                match Host::start(config.clone(), number, exports, &counts) {
                    Ok(host) => return Ok(host),
                    Err(error) if begun.elapsed() > BOUND => return Err(error),
                    Err(_) => thread::sleep(Duration::from_millis(500)),
                }
            }
        })?)
    });
    let starting: Vec<JoinHandle<Result<Host>>> = starting.collect::<Result<_>>()?;
    let joined = starting.into_iter().map(|thread| {
        let host = thread.join().map_err(|_| anyhow!("a host panicked"))?;
        host.context("a host did not start")
    });
    joined.collect()
}

/// Makes one host after the other change an export. Returns how long each change took to be known
/// everywhere.
fn steady(all: &[Host], counts: &Counts, seconds: u64, hosts: usize) -> Result<Vec<Duration>> {
    let rounds = seconds * 1000 / INTERVAL.as_millis() as u64;
    let begun = Instant::now();
    let mut made = Vec::new();
    for round in 1..=rounds {
        let at = INTERVAL * u32::try_from(round)?;
        thread::sleep(at.saturating_sub(begun.elapsed()));
        let host = &all[(round as usize * 7) % all.len()];
        made.push((round, change(host, round)?));
    }
    let waited = made.into_iter().map(|(change, begun)| {
        let known = counts.wait_for_change(change, hosts)?;
        Ok(known.duration_since(begun))
    });
    waited.collect()
}

/// Returns etcd's times from a put to its event, with one watch of one key.
fn bare(config: &Config) -> Result<Vec<Duration>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut client = Client::connect(&config.endpoints, None).await?;
        let mut events = client.watch("bare", None::<WatchOptions>).await?;
        let mut all = Vec::new();
        for value in 0..500 {
            let begun = Instant::now();
            client.put("bare", value.to_string(), None).await?;
            loop {
                let answer = events.message().await?.context("the watch has ended")?;
                if answer.events().iter().any(|it| it.event_type() == EventType::Put) {
                    break;
                }
            }
            all.push(begun.elapsed());
        }
        Ok(all)
    })
}

/// The resources used since some moment.
#[derive(Debug)]
struct Usage {
    at: Instant,
    own: f64,
    etcd: f64,
    memory_mb: f64,
    etcd_mb: f64,
    bytes: f64,
}

impl Usage {
    fn now() -> Result<Usage> {
        let own = std::process::id();
        let mut usage = Usage {
            at: Instant::now(),
            own: processor_of(own)?.as_secs_f64(),
            etcd: 0.0,
            memory_mb: megabytes(own)?,
            etcd_mb: 0.0,
            bytes: 0.0,
        };
        for entry in fs::read_dir("/proc")? {
            let name = entry?.file_name();
            let Some(pid) = name.to_str().and_then(|name| name.parse::<u32>().ok()) else {
                continue;
            };
            let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            let parent = stat.rsplit_once(')').and_then(|(_, rest)| rest.split(' ').nth(2));
            if parent == Some(&own.to_string()) && stat.contains("(etcd)") {
                usage.etcd += processor_of(pid)?.as_secs_f64();
                usage.etcd_mb += megabytes(pid)?;
            }
        }
        let received = fs::read_to_string("/sys/class/net/lo/statistics/rx_bytes")?;
        usage.bytes = received.trim().parse()?;
        Ok(usage)
    }

    fn since(&self, before: &Usage) -> Usage {
        Usage {
            at: before.at,
            own: self.own - before.own,
            etcd: (self.etcd - before.etcd).max(0.0),
            memory_mb: self.memory_mb - before.memory_mb,
            etcd_mb: self.etcd_mb,
            bytes: self.bytes - before.bytes,
        }
    }
}

impl std::fmt::Display for Usage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let took = self.at.elapsed().as_secs_f64();
        write!(
            f,
            "{took:.1} s; processor: hosts {:.1} s, etcd {:.1} s; {:.1} MB a second",
            self.own,
            self.etcd,
            self.bytes / 1e6 / took
        )
    }
}

fn wait(what: &str, mut holds: impl FnMut() -> bool) -> Result<()> {
    let begun = Instant::now();
    while !holds() {
        ensure!(begun.elapsed() < BOUND, "it did not come: {what}");
        thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}

fn megabytes(process: u32) -> Result<f64> {
    Ok(resident(process, "VmRSS")? as f64 * 1.024e-3)
}
