//! A member's process: start, stop, and log.

use std::fs::{self, File};
use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};

use super::{Place, START};

#[derive(Debug)]
pub(super) struct Member {
    name: String,
    client: SocketAddr,
    peer: SocketAddr,
    has_tls: bool,
    launcher: Vec<String>,
    arguments: Vec<String>,
    folder: PathBuf,
    /// The cluster's state and members at its last start.
    cluster: (String, String),
    process: Option<Child>,
}

impl Member {
    pub(super) fn new(
        name: String,
        place: &Place,
        folder: PathBuf,
        arguments: Vec<String>,
        has_tls: bool,
    ) -> io::Result<Member> {
        let (client, peer) = match place.ports {
            Some(ports) => ports,
            None => free_ports(place.address)?,
        };
        Ok(Member {
            name,
            client: (place.address, client).into(),
            peer: (place.address, peer).into(),
            has_tls,
            launcher: place.launcher.clone(),
            arguments,
            folder,
            cluster: Default::default(),
            process: None,
        })
    }

    pub(super) fn url(&self) -> String {
        match self.has_tls {
            true => format!("https://{}", self.client),
            false => format!("http://{}", self.client),
        }
    }

    pub(super) fn peer_url(&self) -> String {
        format!("http://{}", self.peer)
    }

    /// Returns its part of etcd's `--initial-cluster`.
    pub(super) fn initial(&self) -> String {
        format!("{}={}", self.name, self.peer_url())
    }

    pub(super) fn start(&mut self, cluster: &str, state: &str) -> io::Result<()> {
        self.cluster = (cluster.to_owned(), state.to_owned());
        self.start_again()
    }

    pub(super) fn start_again(&mut self) -> io::Result<()> {
        self.kill()?;
        let mut words = self.launcher.iter().cloned();
        let mut command = match words.next() {
            Some(program) => Command::new(program),
            None => Command::new("etcd"),
        };
        command.args(words);
        if !self.launcher.is_empty() {
            command.arg("etcd");
        }
        let log = File::options().create(true).append(true).open(self.log_file())?;
        let (url, peer) = (self.url(), self.peer_url());
        let (cluster, state) = &self.cluster;
        command
            .arg(format!("--name={}", self.name))
            .arg(format!("--data-dir={}", self.data().display()))
            .arg(format!("--listen-client-urls={url}"))
            .arg(format!("--advertise-client-urls={url}"))
            .arg(format!("--listen-peer-urls={peer}"))
            .arg(format!("--initial-advertise-peer-urls={peer}"))
            .arg(format!("--initial-cluster={cluster}"))
            .arg(format!("--initial-cluster-state={state}"))
            // The gateway would connect to the member itself, with the member's own certificate.
            .arg("--enable-grpc-gateway=false")
            // Allow tests to replace members that have not been connected for some seconds.
            .arg("--strict-reconfig-check=false")
            // The lowest cost: a store opened often has other work.
            .arg("--bcrypt-cost=4")
            .args(&self.arguments)
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log);
        if cfg!(target_arch = "aarch64") {
            // etcd runs on this architecture only if this variable is set.
            command.env("ETCD_UNSUPPORTED_ARCH", "arm64");
        }
        let process = command.spawn().map_err(|error| {
            let message = format!("etcd, of Debian's package etcd-server: {error}");
            io::Error::new(error.kind(), message)
        })?;
        self.process = Some(process);
        Ok(())
    }

    pub(super) fn kill(&mut self) -> io::Result<()> {
        if let Some(mut process) = self.process.take() {
            process.kill()?;
            process.wait()?;
        }
        Ok(())
    }

    pub(super) fn is_running(&mut self) -> bool {
        let process = self.process.as_mut();
        process.is_some_and(|it| matches!(it.try_wait(), Ok(None)))
    }

    pub(super) fn wipe(&self) -> io::Result<()> {
        fs::remove_dir_all(self.data())
    }

    /// Stops its process, and waits until none of its threads runs. Each thread takes the signal
    /// separately, and on a busy machine one could still answer.
    pub(super) fn pause(&self) -> io::Result<()> {
        let pid = self.pid()?;
        kill_process(pid, Signal::STOP)?;
        let look = WaitIdOptions::STOPPED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        let end = Instant::now() + START;
        while waitid(WaitId::Pid(pid), look)?.is_none() {
            if Instant::now() > end {
                return Err(io::Error::other(format!("{} does not stop", self.name)));
            }
            thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }

    pub(super) fn resume(&self) -> io::Result<()> {
        Ok(kill_process(self.pid()?, Signal::CONT)?)
    }

    fn pid(&self) -> io::Result<Pid> {
        let process = self.process.as_ref().map(Child::id);
        let pid = process.and_then(|id| Pid::from_raw(i32::try_from(id).ok()?));
        pid.ok_or_else(|| io::Error::other(format!("{} does not run", self.name)))
    }

    /// Sets the beginning of its command line from its next start on.
    pub(super) fn set_launcher(&mut self, launcher: Vec<String>) {
        self.launcher = launcher;
    }

    /// Returns true if its process was not started, or printed that it gives up.
    pub(super) fn has_failed(&self) -> bool {
        let log = fs::read_to_string(self.log_file()).unwrap_or_default();
        log.contains("bind: address already in use")
    }

    /// Returns the last lines of its log.
    pub(super) fn log_end(&self) -> String {
        let log = fs::read_to_string(self.log_file()).unwrap_or_default();
        let lines: Vec<_> = log.lines().rev().take(10).collect();
        let lines: Vec<_> = lines.into_iter().rev().collect();
        format!("{}:\n{}", self.name, lines.join("\n"))
    }

    fn data(&self) -> PathBuf {
        self.folder.join(&self.name)
    }

    fn log_file(&self) -> PathBuf {
        self.folder.join(format!("{}.log", self.name))
    }
}

/// Returns two ports that are free now, outside the range for outgoing connections: one of these
/// could take the port while the member does not run.
fn free_ports(address: IpAddr) -> io::Result<(u16, u16)> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let first = std::process::id().wrapping_mul(16);
    let mut free = Vec::new();
    while free.len() < 2 {
        let next = NEXT.fetch_add(1, Ordering::Relaxed);
        if next > 20_000 {
            return Err(io::Error::other(format!("{address} has no free port")));
        }
        let port = 10_000 + first.wrapping_add(next) % 20_000;
        let port = u16::try_from(port).map_err(io::Error::other)?;
        if TcpListener::bind((address, port)).is_ok() {
            free.push(port);
        }
    }
    Ok((free[0], free[1]))
}
