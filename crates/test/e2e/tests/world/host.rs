//! A host: an agent with a file, in the test's namespace, with its own protocol and table. All
//! hosts share the namespace, so each reaches etcd on 127.0.0.1.

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;

use rustix::process::Signal;
use trueup_contracts::etcd::{Cluster, ClusterOptions};
use trueup_testkit::{ip, uplinks, wait_until};

use crate::agent::{Agent, Ran, Running};

/// Makes the links, and starts an etcd with one member.
pub(crate) fn etcd() -> Cluster {
    etcd_with(&[])
}

/// Does the same, with additional arguments for etcd.
pub(crate) fn etcd_with(arguments: &[&str]) -> Cluster {
    ip(&["link", "set", "lo", "up"]);
    uplinks(1);
    // A slow disk must not make the leader lose its role.
    let options = ClusterOptions::local(1);
    let options = options.with_arguments(["--heartbeat-interval=500", "--election-timeout=5000"]);
    Cluster::start(&options.with_arguments(arguments.iter().copied())).unwrap()
}

/// A host with an agent that takes part in the exchange.
pub(crate) struct Host {
    pub(crate) agent: Agent,
    name: &'static str,
    protocol: u8,
    table: u32,
    endpoints: Vec<String>,
    /// More keys of `[world]`.
    pub(crate) settings: String,
    /// Keys above the first header.
    pub(crate) top: &'static str,
}

impl Host {
    pub(crate) fn new(name: &'static str, number: u8, cluster: &Cluster) -> Host {
        Host {
            endpoints: cluster.config().endpoints,
            protocol: 116 + number,
            table: 1000 + u32::from(number),
            ..Host::without_etcd(name)
        }
    }

    /// Makes a host with its own file, and without endpoints of a store.
    pub(crate) fn without_etcd(name: &'static str) -> Host {
        Host {
            agent: Agent::new(),
            name,
            protocol: 116,
            table: 254,
            endpoints: Vec::new(),
            settings: String::new(),
            top: "",
        }
    }

    /// Makes a host with its routes in the main table. Its list of members has one more, at an
    /// address that no machine has.
    pub(crate) fn in_main(name: &'static str, number: u8, cluster: &Cluster, more: &str) -> Host {
        let mut host = Host::new(name, number, cluster);
        host.table = 254;
        host.endpoints.push(format!("http://{more}:2379"));
        host
    }

    pub(crate) fn name(&self) -> &str {
        self.name
    }

    pub(crate) fn table(&self) -> u32 {
        self.table
    }

    /// Writes the file with these sections.
    pub(crate) fn declare(&self, sections: &str) {
        let Host { name, protocol, endpoints, settings, top, .. } = self;
        let text = format!(
            "protocol = {protocol}\n{top}\n[world]\nendpoints = {endpoints:?}\nhost = \"{name}\"\nttl = 5\n\
             {settings}\n{sections}"
        );
        self.agent.write("f.toml", &text);
    }

    /// Returns a collection into the host's table, limited to a prefix.
    pub(crate) fn collect(&self, within: &str) -> String {
        let table = self.table;
        format!("[[collect]]\nkind = \"route\"\nwithin = [\"{within}\"]\ntable = {table}\n")
    }

    pub(crate) fn watch(&self) -> Running {
        // Full passes do not become rare while passes are slow on a busy machine.
        let often = ["--interval", "0.5", "--interval-factor", "0"];
        let args = [&["watch", "f.toml", "--metrics", "unix:metrics"], &often[..]].concat();
        let mut command = self.agent.command(&args);
        let log = std::fs::File::create(self.agent.directory().join("log")).unwrap();
        command.stdout(log.try_clone().unwrap()).stderr(log);
        Running(command.spawn().unwrap())
    }

    /// Returns the output of `watch`.
    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(self.agent.directory().join("log")).unwrap()
    }

    pub(crate) fn run(&self, args: &[&str]) -> Ran {
        self.agent.run(args)
    }

    /// Returns the metrics; empty while `watch` does not serve them.
    pub(crate) fn metrics(&self) -> BTreeMap<String, f64> {
        let path = self.agent.directory().join("metrics");
        let Ok(mut stream) = UnixStream::connect(path) else {
            return BTreeMap::new();
        };
        let mut answer = String::new();
        let asked = stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: trueup\r\n\r\n");
        if asked.is_err() || stream.read_to_string(&mut answer).is_err() {
            return BTreeMap::new();
        }
        let samples = answer.lines().filter(|line| line.starts_with("trueup_"));
        let sample = |line: &str| {
            let (name, value) = line.rsplit_once(' ')?;
            Some((name.to_owned(), value.parse().ok()?))
        };
        samples.filter_map(sample).collect()
    }

    #[track_caller]
    pub(crate) fn wait_for_metric(&self, name: &str, is_right: impl Fn(f64) -> bool) {
        wait_until(name, || self.metrics().get(name).is_some_and(|value| is_right(*value)));
    }

    /// Returns true if the host's table has a route to this prefix with the host's protocol.
    pub(crate) fn has_route(&self, dst: &str) -> bool {
        let routes = self.routes();
        routes.lines().any(|line| line.split(' ').next() == Some(dst))
    }

    /// Returns the routes in the host's table with its protocol, one a line.
    pub(crate) fn routes(&self) -> String {
        let (table, protocol) = (self.table.to_string(), self.protocol.to_string());
        let words = ["-4", "route", "show", "table", &table, "proto", &protocol];
        let output = std::process::Command::new("ip").args(words).output();
        String::from_utf8(output.unwrap().stdout).unwrap()
    }

    #[track_caller]
    pub(crate) fn wait_for_route(&self, dst: &str, is_there: bool) {
        let what = format!("{dst} is there: {is_there}");
        wait_until(&what, || self.has_route(dst) == is_there);
    }
}

/// Two hosts on one etcd, both running `watch`: `a` exports a prefix, which `b` collects.
pub(crate) struct Pair {
    pub(crate) cluster: Cluster,
    pub(crate) a: Host,
    pub(crate) b: Host,
    pub(crate) on_a: Running,
    pub(crate) on_b: Running,
}

impl Pair {
    /// Starts both, and waits until `b` has the route. `settings` are `b`'s keys in `[world]`,
    /// `top` its keys above the first header.
    pub(crate) fn start(dst: &str, settings: &str, top: &'static str) -> Pair {
        let cluster = etcd();
        let (a, mut b) = (Host::new("a", 1, &cluster), Host::new("b", 2, &cluster));
        b.settings = settings.to_owned();
        b.top = top;
        a.declare(&export("pods", dst));
        b.declare(&b.collect("10.20.0.0/16"));
        let (on_a, on_b) = (a.watch(), b.watch());
        b.wait_for_route(dst, true);
        Pair { cluster, a, b, on_a, on_b }
    }

    /// Ends both, which must exit with success.
    pub(crate) fn end(mut self) {
        self.on_a.terminate(Signal::TERM);
        self.on_b.terminate(Signal::TERM);
    }
}

/// Returns an export of a prefix through a gateway that all hosts reach.
pub(crate) fn export(name: &str, dst: &str) -> String {
    export_via(name, dst, "10.200.0.8")
}

/// Returns an export of a prefix through a gateway.
pub(crate) fn export_via(name: &str, dst: &str, via: &str) -> String {
    format!("[[export]]\nname = \"{name}\"\nroute = {{ dst = \"{dst}\", via = \"{via}\" }}\n")
}
