//! The command `trueup watch` with a file of many routes: its cost at rest, and the cost to restore
//! a route that another writer deletes, also while other routes are impossible.

use std::fs;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use trueup_file::{Settings, to_json};
use trueup_net::{Desired, NextHop, NextHops, Object, Prefix, Route, Routes};
use trueup_netlink::{Namespace, Socket};
use trueup_rtnl::DEFAULT_PROTOCOL;
use trueup_testkit::Scratch;
use trueup_works::clock::processor_of;

use super::table::{EXCEPTIONS, FORMS, Form, Table, blackhole};
use super::{TRUEUP, enter_namespace};
use crate::floor;
use crate::listener::Listener;
use crate::row::Row;
use crate::writer::{Verb, message, write};

/// The time limit for its start, its end, and a restoration.
const BOUND: Duration = Duration::from_secs(60);
/// The time until it is at rest. After a pass with many changes, a full pass follows the interval
/// of 5 seconds. Only then do events tell what changes.
const SETTLES: Duration = Duration::from_secs(15);
/// The pause after a restoration, so that all its consequences count.
const REST: Duration = Duration::from_millis(300);

/// A state of the command to measure.
pub(super) struct State {
    pub(super) name: &'static str,
    form: &'static Form,
    /// The state in words, after the command's name.
    title: &'static str,
    /// The gateway of one more route, if any. It is unreachable, or another writer has a route on
    /// the key.
    odd: Option<&'static str>,
}

const fn state(name: &'static str, form: &'static Form, title: &'static str) -> State {
    State { name, form, title, odd: None }
}

const CONFLICT: &str = "10.200.0.3";

/// All measured states.
pub(super) const STATES: [State; 5] = [
    state("well", &FORMS[0], ""),
    State { odd: Some("203.0.113.1"), ..state("unreachable", &FORMS[0], ", one unreachable") },
    State { odd: Some(CONFLICT), ..state("conflict", &FORMS[0], ", one in conflict") },
    state("ipv6", &FORMS[1], ", IPv6"),
    state("multipath", &FORMS[2], ", IPv4 multipath"),
];

/// Measures a state: a rest of `lasts` with the default options, and a number of restorations with
/// the timer off.
pub(super) fn run(
    trueup: &Path,
    state: &State,
    size: usize,
    lasts: Duration,
    samples: usize,
) -> Result<[Row; 2]> {
    enter_namespace(true)?;
    let State { name, form, title, odd } = *state;
    let mut table = Table::of_form(form, size, &EXCEPTIONS[0])?;
    let mut desired = table.desired()?;
    let prefix: Prefix = "198.18.0.0/24".parse()?;
    if let (Some(routes), Some(via)) = (&mut desired.routes, odd) {
        let via = NextHop::via(via.parse()?);
        drop(routes.insert(Route::new(prefix, NextHops::One(via))));
    }
    let foreign: Vec<Object> =
        odd.filter(|via| *via == CONFLICT).map(|_| blackhole(prefix)).into_iter().collect();
    write(Verb::Create, &foreign)?;
    let scratch = Scratch::make("watch")?;
    let file = scratch.join("routes.json");
    // No pass for the end of the grace.
    let settings = Settings::default().with_grace(Duration::ZERO);
    fs::write(&file, to_json(&settings, &desired))?;

    let agent = Agent::start(trueup, &scratch, &file, &[])?;
    wait_for(size)?;
    thread::sleep(SETTLES);
    let before = agent.processor()?;
    thread::sleep(lasts);
    let at_rest = agent.processor()?.saturating_sub(before);
    agent.end()?;

    let agent = Agent::start(trueup, &scratch, &file, &["--interval", "3600"])?;
    let listener = Listener::start()?;
    thread::sleep(Duration::from_secs(1));
    let mut socket = Socket::open(&Namespace::current())?;
    let mut latencies = Vec::with_capacity(samples);
    let before = agent.processor()?;
    for at in table.pick(samples) {
        let prefix = table.prefix(at);
        let route = Route::new(prefix, form.nexthops(table.gateway(at)))
            .with_protocol(DEFAULT_PROTOCOL)
            .canonical();
        let delete = message(Verb::Delete, &Object::Route(route))?;
        drop(listener.take());
        socket.request(&delete)?;
        let start = Instant::now();
        let restored = loop {
            let heard = listener.take();
            if let Some(heard) = heard.iter().find(|it| it.prefix == prefix && it.via.is_some()) {
                break heard.at;
            }
            ensure!(start.elapsed() < BOUND, "{prefix} is not restored");
            thread::sleep(Duration::from_millis(1));
        };
        latencies.push(restored.saturating_duration_since(start));
        thread::sleep(REST);
    }
    let used = agent.processor()?.saturating_sub(before);
    agent.end()?;
    empty(trueup, &scratch)?;
    write(Verb::Delete, &foreign)?;

    let at = format!("trueup watch{title}: each second at rest");
    let rest = Row::new(TRUEUP, format!("daemon-watch-rest-{name}"), at);
    let after = format!("trueup watch{title}: a deleted route, with the debounce of 100 ms");
    let count = latencies.len();
    let mut restore = Row::new(TRUEUP, format!("daemon-watch-restore-{name}"), after)
        .with_times(latencies, size)
        .with_processor(used, count);
    restore.objects = 1;
    Ok([rest.at_rest(at_rest, lasts, size), restore])
}

/// Waits until there are `routes` routes.
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

/// Deletes the command's objects.
fn empty(trueup: &Path, scratch: &Path) -> Result<()> {
    let file = scratch.join("nothing.json");
    let nothing = Desired::default().with_routes(Routes::new());
    fs::write(&file, to_json(&Settings::default(), &nothing))?;
    let mut apply = Command::new(trueup);
    apply.arg("apply").arg(&file).arg("--state").arg(scratch.join("state"));
    let status = apply.stdout(Stdio::null()).status()?;
    ensure!(status.success(), "trueup apply: {status}");
    Ok(())
}

/// A running command, killed on drop.
struct Agent(Child);

impl Agent {
    /// Starts the command, and waits until it tells the service manager that its first pass is
    /// over.
    fn start(trueup: &Path, scratch: &Path, file: &Path, options: &[&str]) -> Result<Agent> {
        let manager = scratch.join("notify");
        // Left from the previous run.
        let _ = fs::remove_file(&manager);
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
        processor_of(self.0.id())
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
        // The command may have ended; otherwise nothing helps.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
