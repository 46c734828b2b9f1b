//! An agent beside a daemon: the checks common to all pairings.

use std::collections::BTreeSet;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::Value;
use trueup_testkit::{Action, Changes, Kind, RawMessage, Snapshot, ip, ip_batch, wait_until};

use crate::agent::{Agent, Ran, Running};
use crate::metrics::{GET, ask, samples};
use crate::watch::{FAST, printed, said};

/// The desired state beside a daemon: objects on a separate link, and additional addresses on the
/// daemon's link.
pub(crate) const OURS: &str = r#"
link = [{ name = "own0", kind = "ifb", up = true }]
address = [
    { dev = "own0", address = "10.66.0.1/24" },
    { dev = "d0", address = "10.77.0.1/24" },
    { dev = "d0", address = "fd00:77::1/64", nodad = true },
]
rule = [{ priority = 700, from = "10.99.0.0/16", table = 7 }]
[[route]]
dst = "10.99.0.0/16"
via = "10.66.0.9"
[[route]]
dst = "10.98.0.0/16"
type = "blackhole"
[[route]]
dst = "10.97.0.0/16"
via = "10.77.0.9"
[[route]]
dst = "fd00:97::/64"
via = "fd00:77::9"
"#;

/// A third writer's objects, which neither side may harm.
const FOREIGN: [&str; 5] = [
    "link add foreign0 type ifb",
    "link set foreign0 up",
    "address add 10.55.0.1/24 dev foreign0",
    "route add 10.56.0.0/16 via 10.55.0.9 protocol 77",
    "rule add pref 900 from 10.56.0.0/16 lookup 9",
];

/// The number of full passes without a change that count as quiet.
const QUIET: f64 = 15.0;

/// `trueup watch` in the thread's namespace, and other writers' objects at its start.
pub(crate) struct Beside {
    agent: Agent,
    watch: Running,
    printed: Arc<Mutex<String>>,
    /// Its standard error is read, so that it does not block.
    _said: Arc<Mutex<String>>,
    changes: Changes,
    theirs: Vec<RawMessage>,
    is_refreshed: bool,
}

/// Makes a third writer's objects, before the daemon starts, which might remove them.
pub(crate) fn third_writer() {
    ip_batch(FOREIGN);
}

impl Beside {
    /// Starts the agent. From now on, other writers must not lose their objects.
    #[track_caller]
    pub(crate) fn new(declared: &str) -> Beside {
        let theirs = objects();
        let agent = Agent::new();
        agent.write("f.toml", declared);
        let metrics = format!("unix:{}", agent.directory().join("metrics").display());
        let args = ["watch", "f.toml", "--format", "json", "--metrics", &metrics];
        let changes = Changes::of_objects();
        let mut watch = agent.spawn(&[&args[..], &FAST].concat());
        let beside = Beside {
            printed: printed(&mut watch),
            _said: said(&mut watch),
            agent,
            watch,
            changes,
            theirs,
            is_refreshed: false,
        };
        beside.wait_for_first_pass();
        beside
    }

    /// Ignores announcements of the daemon's rows in which only times changed.
    pub(crate) fn refreshed(mut self) -> Beside {
        self.is_refreshed = true;
        self
    }

    /// Excludes rows that the daemon itself removes from the check for lost objects.
    pub(crate) fn without(mut self, is_left_out: impl Fn(&RawMessage) -> bool) -> Beside {
        self.theirs.retain(|row| !is_left_out(row));
        self
    }

    fn run(&self, args: &[&str]) -> Ran {
        Ran::of(self.agent.command(args).output().unwrap())
    }

    fn wait_for_first_pass(&self) {
        wait_until("a first pass has ended", || {
            UnixStream::connect(self.agent.directory().join("metrics")).is_ok()
                && self.sum("trueup_passes_total") >= 1.0
        });
    }

    /// Checks a pairing: both sides' objects are there, other writers lose nothing, and all writing
    /// ends. It repeats the check after drift in our objects and after the daemon's reload.
    #[track_caller]
    pub(crate) fn shows_peace(&mut self, reload: impl FnOnce()) {
        self.shows_peace_and(|_| reload());
    }

    /// Does the same as [`Beside::shows_peace`], and passes itself to `reload`.
    #[track_caller]
    pub(crate) fn shows_peace_and(&mut self, reload: impl FnOnce(&mut Beside)) {
        self.settles("after the start");
        ip(&["route", "delete", "10.97.0.0/16"]);
        ip(&["address", "delete", "10.66.0.1/24", "dev", "own0"]);
        self.settles("after a drift of ours");
        reload(self);
        self.settles("after a reload of the daemon");
    }

    /// Waits until both sides' objects are there; then checks that all writing has ended.
    #[track_caller]
    pub(crate) fn settles(&mut self, when: &str) {
        self.wait_for_ours(when);
        let end = Instant::now() + Duration::from_secs(60);
        loop {
            let now = objects();
            let lost = self.theirs.iter().filter(|row| !now.contains(row));
            let lost: Vec<_> = lost.map(ToString::to_string).collect();
            if lost.is_empty() {
                break;
            }
            let text = lost.join("\n");
            assert!(Instant::now() < end, "{when}: of others is lost:\n{text}");
        }
        self.is_quiet(when);
    }

    /// Replaces the desired state.
    pub(crate) fn declare(&self, text: &str) {
        self.agent.write("f.toml", text);
    }

    /// Waits until `watch` reports a foreign object in the place of ours.
    #[track_caller]
    pub(crate) fn is_in_conflict(&self, object: &str) {
        self.has_status("conflict", object);
    }

    /// Waits until `watch` reports an object in a condition.
    #[track_caller]
    pub(crate) fn has_status(&self, condition: &str, object: &str) {
        let is_it = |status: &Value| {
            let name = status["object"].as_str().unwrap();
            status["condition"] == condition && name.contains(object)
        };
        self.reports(&format!("{condition} of {object}"), |event| {
            let statuses = event["statuses"].as_array();
            statuses.into_iter().flatten().any(is_it)
        });
    }

    /// Waits until `watch` reports an event that satisfies `is`.
    #[track_caller]
    pub(crate) fn reports(&self, what: &str, is: impl Fn(&Value) -> bool) {
        let end = Instant::now() + Duration::from_secs(60);
        while !self.has_reported(&is) {
            assert!(Instant::now() < end, "no {what}:\n{}", self.output());
            thread::sleep(Duration::from_millis(50));
        }
    }

    /// Waits until a plan finds nothing to do.
    #[track_caller]
    pub(crate) fn wait_for_ours(&self, when: &str) {
        let end = Instant::now() + Duration::from_secs(60);
        while !self.is_in_place() {
            assert!(Instant::now() < end, "{when}: ours is missing:\n{}", self.output());
        }
    }

    fn is_in_place(&self) -> bool {
        let ran = self.run(&["plan", "f.toml", "--format", "json"]);
        // Other writers may act while it reads.
        ran.code == 0 && ran.json()["ops"] == serde_json::json!([])
    }

    /// Waits until the namespace is still. Then many passes must find nothing to do, without any
    /// write.
    #[track_caller]
    pub(crate) fn is_quiet(&mut self, when: &str) {
        wait_until(&format!("{when}: the namespace holds still"), || {
            self.written_in(3.0).is_empty()
        });
        let before = self.ops();
        let written: Vec<_> = self.written_in(QUIET).iter().map(ToString::to_string).collect();
        let text = written.join("\n");
        assert!(written.is_empty(), "{when}: no peace:\n{text}\n{}", self.output());
        assert_eq!(self.ops(), before, "{when}: ops\n{}", self.output());
    }

    /// Returns the announcements during `passes` full passes.
    fn written_in(&mut self, passes: f64) -> Vec<RawMessage> {
        self.changes.take();
        let whole = |beside: &Beside| beside.sum("trueup_passes_total{extent=\"whole\"");
        let end = whole(self) + passes;
        wait_until("passes go on", || whole(self) >= end);
        let written = self.changes.take().into_iter();
        let is_refresh = |row: &RawMessage| {
            self.is_refreshed && row.action == Action::New && self.theirs.contains(row)
        };
        // The kernel resolves a daemon's neighbours.
        let is_written = |row: &RawMessage| row.kind != Kind::Neighbour && !is_refresh(row);
        written.filter(is_written).collect()
    }

    /// Waits until other writers have removed objects of ours of these kinds.
    #[track_caller]
    pub(crate) fn loses(&mut self, kinds: &[Kind]) {
        let mut lost = BTreeSet::new();
        wait_until(&format!("{kinds:?} of ours are removed"), || {
            let removed = self.changes.take().into_iter();
            let ours = removed.filter(|row| row.action == Action::Del && is_ours(row));
            lost.extend(ours.map(|row| row.kind));
            kinds.iter().all(|kind| lost.contains(kind))
        });
    }

    /// Runs `act`, which must not remove our objects: the agent has nothing to restore.
    #[track_caller]
    pub(crate) fn loses_nothing(&mut self, when: &str, act: impl FnOnce()) {
        let ops = self.ops();
        act();
        self.wait_for_ours(when);
        self.is_quiet(when);
        assert_eq!(self.ops(), ops, "{when}: ops\n{}", self.output());
    }

    /// Returns the number of ops so far, with any outcome.
    fn ops(&self) -> f64 {
        self.sum("trueup_ops_total")
    }

    #[track_caller]
    fn sum(&self, metric: &str) -> f64 {
        let socket = UnixStream::connect(self.agent.directory().join("metrics")).unwrap();
        let samples = samples(&ask(socket, GET));
        let of_metric = samples.iter().filter(|(name, _)| name.starts_with(metric));
        of_metric.map(|(_, value)| value).sum()
    }

    /// Returns true if `watch` has reported an event that satisfies `is`.
    pub(crate) fn has_reported(&self, is: impl Fn(&Value) -> bool) -> bool {
        let printed = self.output();
        let mut events = printed.lines().map(|line| serde_json::from_str(line).unwrap());
        events.any(|event| is(&event))
    }

    fn output(&self) -> String {
        self.printed.lock().unwrap().clone()
    }

    /// Checks that `trueup doctor` names the daemon, its effect and the remedy.
    #[track_caller]
    pub(crate) fn is_named(&self, name: &str, remedy: &str) {
        let ran = self.run(&["doctor", "--format", "json"]);
        let daemons = ran.json()["daemons"].as_array().unwrap().clone();
        let found = daemons
            .iter()
            .find(|it| it["name"] == name && it["in_namespace"] == true)
            .unwrap_or_else(|| panic!("no {name}: {ran:?}"));
        let words = |key: &str| found[key].as_str().unwrap().to_owned();
        assert!(words("advice").contains(remedy), "{found}");
        let text = self.run(&["doctor"]).out;
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        let line = format!("beside {name} (pid {}): {}", found["pid"], words("effect"));
        let advice = format!("to prevent that: {}", words("advice"));
        assert!(text.contains(&line) && text.contains(&advice), "{text}");
    }

    /// Ends the agent, which must exit with success.
    #[track_caller]
    pub(crate) fn end(mut self) {
        self.watch.terminate(Signal::TERM);
    }
}

/// Returns all addresses, nexthop objects, routes and rules.
fn objects() -> Vec<RawMessage> {
    let kinds = [Kind::Address, Kind::Nexthop, Kind::Route, Kind::Rule];
    let all = Snapshot::settled().only(|row| kinds.contains(&row.kind));
    all.into_rows()
}

/// Returns true if a row is from [`OURS`], by our marker.
fn is_ours(row: &RawMessage) -> bool {
    row.protocol() == Some(116)
}
