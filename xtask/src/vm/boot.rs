//! Boots a kernel in qemu, and reads the guest's output, with a time limit.

use std::fs::{self, File, OpenOptions};
use std::io::{BufRead as _, BufReader, Read, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use super::programs::Programs;
use super::ran::Ran;
use crate::tools::{Result, at, find, line, output};

/// Long enough for the slowest case, software emulation on busy processors.
const BOUND: Duration = Duration::from_secs(60 * 60);

/// What runs the guest's instructions.
#[derive(Clone, Copy, clap::ValueEnum)]
pub(crate) enum Accel {
    /// The processor.
    Kvm,
    /// Qemu, in software.
    Tcg,
}

impl Accel {
    /// Returns the accelerators of this machine and user, the fastest first.
    fn of_machine() -> Vec<Accel> {
        match OpenOptions::new().read(true).write(true).open("/dev/kvm") {
            Ok(_) => vec![Accel::Kvm, Accel::Tcg],
            Err(_) => vec![Accel::Tcg],
        }
    }

    /// Returns the time limit for a guest's first output: with a working processor it takes two
    /// seconds.
    fn first_word(self) -> Duration {
        Duration::from_secs(match self {
            Accel::Kvm => 20,
            Accel::Tcg => 3 * 60,
        })
    }

    /// Returns the kernel's parameters, and variables of its first process.
    fn parameters(self, programs: &Programs) -> String {
        // A panic reboots at once, which ends the machine.
        let mut parameters = "console=ttyS0 panic=-1 oops=panic loglevel=5".to_owned();
        if let Accel::Tcg = self {
            // The kernel takes the emulated counter for unstable, and would read a slow device.
            parameters.push_str(" tsc=reliable clocksource=tsc");
            if programs.is_short {
                parameters.push_str(" TRUEUP_SHORT=1");
            }
        }
        parameters
    }

    fn name(self) -> &'static str {
        match self {
            Accel::Kvm => "kvm",
            Accel::Tcg => "tcg",
        }
    }
}

/// A virtual machine to boot.
pub(super) struct Machine {
    pub(super) kernel: PathBuf,
    pub(super) initramfs: PathBuf,
    /// The accelerator; if `None`, the fastest that works.
    pub(super) accel: Option<Accel>,
    /// The path of a log with the tests' output.
    pub(super) log: PathBuf,
    /// The path of a log with the kernel's output.
    pub(super) console: PathBuf,
}

impl Machine {
    /// Runs the guest to its end.
    ///
    /// # Errors
    ///
    /// If it panicked, hung or went away. Failed tests are no error: the result has them.
    pub(super) fn boot(&self, programs: &Programs) -> Result<Ran> {
        let mut accels = self.accel.map_or_else(Accel::of_machine, |one| vec![one]);
        accels.reverse();
        loop {
            let Some(accel) = accels.pop() else {
                return Err("no accelerator is left".to_owned());
            };
            let mut ran = Ran::default();
            let ended = self.boot_with(accel, programs, &mut ran);
            match ended {
                // Even with /dev/kvm, the machine's own host may not permit its use.
                Err(error) if ran.release.is_empty() && !accels.is_empty() => {
                    println!("{} does not work here: {error}", accel.name());
                }
                ended => return ended.map(|()| ran),
            }
        }
    }

    fn boot_with(&self, accel: Accel, programs: &Programs, ran: &mut Ran) -> Result<()> {
        let image = at(&self.initramfs, fs::metadata(&self.initramfs))?;
        // Half of the memory limits the unpacked files, and the tests need the rest.
        let memory = format!("{}M", 2048 + image.len().div_ceil(1 << 20));
        let mut qemu = Command::new(find("qemu-system-x86_64")?);
        qemu.args(["-accel", accel.name(), "-smp", "2", "-m", &memory])
            .args(["-nodefaults", "-no-user-config", "-no-reboot"])
            .args(["-display", "none"])
            .arg("-kernel")
            .arg(&self.kernel)
            .arg("-initrd")
            .arg(&self.initramfs)
            .args(["-append", &accel.parameters(programs)])
            .arg("-serial")
            .arg(format!("file:{}", self.console.display()))
            .args(["-serial", "stdio"]);
        println!("$ {}", line(&qemu));
        let mut log = at(&self.log, File::create(&self.log))?;
        let ended = follow(&mut qemu, ran, &mut log, accel.first_word());
        let see = format!("(see {} and {})", self.log.display(), self.console.display());
        let console = fs::read(&self.console).unwrap_or_default();
        let console = String::from_utf8_lossy(&console);
        if let Some(panic) = console.lines().find(|line| line.contains("Kernel panic")) {
            return Err(format!("{}, {} {see}", panic.trim_end(), ran.place()));
        }
        ended.map_err(|error| format!("{error} {see}"))?;
        // The kernel may have killed any process, so any test may fail from it.
        let killed = console.lines().filter(|line| line.contains("Out of memory"));
        killed.for_each(|line| ran.broken(line.trim_end()));
        if ran.programs.len() < programs.tests.len() || !ran.is_done() {
            return Err(format!("the machine went away {} {see}", ran.place()));
        }
        Ok(())
    }
}

/// Runs the programs on the running kernel, one after the other, as a guest would.
pub(super) fn here(programs: &Programs, log: &Path) -> Result<Ran> {
    let mut ran = Ran::default();
    let _ = ran.take(&format!("@vm kernel {}", output(Command::new("uname").arg("-r"))?.trim()));
    let mut log = at(log, File::create(log))?;
    for program in &programs.tests {
        let _ = ran.take(&format!("@vm start {}", program.name));
        let mut command = Command::new("sh");
        command
            .args(["-c", "exec \"$0\" --color=never \"$1\" 2>&1"])
            .args([program.path.as_os_str(), programs.filter.as_ref()])
            .current_dir(&program.dir)
            .env("CI", "true");
        let code = follow(&mut command, &mut ran, &mut log, BOUND)?;
        show(ran.take(&format!("@vm end {} {code}", program.name)));
    }
    let _ = ran.take("@vm done");
    Ok(ran)
}

/// Runs a process to its end or its time limit, shows the important part of its output, and keeps
/// all of it. Returns its exit code.
fn follow(command: &mut Command, ran: &mut Ran, log: &mut File, first: Duration) -> Result<i32> {
    let name = line(command);
    let path = Path::new(&name);
    let mut child = at(path, command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn())?;
    let Some(stdout) = child.stdout.take() else {
        return Err(format!("{name}: no output"));
    };
    let lines = lines(stdout);
    let start = Instant::now();
    loop {
        let bound = if ran.release.is_empty() { first } else { BOUND };
        match lines.recv_timeout((start + bound).saturating_duration_since(Instant::now())) {
            Ok(text) => {
                at(path, writeln!(log, "{text}"))?;
                show(ran.take(&text));
            }
            Err(RecvTimeoutError::Disconnected) => break,
            Err(RecvTimeoutError::Timeout) => {
                // The process may have ended by now.
                let _ = child.kill();
                let _ = child.wait();
                let place = ran.place();
                return Err(format!("hung: not done after {} s, {place}", bound.as_secs()));
            }
        }
    }
    let status = at(path, child.wait())?;
    Ok(status.code().unwrap_or(-1))
}

fn show(text: Option<String>) {
    text.into_iter().for_each(|text| println!("{text}"));
}

/// Reads lines on a thread, so that a wait for them can have a time limit.
fn lines(from: impl Read + Send + 'static) -> Receiver<String> {
    let (sender, receiver) = channel();
    thread::spawn(move || {
        for line in BufReader::new(from).split(b'\n').map_while(|line| line.ok()) {
            let line = String::from_utf8_lossy(&line).trim_end_matches('\r').to_owned();
            if sender.send(line).is_err() {
                break;
            }
        }
    });
    receiver
}
