//! The administration of an etcd cluster.

use std::future::Future;
use std::io;
use std::time::Duration;

use etcd_client::{
    AlarmAction, AlarmOptions, AlarmType, Client, CompactionOptions, ConnectOptions,
    Error as ClientError, MemberAddOptions,
};
use tokio::runtime::Builder;
use tokio::time::timeout;
use trueup_etcd::{Administrator, read_password};
use trueup_world::{Access, Error, Revision};

use super::{Cluster, write_secret};

/// The time limit of one change.
const BOUND: Duration = Duration::from_secs(60);
/// The time limit of a call that is repeated: a stopped member does not answer.
const STATUS: Duration = Duration::from_secs(5);

impl Cluster {
    /// Compacts the history: watches and reads before `at` fail from now on.
    ///
    /// # Errors
    ///
    /// If etcd refuses.
    pub fn compact(&self, at: Revision) -> io::Result<()> {
        let at = i64::try_from(at.0).map_err(io::Error::other)?;
        self.at_any(move |client| async move {
            let options = CompactionOptions::new().with_physical();
            let done = client.kv_client().compact(at, Some(options)).await;
            done.map(drop)
        })
    }

    /// Returns the space of deleted and compacted data to the file system, at one member.
    ///
    /// # Errors
    ///
    /// If etcd refuses.
    pub fn defragment(&self, member: usize) -> io::Result<()> {
        self.at(
            member,
            |client| async move { client.maintenance_client().defragment().await.map(drop) },
        )
    }

    /// Clears the alarm of a full store.
    ///
    /// # Errors
    ///
    /// If etcd refuses.
    pub fn disarm(&self) -> io::Result<()> {
        self.at_any(|client| async move {
            let mut client = client.maintenance_client();
            let list = client.alarm(AlarmAction::Get, AlarmType::Nospace, None).await?;
            for alarm in list.alarms() {
                let mut options = AlarmOptions::new();
                options.with_member(alarm.member_id());
                client.alarm(AlarmAction::Deactivate, AlarmType::Nospace, Some(options)).await?;
            }
            Ok(())
        })
    }

    /// Raises the alarm of a full store at a member, as the member itself would: etcd refuses
    /// writes until [`disarm`](Self::disarm).
    ///
    /// # Errors
    ///
    /// If etcd refuses.
    pub fn alarm(&self, member: usize) -> io::Result<()> {
        let (id, _) = self.status(member)?;
        self.at(member, move |client| async move {
            let mut options = AlarmOptions::new();
            options.with_member(id);
            let mut client = client.maintenance_client();
            let raised = client.alarm(AlarmAction::Activate, AlarmType::Nospace, Some(options));
            raised.await.map(drop)
        })
    }

    /// Makes another member the leader.
    ///
    /// # Errors
    ///
    /// If etcd refuses, or there is no leader.
    pub fn move_leader(&self, to: usize) -> io::Result<()> {
        let leader = self.wait_for_leader()?;
        let (id, _) = self.status(to)?;
        if leader == to {
            return Ok(());
        }
        self.at(leader, move |client| async move {
            client.maintenance_client().move_leader(id).await.map(drop)
        })
    }

    /// Adds a user with a password and with the rights in `access`. Rights apply only after
    /// [`enable_access_control`](Self::enable_access_control).
    ///
    /// # Errors
    ///
    /// If etcd refuses.
    pub fn add_user(&self, name: &str, password: &str, access: &Access) -> io::Result<()> {
        let add = || {
            let administrator = self.administrator()?;
            administrator.set_role(name, access)?;
            administrator.add_user(name, password)?;
            administrator.add_role(name, name)
        };
        add().map(drop).map_err(io::Error::other)
    }

    /// Changes a user's password.
    ///
    /// # Errors
    ///
    /// If etcd refuses.
    pub fn change_password(&self, name: &str, password: &str) -> io::Result<()> {
        let administrator = self.administrator();
        let change = administrator.and_then(|it| it.set_password(name, password));
        change.map_err(io::Error::other)
    }

    /// Turns access control on, with a user `root` for this administrator.
    ///
    /// # Errors
    ///
    /// If etcd refuses.
    pub fn enable_access_control(&mut self) -> io::Result<()> {
        let password = self.folder.join("root.password");
        write_secret(&password, "root")?;
        let administrator = self.administrator();
        let enforce = administrator.and_then(|it| it.enforce("root"));
        enforce.map_err(io::Error::other)?;
        self.root = Some(password);
        Ok(())
    }

    fn administrator(&self) -> Result<Administrator, Error> {
        Administrator::connect(self.admin_config())
    }

    /// Returns a member's id, and the leader's id by this member's knowledge.
    pub(super) fn status(&self, member: usize) -> io::Result<(u64, u64)> {
        self.within(STATUS, member, |client| async move {
            let status = client.maintenance_client().status().await?;
            let id = status.header().map_or(0, |header| header.member_id());
            Ok((id, status.leader()))
        })
    }

    /// Removes the member with that peer address, and adds a new one with it.
    pub(super) fn rejoin(&self, through: usize, peer: &str) -> io::Result<()> {
        let peer = peer.to_owned();
        // If the first change is not applied yet, etcd may drop the second without an answer.
        self.within(STATUS, through, move |client| async move {
            let mut client = client.cluster_client();
            let list = client.member_list().await?;
            // A member that was added and not yet started has no name.
            let mut members = list.members().iter();
            let former = members.find(|member| member.peer_urls().contains(&peer));
            if let Some(former) = former {
                client.member_remove(former.id()).await?;
            }
            let options = None::<MemberAddOptions>;
            client.member_add([peer], options).await.map(drop)
        })
    }

    /// Sends a request to one member after another until one succeeds.
    fn at_any<F>(&self, request: impl Fn(Client) -> F) -> io::Result<()>
    where
        F: Future<Output = Result<(), ClientError>>,
    {
        let mut result = Ok(());
        for member in 0..self.size() {
            result = self.at(member, &request);
            if result.is_ok() {
                break;
            }
        }
        result
    }

    fn at<T, F>(&self, member: usize, request: impl FnOnce(Client) -> F) -> io::Result<T>
    where
        F: Future<Output = Result<T, ClientError>>,
    {
        self.within(BOUND, member, request)
    }

    /// Sends a request to a member as its administrator, on a new connection.
    fn within<T, F>(
        &self,
        bound: Duration,
        member: usize,
        request: impl FnOnce(Client) -> F,
    ) -> io::Result<T>
    where
        F: Future<Output = Result<T, ClientError>>,
    {
        let mut options = ConnectOptions::new();
        if let Some(password) = &self.root {
            options = options.with_user("root", read_password(password).map_err(io::Error::other)?);
        }
        if let Some(certificates) = &self.certificates {
            options = options.with_tls(certificates.client_options()?);
        }
        let url = self.members[member].url();
        let ask = async { request(Client::connect([url], Some(options)).await?).await };
        let answer = Builder::new_current_thread()
            .enable_all()
            .build()?
            .block_on(async { timeout(bound, ask).await })?;
        answer.map_err(io::Error::other)
    }
}
