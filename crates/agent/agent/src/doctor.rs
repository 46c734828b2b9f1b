//! Checks the abilities of this kernel and this caller in a namespace, and finds the problems that
//! would prevent a pass.

mod daemons;
mod journals;

use std::fmt;
use std::fs;
use std::path::Path;

use rustix::fs::{StatVfsMountFlags, statvfs};
use serde::Serialize;
use trueup_net::Kind;
use trueup_netlink::{Socket, boot_id, marker};
use trueup_observe::RECEIVE_BUFFER;
use trueup_rtnl::Namespace;

use self::daemons::{Found, daemons};
use self::journals::{JournalState, journals, usable};
use crate::agent::Agent;
use crate::declared::Declared;
use crate::desired_file::{self, Writers};
use crate::error::{Context as _, Result, with_causes};
use crate::status::count;
use crate::{graph, state};

const RELEASE: &str = "/proc/sys/kernel/osrelease";

/// The directory of the network sysctls.
const SYSCTLS: &str = "/proc/sys/net";

impl Agent {
    /// Checks the abilities of this kernel and this caller in the namespace, and what would prevent
    /// a pass over `file`, if there is one. A file that users beside `writers` can write is a
    /// problem like any other. Changes nothing.
    ///
    /// # Errors
    ///
    /// Fails if the kernel does not answer, or the file is not a valid desired state.
    pub fn doctor(&self, file: Option<&Path>, writers: Writers) -> Result<Findings> {
        let untrusted = file.and_then(|file| desired_file::untrusted(file, writers));
        let declared = file.map(|file| self.read(file, Writers::Any)).transpose()?;
        let cautions = declared.iter().flat_map(Declared::cautions);
        cautions.for_each(|caution| self.note(&caution));
        Findings::gather(self, declared.as_ref(), untrusted)
    }
}

/// The findings of a [doctor](Agent::doctor), to print as text or as JSON.
///
/// ```no_run
/// use trueup_agent::{Agent, Writers};
///
/// let agent = Agent::new(None, Some("/var/lib/example".into()))?;
/// let findings = agent.doctor(Some("edge.toml".as_ref()), Writers::Ours)?;
/// println!("ready: {}", findings.is_ready());
/// # Ok::<(), trueup_agent::Error>(())
/// ```
#[derive(Serialize)]
pub struct Findings {
    /// True if no problem is known.
    ready: bool,
    kernel: Option<String>,
    boot_id: Option<String>,
    /// The namespace's cookie (`SO_NETNS_COOKIE`).
    cookie: u64,
    privileged: bool,
    /// True if `/proc/sys/net` exists and is writable.
    sysctls_writable: bool,
    strict_checking: bool,
    receive_buffer: Buffer,
    ownership: Vec<Proof>,
    state_directory: Option<String>,
    /// The namespace's journals, and the journal of the file, or of the default `protocol`.
    journals: Vec<JournalState>,
    /// Other daemons in the namespace, and those whose namespace is unknown.
    daemons: Vec<Found>,
    problems: Vec<Problem>,
}

/// The size of a receive buffer in bytes, as the kernel accounts for them.
#[derive(Serialize)]
struct Buffer {
    wanted: usize,
    obtained: usize,
}

/// A problem that would prevent a pass, and its remedy.
#[derive(Serialize)]
struct Problem {
    problem: String,
    /// `None` if no remedy is known.
    remedy: Option<String>,
}

impl Findings {
    /// Returns true if no problem is known.
    pub fn is_ready(&self) -> bool {
        self.ready
    }

    /// Collects the findings. `untrusted` is the reason to refuse the file, if there is one.
    fn gather(
        agent: &Agent,
        declared: Option<&Declared>,
        untrusted: Option<String>,
    ) -> Result<Findings> {
        let mut socket = Socket::open(&agent.namespace)?;
        let mut problems: Vec<_> = untrusted
            .into_iter()
            .map(|why| Problem { problem: format!("the file {why}"), remedy: None })
            .collect();
        let privileged = privileged(&mut socket, &mut problems)?;
        let boot_id =
            or_problem(boot_id().map_err(Into::into), &mut problems, "mount proc on /proc");
        let sysctls_writable = sysctls(declared, &mut problems);
        programs(declared, &mut problems);
        let given = agent.state_directory.as_deref();
        let options = declared.map(|it| it.options.network.clone()).unwrap_or_default();
        let found = state::StateFile::find(given, &agent.key, &state::Agent::of(&options));
        let is_unsafe = found.as_ref().is_err_and(state::is_unsafe);
        let usable = found.and_then(|found| {
            let place = found.with_context(state::no_state_directory)?;
            usable(place.directory()).map(|()| place)
        });
        if given.is_none()
            && let Some(ignored) = state::ignored_runtime_directory()
        {
            agent.note(&ignored);
        }
        let remedy = if is_unsafe {
            "let nobody but root, or the user that runs trueup, write the directory; or name another \
             one with --state DIR, and the same one each time"
        } else {
            "run trueup as the owner of that directory; or name one that you can write to with \
             --state DIR, and the same one each time"
        };
        let place = or_problem(usable, &mut problems, remedy);
        let journals = match &place {
            Some(place) => journals(place, &mut problems)?,
            None => Vec::new(),
        };
        let known = place.as_ref().zip(boot_id.as_deref());
        // A note and no problem: a file's domain may change.
        if let (Some((place, boot_id)), Some(_)) = (known, declared)
            && let Some(replaced) = place.replaced_domain(options.domain(), boot_id)
        {
            agent.note(&replaced);
        }
        if let Some((place, boot_id)) = known {
            let overlaps = place.overlaps(options.domain(), boot_id).into_iter();
            problems.extend(overlaps.map(|problem| Problem { problem, remedy: None }));
        }
        Ok(Findings {
            ready: problems.is_empty(),
            // `None` without /proc, which is a problem of its own.
            kernel: read(RELEASE).ok(),
            boot_id,
            cookie: agent.key.cookie,
            privileged,
            sysctls_writable,
            strict_checking: socket.strict(),
            receive_buffer: Buffer {
                wanted: RECEIVE_BUFFER,
                obtained: socket.set_receive_buffer(RECEIVE_BUFFER)?,
            },
            ownership: ownership(&mut socket)?,
            state_directory: place.map(|place| place.directory().display().to_string()),
            journals,
            daemons: daemons(&agent.namespace),
            problems,
        })
    }
}

fn or_problem<T>(result: Result<T>, problems: &mut Vec<Problem>, remedy: &str) -> Option<T> {
    result
        .map_err(|error| {
            problems
                .push(Problem { problem: with_causes(&error), remedy: Some(remedy.to_owned()) });
        })
        .ok()
}

#[expect(clippy::disallowed_methods, reason = "a file of the kernel's below /proc")]
fn read(path: &str) -> Result<String> {
    let text = fs::read_to_string(path).with_context(|| format!("cannot read {path}"))?;
    Ok(text.trim().to_owned())
}

/// Returns true if a caller with the privilege can write sysctls. If not, adds a problem if the
/// file declares some.
fn sysctls(declared: Option<&Declared>, problems: &mut Vec<Problem>) -> bool {
    let (problem, remedy) = match statvfs(SYSCTLS) {
        Ok(mount) if !mount.f_flag.contains(StatVfsMountFlags::RDONLY) => return true,
        Ok(_) => (
            format!("{SYSCTLS} is mounted read-only, and the file has [sysctl]"),
            "mount it for writing; ProtectKernelTunables=yes in a systemd unit makes it read-only, and \
             so do container runtimes",
        ),
        Err(errno) => (
            format!("cannot use {SYSCTLS}, and the file has [sysctl]: {errno}"),
            "mount proc on /proc",
        ),
    };
    let settings = declared.and_then(|declared| declared.file.sysctl.as_ref());
    if settings.is_some_and(|settings| !settings.is_empty()) {
        problems.push(Problem { problem, remedy: Some(remedy.to_owned()) });
    }
    false
}

/// Adds the commands that would not run, because another user can change their programs.
fn programs(declared: Option<&Declared>, problems: &mut Vec<Problem>) {
    let execs = declared.and_then(|declared| declared.file.execs.as_ref());
    problems.extend(execs.into_iter().flatten().filter_map(|exec| {
        let failure = graph::exec(exec, &Namespace::current()).check_programs().err()?;
        Some(Problem { problem: format!("exec.{}: {failure}", exec.name), remedy: None })
    }));
}

fn privileged(socket: &mut Socket, problems: &mut Vec<Problem>) -> Result<bool> {
    match socket.check_privilege() {
        Err(error) if error.is_permission() => {
            problems.push(Problem {
                problem: "may not change this network namespace: CAP_NET_ADMIN is missing in the user namespace that owns it"
                    .to_owned(),
                remedy: Some(
                    "run trueup as root there, or give it the capability, such as by \
                     AmbientCapabilities=CAP_NET_ADMIN in a systemd unit"
                        .to_owned(),
                ),
            });
            Ok(false)
        }
        asked => Ok(asked.map(|()| true)?),
    }
}

/// The default proof that objects of a kind are ours.
#[derive(Serialize)]
struct Proof {
    kind: &'static str,
    proof: &'static str,
    reason: &'static str,
}

/// Returns each kind's proof: the marker, unless the kernel is known to drop it.
fn ownership(socket: &mut Socket) -> Result<Vec<Proof>> {
    Kind::ALL
        .into_iter()
        .map(|kind| {
            let (kept, dropped, unknown) = match kind {
                Kind::Link => ("", "", "a link bears no marker"),
                Kind::Nexthop => {
                    ("every kernel that has nexthop objects keeps nhm_protocol", "", "")
                }
                Kind::Route => ("every kernel keeps rtm_protocol", "", ""),
                Kind::Address => (
                    "this kernel keeps IFA_PROTO",
                    "this kernel drops IFA_PROTO, as do those before 5.18",
                    "",
                ),
                Kind::Neighbour => (
                    "this kernel keeps NDA_PROTOCOL",
                    "this kernel drops NDA_PROTOCOL, as do those before 5.0",
                    "",
                ),
                Kind::Rule => (
                    "this kernel keeps FRA_PROTOCOL",
                    "this kernel drops FRA_PROTOCOL, as do those before 4.17",
                    "there is no rule on which FRA_PROTOCOL could be seen; kernels since 4.17 \
                     keep it",
                ),
                _ => ("", "", "not known of this kind of object"),
            };
            let (proof, reason) = match marker(socket, kind)? {
                Some(true) => ("marker", kept),
                Some(false) => ("ledger", dropped),
                None if kind == Kind::Link => ("ledger", unknown),
                None => ("marker", unknown),
            };
            Ok(Proof { kind: kind.name(), proof, reason })
        })
        .collect()
}

impl fmt::Display for Findings {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let found = self;
        let Buffer { wanted, obtained } = found.receive_buffer;
        let unknown = "not known";
        for (what, is) in [
            ("kernel", found.kernel.as_deref().unwrap_or(unknown)),
            ("boot", found.boot_id.as_deref().unwrap_or(unknown)),
            ("namespace", &format!("cookie {}", found.cookie)),
            (
                "privilege",
                if found.privileged {
                    "CAP_NET_ADMIN in the namespace"
                } else {
                    "none to change anything in the namespace"
                },
            ),
            (
                "sysctls",
                if found.sysctls_writable {
                    "/proc/sys/net can be written with the privilege"
                } else {
                    "/proc/sys/net cannot be written: a file with [sysctl] would fail"
                },
            ),
            (
                "dumps",
                if found.strict_checking {
                    "checked strictly, and filtered by the kernel"
                } else {
                    "not checked strictly: the kernel sends all, and we filter"
                },
            ),
            (
                "receive buffer",
                &if obtained < wanted {
                    format!("{wanted} bytes wanted, {obtained} obtained: held to net.core.rmem_max")
                } else {
                    format!("{wanted} bytes wanted, and obtained")
                },
            ),
        ] {
            writeln!(out, "{what:<18}{is}")?;
        }
        for Proof { kind, proof, reason } in &found.ownership {
            writeln!(out, "{:<18}by {proof}: {reason}", format!("own {kind}"))?;
        }
        match &found.state_directory {
            Some(it) => writeln!(out, "state directory   {it}, which no other user can change")?,
            None => writeln!(out, "state directory   none that can be used")?,
        }
        for journal in &found.journals {
            writeln!(out, "journal           {}", journal_text(journal))?;
        }
        for daemon in &found.daemons {
            writeln!(out, "beside            {}: {}", daemon.title(), daemon.effect)?;
            writeln!(out, "                  to prevent that: {}", daemon.advice)?;
        }
        for problem in &found.problems {
            writeln!(out, "! {}", problem.problem)?;
            if let Some(remedy) = &problem.remedy {
                writeln!(out, "  remedy: {remedy}")?;
            }
        }
        match found.problems.len() {
            0 if found.sysctls_writable => writeln!(out, "an apply could work"),
            0 => writeln!(out, "an apply could work, but for sysctls"),
            problems => {
                let problems = count(problems, "problem", "problems");
                writeln!(out, "{problems} would hinder an apply")
            }
        }
    }
}

fn journal_text(journal: &JournalState) -> String {
    let domain = match &journal.domain {
        Some(domain) => format!(", domain {domain}"),
        None => String::new(),
    };
    let of = format!("{} (protocol {}{domain})", journal.file, journal.protocol);
    match &journal.holder {
        Some(holder) => format!("{of}: held by pid {} ({})", holder.pid, holder.command),
        None if journal.held => format!("{of}: held"),
        None if journal.present => format!("{of}: not held"),
        None => format!("{of}: not there yet"),
    }
}
