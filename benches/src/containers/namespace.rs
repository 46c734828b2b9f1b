//! The namespace shared by all containers, with another writer's objects on each of their devices,
//! and the check that a run touched only its own container.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::{Result, anyhow, ensure};
use trueup_testkit::{Action, Changes, Kind, RawMessage, Snapshot, ip_batch};

/// The protocol number of the example's routes.
const PROTOCOL: u8 = 121;
/// `RTPROT_STATIC`: the protocol of the other writer's routes.
const FOREIGN: u8 = 4;
/// The address that each container's device gets as its gateway.
const GATEWAY: [u8; 4] = [169, 254, 1, 1];

const RTA_DST: u16 = 1;
const IFA_LOCAL: u16 = 2;

/// The interval between two reads of announcements: their queue is small.
const TICK: Duration = Duration::from_millis(5);

/// Returns the name of a container's device.
pub(super) fn device(at: usize) -> String {
    format!("c{at}")
}

/// Returns a container's address.
pub(super) fn address(at: usize) -> String {
    format!("10.88.{}.{}", at / 250, 2 + at % 250)
}

/// Moves the calling thread to a namespace with a device for each container, and another writer's
/// address and route on each. Returns its state.
pub(super) fn make(containers: usize) -> Snapshot {
    trueup_testkit::quiet_netns();
    ip_batch((0..containers).flat_map(|at| {
        let (dev, third, fourth) = (device(at), at / 250, 2 + at % 250);
        [
            format!("link add {dev} type veth peer name p{at}"),
            format!("link set {dev} up"),
            format!("link set p{at} up"),
            format!("address add 10.99.{third}.{fourth}/32 dev {dev}"),
            format!("route add 10.98.{third}.{fourth}/32 dev {dev} protocol static"),
        ]
    }));
    Snapshot::settled()
}

fn is_gateway(row: &RawMessage, attribute: u16) -> bool {
    row.attrs.get(&attribute).is_some_and(|it| **it == GATEWAY)
}

/// Returns true for an object created by a container's run, or derived from one by the kernel.
fn is_of_containers(row: &RawMessage) -> bool {
    match row.kind {
        Kind::Address => is_gateway(row, IFA_LOCAL),
        Kind::Route => is_gateway(row, RTA_DST) || row.protocol() == Some(PROTOCOL),
        _ => false,
    }
}

/// Returns a snapshot without the objects of some containers.
fn without(snapshot: &Snapshot, full: &Snapshot, containers: &[usize]) -> Snapshot {
    let gone: Vec<u32> = containers.iter().filter_map(|at| full.index_of(&device(*at))).collect();
    snapshot.clone().only(|row| !(is_of_containers(row) && gone.contains(&row.device())))
}

/// Checks that `now` equals `full` without the objects of some containers.
pub(super) fn check_without(
    full: &Snapshot,
    containers: impl IntoIterator<Item = usize>,
    now: &Snapshot,
) -> Result<()> {
    let gone: Vec<usize> = containers.into_iter().collect();
    let diff = without(full, full, &gone).diff(now);
    ensure!(diff.is_empty(), "something else was touched:\n{diff}");
    Ok(())
}

/// Does the same as [`check_without`], but ignores the objects of these containers.
pub(super) fn check_others(
    full: &Snapshot,
    containers: impl IntoIterator<Item = usize>,
    now: &Snapshot,
) -> Result<()> {
    let any: Vec<usize> = containers.into_iter().collect();
    let others = without(now, full, &any);
    check_without(full, any, &others)
}

/// Checks that each container has its address and its route.
pub(super) fn check_complete(containers: usize, now: &Snapshot) -> Result<()> {
    let [addresses, routes] = [Kind::Address, Kind::Route].map(|kind| {
        let rows = now.of(kind).filter(|row| is_of_containers(row));
        rows.filter(|row| row.kind == Kind::Address || row.protocol() == Some(PROTOCOL)).count()
    });
    ensure!(
        (addresses, routes) == (containers, containers),
        "{addresses} addresses and {routes} routes of {containers} containers"
    );
    Ok(())
}

/// Listens, while processes run, for changes of objects outside the containers, even if they are
/// reversed before the next check.
pub(super) struct Watcher {
    is_ended: Arc<AtomicBool>,
    thread: JoinHandle<Vec<RawMessage>>,
}

impl Watcher {
    /// Starts listening on a thread.
    pub(super) fn start() -> Watcher {
        let is_ended = Arc::new(AtomicBool::new(false));
        let end = Arc::clone(&is_ended);
        let mut changes = Changes::of_objects();
        let thread = thread::spawn(move || {
            let mut others = Vec::new();
            loop {
                // Read this before the last round, so that nothing is missed.
                let is_last = end.load(Ordering::Relaxed);
                let heard = changes.take().into_iter();
                others.extend(heard.filter(|it| !is_of_containers(it)));
                if is_last {
                    return others;
                }
                thread::sleep(TICK);
            }
        });
        Watcher { is_ended, thread }
    }

    /// Stops, and fails if another object changed.
    pub(super) fn end(self) -> Result<()> {
        self.is_ended.store(true, Ordering::Relaxed);
        let others = self.thread.join().map_err(|_| anyhow!("announcements were lost"))?;
        let Some(first) = others.first() else {
            return Ok(());
        };
        let verb = match first.action {
            Action::New => "came or changed",
            Action::Del => "went",
        };
        let foreign = match first.protocol() {
            Some(FOREIGN) => "another writer's object",
            _ => "something of no container",
        };
        Err(anyhow!("{foreign} {verb}, of {}: {first}", others.len()))
    }
}
