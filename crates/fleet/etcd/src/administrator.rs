//! Users and roles, and the rights of a client without a user or a certificate.

use std::fmt;
use std::future::Future;

use etcd_client::{AuthClient, Permission, PermissionType, RoleRevokePermissionOptions};
use trueup_world::{Access, Error, ErrorKind};

use crate::config::Config;
use crate::endpoints::Repeat;
use crate::failure::Failure;
use crate::read::range_end;
use crate::store::EtcdStore;

/// The user who may do everything, and who must exist before access control is turned on.
const ROOT: &str = "root";

/// Manages the users and roles of a cluster as its user `root`. With access control off, any client
/// may do this.
///
/// Each call may be repeated: it writes only differences.
///
/// ```no_run
/// use trueup_etcd::{Administrator, Config};
/// use trueup_world::Access;
///
/// # fn main() -> Result<(), trueup_world::Error> {
/// let root = Administrator::connect(Config::new(["https://10.0.0.1:2379"]))?;
/// root.set_role("host-a", &Access::of_host("/trueup", "a", &[])?)?;
/// root.add_user("a", "a password from a generator")?;
/// root.add_role("a", "host-a")?;
/// # Ok(())
/// # }
/// ```
pub struct Administrator {
    store: EtcdStore,
    is_enforced: bool,
}

impl Administrator {
    /// Connects. If access control is on, connects as the user of the configuration.
    ///
    /// # Errors
    ///
    /// [`Invalid`](ErrorKind::Invalid) over `http`, unless the configuration
    /// [allows](Config::allow_clear_password) it, because users' passwords are sent.
    /// [`Denied`](ErrorKind::Denied) if access control is on, and the user is not `root` or has
    /// another password. Also fails if no member is reached.
    pub fn connect(config: Config) -> Result<Administrator, Error> {
        config.check_password()?;
        let mut without = config.clone();
        without.user = None;
        let open = Administrator { store: EtcdStore::open(without)?, is_enforced: false };
        match open.users() {
            Ok(_) => return Ok(open),
            Err(error) if error.kind() == ErrorKind::Denied && config.user.is_some() => {}
            Err(error) => return Err(error),
        }
        let enforced = Administrator { store: EtcdStore::open(config)?, is_enforced: true };
        enforced.users()?;
        Ok(enforced)
    }

    /// Returns true if access control was on when this was connected.
    pub fn is_enforced(&self) -> bool {
        self.is_enforced
    }

    /// Makes a role that grants `access` and nothing else.
    ///
    /// # Errors
    ///
    /// The store's errors. Only a part may be granted then: repeat the call.
    pub fn set_role(&self, role: &str, access: &Access) -> Result<bool, Error> {
        let mut is_changed = false;
        let roles = self.call((), |mut client, ()| async move {
            Ok(client.role_list().await?.roles().to_vec())
        })?;
        if !roles.iter().any(|it| it == role) {
            is_changed = true;
            self.call(role.to_owned(), |mut client, role| async move {
                Ok(client.role_add(role).await.map(drop)?)
            })?;
        }
        let granted = self.permissions(role)?;
        let wanted = permissions(access);
        let surplus =
            granted.iter().filter(|it| !wanted.iter().any(|wanted| is_of_same_keys(it, wanted)));
        for permission in surplus {
            is_changed = true;
            self.revoke(role, permission)?;
        }
        // A second permission for the same keys replaces the first one.
        for permission in wanted {
            if granted.iter().any(|it| is_same(it, &permission)) {
                continue;
            }
            is_changed = true;
            let arguments = (role.to_owned(), permission);
            self.call(arguments, |mut client, (role, permission)| async move {
                Ok(client.role_grant_permission(role, permission).await.map(drop)?)
            })?;
        }
        Ok(is_changed)
    }

    /// Adds a user with a password. An existing user keeps the old password. Returns true if the
    /// user is new.
    ///
    /// # Errors
    ///
    /// The store's errors.
    pub fn add_user(&self, user: &str, password: &str) -> Result<bool, Error> {
        if self.users()?.iter().any(|it| it == user) {
            return Ok(false);
        }
        let arguments = (user.to_owned(), password.to_owned());
        self.call(arguments, |mut client, (user, password)| async move {
            Ok(client.user_add(user, password, None).await.map(drop)?)
        })?;
        Ok(true)
    }

    /// Changes a user's password, whether or not it differs.
    ///
    /// # Errors
    ///
    /// The store's errors.
    pub fn set_password(&self, user: &str, password: &str) -> Result<(), Error> {
        let arguments = (user.to_owned(), password.to_owned());
        self.call(arguments, |mut client, (user, password)| async move {
            Ok(client.user_change_password(user, password).await.map(drop)?)
        })
    }

    /// Gives a user a further role. Returns true if the role is new to the user.
    ///
    /// # Errors
    ///
    /// The store's errors.
    pub fn add_role(&self, user: &str, role: &str) -> Result<bool, Error> {
        let arguments = (user.to_owned(), role.to_owned());
        self.call(arguments, |mut client, (user, role)| async move {
            let has = client.user_get(user.clone()).await?;
            if has.roles().contains(&role) {
                return Ok(false);
            }
            client.user_grant_role(user, role).await?;
            Ok(true)
        })
    }

    /// Turns access control on. Before that, sets the known password for the user `root`. If access
    /// control is already on, changes nothing.
    ///
    /// # Errors
    ///
    /// The store's errors, and [`Invalid`](ErrorKind::Invalid) if the password is empty.
    pub fn enforce(&self, password: &str) -> Result<bool, Error> {
        if self.is_enforced {
            return Ok(false);
        }
        if password.is_empty() {
            let message = "the password of the user root is empty: give it one";
            return Err(Error::new(ErrorKind::Invalid, message));
        }
        if !self.add_user(ROOT, password)? {
            self.set_password(ROOT, password)?;
        }
        // The role with this name always exists.
        self.add_role(ROOT, ROOT)?;
        self.call((), |mut client, ()| async move { Ok(client.auth_enable().await.map(drop)?) })?;
        Ok(true)
    }

    /// Returns the names of all users, including `root`.
    ///
    /// # Errors
    ///
    /// The store's errors.
    pub fn users(&self) -> Result<Vec<String>, Error> {
        self.call(
            (),
            |mut client, ()| async move { Ok(client.user_list().await?.users().to_vec()) },
        )
    }

    fn permissions(&self, role: &str) -> Result<Vec<Permission>, Error> {
        self.call(role.to_owned(), |mut client, role| async move {
            Ok(client.role_get(role).await?.permissions())
        })
    }

    fn revoke(&self, role: &str, permission: &Permission) -> Result<(), Error> {
        let arguments = (role.to_owned(), permission.clone());
        self.call(arguments, |mut client, (role, permission)| async move {
            let end = permission.range_end().to_vec();
            let options = RoleRevokePermissionOptions::new().with_range_end(end);
            let key = permission.key().to_vec();
            Ok(client.role_revoke_permission(role, key, Some(options)).await.map(drop)?)
        })
    }

    /// Calls an operation. Each attempt gets a copy of the arguments.
    fn call<A, T, F>(
        &self,
        arguments: A,
        operation: impl Fn(AuthClient, A) -> F + Send + Sync + 'static,
    ) -> Result<T, Error>
    where
        A: Clone + Send + Sync + 'static,
        T: Send + 'static,
        F: Future<Output = Result<T, Failure>> + Send + 'static,
    {
        self.store.call(Repeat::Never, move |_, client| {
            operation(client.auth_client(), arguments.clone())
        })
    }
}

impl fmt::Debug for Administrator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Administrator")
            .field("store", &self.store)
            .field("is_enforced", &self.is_enforced)
            .finish()
    }
}

/// Returns the permissions of a role with this access, one for each range of keys.
fn permissions(access: &Access) -> Vec<Permission> {
    let mut prefixes: Vec<&Vec<u8>> = access.read.iter().chain(&access.write).collect();
    prefixes.sort();
    prefixes.dedup();
    let permissions = prefixes.into_iter().map(|prefix| {
        let kind = match (access.read.contains(prefix), access.write.contains(prefix)) {
            (true, true) => PermissionType::Readwrite,
            (false, true) => PermissionType::Write,
            (_, false) => PermissionType::Read,
        };
        Permission::new(kind, prefix.clone()).with_range_end(range_end(prefix))
    });
    permissions.collect()
}

/// Compares only the rights, because etcd's type also records how a range was written.
fn is_same(one: &Permission, other: &Permission) -> bool {
    is_of_same_keys(one, other) && one.get_type() == other.get_type()
}

fn is_of_same_keys(one: &Permission, other: &Permission) -> bool {
    one.key() == other.key() && one.range_end() == other.range_end()
}

/// The rights of a client without a user and a certificate.
///
/// etcd before 3.4.42, 3.5.28 and 3.6.9 checks no user for requests about leases, members and
/// compactions, even with access control on. A client that may list leases may keep each of them
/// alive, and with it the exports of a dead host. Members that require certificates
/// (`--client-cert-auth`) refuse such a client.
///
/// ```no_run
/// use trueup_etcd::{Config, Exposure};
///
/// let exposure = Exposure::probe(Config::new(["https://10.0.0.1:2379"]))?;
/// println!("without a password: {exposure:?}");
/// # Ok::<(), trueup_world::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Exposure {
    /// True if it may read keys: access control is off.
    pub keys: bool,
    /// True if it may list the leases, keep them alive, and compact the history.
    pub leases: bool,
    /// True if it may list the members.
    pub members: bool,
}

impl Exposure {
    /// Probes the first endpoint that answers, without a user and a certificate. Writes nothing.
    ///
    /// # Errors
    ///
    /// Fails if the client is refused or no member is reached, which look the same.
    /// [`Invalid`](ErrorKind::Invalid) if the configuration cannot work.
    pub fn probe(mut config: Config) -> Result<Exposure, Error> {
        config.user = None;
        (config.cert_file, config.key_file) = (None, None);
        EtcdStore::open(config)?.call(Repeat::Safe, |_, client| async move {
            Ok(Exposure {
                keys: is_allowed(client.kv_client().get("/", None)).await?,
                leases: is_allowed(client.lease_client().leases()).await?,
                members: is_allowed(client.cluster_client().member_list()).await?,
            })
        })
    }
}

async fn is_allowed<T>(
    call: impl Future<Output = Result<T, etcd_client::Error>>,
) -> Result<bool, Failure> {
    match call.await.map_err(Failure::from) {
        Ok(_) => Ok(true),
        Err(failure) if failure.kind == ErrorKind::Denied => Ok(false),
        Err(failure) => Err(failure),
    }
}
