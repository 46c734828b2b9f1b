//! The agent's host: its directories, disks, network, and the process.

use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Once;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use fastrand::Rng;
use rustix::process::Signal;
use trueup_testkit::{Snapshot, is_long};

use crate::acts::Acts;
use crate::commands::{ip, mount_tmpfs, mounts, unmount};
use crate::declared::Declared;
use crate::edits::{self, EDITS, Edit};
use crate::folders::Folder;
use crate::judge;
use crate::log::{Answered, Stream};
use crate::network;
use crate::process::{Ended, Process};

const TRUEUP: &str = env!("CARGO_BIN_EXE_trueup-under-test");

/// The time limit for convergence. A permanent failure is retried after a minute, and so is an
/// object that another writer removes repeatedly; the rest is for a busy machine.
const SOON: Duration = Duration::from_secs(150);

/// The limit of the agent's private memory, in KiB.
const MOST_MEMORY: u64 = 64 * 1024;

pub(crate) struct Site {
    pub(crate) root: PathBuf,
    pub(crate) acts: Acts,
    pub(crate) rng: Rng,
    seed: u64,
    /// The directories of the declaration, of the files `etc/conf` and `deep/a/b/conf`, and of the
    /// source.
    pub(crate) folders: [Folder; 4],
    /// The directory of the other files, which stays in place.
    plain: Folder,
    pub(crate) declared: Declared,
    versions: u32,
    /// The content of the source file.
    pub(crate) source: String,
    pub(crate) process: Option<Process>,
    pub(crate) is_stopped: bool,
    /// True if a process started without a journal, although there was or may have been one.
    pub(crate) is_state_lost: bool,
    /// True if the world is unchanged since the process started.
    began_in_a_sane_world: bool,
    /// All foreign objects in the namespace.
    foreign: Option<Snapshot>,
    /// The path of libfaketime; `None` if it is not installed.
    pub(crate) clock: Option<String>,
    pub(crate) history: Vec<String>,
    pub(crate) answered: Answered,
    /// The number of the process's lines when the burst began.
    log_begin: usize,
    sum: Sum,
}

/// Totals over all bursts.
#[derive(Default)]
struct Sum {
    bursts: usize,
    acts: usize,
    starts: usize,
    slowest: Duration,
}

impl Site {
    pub(crate) fn new(acts: Acts, mut rng: Rng, seed: u64) -> Site {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let next = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("trueup-operator-{}-{next}", std::process::id());
        let root = std::env::temp_dir().join(name);
        trueup_testkit::empty_directory(&root).unwrap();
        // After a failure, everything left is deleted with the mount namespace.
        assert!(mount_tmpfs(&root, "64m"));
        for (disk, size) in [("disk", "4m"), ("files", "1m")] {
            fs::create_dir(root.join(disk)).unwrap();
            assert!(mount_tmpfs(&root.join(disk), size));
        }
        let folder = |name: &str, inner| Folder::new(root.join(name), inner);
        let folders = [
            folder("conf", ""),
            folder("files/etc", ""),
            folder("files/deep", "a/b"),
            folder("files/vol", ""),
        ];
        let plain = folder("files/plain", "");
        fs::write(root.join("clock"), "+0").unwrap();
        network::FOREIGN.iter().for_each(|words| assert!(ip(words), "{words}"));
        // Set it first, as it shows in the rows of all links.
        network::set("ipv4/ip_forward", "1").unwrap();
        let clock = clock();
        let declared = Declared::random(0, &mut rng);
        let mut site = Site {
            root,
            acts,
            rng,
            seed,
            folders,
            plain,
            declared,
            versions: 0,
            source: String::new(),
            process: None,
            is_stopped: false,
            is_state_lost: false,
            began_in_a_sane_world: false,
            foreign: None,
            clock,
            history: Vec::new(),
            answered: Answered::default(),
            log_begin: 0,
            sum: Sum::default(),
        };
        if site.clock.is_none() {
            println!("no clock jumps: install libfaketime");
        }
        site.write_source(Edit::ConfigMap).unwrap();
        site
    }

    /// Returns the path of the declaration.
    pub(crate) fn file(&self) -> PathBuf {
        self.root.join("conf/f.toml")
    }

    pub(crate) fn state(&self) -> PathBuf {
        self.root.join("disk/state")
    }

    pub(crate) fn has_journal(&self) -> bool {
        fs::read_dir(self.state()).is_ok_and(|mut files| {
            files.any(|file| {
                let path = file.unwrap().path();
                path.extension().is_some_and(|it| it == "journal")
            })
        })
    }

    /// Returns the disks that can be full: the state directory's, and the files'.
    pub(crate) fn disks(&self) -> [PathBuf; 2] {
        ["disk", "files"].map(|name| self.root.join(name))
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(TRUEUP);
        command.args(words).arg(self.file());
        command.arg("--state").arg(self.state()).current_dir("/");
        command
    }

    pub(crate) fn start(&mut self) {
        assert!(self.process.is_none());
        if self.sum.starts > 0 && !self.has_journal() {
            self.is_state_lost = true;
        }
        let mut command = self.command(&["watch"]);
        command.args(["--interval", "1"]);
        if let Some(library) = &self.clock {
            command
                .env("LD_PRELOAD", library)
                .env("FAKETIME_TIMESTAMP_FILE", self.root.join("clock"))
                .env("FAKETIME_NO_CACHE", "1")
                .env("FAKETIME_DONT_FAKE_MONOTONIC", "1")
                .env("NO_FAKE_STAT", "1");
        }
        self.process = Some(Process::start(&mut command));
        (self.is_stopped, self.log_begin) = (false, 0);
        self.sum.starts += 1;
    }

    /// Handles an agent that has ended by itself, and fails if it had no reason.
    pub(crate) fn notice_end(&mut self) {
        let Some(process) = &mut self.process else {
            return;
        };
        let Some(ended) = process.ended() else {
            return;
        };
        // The documented reasons: the file or the disk at the start; later a state directory that
        // was removed and cannot be made again.
        let last = process.log.last(Stream::Err, |_| true).unwrap_or_default();
        let has_reason = !process.has_converged_before() || last.contains("was removed");
        if self.acts != Acts::All || ended != Ended::Code(1) || !has_reason {
            self.fail(&[format!("the agent has ended: {ended:?}")]);
        }
        self.note(format!("the agent has ended: {last}"));
        self.process = None;
    }

    pub(crate) fn begin(&mut self) {
        let text = self.declared.text(&self.root);
        fs::write(self.file(), text).unwrap();
        let foreign = Snapshot::settled();
        self.foreign = Some(without_ours(foreign));
        self.start();
        self.settle();
    }

    /// Makes some acts, restores a sane world, and judges the agent.
    pub(crate) fn burst(&mut self) {
        self.history.clear();
        self.answered = Answered::default();
        self.began_in_a_sane_world = false;
        self.log_begin = self.process.as_ref().map_or(0, |it| it.log.len());
        for _ in 0..self.rng.u8(1..8) {
            self.act();
            self.answered.acts += 1;
            self.sum.acts += 1;
            let pause = match self.rng.u8(0..8) {
                0 => self.rng.u64(0..1500),
                _ => self.rng.u64(0..200),
            };
            thread::sleep(Duration::from_millis(pause));
            self.notice_end();
            if self.process.is_none() && self.rng.bool() {
                self.note("start");
                self.start();
            }
        }
        self.restore();
        self.settle();
        self.sum.bursts += 1;
    }

    pub(crate) fn note(&mut self, what: impl Into<String>) {
        self.history.push(what.into());
    }

    fn restore(&mut self) {
        self.note("-- a sane world");
        if let Some(process) = &self.process {
            process.signal(Signal::CONT);
        }
        self.is_stopped = false;
        for disk in self.disks() {
            let _absent = fs::remove_file(disk.join("filler"));
        }
        if self.rng.bool() {
            self.set_clock("+0");
        }
        self.unmount_files();
        for folder in &mut self.folders {
            folder.restore(&mut self.rng);
        }
        // Also the mounts that a directory had hidden.
        self.unmount_files();
        for target in self.targets() {
            // The agent refuses to replace these, so remove them.
            if target.is_symlink() {
                fs::remove_file(&target).unwrap();
            } else if target.is_dir() {
                fs::remove_dir(&target).unwrap();
            }
        }
        network::restore();
        let edit = self.any_edit();
        self.write_source(edit).unwrap();
        // Edit the last declaration once more, or declare a new one.
        let next = match self.rng.bool() {
            true => self.next_declared(),
            false => self.declared.clone(),
        };
        let edit = self.any_edit();
        self.declare(edit, next);
        self.notice_end();
        if self.process.is_none() {
            self.start_in_a_sane_world();
        }
        self.remove_what_is_lost();
        self.answered.acts += 1;
    }

    fn start_in_a_sane_world(&mut self) {
        self.start();
        self.began_in_a_sane_world = true;
        self.remove_what_is_lost();
    }

    /// Removes objects that the agent no longer knows as its own.
    fn remove_what_is_lost(&mut self) {
        if std::mem::take(&mut self.is_state_lost) {
            self.note("the journal is lost: what it had is removed");
            network::remove_links();
            // If the file is declared, the agent creates it again, so it can remove it later.
            let _absent = fs::remove_file(self.root.join("files/plain/extra"));
        }
    }

    /// Unmounts everything mounted over files, wherever their directories are now.
    fn unmount_files(&self) {
        let stays = |mount: &Path| {
            let mut folders = self.folders.iter().map(Folder::path);
            let [state, files] = self.disks();
            [&self.root, &state, &files].iter().any(|disk| *disk == mount)
                || folders.any(|folder| folder == mount)
        };
        let mounts = mounts().rev().filter(|mount| mount.starts_with(&self.root));
        for mount in mounts.filter(|mount| !stays(mount)) {
            // The mount may be below another one.
            unmount(&mount);
        }
    }

    /// Returns the declared files that the operator harms.
    pub(crate) fn targets(&self) -> [PathBuf; 3] {
        ["etc/conf", "deep/a/b/conf", "plain/copy"].map(|name| self.root.join("files").join(name))
    }

    pub(crate) fn any_edit(&mut self) -> Edit {
        EDITS[self.rng.usize(0..EDITS.len())]
    }

    pub(crate) fn next_declared(&mut self) -> Declared {
        self.versions += 1;
        let mut next = Declared::random(self.versions, &mut self.rng);
        if self.rng.u8(0..4) == 0 {
            // Sometimes only the version changes.
            next = self.declared.clone();
            next.version = self.versions;
        }
        next
    }

    /// Writes the declaration by `edit`; if that fails, replaces the file.
    pub(crate) fn declare(&mut self, edit: Edit, next: Declared) {
        let (file, text) = (self.file(), next.text(&self.root));
        self.note(format!("declares {} by {edit:?}", next.word()));
        if !edits::is_file(&file) {
            let _absent = fs::remove_file(&file);
            let _absent = fs::remove_dir_all(&file);
        }
        let versions = (&self.declared, &next);
        let edited = edits::edit(edit, &file, &self.root, versions, &mut self.rng);
        let is_edited = edited.is_ok() && fs::read_to_string(&file).is_ok_and(|now| now == text);
        let is_declared = is_edited || edits::rename_over(&file, &text).is_ok();
        let is_private = fs::set_permissions(&file, fs::Permissions::from_mode(0o644));
        // The directory may have been moved away.
        if !is_declared || is_private.is_err() {
            self.note("  (not possible)");
        }
        self.declared = next;
        self.answered.reads += 4;
    }

    /// Writes new content to the source.
    pub(crate) fn write_source(&mut self, edit: Edit) -> io::Result<()> {
        self.versions += 1;
        self.source = format!("source {}\n", self.versions);
        let path = self.root.join("files/vol/key");
        match edit {
            Edit::ConfigMap => edits::config_map(&path, &self.source, self.versions),
            Edit::InPlace if fs::metadata(&path).is_ok() => fs::write(path, &self.source),
            _ => edits::rename_over(&path, &self.source),
        }
    }

    pub(crate) fn set_clock(&self, off: &str) {
        let new = self.root.join("clock.new");
        fs::write(&new, off).unwrap();
        fs::rename(new, self.root.join("clock")).unwrap();
    }

    /// Fills a disk up.
    pub(crate) fn fill(disk: &Path) -> io::Result<()> {
        let mut filler = fs::File::create(disk.join("filler"))?;
        let block = [0; 4096];
        while filler.write_all(&block).is_ok() {}
        Ok(())
    }

    /// Waits until all is as declared. Fails if that takes too long, if foreign objects are lost,
    /// or if something leaks.
    fn settle(&mut self) {
        let begin = Instant::now();
        // After some time an operator asks for a reload, or keeps waiting; a short run always asks.
        let (asks, after) = match is_long() {
            false => (true, Duration::from_secs(2)),
            true => (self.rng.bool(), Duration::from_secs(5)),
        };
        let mut has_asked = false;
        loop {
            let problems = self.problems();
            if problems.is_empty() {
                break;
            }
            self.notice_end();
            if self.process.is_none() && self.began_in_a_sane_world {
                self.fail(&["the agent ends in a sane world".to_owned()]);
            }
            if self.process.is_none() {
                self.note("start");
                self.start_in_a_sane_world();
            }
            if begin.elapsed() > SOON {
                self.fail(&problems);
            }
            if asks && !has_asked && begin.elapsed() > after {
                has_asked = true;
                self.note(format!("asks for a look (SIGHUP): {}", problems.join("; ")));
                self.answered.reads += 1;
                let process = self.process.as_mut().unwrap();
                process.wait_until_signals_are_caught();
                process.signal(Signal::HUP);
            }
            thread::sleep(Duration::from_millis(100));
        }
        self.sum.slowest = self.sum.slowest.max(begin.elapsed());
        let process = self.process.as_mut().unwrap();
        process.note_memory();
        let memory = process.newest_memory();
        if memory > MOST_MEMORY {
            self.fail(&[format!("the agent has {memory} KiB")]);
        }
        let process = self.process.as_ref().unwrap();
        if let Some(repeated) = process.log.repeated(self.log_begin, &self.answered) {
            self.fail(&[format!("the log says it again: {repeated}")]);
        }
    }

    fn problems(&mut self) -> Vec<String> {
        let mut problems = judge::differences(&self.declared, &self.root, &self.source);
        for folder in self.folders.iter().chain([&self.plain]) {
            if !folder.has_theirs() {
                let theirs = folder.theirs();
                problems.push(format!("{}: another writer's is lost", theirs.display()));
            }
        }
        let foreign = self.foreign.as_ref().unwrap();
        let lost = foreign.diff(&without_ours(Snapshot::take()));
        if !lost.is_empty() {
            problems.push(format!("of others:\n{lost}"));
        }
        if !problems.is_empty() {
            return problems;
        }
        // By the agent's own report, and by another process's.
        let process = self.process.as_mut().unwrap();
        let is_verdict = |line: &str| line == "converged" || line.starts_with("not converged");
        let verdict = process.log.last(Stream::Out, is_verdict);
        if verdict.as_deref() != Some("converged") {
            problems.push(format!("the agent says {verdict:?}"));
        } else if let Some(leaked) = process.leaked() {
            problems.push(leaked);
        } else {
            let mut plan = self.command(&["plan"]);
            let plan = plan.stdin(Stdio::null()).output().unwrap();
            if plan.status.code() != Some(0) {
                problems.push(format!("a plan has {plan:?}"));
            }
        }
        problems
    }

    /// Fails with everything that helps to understand the failure.
    #[track_caller]
    pub(crate) fn fail(&self, problems: &[String]) -> ! {
        let files = Command::new("ls").arg("-lR").arg(&self.root).output();
        let files = String::from_utf8_lossy(&files.unwrap().stdout).into_owned();
        let said = self.process.as_ref().map(|it| it.log.tail(60));
        panic!(
            "{:?}, burst {}:\n{}\n\nThe operator:\n{}\n\nThe agent:\n{}\n{files}\nTRUEUP_SEED={}",
            self.acts,
            self.sum.bursts,
            problems.join("\n"),
            self.history.join("\n"),
            said.unwrap_or_default(),
            self.seed
        );
    }

    /// Checks the memory, and ends the agent as a service manager does. Returns the totals.
    pub(crate) fn end(mut self) -> String {
        let mut process = self.process.take().unwrap();
        let memory = process.memory();
        if let Some((early, late)) = memory
            && late > early + early / 4 + 2048
        {
            self.fail(&[format!("its memory grows from {early} to {late} KiB")]);
        }
        process.signal(Signal::TERM);
        assert_eq!(process.wait(), Ended::Code(0));
        let Sum { bursts, acts, starts, slowest } = self.sum;
        let memory = memory.map_or_else(String::new, |(early, late)| {
            format!("; memory {early} KiB early and {late} KiB late")
        });
        format!(
            "{bursts} bursts of {acts} acts, {starts} processes; the slowest took {slowest:.1?} \
             to converge{memory}"
        )
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        self.process = None;
        // This unmounts everything below. Only a temporary directory is left.
        let _ = unmount(&self.root);
        let _ = fs::remove_dir(&self.root);
    }
}

fn without_ours(rows: Snapshot) -> Snapshot {
    rows.without_protocol(116).without_devices(&network::OURS)
}

/// Returns the path of libfaketime, if it is installed; it makes a process's wall clock jump. It
/// leaves the shared memory of killed processes behind, so that is on a tmpfs of ours.
fn clock() -> Option<String> {
    static SHARED_MEMORY: Once = Once::new();
    let library =
        format!("/usr/lib/{}-linux-gnu/faketime/libfaketimeMT.so.1", std::env::consts::ARCH);
    Path::new(&library).exists().then(|| {
        SHARED_MEMORY.call_once(|| assert!(mount_tmpfs(Path::new("/dev/shm"), "16m")));
        library
    })
}
