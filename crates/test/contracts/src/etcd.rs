//! Members of etcd as processes, for tests and demonstrations. They need the program `etcd`
//! (Debian's package etcd-server) and keep their data in a temporary directory. Both end with the
//! [`Cluster`].

mod admin;
mod certificates;
mod member;
mod options;

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use trueup_etcd::Config;

use certificates::Certificates;
pub use certificates::{Authority, CertificateFiles};
use member::Member;
pub use options::{ClusterOptions, Place};

/// Writes a file that other users cannot read, as files of passwords and keys require.
///
/// # Errors
///
/// If it cannot be written.
pub fn write_secret(path: &Path, text: &str) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o600);
    options.open(path)?.write_all(text.as_bytes())
}

/// The time limit for a cluster to have a leader.
const START: Duration = Duration::from_secs(60);

/// A running cluster of etcd. Members are numbered from 0.
#[derive(Debug)]
pub struct Cluster {
    folder: PathBuf,
    members: Vec<Member>,
    certificates: Option<Certificates>,
    root: Option<PathBuf>,
}

impl Cluster {
    /// Starts a cluster, and waits until all members know its leader.
    ///
    /// # Errors
    ///
    /// If `etcd` cannot be run, or has no leader within a minute: with its output.
    pub fn start(options: &ClusterOptions) -> io::Result<Cluster> {
        static NUMBERS: AtomicU32 = AtomicU32::new(0);
        let number = NUMBERS.fetch_add(1, Ordering::Relaxed);
        let name = format!("trueup-etcd-{}-{number}", std::process::id());
        let folder = std::env::temp_dir().join(&name);
        fs::create_dir_all(&folder)?;
        let mut arguments = vec![format!("--initial-cluster-token={name}")];
        arguments.extend(options.arguments.iter().cloned());
        let certificates = match options.has_tls {
            true => Some(Certificates::new(&folder, &options.places)?),
            false => None,
        };
        arguments.extend(certificates.iter().flat_map(Certificates::arguments));
        let mut cluster = Cluster { members: Vec::new(), folder, certificates, root: None };
        for (index, place) in options.places.iter().enumerate() {
            let name = format!("m{index}");
            let folder = cluster.folder.clone();
            let member = Member::new(name, place, folder, arguments.clone(), options.has_tls)?;
            cluster.members.push(member);
        }
        let urls: Vec<_> = cluster.members.iter().map(Member::initial).collect();
        for member in &mut cluster.members {
            member.start(&urls.join(","), "new")?;
        }
        cluster.wait(|cluster| {
            let knows = |index| cluster.status(index).is_ok_and(|(_, leader)| leader != 0);
            (0..cluster.size()).all(knows).then_some(())
        })?;
        Ok(cluster)
    }

    /// Returns the number of members, running or not.
    pub fn size(&self) -> usize {
        self.members.len()
    }

    /// Returns the configuration of a client of all members, with the certificate in use.
    pub fn config(&self) -> Config {
        self.config_of(&(0..self.size()).collect::<Vec<_>>())
    }

    /// Returns the configuration of a client of some members, in this order. Without TLS it permits
    /// passwords in clear text.
    pub fn config_of(&self, members: &[usize]) -> Config {
        let config = Config::new(members.iter().map(|&index| self.members[index].url()));
        match &self.certificates {
            None => config.with_clear_password(true),
            Some(certificates) => certificates.client_config(config),
        }
    }

    /// Replaces the certificates of members and clients by others from the same authority. New
    /// connections use them.
    ///
    /// # Errors
    ///
    /// If the files cannot be written, or the cluster has no TLS.
    pub fn renew_certificates(&self) -> io::Result<()> {
        let without = || io::Error::other("the cluster has no TLS");
        self.certificates.as_ref().ok_or_else(without)?.issue()
    }

    /// Returns the configuration of an administrator: of the user `root` if access control is on.
    pub fn admin_config(&self) -> Config {
        match &self.root {
            None => self.config(),
            Some(password) => self.config().with_user("root", password),
        }
    }

    /// Returns the authority of the certificates; `None` if clients connect without TLS.
    pub fn authority(&self) -> Option<&Authority> {
        self.certificates.as_ref().map(Certificates::authority)
    }

    /// Returns a directory for the test's own files, deleted with the cluster.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Kills a member's process (SIGKILL), and waits for its end. Its data stays.
    ///
    /// # Errors
    ///
    /// If the signal or the wait fails.
    pub fn kill(&mut self, member: usize) -> io::Result<()> {
        self.members[member].kill()
    }

    /// Returns true until a member's process has ended, killed or by itself.
    pub fn is_running(&mut self, member: usize) -> bool {
        self.members[member].is_running()
    }

    /// Starts a killed member with its old data, and does not wait until it is ready.
    ///
    /// # Errors
    ///
    /// If the process cannot be started.
    pub fn restart(&mut self, member: usize) -> io::Result<()> {
        self.members[member].start_again()
    }

    /// Sets the beginning of a member's command line from its next start on, as
    /// [`Place::launcher`].
    pub fn set_launcher<W: Into<String>>(
        &mut self,
        member: usize,
        words: impl IntoIterator<Item = W>,
    ) {
        let words = words.into_iter().map(Into::into).collect();
        self.members[member].set_launcher(words);
    }

    /// Stops a member's process (SIGSTOP) until [`resume`](Self::resume): its connections stay, and
    /// it does not answer. Returns once all its threads have stopped.
    ///
    /// # Errors
    ///
    /// If the signal fails, or the process has ended.
    pub fn pause(&self, member: usize) -> io::Result<()> {
        self.members[member].pause()
    }

    /// Continues a stopped member (SIGCONT).
    ///
    /// # Errors
    ///
    /// If the signal fails.
    pub fn resume(&self, member: usize) -> io::Result<()> {
        self.members[member].resume()
    }

    /// Kills a member, deletes its data, and makes it join again as a new member with the same
    /// name.
    ///
    /// # Errors
    ///
    /// If the others have no leader.
    pub fn replace(&mut self, member: usize) -> io::Result<()> {
        self.kill(member)?;
        self.members[member].wipe()?;
        let peer = self.members[member].peer_url();
        // The leader may have changed meanwhile.
        self.wait(|cluster| cluster.rejoin(cluster.leader()?, &peer).ok())?;
        let urls: Vec<_> = self.members.iter().map(Member::initial).collect();
        self.members[member].start(&urls.join(","), "existing")
    }

    /// Waits until a member reports itself as the leader. Returns its index.
    ///
    /// # Errors
    ///
    /// If there is none within a minute: with the members' output.
    pub fn wait_for_leader(&self) -> io::Result<usize> {
        self.wait(Cluster::leader)
    }

    fn wait<T>(&self, look: impl Fn(&Cluster) -> Option<T>) -> io::Result<T> {
        let end = Instant::now() + START;
        while Instant::now() < end {
            if let Some(seen) = look(self) {
                return Ok(seen);
            }
            if self.members.iter().any(Member::has_failed) {
                break;
            }
            thread::sleep(Duration::from_millis(30));
        }
        let logs: Vec<_> = self.members.iter().map(Member::log_end).collect();
        let message = format!("the cluster has no leader:\n{}", logs.join("\n"));
        Err(io::Error::other(message))
    }

    /// Returns the index of the leader, `None` if no member reports itself as the leader.
    pub fn leader(&self) -> Option<usize> {
        (0..self.size()).find(|&index| {
            let status = self.status(index);
            status.is_ok_and(|(id, leader)| id != 0 && id == leader)
        })
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        for member in &mut self.members {
            // The process may have ended already.
            let _ = member.kill();
        }
        let _ = fs::remove_dir_all(&self.folder);
    }
}
