//! The command `trueup watch` with a file of many routes: what it uses at rest, and what it takes
//! to restore a route that another writer deletes, also where other routes cannot be.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use trueup_file::{Settings, to_json};
use trueup_net::{Desired, NextHop, NextHops, Object, Prefix, Route, RouteType, Routes};
use trueup_netlink::{Namespace, Socket};
use trueup_rtnl::DEFAULT_PROTOCOL;

use super::table::{Exceptions, Form, Table};
use super::{TRUEUP, enter_namespace};
use crate::listener::Listener;
use crate::row::Row;
use crate::works::FOREIGN;
use crate::writer::{self, Verb, encode};
use crate::{floor, processor};

/// The longest wait for it to begin, to end, or to restore a route.
const BOUND: Duration = Duration::from_secs(60);
/// After a pass that changed much another one looks at everything, after the interval of 5 seconds.
/// Only then events say what changes, and it is at rest.
const SETTLES: Duration = Duration::from_secs(15);
/// For so long nothing happens after a restoration, so that all that follows from it is counted.
const REST: Duration = Duration::from_millis(300);

/// What else is in its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Beside {
    /// Nothing that cannot be.
    Nothing,
    /// A route whose gateway cannot be reached.
    Unreachable,
    /// A route on whose key another writer has one.
    Conflict,
}

/// The states that are measured: a word for each, its routes, and what is beside them.
pub const STATES: [(&str, Form, Beside); 5] = [
    ("well", Form::Ipv4, Beside::Nothing),
    ("unreachable", Form::Ipv4, Beside::Unreachable),
    ("conflict", Form::Ipv4, Beside::Conflict),
    ("ipv6", Form::Ipv6, Beside::Nothing),
    ("multipath", Form::Multipath, Beside::Nothing),
];

/// Measures a state: at rest for so long, with the default options, and so many restorations, with
/// the timer off.
///
/// # Errors
///
/// When there is no such state, when the command cannot be run, or when it does not restore a
/// route.
pub fn run(
    trueup: &Path,
    state: &str,
    size: usize,
    lasts: Duration,
    samples: usize,
) -> Result<[Row; 2]> {
    let found = STATES.iter().find(|(name, ..)| *name == state);
    let &(_, form, beside) = found.with_context(|| format!("no such state: {state}"))?;
    enter_namespace()?;
    let mut table = Table::of_form(form, size, Exceptions::None)?;
    let mut desired = table.desired()?;
    let odd: Prefix = "198.18.0.0/24".parse()?;
    if let (Some(routes), true) = (&mut desired.routes, beside != Beside::Nothing) {
        routes.insert(odd_route(odd, beside)?);
    }
    let foreign: Route = Route::of_type(RouteType::Blackhole, odd).with_protocol(FOREIGN);
    let foreign = match beside {
        Beside::Conflict => vec![Object::Route(foreign.canonical())],
        _ => Vec::new(),
    };
    writer::create(&foreign)?;
    let scratch = Scratch::make()?;
    let file = scratch.0.join("routes.json");
    // Without a pass for the end of the grace.
    let settings = Settings::default().with_grace(Duration::ZERO);
    fs::write(&file, to_json(&settings, &desired))?;

    let agent = Agent::start(trueup, &scratch.0, &file, &[])?;
    wait_for(size)?;
    thread::sleep(SETTLES);
    let before = agent.processor()?;
    thread::sleep(lasts);
    let at_rest = agent.processor()?.saturating_sub(before);
    agent.end()?;

    let agent = Agent::start(trueup, &scratch.0, &file, &["--interval", "3600"])?;
    let listener = Listener::start()?;
    thread::sleep(Duration::from_secs(1));
    let mut socket = Socket::open(&Namespace::current())?;
    let mut latencies = Vec::with_capacity(samples);
    let before = agent.processor()?;
    for at in table.pick(samples) {
        let route = Route::new(table.prefix(at), form.nexthops(table.gateway(at)));
        let route = route.with_protocol(DEFAULT_PROTOCOL).canonical();
        let mut delete = Vec::new();
        encode(&mut delete, Verb::Delete, &Object::Route(route))?;
        drop(listener.take());
        socket.request(&delete)?;
        let start = Instant::now();
        let end = start + BOUND;
        let restored = loop {
            let heard = listener.take();
            let restored = |it: &&_| is_restored(it, table.prefix(at));
            if let Some(heard) = heard.iter().find(restored) {
                break heard.at;
            }
            ensure!(Instant::now() < end, "{} is not restored", table.prefix(at));
            thread::sleep(Duration::from_millis(1));
        };
        latencies.push(restored.saturating_duration_since(start));
        thread::sleep(REST);
    }
    let used = agent.processor()?.saturating_sub(before);
    agent.end()?;
    empty(trueup, &scratch.0)?;
    writer::write(Verb::Delete, &foreign)?;

    let words = match (state, beside) {
        (_, Beside::Unreachable) => ", one unreachable".to_owned(),
        (_, Beside::Conflict) => ", one in conflict".to_owned(),
        ("well", _) => String::new(),
        _ => format!(", {}", form.title()),
    };
    let title = format!("trueup watch{words}: each second at rest");
    let seconds = usize::try_from(lasts.as_secs())?.max(1);
    let mut rest = Row::new(TRUEUP, format!("daemon-watch-rest-{state}"), title)
        .with_processor(at_rest, seconds);
    (rest.size, rest.times) = (size, seconds);
    let title = format!("trueup watch{words}: a deleted route, with the debounce of 100 ms");
    let count = latencies.len();
    let mut restore = Row::new(TRUEUP, format!("daemon-watch-restore-{state}"), title)
        .with_times(latencies, size)
        .with_processor(used, count);
    restore.objects = 1;
    Ok([rest, restore])
}

/// The route that cannot be.
fn odd_route(prefix: Prefix, beside: Beside) -> Result<Route<trueup_net::IfName>> {
    let via = match beside {
        Beside::Unreachable => "203.0.113.1".parse()?,
        _ => super::table::address(prefix.family(), 1),
    };
    Ok(Route::new(prefix, NextHops::One(NextHop::via(via))))
}

fn is_restored(heard: &crate::listener::Heard, prefix: Prefix) -> bool {
    heard.prefix == prefix && heard.via.is_some()
}

/// Waits until so many routes are there.
fn wait_for(routes: usize) -> Result<()> {
    let end = Instant::now() + BOUND;
    loop {
        let (there, _) = floor::count()?;
        if there >= routes {
            return Ok(());
        }
        ensure!(Instant::now() < end, "{there} of {routes} routes");
        thread::sleep(Duration::from_millis(100));
    }
}

/// Deletes what the command created.
fn empty(trueup: &Path, scratch: &Path) -> Result<()> {
    let file = scratch.join("nothing.json");
    let nothing = Desired::default().with_routes(Routes::new());
    fs::write(&file, to_json(&Settings::default(), &nothing))?;
    let status = Command::new(trueup)
        .arg("apply")
        .arg(&file)
        .arg("--state")
        .arg(scratch.join("state"))
        .stdout(Stdio::null())
        .status()?;
    ensure!(status.success(), "trueup apply: {status}");
    Ok(())
}

/// A directory of its own, which goes with it.
struct Scratch(PathBuf);

impl Scratch {
    fn make() -> Result<Scratch> {
        let name = format!("trueup-bench-watch-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        trueup_testkit::empty_directory(&path)?;
        Ok(Scratch(path))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // There is nothing to be done about what fails here.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// The command, running. It is killed when dropped.
struct Agent(Child);

impl Agent {
    /// Starts it, and waits until its first pass is over, as it tells a service manager.
    fn start(trueup: &Path, scratch: &Path, file: &Path, options: &[&str]) -> Result<Agent> {
        let manager = scratch.join("notify");
        if let Err(error) = fs::remove_file(&manager) {
            ensure!(error.kind() == ErrorKind::NotFound, "{error}");
        }
        let socket = UnixDatagram::bind(&manager)?;
        socket.set_read_timeout(Some(BOUND))?;
        let child = Command::new(trueup)
            .arg("watch")
            .arg(file)
            .arg("--state")
            .arg(scratch.join("state"))
            .args(["--format", "json"])
            .args(options)
            .env("NOTIFY_SOCKET", &manager)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .with_context(|| trueup.display().to_string())?;
        let agent = Agent(child);
        let mut message = [0; 4096];
        loop {
            let length = socket.recv(&mut message).context("trueup watch: ready")?;
            let text = String::from_utf8_lossy(&message[..length]);
            if text.lines().any(|line| line == "READY=1") {
                return Ok(agent);
            }
        }
    }

    fn processor(&self) -> Result<Duration> {
        processor::of_process(self.0.id())
    }

    fn end(mut self) -> Result<()> {
        kill(Pid::from_raw(i32::try_from(self.0.id())?), Signal::SIGTERM)?;
        let status = self.0.wait()?;
        ensure!(status.success(), "trueup watch: {status}");
        Ok(())
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        // It has ended already, or cannot be helped.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
