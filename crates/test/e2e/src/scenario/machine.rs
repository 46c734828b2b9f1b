//! The running kernel in the calling thread's namespace, seen without the crates under test: other
//! writers act on it, and its rows and announcements are read.

mod settle;

use std::thread;
use std::time::{Duration, Instant};

use trueup_testkit::{
    Changes, Kind, RawMessage, Snapshot, quiet_netns, raw_dump, raw_dump_proxies,
};

use super::numbers::{BRIDGE, INET, INET6};
use super::object::Names;
use super::writer::{Tool, Trouble, WriterLine, ip_batch};

/// The calling thread's namespace; only this thread may use it.
pub(super) struct Machine {
    changes: Changes,
    /// Interfaces by index, past ones included.
    names: Names,
    /// True if the scenario has enabled duplicate address detection, which takes a second or two.
    detects: bool,
}

impl Machine {
    /// Moves the calling thread to an empty namespace.
    pub(super) fn new() -> Machine {
        quiet_netns();
        let mut machine =
            Machine { changes: Changes::of_objects(), names: Names::new(), detects: false };
        machine.names();
        machine
    }

    /// Replaces the namespace with an empty one.
    pub(super) fn recreate(&mut self) {
        let former = std::mem::take(&mut self.names);
        *self = Machine::new();
        for (index, name) in former {
            self.names.entry(index).or_insert(name);
        }
    }

    /// Returns interfaces by index, past ones included.
    pub(super) fn names(&mut self) -> &Names {
        let links = raw_dump(Kind::Link, 0);
        self.names.extend(links.iter().filter_map(|link| Some((link.device(), link.ifname()?))));
        &self.names
    }

    /// Runs other writers' lines in order; each must end as it states.
    pub(super) fn act(&mut self, acts: &[WriterLine]) -> Result<(), Trouble> {
        let names = self.names();
        let resolved = acts.iter().map(|act| act.resolved(names));
        let acts = resolved.collect::<Result<Vec<_>, _>>()?;
        let is_batched = |act: &WriterLine| act.tool == Tool::Batch && act.errno.is_none();
        for together in acts.chunk_by(|one, next| is_batched(one) && is_batched(next)) {
            match together {
                [act, ..] if is_batched(act) => ip_batch(together)?,
                others => others.iter().try_for_each(|act| self.act_alone(act))?,
            }
        }
        Ok(())
    }

    fn act_alone(&mut self, act: &WriterLine) -> Result<(), Trouble> {
        if act.tool == Tool::Sysctl {
            let (name, value) = act.setting();
            self.detects |= name.ends_with("accept_dad") && value != "0";
        }
        act.carry_out(self.names())
    }

    /// Returns all rows of a kind, of one family or (0) of each that the kernel dumps.
    pub(super) fn rows(&self, kind: Kind, family: u8) -> Vec<RawMessage> {
        let families: &[u8] = match (kind, family) {
            (Kind::Link | Kind::Nexthop, _) => &[0],
            (_, 0) => &[INET, INET6],
            _ => &[family],
        };
        let mut rows = Vec::new();
        for family in families {
            rows.extend(raw_dump(kind, *family));
            if kind == Kind::Neighbour && *family != BRIDGE {
                rows.extend(raw_dump_proxies(*family));
            }
        }
        rows
    }

    /// Returns all objects of the namespace, reduced to configuration and sorted.
    pub(super) fn everything(&mut self) -> Vec<RawMessage> {
        self.wait_until_settled();
        Snapshot::take().into_rows()
    }

    /// Returns the announcements since the last call, reduced to configuration: without unchanged
    /// links and the kernel's own traffic. Waits until no more follow: the effects of a change may
    /// take some milliseconds.
    pub(super) fn announced(&mut self) -> Vec<RawMessage> {
        const QUIET: u32 = 3;
        self.wait_until_settled();
        let mut all = Vec::new();
        let mut still = 0;
        let end = Instant::now() + Duration::from_secs(10);
        while still < QUIET && Instant::now() < end {
            let announced = self.changes.take();
            still = if announced.is_empty() { still + 1 } else { 0 };
            all.extend(announced);
            if still < QUIET {
                thread::sleep(Duration::from_millis(3));
            }
        }
        self.names.extend(all.iter().filter_map(|row| Some((row.device(), row.ifname()?))));
        all
    }
}
