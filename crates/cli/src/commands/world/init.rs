//! `init`: the users and roles of hosts on etcd.

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use trueup::etcd::{Administrator, read_password};
use trueup::world::{Access, Change};
use trueup_file::StoreAddress;

use super::Store;
use crate::world::etcd_config;
use crate::{Common, output};

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

pub(super) fn init(_: &Common, asked: &Init) -> Result<()> {
    let (_, named) = asked.store.read()?;
    let StoreAddress::Etcd(endpoints) = &named.store else {
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
    let root = asked.passwords.join(ROOT);
    let mut config = etcd_config(&named, endpoints);
    if asked.store.user.is_none() {
        config.user = None;
        if root.exists() {
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
        let granted = match administrator.set_role(&role, &access)? {
            Change::Changed => "made as asked for",
            Change::Unchanged => "was so already",
        };
        let file = asked.passwords.join(user);
        let known = match users.contains(user) {
            true => "was there, and keeps its password".to_owned(),
            false => {
                administrator.add_user(user, &password(&file)?)?;
                format!("password in {}", file.display())
            }
        };
        administrator.add_role(user, &role)?;
        output::print(|out| writeln!(out, "role {role}: {granted}; user {user}: {known}"))?;
    }
    if asked.enforce && !administrator.is_enforced() {
        let shown = root.display();
        if users.iter().any(|user| user == ROOT) && !root.exists() {
            bail!("etcd has a user root already: write its password into {shown}");
        }
        administrator.enforce(&password(&root)?)?;
        // That it can be turned off again.
        Administrator::connect(etcd_config(&named, endpoints).with_user(ROOT, &root))
            .with_context(|| format!("access control is on, and the password in {shown} fails"))?;
        let root = shown;
        output::print(|out| writeln!(out, "access control is on; user root: password in {root}"))?;
    } else if !administrator.is_enforced() {
        output::note(
            "access control is off, so that every client may do everything: turn it on with \
             --enforce",
        );
    }
    Ok(())
}

fn grant(text: &str) -> Result<(String, String), String> {
    let grant = text
        .split_once(':')
        .filter(|(host, to)| !host.is_empty() && !to.is_empty());
    let (host, to) = grant.ok_or("write HOST:RECIPIENT")?;
    Ok((host.to_owned(), to.to_owned()))
}

fn is_file_name(name: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    !name.is_empty() && !name.starts_with('.') && name.bytes().all(is_plain)
}

/// Reads a password from its file, which is made with a random one if it is missing.
fn password(file: &Path) -> Result<String> {
    let about = || format!("the password in {}", file.display());
    if !fs::exists(file).with_context(about)? {
        make_password(file).with_context(about)?;
    }
    Ok(read_password(file)?)
}

/// Makes a file with a random password: all of it or nothing, also if this process is killed. One
/// that another process has made meanwhile stays.
fn make_password(file: &Path) -> io::Result<()> {
    let directory = file.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(directory)?;
    let mut random = [0; 24];
    fs::File::open("/dev/urandom")?.read_exact(&mut random)?;
    let text: String = random.iter().map(|byte| format!("{byte:02x}")).collect();
    // Names of users do not begin with a dot. Of runs at the same time each has a file of its own.
    let new = directory.join(format!(".{}", &text[..16]));
    let mut options = OpenOptions::new();
    let mut made = options
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&new)?;
    let written = writeln!(made, "{}", &text[16..]).and_then(|()| made.sync_all());
    let linked = written.and_then(|()| fs::hard_link(&new, file));
    fs::remove_file(&new)?;
    fs::File::open(directory)?.sync_all()?;
    match linked {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
        linked => linked,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::thread;

    use super::*;

    #[test]
    fn runs_at_the_same_time_agree_on_a_password_and_leave_nothing_else() {
        let directory = std::env::temp_dir().join(format!("trueup-init-{}", std::process::id()));
        trueup_testkit::empty_directory(&directory).unwrap();
        let file = directory.join("a");
        let runs: Vec<_> = (0..8)
            .map(|_| {
                thread::spawn({
                    let file = file.clone();
                    move || password(&file).unwrap()
                })
            })
            .collect();
        let read: BTreeSet<String> = runs.into_iter().map(|run| run.join().unwrap()).collect();
        assert_eq!(read.len(), 1, "{read:?}");
        assert_eq!(read.first().unwrap().len(), 32);
        assert_eq!(fs::read_dir(&directory).unwrap().count(), 1);
        fs::remove_dir_all(&directory).unwrap();
    }
}
