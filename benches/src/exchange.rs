//! The time until a route exported by one host is in the kernel of another: by `trueup watch`, and,
//! in turns with it, by a script that watches etcd with etcd's own client and calls `ip`, as a
//! small agent might be written.

use std::collections::HashSet;
use std::fs;
use std::net::Ipv4Addr;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use trueup_contracts::etcd::{Cluster, ClusterOptions};
use trueup_etcd::EtcdStore;
use trueup_net::Prefix;
use trueup_world::{Export, Session, Store, World, Write};

use crate::listener::Listener;
use crate::usage::Times;

/// Measures how long an exported route takes to be in the kernel of another host.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// The command `trueup`, built with its feature `etcd`.
    #[arg(long)]
    trueup: PathBuf,
    /// How many routes each way carries, one after the other.
    #[arg(long, default_value_t = 200)]
    samples: u8,
    /// How many other routes are exported all the time.
    #[arg(long, default_value_t = 1_000)]
    others: u16,
}

/// The time limit of every wait.
const BOUND: Duration = Duration::from_secs(30);
const GATEWAY: &str = "10.200.0.8";

/// A line of etcdctl has the key, the next one the value.
const SCRIPT: &str = r#"etcdctl --endpoints "$1" watch --prefix /script/ | while read -r event; do
    read -r key; read -r route
    case "$event" in
        PUT) ip route replace $route proto 99 ;;
        DELETE) ip route delete "${key#/script/}" proto 99 ;;
    esac
done"#;

pub(crate) fn main(options: &Options) -> Result<()> {
    trueup_testkit::enter()?;
    trueup_testkit::quiet_netns();
    trueup_testkit::ip(&["link", "set", "lo", "up"]);
    trueup_testkit::uplinks(1);
    let cluster = Cluster::start(&ClusterOptions::local(1))?;
    cluster.wait_for_leader()?;
    let endpoint = cluster.config().endpoints[0].clone();

    let folder = cluster.folder().join("agent");
    fs::create_dir(&folder)?;
    let file = folder.join("trueup.toml");
    let text = format!(
        "[world]\nendpoints = [\"{endpoint}\"]\nhost = \"a\"\n[[collect]]\nkind = \"route\"\n\
         within = [\"10.0.0.0/8\"]\nlimit = 100000\n"
    );
    fs::write(&file, text)?;
    let mut agent = Command::new(&options.trueup);
    agent.arg("watch").arg(&file).arg("--state").arg(&folder);
    let _agent = Running::of(&mut agent)?;
    let script = ["-c", SCRIPT, "sh", &endpoint];
    let _script = Running::of(Command::new("sh").args(script))?;

    let store = Arc::new(EtcdStore::open(cluster.config())?);
    let session = Session::begin(
        World::new(Arc::clone(&store) as Arc<dyn Store>, "/trueup", "b")?,
        "bench",
        BOUND,
    )?;
    let _keeper = session.keep(|_| {})?;
    let listener = Listener::start()?;
    let mut exports: Vec<Export> = (0..options.others)
        .map(|number| {
            let [high, low] = number.to_be_bytes();
            export(Ipv4Addr::new(10, 20, high, low))
        })
        .collect();
    exports.push(export(Ipv4Addr::new(10, 21, 0, 0)));
    session.declare(&exports)?.into_result()?;
    heard(&listener, Ipv4Addr::new(10, 21, 0, 0)).context("`trueup watch` does not collect")?;

    let mut ways = [("`trueup watch`", vec![]), ("etcdctl and `ip`", vec![])];
    for sample in 0..options.samples {
        for (way, (name, times)) in ways.iter_mut().enumerate() {
            let address = Ipv4Addr::new(10, 30 + u8::try_from(way)?, 0, sample);
            let begun = Instant::now();
            match way {
                0 => session.export(&[export(address)])?.into_result().map(drop)?,
                _ => put(&store, address)?,
            }
            let heard = heard(&listener, address).context(*name)?;
            times.push(heard.duration_since(begun));
        }
    }
    let medians = ways.map(|(name, times)| {
        let times = Times::of(times);
        println!("{name}: {times}");
        times.part(50).as_secs_f64()
    });
    println!("ratio of the medians: {:.2}", medians[0] / medians[1]);
    Ok(())
}

fn export(address: Ipv4Addr) -> Export {
    let data = format!("{{\"dst\": \"{address}/32\", \"via\": \"{GATEWAY}\"}}");
    Export::new("route", address.to_string(), data)
}

/// Waits until there is a route to an address; returns the time of its event.
fn heard(listener: &Listener, address: Ipv4Addr) -> Result<Instant> {
    let prefix = HashSet::from([Prefix::host(address.into())]);
    listener.wait_all(prefix, BOUND)?.pop().with_context(|| format!("no route to {address}"))
}

/// Writes the key that the script watches, with the same client as the exports.
fn put(store: &EtcdStore, address: Ipv4Addr) -> Result<()> {
    let put = Write::Put {
        key: format!("/script/{address}").into_bytes(),
        value: format!("{address}/32 via {GATEWAY}").into_bytes(),
        lease: None,
    };
    store.commit(&[], &[put])?;
    Ok(())
}

/// A process with its children, killed on drop.
struct Running(Child);

impl Running {
    fn of(command: &mut Command) -> Result<Running> {
        command.env("ETCDCTL_API", "3").stdin(Stdio::null()).stdout(Stdio::null());
        Ok(Running(command.process_group(0).spawn()?))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // They may have ended by themselves.
        let group = i32::try_from(self.0.id()).map(Pid::from_raw);
        let _ = group.map(|group| killpg(group, Signal::SIGKILL));
        let _ = self.0.wait();
    }
}
