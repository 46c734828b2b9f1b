//! `trueup world`: the hosts' exchange through the store. Each task has one file.

mod deploy;
mod doctor;
mod exports;
#[cfg(feature = "etcd")]
mod exposure;
mod grants;
#[cfg(feature = "etcd")]
mod init;
mod members;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read as _};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Result, bail};
use serde::Serialize;
use trueup::Namespace;
use trueup::world::{Entry, Filter, Grants, ResourceKey, World};
use trueup_file as file;

use trueup_agent::Declared;
use trueup_agent::exchange::{Collection, Use, open, read_grants};
use trueup_agent::journals::StateFile;

use super::agent;
use crate::Common;
use crate::output::{self, Format};

/// Returns random bytes for keys and passwords.
#[expect(clippy::disallowed_methods, reason = "a device of the kernel")]
fn random<const N: usize>() -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The task. Each but `members --watch` and `watch` takes the store's timeout, 5 s, for each of its
/// few requests at most.
#[derive(clap::Subcommand)]
pub(crate) enum WorldTask {
    /// Print the exports that this host may read
    Ls(Exports),
    /// Print the exports that this host may read, and each change, until it is interrupted
    Watch(Exports),
    /// Print the routes that the file's [[collect]] makes of what other hosts export, and what is
    /// refused, with reasons
    Collect(Store),
    /// Export a resource that stays until it is removed; those of the file live as long as its
    /// `trueup watch`
    Export {
        #[command(flatten)]
        store: Store,
        #[command(flatten)]
        name: Name,
        /// What it says, such as '{"dst": "10.20.1.0/24", "via": "10.0.0.11"}'; `-` is the standard
        /// input
        data: String,
    },
    /// Remove an export of this host
    ///
    /// What a running `trueup watch` declares it exports again.
    Rm {
        #[command(flatten)]
        store: Store,
        #[command(flatten)]
        name: Name,
    },
    /// Add, list and read deploys: numbered file trees
    Deploy {
        #[command(subcommand)]
        task: deploy::Task,
    },
    /// Sign, put and print what each host may export, as an operator says
    Grants {
        #[command(subcommand)]
        task: grants::Task,
    },
    /// Print the hosts that have a session, and how many there should be
    Members {
        #[command(flatten)]
        store: Store,
        /// Set how many there should be; an operator may
        #[arg(long, value_name = "N", conflicts_with = "watch")]
        set_size: Option<u64>,
        /// Print each change, until it is interrupted
        #[arg(long)]
        watch: bool,
    },
    /// Print what the members of the store, this host's rights and its session are like
    ///
    /// Exits with 0 when nothing is wrong, 2 when something is, 1 when that is not known.
    Doctor(Store),
    /// Make the users and roles of hosts on etcd, and turn access control on
    ///
    /// It may be repeated: users who are there keep their passwords, and roles become what is asked
    /// for, without what was granted before.
    #[cfg(feature = "etcd")]
    Init(init::Init),
}

/// The store.
#[derive(clap::Args)]
pub(crate) struct Store {
    /// The file with [world]; `-` is the standard input
    file: PathBuf,
    /// The user of etcd [default: the file's]
    #[arg(long, value_name = "USER", requires = "password_file")]
    user: Option<String>,
    /// The file whose first line is this user's password
    #[arg(long, value_name = "FILE", requires = "user")]
    password_file: Option<PathBuf>,
}

/// Exports, by their parts.
#[derive(clap::Args)]
pub(crate) struct Exports {
    #[command(flatten)]
    store: Store,
    /// Those of this kind only, such as `route`
    #[arg(long)]
    kind: Option<String>,
    /// Those of this name only
    #[arg(long)]
    name: Option<String>,
    /// Those of this host only
    #[arg(long, value_name = "HOST")]
    from: Option<String>,
}

/// An export of this host.
#[derive(clap::Args)]
pub(crate) struct Name {
    /// The kind, such as `route`
    kind: String,
    /// The name
    name: String,
    /// The host that it is for [default: any]
    #[arg(long, value_name = "HOST")]
    to: Option<String>,
}

/// An open store, with the file that names it.
struct Opened {
    declared: Declared,
    /// The file's `[world]`, with the user of the command line.
    named: file::World,
    state: StateFile,
    world: World,
    namespace: Namespace,
}

impl Opened {
    /// Returns the exports that each host may make. `None` if all are allowed.
    fn grants(&self) -> Result<Option<Arc<Grants>>> {
        Ok(read_grants(&self.world, &self.named, &self.state, |_| Ok(()))?)
    }

    /// Returns this host's decisions about resources.
    fn collection(
        &self,
        granted: Option<Arc<Grants>>,
        resources: &BTreeMap<ResourceKey, Arc<Entry>>,
    ) -> Result<Collection> {
        let protected = self.declared.protected(&self.namespace, &self.named)?;
        let (file, host) = (&self.declared.file, self.world.host());
        Ok(Collection::new(file, host, protected, granted, resources))
    }
}

/// The exit code if a problem was found.
const WRONG: u8 = 2;

pub(crate) fn world(common: &Common, task: &WorldTask) -> Result<ExitCode> {
    if common.format == Format::Ip {
        bail!("`world` prints no commands for ip: --format is text or json here");
    }
    match task {
        WorldTask::Ls(asked) => exports::ls(common, asked),
        WorldTask::Watch(asked) => exports::watch(common, asked),
        WorldTask::Collect(store) => exports::collect(common, store),
        WorldTask::Export { store, name, data } => exports::export(common, store, name, data),
        WorldTask::Rm { store, name } => exports::rm(common, store, name),
        WorldTask::Deploy { task } => deploy::deploy(common, task),
        WorldTask::Grants { task } => grants::grants(common, task),
        WorldTask::Members { store, set_size, watch } => {
            members::members(common, store, *set_size, *watch)
        }
        WorldTask::Doctor(store) => return doctor::doctor(common, store),
        #[cfg(feature = "etcd")]
        WorldTask::Init(asked) => init::init(common, asked),
    }?;
    Ok(ExitCode::SUCCESS)
}

impl Store {
    /// Reads the file, with the user of the command line.
    fn read(&self, common: &Common) -> Result<(Declared, file::World)> {
        let declared = agent(common)?.read(&self.file, common.writers())?;
        let Some(mut named) = declared.file.settings.world.clone() else {
            let message = "the file has no [world], which names the store: write \
                           [world] with endpoints or store = \"embedded\", and host";
            return Err(file::Error::at(&declared.name, None, message).into());
        };
        if let Some((user, password_file)) = self.user.clone().zip(self.password_file.clone()) {
            if named.endpoints.is_none() {
                bail!("an embedded store has no users: leave out --user");
            }
            named.credentials = Some((user, password_file));
        }
        Ok((declared, named))
    }

    /// Reads the file, and opens the store as its host.
    fn open(&self, common: &Common, with: Use) -> Result<Opened> {
        let (declared, named) = self.read(common)?;
        let agent = agent(common)?;
        let state = agent.state_file(&declared.options)?;
        let world = open(&named, state.directory(), with)?;
        Ok(Opened { declared, named, state, world, namespace: agent.namespace().clone() })
    }
}

impl Exports {
    fn filter(&self) -> Filter {
        Filter {
            kind: self.kind.clone(),
            name: self.name.as_ref().map(|name| name.clone().into_bytes()),
            exporter: self.from.clone(),
        }
    }
}

/// Prints a record as text, or as a line of JSON. Returns false if there is no reader.
fn print(format: Format, record: &(impl Serialize + ToString)) -> Result<bool> {
    output::print_to_reader(|out| match format {
        Format::Json => output::write_json(out, record),
        _ => writeln!(out, "{}", record.to_string()),
    })
}
