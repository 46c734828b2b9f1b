//! `init`: the users and roles of hosts on etcd.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use trueup::etcd::{Administrator, read_password};
use trueup::path::{ErrorKind, Folder, Place, TrustedUsers};
use trueup::world::Access;

use super::{Store, hex, random};
use crate::{Common, output};
use trueup_agent::exchange::etcd_config;

/// The arguments of `init`.
#[derive(clap::Args)]
pub(crate) struct Init {
    #[command(flatten)]
    store: Store,
    /// The directory of the passwords, a file for each user, readable by its owner alone; a missing
    /// one is made, with a random password
    #[arg(long, value_name = "DIR")]
    passwords: PathBuf,
    /// A host: a user of its name, who reads what is for it and for any, and writes what is from it
    #[arg(long = "host", value_name = "HOST")]
    hosts: Vec<String>,
    /// Let a host export to another one by name
    #[arg(long = "grant", value_name = "HOST:RECIPIENT", value_parser = grant)]
    grants: Vec<(String, String)>,
    /// An operator: a user who reads all, and writes deploys and the ideal size
    #[arg(long = "operator", value_name = "USER")]
    operators: Vec<String>,
    /// Turn access control on, with the user root: clients without a user are refused from then on
    #[arg(long)]
    enforce: bool,
}

const ROOT: &str = "root";

pub(super) fn init(common: &Common, asked: &Init) -> Result<()> {
    let (_, named) = asked.store.read(common)?;
    let Some(endpoints) = &named.endpoints else {
        bail!("an embedded store has no users: who can open its file may read and write all of it");
    };
    let names = asked.hosts.iter().chain(&asked.operators);
    if let Some(name) = names.clone().find(|name| !is_file_name(name)) {
        bail!("{name:?} names no file for its password: use letters, digits, `-`, `_` and `.`");
    }
    if names.clone().any(|name| name == ROOT) {
        bail!("`{ROOT}` is etcd's own user, who may do everything: give the host another name");
    }
    for (host, _) in &asked.grants {
        if !asked.hosts.contains(host) {
            bail!("--grant {host}:… needs --host {host} beside it: its role is made as a whole");
        }
    }
    let passwords = Passwords::open(&asked.passwords)?;
    let root = passwords.file(ROOT);
    let mut config = etcd_config(&named, endpoints)?;
    if asked.store.user.is_none() {
        config.user = None;
        if passwords.has(ROOT)? {
            config = config.with_user(ROOT, &root);
        }
    }
    let administrator = Administrator::connect(config).context(
        "cannot manage the users of etcd; with access control on it needs the user root, as by \
         --user root --password-file FILE",
    )?;

    let mut roles: BTreeMap<&String, (String, Access)> = BTreeMap::new();
    for host in &asked.hosts {
        let granted = asked.grants.iter().filter(|(of, _)| of == host);
        let granted: Vec<String> = granted.map(|(_, to)| to.clone()).collect();
        let access = Access::of_host(&named.prefix, host, &granted)?;
        roles.insert(host, (format!("{}/hosts/{host}", named.prefix), access));
    }
    for user in &asked.operators {
        let access = Access::of_operator(&named.prefix)?;
        let role = format!("{}/operators", named.prefix);
        if roles.insert(user, (role, access)).is_some() {
            bail!("`{user}` is a host and an operator: give the operator another name");
        }
    }
    let users = administrator.users()?;
    for (user, (role, access)) in roles {
        let granted = if administrator.set_role(&role, &access)? {
            "made as asked for"
        } else {
            "was so already"
        };
        let known = if users.contains(user) {
            "was there, and keeps its password".to_owned()
        } else {
            administrator.add_user(user, &passwords.of(user)?)?;
            format!("password in {}", asked.passwords.join(user).display())
        };
        administrator.add_role(user, &role)?;
        output::print(|out| writeln!(out, "role {role}: {granted}; user {user}: {known}"))?;
    }
    if asked.enforce && !administrator.is_enforced() {
        let path = asked.passwords.join(ROOT);
        let shown = path.display();
        if users.iter().any(|user| user == ROOT) && !passwords.has(ROOT)? {
            bail!("etcd has a user root already: write its password into {shown}");
        }
        administrator.enforce(&passwords.of(ROOT)?)?;
        // Checks that it can be turned off again.
        Administrator::connect(etcd_config(&named, endpoints)?.with_user(ROOT, &root))
            .with_context(|| format!("access control is on, and the password in {shown} fails"))?;
        output::print(|out| writeln!(out, "access control is on; user root: password in {shown}"))?;
    } else if !administrator.is_enforced() {
        output::note(
            "access control is off, so that every client may do everything: turn it on with \
             --enforce",
        );
    }
    Ok(())
}

fn grant(text: &str) -> Result<(String, String), String> {
    let grant = text.split_once(':').filter(|(host, to)| !host.is_empty() && !to.is_empty());
    let (host, to) = grant.ok_or("write HOST:RECIPIENT")?;
    Ok((host.to_owned(), to.to_owned()))
}

fn is_file_name(name: &str) -> bool {
    let mut bytes = name.bytes();
    let is_plain = bytes.all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte));
    is_plain && !name.is_empty() && !name.starts_with('.')
}

/// The folder of the passwords. Only root and we can write to it.
struct Passwords(Folder);

impl Passwords {
    /// Opens the folder, or makes it.
    fn open(path: &Path) -> Result<Passwords> {
        let folder = TrustedUsers::current()?.make_folder(path, 0o700).and_then(Folder::ours);
        Ok(Passwords(folder.context("cannot keep passwords there")?))
    }

    fn file(&self, user: &str) -> PathBuf {
        self.0.path().join(user)
    }

    fn has(&self, user: &str) -> Result<bool> {
        Ok(self.0.place(user).metadata()?.is_some())
    }

    /// Reads a user's password. A missing one is made at random.
    fn of(&self, user: &str) -> Result<String> {
        let place = self.0.place(user);
        if place.metadata()?.is_none() {
            make_password(&place).with_context(|| {
                format!("cannot make the password in {}", place.path().display())
            })?;
        }
        Ok(read_password(place.path())?)
    }
}

/// Makes a file with a random password. The file appears whole or not at all, even if this process
/// is killed. If another process makes it first, that file stays.
fn make_password(place: &Place) -> Result<()> {
    let text = hex(&random::<24>()?);
    // Names of users do not begin with a dot. Runs at the same time use different names.
    let new = place.folder().place(format!(".{}", &text[..16]));
    let mut made = new.create_new(0o600)?;
    let written = writeln!(made, "{}", &text[16..]).and_then(|()| made.sync_all());
    let named = match written {
        Ok(()) => new.rename_new(place).map(drop),
        Err(error) => {
            new.remove_held(&made)?;
            return Err(error.into());
        }
    };
    match named {
        // Another process was faster.
        Err(error) if error.kind() == ErrorKind::Changed => {
            new.remove_held(&made)?;
        }
        named => named?,
    }
    Ok(place.folder().sync()?)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;
    use std::os::unix::fs::{PermissionsExt as _, chown};
    use std::thread;

    use trueup_testkit::Scratch;

    use super::*;

    #[test]
    fn runs_at_the_same_time_agree_on_a_password_and_leave_nothing_else() {
        let directory = Scratch::make("init").unwrap();
        let read: BTreeSet<String> = thread::scope(|scope| {
            let open = || Passwords::open(&directory).unwrap().of("a").unwrap();
            let runs = Vec::from_iter((0..8).map(|_| scope.spawn(open)));
            runs.into_iter().map(|run| run.join().unwrap()).collect()
        });
        assert_eq!(read.len(), 1, "{read:?}");
        assert_eq!(read.first().unwrap().len(), 32);
        assert_eq!(directory.names().len(), 1);
    }

    #[test]
    fn a_password_that_another_user_could_have_made_is_not_taken() {
        let scratch = Scratch::make("taken").unwrap();
        let directory = scratch.join("made");
        let passwords = Passwords::open(&directory).unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o7777;
        assert_eq!(mode(&directory), 0o700);
        passwords.of("a").unwrap();
        let file = passwords.file("a");
        assert_eq!(mode(&file), 0o600);
        // Other users may have read it, or have put it there.
        fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
        let refused = passwords.of("a").unwrap_err().to_string();
        assert!(refused.contains("set its mode to 0600"), "{refused}");
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
        if chown(&file, Some(4_242), None).is_ok() {
            let refused = passwords.of("a").unwrap_err().to_string();
            assert!(refused.contains("user 4242 owns it"), "{refused}");
        }
        fs::set_permissions(&directory, fs::Permissions::from_mode(0o1777)).unwrap();
        let refused = Passwords::open(&directory).err().unwrap();
        assert!(format!("{refused:#}").contains("everybody can add files"));
    }
}
