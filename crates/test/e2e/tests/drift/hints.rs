//! Hints that are lost, doubled, reordered and invented: the final state does not depend on them,
//! only its time.

use std::io::Write as _;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use trueup_loop::Config;
use trueup_net::{Address, AddressFlags, Desired, Family, Neighbour, Routes, Rule, RuleAction};
use trueup_reconcile::{Drained, Hints, PassInput, Source, Subscribed};
use trueup_rtnl::{Error, Namespace, Options, Report, Rtnl, Snapshot as Seen};
use trueup_testkit::{Kind, RawMessage, Snapshot, ip_batch, quiet_netns, uplinks};

use crate::agent::{Agent, BOUND, Rtnetlink};
use crate::layer::{self, Fault};
use crate::other_writer::{Do, OURS, OtherWriter, route, v4, v6, wanted};

const INTERVAL: Duration = Duration::from_millis(400);
const DEBOUNCE: Duration = Duration::from_millis(50);

pub(crate) fn however_hints_come_the_end_is_the_same() {
    let here = Namespace::current;
    case("as they come", || Agent::start(Rtnl::new(), here(), desired(), config()));
    for fault in [Fault::Drop, Fault::Double, Fault::Reorder] {
        let through = move || layer::over(here(), fault);
        case(&format!("{fault:?}"), move || {
            Agent::start(Rtnl::new(), through(), desired(), config())
        });
    }
    for announced in [Drained::Nothing, Drained::Hint, Drained::Lost] {
        case(&format!("always {announced:?}"), move || {
            let source = Inventor::new(announced);
            Agent::start(source, here(), desired(), config())
        });
    }
}

fn config() -> Config {
    Config::default()
        .with_interval(INTERVAL)
        .with_interval_factor(0)
        .with_debounce(DEBOUNCE)
        // Without hints, a permanent failure is retried after the longest backoff.
        .with_backoff(Duration::from_secs(1), BOUND / 6)
}

fn desired() -> Desired {
    let man = || "man0".parse().unwrap();
    let address = |text: &str| {
        let mut address = Address::new(man(), text.parse().unwrap());
        if text.contains(':') {
            address.flags = AddressFlags::NODAD;
        }
        address
    };
    let mac = "02:00:00:00:00:77".parse().unwrap();
    let neighbour = |text: &str| Neighbour::new(man(), text.parse().unwrap(), mac);
    let rule = |family, priority| Rule::new(family, priority, RuleAction::Lookup(100));
    let behind = |dst: &str, via: &str| {
        let hop = trueup_net::NextHop::via(via.parse().unwrap());
        trueup_net::Route::new(dst.parse().unwrap(), trueup_net::NextHops::One(hop))
    };
    let plain = (0..20).flat_map(|at| [v4(at), v6(at)]).map(wanted);
    let behind = [behind("10.88.0.0/16", "10.77.0.2"), behind("fd88::/32", "fd77::2")];
    Desired::default()
        .with_addresses([address("10.77.0.1/24"), address("fd77::1/64")])
        .with_neighbours([neighbour("10.77.0.2"), neighbour("fd77::2")])
        .with_routes(plain.chain(behind).collect::<Routes>())
        .with_rules([rule(Family::Inet, 700), rule(Family::Inet6, 700)])
}

/// Tests one kind of hint delivery, in a fresh namespace.
fn case<S: Rtnetlink>(name: &str, start: impl FnOnce() -> Agent<S> + Send) {
    thread::scope(|scope| {
        let one = scope.spawn(|| {
            quiet_netns();
            uplinks(1);
            ip_batch([
                "link add man0 type veth peer name man1",
                "link set man0 up",
                "link set man1 up",
            ]);
            Snapshot::settled();
            let begin = Instant::now();
            let agent = start();
            agent.converges();
            // The kernel makes an address's routes asynchronously.
            Snapshot::settled();
            let wanted = rows();
            invade();
            let end = Instant::now() + BOUND;
            let mut now = rows();
            while now != wanted {
                let lost = wanted.iter().filter(|row| !now.contains(row));
                let more = now.iter().filter(|row| !wanted.contains(row));
                let differ = lost
                    .map(|row| format!("- {row}"))
                    .chain(more.map(|row| format!("+ {row}")));
                assert!(
                    Instant::now() < end,
                    "{name}: not as it was:\n{}\n{:#?}\n{:#?}\n{:#?}",
                    differ.collect::<Vec<_>>().join("\n"),
                    agent.handle().exceptions(),
                    agent.handle().stats(),
                    agent.record().passes,
                );
                thread::sleep(Duration::from_millis(5));
                now = rows();
            }
            agent.converges();
            let elapsed = begin.elapsed();
            let passes = agent.passes();
            // One for each debounce, one for each interval less its jitter, the first, and those
            // under way.
            let times = |each: Duration| elapsed.as_secs_f64() / each.as_secs_f64();
            let most = times(DEBOUNCE) + times(INTERVAL.mul_f64(0.9)) + 3.0;
            assert!(passes as f64 <= most, "{name}: {passes} passes in {elapsed:?}");
            let stats = agent.handle().stats();
            eprintln!(
                "hints, {name}: {passes} passes in {elapsed:.1?}, {} of them whole, {} hints, {} losses",
                stats.full_passes, stats.hints, stats.overruns
            );
            agent.stop();
        });
        if let Err(panic) = one.join() {
            eprintln!("hints, {name}: failed");
            std::panic::resume_unwind(panic);
        }
    });
}

/// Returns all rows of the namespace except links, whose flags depend on other objects.
fn rows() -> Vec<RawMessage> {
    let all = Snapshot::take();
    let kinds = [Kind::Address, Kind::Neighbour, Kind::Route, Kind::Rule];
    kinds.iter().flat_map(|kind| all.of(*kind)).cloned().collect()
}

/// Acts as another writer: deletes, replaces, and causes effects that the kernel does not announce.
/// Leaves no objects behind.
fn invade() {
    let mut other_writer = OtherWriter::open();
    let pause = || thread::sleep(Duration::from_millis(30));
    let ours: Vec<_> = (0..20).flat_map(|at| [route(v4(at), OURS), route(v6(at), OURS)]).collect();
    other_writer.tries(Do::Delete, &ours[..10]);
    pause();
    tries(["address del 10.77.0.1/24 dev man0"]);
    pause();
    tries(["link set man0 down", "link set man0 up", "rule del priority 700"]);
    other_writer.tries(Do::Delete, &ours[20..30]);
    pause();
    tries([
        "neighbour del 10.77.0.2 dev man0",
        "neighbour replace fd77::2 lladdr 02:00:00:00:00:99 nud permanent dev man0",
    ]);
    // Delete several at once, so that their order can change.
    for some in ours[30..].chunks(5) {
        other_writer.tries(Do::Delete, some);
    }
    pause();
    tries(["link set man0 down"]);
    pause();
    tries(["link set man0 up"]);
}

/// Runs lines of `ip`, which may fail: an object missing at the moment cannot be deleted.
fn tries<const N: usize>(lines: [&str; N]) {
    for line in lines {
        let _tried = Command::new("ip").args(line.split(' ')).output().unwrap();
    }
}

/// A source whose subscription always has an event, and always the same one. Its dumps are true.
struct Inventor {
    inner: Rtnl,
    announced: Drained,
    /// The first end is always readable, as the other was written to.
    readable: (UnixStream, UnixStream),
}

impl Inventor {
    fn new(announced: Drained) -> Inventor {
        let (here, mut there) = UnixStream::pair().unwrap();
        there.write_all(b"!").unwrap();
        Inventor { inner: Rtnl::new(), announced, readable: (here, there) }
    }
}

impl Source for Inventor {
    type Scope = Namespace;
    type Desired = Desired;
    type Options = Options;
    type Report = Report;
    type Observed = Seen;
    type Error = Error;

    fn reconcile(&mut self, input: PassInput<'_, Self>) -> Result<Report, Error> {
        let PassInput { scope, desired, ledger, options, limits } = input;
        self.inner.reconcile(PassInput { scope, desired, ledger, options, limits })
    }

    fn subscribe(&mut self, scope: &Namespace, hints: Hints) -> Subscribed<(), Error> {
        self.inner.subscribe(scope, hints)
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.inner.descriptor().and(Some(self.readable.0.as_fd()))
    }

    fn drain(&mut self) -> Result<Drained, Error> {
        self.inner.drain()?;
        Ok(self.announced)
    }
}
