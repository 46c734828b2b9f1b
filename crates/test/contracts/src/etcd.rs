//! Members of etcd as processes, for tests and demonstrations. They need the program `etcd`
//! (Debian's package etcd-server), have their data in a temporary directory, and end with the
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

/// Writes a file that nobody else can read, as those of passwords and keys have to be.
///
/// # Errors
///
/// When it cannot be written.
pub fn write_secret(path: &Path, text: &str) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o600);
    options.open(path)?.write_all(text.as_bytes())
}

/// How long a cluster has until it has a leader.
const START: Duration = Duration::from_secs(60);

/// A cluster of etcd. Members are known by their index.
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
    /// Where `etcd` cannot be run, or has no leader in time: with what it printed.
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

    /// Returns the number of members.
    pub fn size(&self) -> usize {
        self.members.len()
    }

    /// Returns the configuration of a client of all members, with the certificate that is in use.
    pub fn config(&self) -> Config {
        self.config_of(&(0..self.size()).collect::<Vec<_>>())
    }

    /// Returns the configuration of a client of some members, in this order. Without TLS it allows
    /// passwords in clear.
    pub fn config_of(&self, members: &[usize]) -> Config {
        let config = Config::new(members.iter().map(|&index| self.members[index].url()));
        match &self.certificates {
            None => config.with_clear_password(true),
            Some(certificates) => certificates.client_config(config),
        }
    }

    /// Replaces the certificates of members and clients by others of the same authority: for
    /// connections that begin from now on.
    ///
    /// # Errors
    ///
    /// When the files cannot be written, and without TLS.
    pub fn renew_certificates(&self) -> io::Result<()> {
        let without = || io::Error::other("the cluster has no TLS");
        self.certificates.as_ref().ok_or_else(without)?.issue()
    }

    /// Returns the configuration of an administrator: of the user `root` where access control is
    /// on.
    pub fn admin_config(&self) -> Config {
        match &self.root {
            None => self.config(),
            Some(password) => self.config().with_user("root", password),
        }
    }

    /// Returns the authority of the certificates, where clients connect with TLS.
    pub fn authority(&self) -> Option<&Authority> {
        self.certificates.as_ref().map(Certificates::authority)
    }

    /// Returns a directory for a test's own files, which ends with the cluster.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Kills a member's process (SIGKILL), and waits for its end. Its data stays.
    ///
    /// # Errors
    ///
    /// The system's.
    pub fn kill(&mut self, member: usize) -> io::Result<()> {
        self.members[member].kill()
    }

    /// True until a member's process has ended: killed, or by itself.
    pub fn is_running(&mut self, member: usize) -> bool {
        self.members[member].is_running()
    }

    /// Starts a member that was killed, with the data that it had.
    ///
    /// # Errors
    ///
    /// The system's. It is not waited for.
    pub fn restart(&mut self, member: usize) -> io::Result<()> {
        self.members[member].start_again()
    }

    /// Sets what a member's command line begins with from its next start on, as
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
    /// nothing answers. Returns when all its threads have stopped.
    ///
    /// # Errors
    ///
    /// The system's, and when the process has ended.
    pub fn pause(&self, member: usize) -> io::Result<()> {
        self.members[member].pause()
    }

    /// Lets a stopped member go on (SIGCONT).
    ///
    /// # Errors
    ///
    /// The system's.
    pub fn resume(&self, member: usize) -> io::Result<()> {
        self.members[member].resume()
    }

    /// Kills a member, deletes its data, and has it join again as a new member of its name.
    ///
    /// # Errors
    ///
    /// When the others have no leader.
    pub fn replace(&mut self, member: usize) -> io::Result<()> {
        self.kill(member)?;
        self.members[member].wipe()?;
        let peer = self.members[member].peer_url();
        // Another one may have become the leader meanwhile.
        self.wait(|cluster| cluster.rejoin(cluster.leader()?, &peer).ok())?;
        let urls: Vec<_> = self.members.iter().map(Member::initial).collect();
        self.members[member].start(&urls.join(","), "existing")
    }

    /// Waits until some member says that it is the leader. Returns its index.
    ///
    /// # Errors
    ///
    /// When there is none in time: with what the members printed.
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

    /// Returns the index of the leader, if a member says that it is the leader.
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
            // It may have ended before.
            let _ = member.kill();
        }
        let _ = fs::remove_dir_all(&self.folder);
    }
}
