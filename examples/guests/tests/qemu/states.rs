//! Random desired states of five guests, one after the other, while the agent and guests are
//! killed, and guests hang. At the end QEMU must agree with the file, and nothing may have run
//! twice.
//!
//! `TRUEUP_CASES` is the number of states, and `TRUEUP_SEED` a number or `random`.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs::{self, File};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};
use std::{env, io};

use fastrand::Rng;
use rustix::process::{Signal, kill_process};
use trueup_guests::agent;
use trueup_guests::backup::Backup;
use trueup_guests::file::{self, State};
use trueup_guests::guest::Guest;
use trueup_guests::host::Host;
use trueup_guests::qmp::Error;

use crate::support::{MIB, TestHost};
use crate::trace;

crate::tests![random_states_among_kills_end_as_declared];

const GUESTS: [&str; 5] = ["a", "b", "c", "d", "e"];

/// The test waits for one state in this number.
const WAITED_FOR: usize = 5;

/// The time limit for a state to be in place.
const BOUND: Duration = Duration::from_secs(120);

fn random_states_among_kills_end_as_declared() {
    let cases = env::var("TRUEUP_CASES").ok().and_then(|cases| cases.parse().ok());
    let cases: usize = cases.unwrap_or(15);
    let seed = match env::var("TRUEUP_SEED").as_deref() {
        Ok("random") => fastrand::u64(..),
        seed => seed.ok().and_then(|seed| seed.parse().ok()).unwrap_or(1),
    };
    println!("TRUEUP_SEED={seed} TRUEUP_CASES={cases}");
    let mut world = World::new(Rng::with_seed(seed));
    let mut declared = BTreeMap::new();
    for case in 0..cases {
        let is_waited_for = (case + 1) % WAITED_FOR == 0 || case + 1 == cases;
        declared = random_state(&mut world.rng, case, &declared, is_waited_for);
        let text = text(&declared);
        world.declare(&text);
        world.disturb();
        if is_waited_for {
            world.wait_for(&text);
        }
    }
    drop(world.agent.take());
    let counted = trace::judge(&world.traces());
    println!(
        "{counted}; killed: {} agents, {} guests; {} guests hung",
        world.killed.0, world.killed.1, world.hung
    );
}

/// The agent's process, and the files and guests it manages.
struct World {
    rng: Rng,
    test: TestHost,
    agent: Option<Agent>,
    approved: BTreeMap<String, Instant>,
    /// The numbers of killed agents and guests.
    killed: (usize, usize),
    /// The number of guests that did not answer for a while.
    hung: usize,
}

struct Agent(Child);

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl World {
    fn new(rng: Rng) -> World {
        World {
            rng,
            test: TestHost::new(),
            agent: None,
            approved: BTreeMap::new(),
            killed: (0, 0),
            hung: 0,
        }
    }

    fn state(&self) -> PathBuf {
        self.test.folder.clone()
    }

    fn traces(&self) -> PathBuf {
        self.test.folder.join("traces")
    }

    fn declare(&self, text: &str) {
        let (new, file) = (self.state().join("new"), self.state().join("guests.toml"));
        fs::write(&new, text).unwrap();
        fs::rename(new, file).unwrap();
    }

    /// Starts the agent, unless it runs.
    fn run_agent(&mut self) {
        if let Some(agent) = &mut self.agent {
            let ended = agent.0.try_wait().unwrap();
            assert!(ended.is_none(), "the agent has ended by itself: {}", self.log());
            return;
        }
        let log = File::options().create(true).append(true).open(self.state().join("log")).unwrap();
        let child = Command::new(env!("CARGO_BIN_EXE_trueup-guests"))
            .args(["run", "guests.toml", "--state", ".", "--traces", "traces"])
            .args(["--interval", "100", "--backup-speed", "4194304"])
            .current_dir(self.state())
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn();
        self.agent = Some(Agent(child.unwrap()));
    }

    /// Returns the agents' last output: of similar lines only the first.
    fn log(&self) -> String {
        let log = fs::read_to_string(self.state().join("log")).unwrap_or_default();
        let mut seen = BTreeSet::new();
        let is_new = |line: &&str| !line.contains("pending") && seen.insert((*line).to_string());
        let mut lines: Vec<_> = log.lines().rev().filter(is_new).take(60).collect();
        lines.reverse();
        lines.join("\n")
    }

    /// Lets the agent work for a while, and kills it and guests at random moments.
    fn disturb(&mut self) {
        for _ in 0..self.rng.usize(1..4) {
            let hangs = (self.rng.u8(0..4) == 0).then(|| GUESTS[self.rng.usize(..GUESTS.len())]);
            self.hung += hangs.map_or(0, |guest| self.signal(guest, Signal::STOP));
            self.run_agent();
            let until = Instant::now() + Duration::from_millis(self.rng.u64(0..400));
            while Instant::now() < until {
                self.approve();
                thread::sleep(Duration::from_millis(10));
            }
            if self.rng.u8(0..3) == 0 {
                self.agent = None;
                self.killed.0 += 1;
            }
            if self.rng.u8(0..4) == 0 {
                let guest = GUESTS[self.rng.usize(..GUESTS.len())];
                if self.test.host.process(guest).is_some() {
                    self.test.kill(guest);
                    self.killed.1 += 1;
                }
            }
            // A guest that was restarted meanwhile is not stopped.
            let _ = hangs.map(|guest| self.signal(guest, Signal::CONT));
        }
        self.run_agent();
    }

    /// Returns the number of processes that got a signal: one, if the guest runs.
    fn signal(&self, guest: &str, signal: Signal) -> usize {
        let process = self.test.host.process(guest);
        let sent = process.is_some_and(|process| kill_process(process, signal).is_ok());
        usize::from(sent)
    }

    /// Approves everything that waits for it. A token is lost if the agent is killed, so it is
    /// given again.
    fn approve(&mut self) {
        let status = agent::status_of(&self.state()).unwrap_or_default();
        let waiting = status.lines().filter_map(|line| line.strip_prefix("to approve: "));
        for hash in waiting.filter_map(|line| line.split(' ').next()) {
            let given = self.approved.get(hash);
            if given.is_none_or(|given| given.elapsed() > Duration::from_secs(1)) {
                agent::approve(&self.state(), hash).unwrap();
                self.approved.insert(hash.to_owned(), Instant::now());
            }
        }
    }

    /// Waits until QEMU agrees with the file, and the agent reports that, too.
    fn wait_for(&mut self, text: &str) {
        let file = file::File::parse(text).unwrap();
        let until = Instant::now() + BOUND;
        loop {
            self.run_agent();
            self.approve();
            let status = agent::status_of(&self.state()).unwrap_or_default();
            let difference = difference(&self.test.host, &file);
            if difference.is_none() && status.starts_with("converged: yes") {
                return;
            }
            let difference = difference.unwrap_or_default();
            assert!(
                Instant::now() < until,
                "not in place: {difference}\n{text}\n{}\n{status}",
                self.log()
            );
            thread::sleep(Duration::from_millis(20));
        }
    }
}

/// Returns how the guests differ from those declared in a file; `None` if they do not. It does not
/// use objects, keys and normalisers.
fn difference(host: &Host, file: &file::File) -> Option<String> {
    let declared: BTreeSet<_> = file.guests.keys().map(|name| name.as_str().to_owned()).collect();
    let there: BTreeSet<_> = host.guests().unwrap().into_iter().collect();
    if there != declared {
        return Some(format!("guests {there:?}"));
    }
    file.guests.iter().find_map(|(name, declared)| {
        let name = name.as_str();
        let found = host.monitor(name).and_then(|mut monitor| monitor.guest());
        let found = match (declared.state, found) {
            (State::Stopped, Err(Error::Gone)) => return None,
            (State::Running, Ok(found)) if found.is_running => found,
            (State::Paused, Ok(found)) if !found.is_running => found,
            (_, found) => return Some(format!("{name}: {found:?}")),
        };
        let backups = backups(host, name).ok()?;
        let is_same = is_same(declared, &found, &backups);
        (!is_same).then(|| format!("{name}: {found:?}, {backups:?}"))
    })
}

fn is_same(declared: &file::Guest, found: &Guest, backups: &BTreeSet<String>) -> bool {
    let round_up = |number: u64, step: u64| number.div_ceil(step) * step;
    let description = declared.description.as_ref();
    let disks = declared.disks.iter().all(|(disk, declared)| {
        found.disks.get(disk.as_str()).is_some_and(|found| {
            found.size == round_up(declared.size.get(), 512)
                && found.has_snapshot == declared.snapshot
                && declared.bps.is_none_or(|bps| bps.get() == found.bounds.bps)
                && declared.iops.is_none_or(|iops| iops.get() == found.bounds.iops)
        })
    });
    let nics = declared.nics.iter().all(|(nic, declared)| {
        let mac = declared.mac.get_ref().as_str().to_lowercase();
        found.nics.get(nic.as_str()) == Some(&mac)
    });
    let declared_backups = declared.disks.iter().flat_map(|(disk, declared)| {
        let names = declared.backups.iter();
        names.map(move |name| Backup::new(disk.as_str(), name.as_str()).file())
    });
    found.memory == round_up(declared.memory.get(), 8192)
        && description.is_none_or(|description| *description == found.description)
        && (disks, found.disks.len()) == (true, declared.disks.len())
        && (nics, found.nics.len()) == (true, declared.nics.len())
        && declared_backups.collect::<BTreeSet<_>>() == *backups
}

fn backups(host: &Host, guest: &str) -> io::Result<BTreeSet<String>> {
    let files = fs::read_dir(host.guest_folder(guest))?;
    let names = files.map(|file| file.map(|file| file.file_name().to_string_lossy().into_owned()));
    names.filter(|name| name.as_ref().map_or(true, |name| name.ends_with(".backup"))).collect()
}

/// A guest in the file's form, without its disks' names.
#[derive(Clone, Debug)]
struct Declared {
    state: &'static str,
    memory: u64,
    description: Option<&'static str>,
    disks: BTreeMap<&'static str, DeclaredDisk>,
    nics: BTreeMap<&'static str, String>,
}

#[derive(Clone, Debug)]
struct DeclaredDisk {
    size: u64,
    bps: Option<u64>,
    iops: Option<u64>,
    backups: Vec<String>,
    snapshot: bool,
}

fn random_state(
    rng: &mut Rng,
    case: usize,
    before: &BTreeMap<&'static str, Declared>,
    is_waited_for: bool,
) -> BTreeMap<&'static str, Declared> {
    let mut guests = BTreeMap::new();
    for (number, name) in GUESTS.into_iter().enumerate() {
        if rng.u8(0..8) == 0 {
            continue;
        }
        // Half of the guests stay as they are, or no state would ever last.
        if let (Some(before), true) = (before.get(name), rng.bool() && !is_waited_for) {
            guests.insert(name, before.clone());
            continue;
        }
        let before = before.get(name);
        // A paused guest does not release a network interface: if the state is waited for, it has
        // none. No snapshot of a stopped guest is taken or committed, so the same holds for
        // snapshots.
        let (may_have_nics, may_have_snapshots) = (number != 0, number > 1);
        let state = match rng.u8(0..8) {
            0 if !is_waited_for || !may_have_snapshots => "stopped",
            1 | 2 if !is_waited_for || !may_have_nics => "paused",
            _ => "running",
        };
        let mut disks = BTreeMap::new();
        for disk in ["root", "data"] {
            if rng.u8(0..3) == 0 {
                continue;
            }
            let before = before.and_then(|before| before.disks.get(disk));
            let mut backups = before.map(|before| before.backups.clone()).unwrap_or_default();
            backups.retain(|_| rng.u8(0..3) > 0);
            // Use each name once, so that its backup is made once.
            if backups.len() < 2 && rng.u8(0..3) == 0 {
                backups.push(format!("n{case}"));
            }
            if state == "stopped" {
                backups.clear();
            }
            disks.insert(
                disk,
                DeclaredDisk {
                    size: [MIB, MIB + 1, 2 * MIB, 3 * MIB - 511][rng.usize(..4)],
                    bps: [None, Some(0), Some(10_000_000)][rng.usize(..3)],
                    iops: [None, Some(0), Some(1000), Some(1001)][rng.usize(..4)],
                    backups,
                    snapshot: may_have_snapshots && rng.bool(),
                },
            );
        }
        let mut nics = BTreeMap::new();
        for nic in ["lan", "dmz"] {
            if !may_have_nics || rng.u8(0..3) > 0 {
                continue;
            }
            let digits = ["aB", "0c"][rng.usize(..2)];
            let last = if nic == "lan" { 1 } else { 2 };
            nics.insert(nic, format!("52:54:00:{digits}:{number:02X}:0{last}"));
        }
        let memory = [16 * MIB, 16 * MIB, 16 * MIB + 1, 24 * MIB][rng.usize(..4)];
        let description = [None, Some(""), Some("a, \\\"b\\\" = ö"), Some("c")][rng.usize(..4)];
        let guest = Declared { state, memory, description, disks, nics };
        guests.insert(name, guest);
    }
    guests
}

fn text(guests: &BTreeMap<&'static str, Declared>) -> String {
    let mut text = String::new();
    let mut line = |line: String| writeln!(text, "{line}").unwrap();
    for (name, guest) in guests {
        line(format!("[guests.{name}]\nstate = \"{}\"", guest.state));
        line(format!("memory = {}", guest.memory));
        if let Some(description) = guest.description {
            line(format!("description = \"{description}\""));
        }
        for (disk, declared) in &guest.disks {
            line(format!("disks.{disk}.size = {}", declared.size));
            line(format!("disks.{disk}.backups = {:?}", declared.backups));
            line(format!("disks.{disk}.snapshot = {}", declared.snapshot));
            for (key, bound) in [("bps", declared.bps), ("iops", declared.iops)] {
                if let Some(bound) = bound {
                    line(format!("disks.{disk}.{key} = {bound}"));
                }
            }
        }
        for (nic, mac) in &guest.nics {
            line(format!("nics.{nic}.mac = \"{mac}\""));
        }
    }
    text
}
