//! Other programs with the same graph.

use std::collections::VecDeque;
use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use rayon::Scope;
use trueup_benches::usage::Usage;
use trueup_works::clock::timed_command;

use crate::{least, name, parents};

/// The state machine's bytes for each vertex, without its edges.
const SLOT: usize = 56;

/// A plain topological walk: each vertex counts the parents that have not run.
pub(crate) struct Walk {
    children: Vec<Vec<u32>>,
    waits: Vec<AtomicU32>,
    runs: AtomicUsize,
}

impl Walk {
    pub(crate) fn new(vertices: usize) -> Self {
        let mut children = vec![Vec::new(); vertices];
        for at in 0..vertices {
            distinct(at).iter().for_each(|&parent| children[parent].push(at as u32));
        }
        let waits = (0..vertices).map(|_| AtomicU32::new(0)).collect();
        Walk { waits, children, runs: AtomicUsize::new(0) }
    }

    fn roots(&self) -> impl Iterator<Item = u32> {
        (0..self.children.len() as u32).filter(|&at| parents(at as usize).next().is_none())
    }

    /// Runs a vertex, and returns the children that are now ready.
    fn run(&self, at: u32) -> impl Iterator<Item = u32> {
        self.runs.fetch_add(1, Ordering::Relaxed);
        let children = self.children[at as usize].iter().copied();
        children.filter(|&child| self.waits[child as usize].fetch_sub(1, Ordering::AcqRel) == 1)
    }

    /// Restores the counts for another walk.
    fn reset(&self) {
        self.runs.store(0, Ordering::Relaxed);
        for (at, wait) in self.waits.iter().enumerate() {
            wait.store(distinct(at).len() as u32, Ordering::Relaxed);
        }
    }

    fn timed(&self, best: &mut Usage, walk: impl FnOnce()) -> Result<()> {
        self.reset();
        least(best, walk)?;
        let runs = self.runs.load(Ordering::Relaxed);
        ensure!(runs == self.children.len(), "{runs} runs");
        Ok(())
    }

    /// Walks with one thread, with each vertex's count in as much memory as the state machine uses:
    /// the cost of the memory alone.
    pub(crate) fn by_memory(&self, best: &mut Usage) -> Result<()> {
        self.reset();
        let mut slots: Vec<[u32; SLOT / 4]> =
            self.waits.iter().map(|it| [it.load(Ordering::Relaxed); SLOT / 4]).collect();
        let mut queue: VecDeque<u32> = self.roots().collect();
        self.timed(best, || {
            while let Some(at) = queue.pop_front() {
                self.runs.fetch_add(1, Ordering::Relaxed);
                for &child in &self.children[at as usize] {
                    let wait = &mut slots[child as usize][0];
                    *wait -= 1;
                    queue.extend((*wait == 0).then_some(child));
                }
            }
        })
    }

    /// Walks with threads that share one queue.
    pub(crate) fn by_threads(&self, threads: usize, best: &mut Usage) -> Result<()> {
        let queue = Mutex::new(self.roots().collect::<VecDeque<_>>());
        let changed = Condvar::new();
        self.timed(best, || {
            std::thread::scope(|scope| {
                (0..threads).for_each(|_| {
                    scope.spawn(|| self.take_from(&queue, &changed));
                });
            });
        })
    }

    /// Runs ready vertices until all have run.
    fn take_from(&self, queue: &Mutex<VecDeque<u32>>, changed: &Condvar) {
        let mut ready = queue.lock().unwrap_or_else(PoisonError::into_inner);
        while self.runs.load(Ordering::Relaxed) < self.children.len() {
            let Some(at) = ready.pop_front() else {
                let waited = changed.wait_timeout(ready, Duration::from_millis(1));
                ready = waited.unwrap_or_else(PoisonError::into_inner).0;
                continue;
            };
            drop(ready);
            let children: Vec<u32> = self.run(at).collect();
            ready = queue.lock().unwrap_or_else(PoisonError::into_inner);
            ready.extend(&children);
            if children.len() > 1 {
                changed.notify_one();
            }
        }
        changed.notify_all();
    }

    /// Walks on rayon's pool, a task for each vertex.
    pub(crate) fn by_rayon(&self, threads: usize, best: &mut Usage) -> Result<()> {
        fn visit<'a>(walk: &'a Walk, scope: &Scope<'a>, at: u32) {
            for child in walk.run(at) {
                scope.spawn(move |scope| visit(walk, scope, child));
            }
        }
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build()?;
        self.timed(best, || {
            pool.scope(|scope| {
                for root in self.roots() {
                    scope.spawn(move |scope| visit(self, scope, root));
                }
            });
        })
    }
}

/// Returns a vertex's parents without duplicates.
fn distinct(at: usize) -> Vec<usize> {
    let mut parents: Vec<usize> = parents(at).collect();
    parents.sort_unstable();
    parents.dedup();
    parents
}

/// Makes systemd read units with the same edges, and build the transaction that starts them all
/// (`systemd --test`, which also prints it). systemd refuses to do so as root.
pub(crate) fn systemd(units: usize) -> Result<String> {
    const PROGRAM: &str = "/usr/lib/systemd/systemd";
    if !Path::new(PROGRAM).exists() {
        return Ok(format!("{PROGRAM} is not there"));
    }
    let folder = std::env::temp_dir().join(format!("bench-units-{}", std::process::id()));
    write_units(&folder, units).with_context(|| format!("units in {}", folder.display()))?;
    let mut command = Command::new(PROGRAM);
    command
        .args(["--user", "--test", "--unit=all.target"])
        .env_clear()
        .env("XDG_RUNTIME_DIR", &folder)
        .env("SYSTEMD_UNIT_PATH", &folder)
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    if fs::metadata("/proc/self")?.uid() == 0 {
        command.uid(65_534).gid(65_534);
    }
    let took = timed_command(&mut command);
    fs::remove_dir_all(&folder)?;
    let took = took?;
    Ok(format!(
        "{units} units read, ordered and printed in {:.2} s, {:.2} s of processor time, {:.1} KB \
         a unit",
        took.wall_ns as f64 / 1e9,
        took.cpu_ns as f64 / 1e9,
        took.peak_rss_kb as f64 * 1.024 / units as f64
    ))
}

fn unit(at: usize) -> String {
    name(at).replace('.', "-") + ".service"
}

fn write_units(folder: &Path, units: usize) -> std::io::Result<()> {
    fs::create_dir_all(folder)?;
    fs::set_permissions(folder, fs::Permissions::from_mode(0o777))?;
    for at in 0..units {
        let after: Vec<_> = parents(at).map(unit).collect();
        let text = format!(
            "[Unit]\nDefaultDependencies=no\nAfter={}\n[Service]\nType=oneshot\n\
             ExecStart=/bin/true\n",
            after.join(" ")
        );
        fs::write(folder.join(unit(at)), text)?;
    }
    let all: Vec<_> = (0..units).map(unit).collect();
    let text = format!("[Unit]\nDefaultDependencies=no\nWants={}\n", all.join(" "));
    fs::write(folder.join("all.target"), text)
}
