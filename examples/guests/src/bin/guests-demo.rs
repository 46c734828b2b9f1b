//! `cargo xtask demo --guests`: starts two guests, throttles one, and kills the agent in the middle
//! of a backup. The next agent finds the job, and completes its record.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use std::{env, fs, process, thread};

use rustix::process::{Signal, kill_process};
use trueup_guests::agent;
use trueup_guests::backup::{Backup, Job};
use trueup_guests::host::Host;

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

const FILE: &str = r#"[guests.web]
state = "running"
memory = "32MiB"
description = "the web server"
disks.root = { size = "16MiB", iops = 500, backups = ["nightly"] }
nics.lan = { mac = "52:54:00:12:34:56" }

[guests.db]
state = "paused"
memory = "32MiB"
disks.data = { size = "8MiB" }
"#;

/// At this speed the backup takes four seconds.
const BACKUP_SPEED: u64 = 4 << 20;

fn main() -> Result<()> {
    let folder = env::temp_dir().join(format!("trueup-guests-demo-{}", process::id()));
    fs::create_dir(&folder)?;
    let demo = Demo { folder };
    demo.run()
}

struct Demo {
    folder: PathBuf,
}

impl Demo {
    fn run(&self) -> Result<()> {
        say("Two guests are declared:");
        println!("{FILE}");
        self.declare(FILE)?;
        let agent = self.start_agent()?;
        self.wait("the backup runs", |status| status.contains("bytes"))?;
        self.show_status()?;

        say("The agent is killed, in the middle of the backup. QEMU goes on:");
        drop(agent);
        self.show_guests()?;

        say("Another agent finds the job by the id in the journal, and finishes its record:");
        let _agent = self.start_agent()?;
        let status = self.wait("all is in place", |status| status.starts_with("converged: yes"))?;
        println!("{status}");
        self.show_guests()?;

        say("A throttle is changed at once. A guest that is to stop waits for an approval:");
        let other = FILE.replace("iops = 500", "iops = 7");
        self.declare(&other.replace("paused", "stopped"))?;
        let status = self.wait("it waits", |status| status.contains("to approve: "))?;
        self.show_guests()?;
        println!("{status}");
        let hash = status.split("to approve: ").nth(1);
        let hash = hash.and_then(|rest| rest.split(' ').next()).unwrap_or_default();
        agent::approve(&self.folder, hash)?;
        self.wait("all is in place", |status| status.starts_with("converged: yes"))?;
        say("Approved:");
        self.show_guests()
    }

    fn host(&self) -> Result<Host> {
        Ok(Host::open(&self.folder.join("guests"), None)?)
    }

    fn declare(&self, text: &str) -> Result<()> {
        fs::write(self.folder.join("new"), text)?;
        Ok(fs::rename(self.folder.join("new"), self.folder.join("guests.toml"))?)
    }

    fn start_agent(&self) -> Result<Agent> {
        let program = env::current_exe()?.with_file_name("trueup-guests");
        let mut command = Command::new(program);
        command
            .args(["run", "guests.toml", "--state", ".", "--interval", "200"])
            .args(["--backup-speed", &BACKUP_SPEED.to_string()])
            .current_dir(&self.folder)
            .stdin(Stdio::null())
            .stderr(Stdio::null());
        // Clear the previous agent's status.
        fs::write(self.folder.join("status"), "")?;
        Ok(Agent(command.spawn()?))
    }

    /// Waits until `is_so` accepts the agent's status, and returns it.
    fn wait(&self, what: &str, is_so: impl Fn(&str) -> bool) -> Result<String> {
        let until = Instant::now() + Duration::from_secs(60);
        while Instant::now() < until {
            let status = agent::status_of(&self.folder)?;
            if is_so(&status) {
                return Ok(status);
            }
            thread::sleep(Duration::from_millis(50));
        }
        let status = agent::status_of(&self.folder)?;
        Err(format!("not within a minute: {what}:\n{status}").into())
    }

    fn show_status(&self) -> Result<()> {
        println!("{}", agent::status_of(&self.folder)?);
        Ok(())
    }

    /// Shows the guests as QEMU reports them.
    fn show_guests(&self) -> Result<()> {
        let host = self.host()?;
        for guest in host.guests()? {
            let Ok(mut monitor) = host.monitor(&guest) else {
                println!("{guest}: stopped");
                continue;
            };
            let found = monitor.guest()?;
            let state = if found.is_running { "running" } else { "paused" };
            println!("{guest}: {state}, {} MiB, {:?}", found.memory >> 20, found.description);
            for (name, disk) in &found.disks {
                let (size, iops) = (disk.size >> 20, disk.bounds.iops);
                println!("  disk {name}: {size} MiB, at most {iops} requests a second (0: any)");
            }
            for (name, mac) in &found.nics {
                println!("  interface {name}: {mac}");
            }
            let backup = Backup::new("root", "nightly");
            if let Job::Running(done, all) = monitor.job(&backup.job())? {
                println!("  job of the backup: {done} of {all} bytes");
            }
            let file = host.guest_folder(&guest).join(backup.file());
            if file.exists() {
                println!("  backup {}: complete", show(&file));
            }
        }
        println!();
        Ok(())
    }
}

/// Ends the guests, which would outlive the demo.
impl Drop for Demo {
    fn drop(&mut self) {
        if let Ok(host) = self.host() {
            let processes = ["web", "db"].map(|guest| host.process(guest));
            for process in processes.into_iter().flatten() {
                let _ = kill_process(process, Signal::KILL);
            }
        }
        let _ = fs::remove_dir_all(&self.folder);
    }
}

struct Agent(Child);

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn say(text: &str) {
    println!("--- {text}");
}

fn show(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}
