//! A host: a namespace on the bridge, with a subnet of pods, a file of desired state, and the
//! agent.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::Value;
use trueup_testkit::{Changes, Node, ip_json};

use crate::routes::{Change, Route};
use crate::{BRIDGE, Result};

/// A host. Dropping it kills its agent.
pub(crate) struct Host {
    pub(crate) name: &'static str,
    number: u8,
    pub(crate) node: Node,
    /// The third byte of the pods' addresses.
    subnet: u8,
    /// The addresses of etcd, in the order in which it tries them.
    endpoints: Vec<String>,
    ttl: Duration,
    changes: Changes,
    agent: Option<Child>,
    /// The number of bytes already read from the agent's output.
    read: usize,
}

impl Host {
    /// Makes a host and its file. The agent does not run yet.
    pub(crate) fn new(
        name: &'static str,
        number: u8,
        endpoints: Vec<String>,
        ttl: Duration,
    ) -> Result<Host> {
        let node = Node::named(name, BRIDGE, address(number));
        node.space.ip(&["link", "add", "pods", "type", "bridge"]);
        node.space.ip(&["link", "set", "pods", "up"]);
        let changes = node.inside(Changes::of_objects);
        let mut host =
            Host { name, number, node, subnet: 0, endpoints, ttl, changes, agent: None, read: 0 };
        host.set_subnet(number)?;
        Ok(host)
    }

    /// Gives the pods another subnet: changes the address on their link, and replaces the file with
    /// one that has the new prefix.
    pub(crate) fn set_subnet(&mut self, subnet: u8) -> Result<()> {
        self.subnet = subnet;
        let address = format!("{}/24", self.pod());
        self.node.space.ip(&["address", "add", &address, "dev", "pods"]);
        let path = self.path("toml");
        let new = path.with_extension("new");
        let written = fs::write(&new, self.text()).and_then(|()| fs::rename(&new, &path));
        written.map_err(|error| format!("{}: {error}", path.display()))
    }

    /// Returns the text of the host's file.
    pub(crate) fn text(&self) -> String {
        let (host, route) = (self.name, self.route());
        let endpoints = self.endpoints.join("\", \"");
        format!(
            r#"[world]
endpoints = ["{endpoints}"]
host = "{host}"
ttl = {ttl}
[[export]]
name = "pods"
route = {{ dst = "{dst}", via = "{via}" }}
[[collect]]
kind = "route"
within = ["10.20.0.0/16"]
"#,
            ttl = self.ttl.as_secs(),
            dst = route.dst,
            via = route.via,
        )
    }

    /// Returns the route that the host exports.
    pub(crate) fn route(&self) -> Route {
        Route { dst: format!("10.20.{}.0/24", self.subnet), via: address(self.number).to_string() }
    }

    /// Returns a pod's address, the first in the host's subnet.
    pub(crate) fn pod(&self) -> Ipv4Addr {
        Ipv4Addr::new(10, 20, self.subnet, 1)
    }

    /// Starts the agent, `trueup watch`.
    pub(crate) fn start(&mut self, trueup: &Path) -> Result<()> {
        let failed = |error| format!("the agent of {}: {error}", self.name);
        let log = self.path("log");
        let log = File::options().create(true).append(true).open(log).map_err(failed)?;
        let mut command = self.trueup(trueup, &["watch"]);
        command.arg(self.path("toml"));
        command.stdout(log.try_clone().map_err(failed)?).stderr(log);
        self.agent = Some(command.spawn().map_err(failed)?);
        Ok(())
    }

    /// Returns the output of `trueup why` for a route.
    pub(crate) fn why(&self, trueup: &Path, dst: &str) -> Result<String> {
        let mut command = self.trueup(trueup, &["why", "route", dst, "--file"]);
        let ended = command
            .arg(self.path("toml"))
            .stderr(Stdio::inherit())
            .output()
            .map_err(|error| error.to_string())?;
        if ended.status.success() {
            Ok(String::from_utf8_lossy(&ended.stdout).into_owned())
        } else {
            Err(format!("trueup why, on {}: {}", self.name, ended.status))
        }
    }

    /// Returns a command that runs the program on this host.
    fn trueup(&self, trueup: &Path, words: &[&str]) -> Command {
        let mut command = Command::new("ip");
        let state = self.path("state");
        command.args(["netns", "exec", self.name]).arg(trueup);
        command.arg("--state").arg(state).args(words);
        command.stdin(Stdio::null());
        command
    }

    /// Kills the agent (SIGKILL), and waits for its end.
    pub(crate) fn kill(&mut self) -> Result<()> {
        let Some(mut agent) = self.agent.take() else {
            return Ok(());
        };
        let killed = agent.kill().and_then(|()| agent.wait());
        killed.map(drop).map_err(|error| format!("the agent of {}: {error}", self.name))
    }

    /// Fails if the agent has exited by itself.
    pub(crate) fn check(&mut self) -> Result<()> {
        let ended = self.agent.as_mut().and_then(|agent| agent.try_wait().ok()?);
        ended.map_or(Ok(()), |status| Err(format!("the agent of {} ended: {status}", self.name)))
    }

    /// Returns the kernel's announcements of the agent's routes since the last call.
    pub(crate) fn changes(&mut self) -> Vec<Change> {
        let announced = self.changes.take();
        let of_routes = announced.iter().filter_map(|it| Change::read(self.name, it));
        of_routes.collect()
    }

    /// Returns the agent's routes, as `ip` shows them.
    pub(crate) fn routes(&self) -> Vec<Route> {
        let args = ["-netns", self.name, "route", "show", "proto", "116"];
        let rows: Vec<Value> = ip_json(&args);
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        rows.iter()
            .map(|row| Route { dst: text(&row["dst"]), via: text(&row["gateway"]) })
            .collect()
    }

    /// Returns the lines of the agent's output since the last call.
    pub(crate) fn output(&mut self) -> String {
        let log = self.log();
        let end = log.rfind('\n').map_or(0, |at| at + 1);
        let new = log.get(self.read..end).unwrap_or_default().to_owned();
        self.read = end;
        new
    }

    /// Returns the last lines of the agent's output.
    pub(crate) fn log_end(&self) -> String {
        let log = self.log();
        let lines: Vec<_> = log.lines().collect();
        let mut end = format!("the agent of {}:", self.name);
        for line in &lines[lines.len().saturating_sub(10)..] {
            let _ = write!(end, "\n    {line}");
        }
        end
    }

    /// Returns the agent's output; empty if it was never started.
    fn log(&self) -> String {
        let log = fs::read(self.path("log")).unwrap_or_default();
        String::from_utf8_lossy(&log).into_owned()
    }

    /// Returns the path of one of the host's files. `/run` is the demo's own, and is deleted with
    /// it.
    fn path(&self, extension: &str) -> PathBuf {
        Path::new("/run").join(self.name).with_extension(extension)
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        // The agent may have ended already.
        let _ = self.kill();
    }
}

fn address(number: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 0, 0, number)
}
