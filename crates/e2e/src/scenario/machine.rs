//! The kernel that a scenario runs on, real or fake, as seen from outside of the crates under test:
//! another writer acts on it, its rows are read, its announcements are read.

mod ip;
mod settle;
mod wire;

use std::collections::HashMap;
use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use trueup_netlink::{Group, Namespace};

use super::command::{Command, INET, INET6};
use super::object::Names;
use super::{WriterLine, errno};
use ip::{Tool, has_ip, ip_batch, spoken, tool};
use trueup_testkit::fake;
use trueup_testkit::message::{Kind, RawMessage};
use trueup_testkit::quiet_netns;
use trueup_testkit::running_version;
use trueup_testkit::stable;
pub(super) use wire::Wire;
use wire::messages;

/// Something else than what the scenario is about went wrong, or a line did not end as it says; at
/// that line.
#[derive(Debug)]
pub(super) struct Trouble {
    pub(super) line: Option<usize>,
    pub(super) message: String,
}

fn trouble(message: impl Into<String>) -> Trouble {
    Trouble {
        line: None,
        message: message.into(),
    }
}

impl Trouble {
    fn at(self, line: usize) -> Trouble {
        Trouble {
            line: self.line.or(Some(line)),
            ..self
        }
    }
}

type Result<T, E = Trouble> = std::result::Result<T, E>;

/// A kernel to run on.
pub(super) struct Machine {
    place: Place,
    pub(super) wire: Wire,
    watch: Wire,
    /// Interfaces by index, as of any time.
    names: Names,
    /// As last announced: links are announced also when their carrier alone moved.
    links: HashMap<u32, RawMessage>,
    /// True if the scenario has switched duplicate address detection on, which takes a second or
    /// two.
    detects: bool,
}

enum Place {
    /// The namespace of the calling thread.
    Kernel,
    Fake(fake::Kernel),
}

impl Machine {
    /// The running kernel, in the namespace of the calling thread, which must stay the one that
    /// uses this.
    pub(super) fn kernel() -> Result<Machine> {
        Machine::new(Place::Kernel)
    }

    pub(super) fn fake() -> Result<Machine> {
        Machine::new(Place::Fake(fake::Kernel::new()))
    }

    fn new(place: Place) -> Result<Machine> {
        let namespace = namespace(&place);
        let mut watch = Wire::open(&namespace)?;
        // Refused beyond a limit; the default holds a few hundred announcements.
        let _best_effort = watch.transport.set_receive_buffer(4 << 20);
        for group in Group::OBJECTS.into_iter().chain([Group::NEXTHOP]) {
            watch
                .transport
                .join(group)
                .map_err(|error| trouble(format!("joining a group: {error}")))?;
        }
        let mut machine = Machine {
            wire: Wire::open(&namespace)?,
            watch,
            names: Names::new(),
            links: HashMap::new(),
            detects: false,
            place,
        };
        machine.names()?;
        for link in machine.wire.rows(Kind::Link, 0)?.iter().filter_map(stable) {
            machine.links.insert(link.device(), link);
        }
        Ok(machine)
    }

    /// Returns the namespace for the agents.
    pub(super) fn namespace(&self) -> Namespace {
        namespace(&self.place)
    }

    /// Replaces the namespace by an empty one with another cookie. The fake's cookie is its address
    /// in memory, so the old one is dropped after the new one is made.
    pub(super) fn recreate(&mut self) -> Result<()> {
        let place = match self.place {
            Place::Fake(_) => Place::Fake(fake::Kernel::new()),
            Place::Kernel => {
                quiet_netns();
                Place::Kernel
            }
        };
        let mut new = Machine::new(place)?;
        let former = std::mem::take(&mut self.names).into_iter();
        for (index, name) in former {
            new.names.entry(index).or_insert(name);
        }
        *self = new;
        Ok(())
    }

    /// Major and minor number.
    pub(super) fn version(&self) -> (u32, u32) {
        match self.place {
            Place::Fake(_) => fake::VERSION,
            Place::Kernel => running_version(),
        }
    }

    /// Interfaces by index, with those that were there before.
    pub(super) fn names(&mut self) -> Result<&Names> {
        let now = self.wire.names()?;
        self.names.extend(now);
        Ok(&self.names)
    }

    /// Runs lines of another writer in order; each must end as it says.
    pub(super) fn act(&mut self, acts: &[WriterLine]) -> Result<()> {
        let real = matches!(self.place, Place::Kernel) && has_ip();
        let acts = acts
            .iter()
            .map(|act| self.resolved(act))
            .collect::<Result<Vec<_>>>()?;
        let mut rest = acts.as_slice();
        while let Some((act, after)) = rest.split_first() {
            let batched = |act: &WriterLine| {
                real && !act.raw && act.errno.is_none() && tool(act) == Some(Tool::Batch)
            };
            let together = rest.iter().take_while(|act| batched(act)).count();
            if together > 0 {
                let (batch, after) = rest.split_at(together);
                ip_batch(batch)?;
                rest = after;
                continue;
            }
            rest = after;
            self.act_alone(act, real)
                .map_err(|trouble| trouble.at(act.line))?;
        }
        Ok(())
    }

    /// The line with the indexes that it names.
    pub(super) fn resolved(&mut self, act: &WriterLine) -> Result<WriterLine> {
        if !act.text.contains('@') {
            return Ok(act.clone());
        }
        let names = self.names()?;
        let index = |name: &str| Some(*names.iter().find(|(_, known)| *known == name)?.0);
        let text = super::resolved(&act.text, index)
            .map_err(|name| trouble(format!("there never was a {name}")).at(act.line))?;
        let command = super::command::parse(&text, act.raw)
            .map_err(|fault| trouble(fault.message).at(act.line))?;
        Ok(WriterLine {
            text,
            command,
            ..act.clone()
        })
    }

    fn act_alone(&mut self, act: &WriterLine, real: bool) -> Result<()> {
        if let Command::Sysctl { name, value } = &act.command {
            return self.sysctl(name, value);
        }
        if real && !act.raw {
            let said = spoken(act);
            match (said, act.errno) {
                (Ok(()), None) => return Ok(()),
                (Err(message), None) => {
                    return Err(trouble(format!("`{}` failed: {message}", act.text)));
                }
                (Ok(()), Some(code)) => {
                    return Err(trouble(format!(
                        "`{}` succeeded, {} was expected",
                        act.text,
                        errno::name(code)
                    )));
                }
                // It failed, as it should; `ip` does not print the number, so it is asked for once
                // more.
                (Err(_), Some(_)) => {}
            }
        }
        let got = self.wire.carry_out(&act.command)?;
        if got == act.errno.unwrap_or(0) {
            return Ok(());
        }
        let name = |code: i32| {
            if code == 0 {
                "success".to_owned()
            } else {
                errno::name(code)
            }
        };
        Err(trouble(format!(
            "`{}` ended in {}, {} was expected",
            act.text,
            name(got),
            name(act.errno.unwrap_or(0))
        )))
    }

    fn sysctl(&mut self, name: &str, value: &str) -> Result<()> {
        self.detects |= name.ends_with("accept_dad") && value != "0";
        match &self.place {
            Place::Fake(kernel) => kernel.sysctl(name, value).map_err(trouble),
            Place::Kernel => {
                let path = sysctl_path(name);
                fs::write(&path, value).map_err(|error| trouble(format!("{path}: {error}")))
            }
        }
    }

    /// All rows of a kind, of one family or (0) of all that it is dumped by.
    pub(super) fn rows(&mut self, kind: Kind, family: u8) -> Result<Vec<RawMessage>> {
        let families: &[u8] = match (kind, family) {
            (Kind::Link | Kind::Nexthop, _) => &[0],
            (_, 0) => &[INET, INET6],
            _ => &[family],
        };
        let mut rows = Vec::new();
        for family in families {
            rows.extend(self.wire.rows(kind, *family)?);
        }
        Ok(rows)
    }

    /// Everything there is, as configuration.
    pub(super) fn everything(&mut self) -> Result<Vec<RawMessage>> {
        self.wait_until_settled()?;
        let mut all = Vec::new();
        for kind in Kind::ALL {
            all.extend(self.rows(kind, 0)?.iter().filter_map(stable));
        }
        all.sort();
        Ok(all)
    }

    /// Returns the announcements since the last call, as configuration: without unchanged links and
    /// the kernel's own traffic. Waits until no more follow: effects of a change may take the
    /// kernel a few milliseconds.
    pub(super) fn announced(&mut self) -> Result<Vec<RawMessage>> {
        self.wait_until_settled()?;
        let quiet = match self.place {
            Place::Fake(_) => 1,
            Place::Kernel => 3,
        };
        let mut all = Vec::new();
        let mut still = 0;
        let end = Instant::now() + Duration::from_secs(10);
        while still < quiet && Instant::now() < end {
            still += 1;
            while let Some(datagram) = self.watch.take()? {
                still = 0;
                for (kind, _, body) in messages(&datagram) {
                    all.extend(RawMessage::parse(kind, body).as_ref().and_then(stable));
                }
            }
            if still < quiet {
                thread::sleep(Duration::from_millis(3));
            }
        }
        let names = all
            .iter()
            .filter_map(|row| Some((row.device(), row.ifname()?)));
        self.names.extend(names);
        const AF_BRIDGE: u8 = 7;
        let links = &mut self.links;
        all.retain(|row| match row.kind {
            // A port is announced a second time with a part of its attributes.
            Kind::Link if row.family() == AF_BRIDGE => false,
            Kind::Link => links.insert(row.device(), row.clone()).as_ref() != Some(row),
            _ => true,
        });
        Ok(all)
    }
}

fn namespace(place: &Place) -> Namespace {
    match place {
        Place::Kernel => Namespace::current(),
        Place::Fake(kernel) => kernel.namespace(),
    }
}

/// Where a setting is.
pub(super) fn sysctl_path(name: &str) -> String {
    format!("/proc/sys/{}", name.replace('.', "/"))
}

/// Returns true if the running kernel has a kind of link; asked in the thread's namespace.
pub(super) fn has_link(kind: &str) -> bool {
    let text = match kind {
        "veth" => "link add probe0 type veth peer name probe1".to_owned(),
        // On no link: lo would refuse it with the errno of a kind that is not known.
        "vlan" => "link add probe0 type vlan id 7".to_owned(),
        "macvlan" => "link add link lo name probe0 type macvlan".to_owned(),
        "vrf" => "link add probe0 type vrf table 7".to_owned(),
        "vxlan" => "link add probe0 type vxlan id 7 dstport 4789".to_owned(),
        _ => format!("link add probe0 type {kind}"),
    };
    const EOPNOTSUPP: i32 = 95;
    let asked = super::command::parse(&text, false)
        .ok()
        .and_then(|command| {
            let mut wire = Wire::open(&Namespace::current()).ok()?;
            let code = wire.carry_out(&command).ok()?;
            let delete = super::command::parse("link del probe0", false).ok()?;
            wire.carry_out(&delete).ok()?;
            Some(code)
        });
    asked.is_some_and(|code| code != EOPNOTSUPP)
}
