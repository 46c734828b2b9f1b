//! `trueup doctor`: what this kernel and this caller can do in a namespace, and the problems that
//! would prevent a pass. It changes nothing.

mod text;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use rustix::fs::{Access, StatVfsMountFlags, access, statvfs};
use serde::Serialize;
use trueup::diff::{Kind, Kinds};
use trueup::journal::{self, Journal};
use trueup::netlink::{Marker, Markers, Socket, boot_id, markers};
use trueup::observe::RECEIVE_BUFFER;

use super::{Declared, Target};
use crate::output::{self, Format, LossyPath};
use crate::{Common, state};

/// A problem would prevent a pass.
const NOT_READY: u8 = 2;

const RELEASE: &str = "/proc/sys/kernel/osrelease";

/// The directory of the sysctls.
const SYSCTLS: &str = "/proc/sys/net";

pub(crate) fn doctor(common: &Common, file: Option<&Path>) -> Result<ExitCode> {
    if common.format == Format::Ip {
        bail!("`doctor` prints no commands: --format is text or json here");
    }
    let declared = file.map(|file| Declared::read(file, Duration::ZERO));
    let found = Findings::gather(common, declared.transpose()?.as_ref())?;
    output::print(|out| match common.format {
        Format::Json => {
            serde_json::to_writer(&mut *out, &found)?;
            writeln!(out)
        }
        _ => text::write(out, &found),
    })?;
    Ok(ExitCode::from(if found.ready { 0 } else { NOT_READY }))
}

/// The findings, as in the JSON.
#[derive(Serialize)]
struct Findings {
    /// No problem is known.
    ready: bool,
    kernel: Option<String>,
    boot_id: Option<String>,
    /// The namespace's.
    cookie: u64,
    privileged: bool,
    /// `/proc/sys/net` is there, and not read-only.
    sysctls_writable: bool,
    strict_checking: bool,
    receive_buffer: Buffer,
    ownership: Vec<Proof>,
    state_directory: Option<LossyPath<PathBuf>>,
    /// The journals of the namespace, and that of the file, or of the default `protocol`.
    journals: Vec<JournalState>,
    problems: Vec<Problem>,
}

/// Bytes, as the kernel accounts for them.
#[derive(Serialize)]
struct Buffer {
    wanted: usize,
    obtained: usize,
}

/// The default proof that objects of a kind are ours.
#[derive(Serialize)]
struct Proof {
    kind: &'static str,
    proof: &'static str,
    reason: &'static str,
}

/// A journal.
#[derive(Serialize)]
struct JournalState {
    file: LossyPath<PathBuf>,
    protocol: u8,
    /// The name of its domain, if it has one.
    domain: Option<String>,
    present: bool,
    held: bool,
    /// The process that holds it, if that is known.
    holder: Option<Holder>,
}

#[derive(Serialize)]
struct Holder {
    pid: u32,
    command: String,
}

/// A problem that would prevent a pass, and its remedy.
#[derive(Serialize)]
struct Problem {
    problem: String,
    /// If one is known.
    remedy: Option<String>,
}

impl Findings {
    fn gather(common: &Common, declared: Option<&Declared>) -> Result<Findings> {
        let target = Target::open(common)?;
        let mut socket = Socket::open(&target.namespace)?;
        let mut problems = Vec::new();
        let privileged = privileged(&mut socket, &mut problems)?;
        let boot_id = or_problem(
            boot_id().map_err(Into::into),
            &mut problems,
            "mount proc on /proc",
        );
        let sysctls_writable = sysctls(declared, &mut problems);
        let given = common.state.as_deref();
        let options = declared.map(|declared| declared.options.network.clone());
        let options = options.unwrap_or_default();
        let agent = state::Agent::of(&options);
        let found = state::StateFile::find(given, target.cookie, &agent);
        let found = found.and_then(|found| found.context(state::NO_STATE_DIRECTORY));
        let place = or_problem(
            found.and_then(|found| usable(found.directory()).map(|()| found)),
            &mut problems,
            "run trueup as the owner of that directory; or name one that you can write to with --state DIR, \
             and the same one each time",
        );
        let journals = match &place {
            Some(place) => journals(place, &mut problems)?,
            None => Vec::new(),
        };
        let known = place.as_ref().zip(boot_id.as_deref());
        // No problem: the domain of a file may change.
        if let (Some((place, boot_id)), Some(_)) = (known, declared)
            && let Some(replaced) = place.replaced_domain(options.domain(), boot_id)
        {
            crate::output::note(replaced);
        }
        let overlaps = known.map(|(place, boot_id)| place.overlaps(options.domain(), boot_id));
        problems.extend(overlaps.into_iter().flatten().map(|overlap| Problem {
            problem: overlap.to_string(),
            remedy: None,
        }));
        Ok(Findings {
            ready: problems.is_empty(),
            // Without /proc, which is a problem by now.
            kernel: read(RELEASE).ok(),
            boot_id,
            cookie: target.cookie,
            privileged,
            sysctls_writable,
            strict_checking: socket.strict(),
            receive_buffer: Buffer {
                wanted: RECEIVE_BUFFER,
                obtained: socket.set_receive_buffer(RECEIVE_BUFFER)?,
            },
            ownership: ownership(&markers(&mut socket, Kinds::ALL)?),
            state_directory: place.map(|place| LossyPath(place.directory().to_owned())),
            journals,
            problems,
        })
    }
}

impl Problem {
    /// Returns the problem of a journal.
    fn of(error: &journal::Error, file: &Path, agent: &state::Agent) -> Problem {
        let file = file.display();
        let (problem, remedy) = if error.is_held() {
            (
                format!("another trueup writes with `protocol = {}`: {error}", agent.marker),
                "stop it, or give the two files different `protocol` numbers, or a `[domain]` with a name each"
                    .to_owned(),
            )
        } else if error.is_damaged() {
            (
                format!("the journal {file} is damaged: {error}"),
                format!(
                    "look with `trueup journal check {file}`, go on after `trueup journal repair {file}`"
                ),
            )
        } else {
            let remedy = state::remedy(error).map(str::to_owned);
            let problem = format!("cannot use {file}: {error}");
            return Problem { problem, remedy };
        };
        Problem {
            problem,
            remedy: Some(remedy),
        }
    }
}

fn or_problem<T>(result: Result<T>, problems: &mut Vec<Problem>, remedy: &str) -> Option<T> {
    result
        .map_err(|error| {
            problems.push(Problem {
                problem: output::with_causes(error.as_ref()),
                remedy: Some(remedy.to_owned()),
            });
        })
        .ok()
}

fn read(path: &str) -> Result<String> {
    let text = fs::read_to_string(path).with_context(|| format!("cannot read {path}"))?;
    Ok(text.trim().to_owned())
}

/// Returns whether sysctls can be written by a caller with the privilege. If not, that is a problem
/// for a file that declares some.
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
        problems.push(Problem {
            problem,
            remedy: Some(remedy.to_owned()),
        });
    }
    false
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

/// Returns the proof of each kind: the marker, unless the kernel is known to drop it.
fn ownership(markers: &Markers) -> Vec<Proof> {
    let proof = |kind: Kind| {
        let (marker, kept, dropped, unknown) = match kind {
            Kind::Link => {
                return Proof {
                    kind: kind.name(),
                    proof: "ledger",
                    reason: "a link bears no marker",
                };
            }
            Kind::Nexthop => {
                return Proof {
                    kind: kind.name(),
                    proof: "marker",
                    reason: "every kernel that has nexthop objects keeps nhm_protocol",
                };
            }
            Kind::Route => (markers.route, "every kernel keeps rtm_protocol", "", ""),
            Kind::Address => (
                markers.address,
                "this kernel keeps IFA_PROTO",
                "this kernel drops IFA_PROTO, as do those before 5.18",
                "",
            ),
            Kind::Neighbour => (
                markers.neighbour,
                "this kernel keeps NDA_PROTOCOL",
                "this kernel drops NDA_PROTOCOL, as do those before 5.0",
                "",
            ),
            Kind::Rule => (
                markers.rule,
                "this kernel keeps FRA_PROTOCOL",
                "this kernel drops FRA_PROTOCOL, as do those before 4.17",
                "there is no rule on which FRA_PROTOCOL could be seen; kernels since 4.17 keep it",
            ),
            _ => (Marker::Unknown, "", "", "not known of this kind of object"),
        };
        let (proof, reason) = match marker {
            Marker::Kept => ("marker", kept),
            Marker::NotKept => ("ledger", dropped),
            Marker::Unknown => ("marker", unknown),
        };
        Proof {
            kind: kind.name(),
            proof,
            reason,
        }
    };
    Kind::ALL.map(proof).into()
}

/// Returns an error unless journals could be made in the directory: it, or its nearest existing
/// ancestor, can be written.
fn usable(directory: &Path) -> Result<()> {
    let shown = directory.display();
    let absolute = std::path::absolute(directory)
        .with_context(|| format!("cannot resolve the directory {shown}"))?;
    let there = |path: &&Path| !matches!(fs::metadata(path), Err(error) if error.kind() == io::ErrorKind::NotFound);
    let Some(nearest) = absolute.ancestors().find(there) else {
        bail!("there is no root directory");
    };
    let reading = if nearest == absolute {
        Access::READ_OK
    } else {
        Access::empty()
    };
    if let Err(errno) = access(nearest, reading | Access::WRITE_OK | Access::EXEC_OK) {
        return Err(errno).with_context(|| {
            format!(
                "cannot use the state directory {shown}: {} cannot be written",
                nearest.display()
            )
        });
    }
    if !nearest.is_dir() {
        bail!(
            "cannot use the state directory {shown}: {} is not a directory",
            nearest.display()
        );
    }
    Ok(())
}

/// Returns the namespace's journals, sorted by agent; that of `asked` also if it is missing.
fn journals(asked: &state::StateFile, problems: &mut Vec<Problem>) -> Result<Vec<JournalState>> {
    let mut found = Vec::new();
    let mut places = asked.of_all_agents();
    if !places.iter().any(|place| place.agent == asked.agent) {
        places.push(asked.clone());
        places.sort_by(|one, other| one.agent.cmp(&other.agent));
    }
    for place in places {
        let file = place.file();
        let present = fs::exists(&file).unwrap_or(true);
        let mut held = false;
        let mut holder = None;
        if let Err(error) = journal::check_not_held(&file) {
            held = error.is_held();
            holder = error.holder().map(|holder| Holder {
                pid: holder.pid,
                command: holder.command.clone(),
            });
            problems.push(Problem::of(&error, &file, &place.agent));
        }
        match Journal::open_read_only(&file) {
            Err(error) => problems.push(Problem::of(&error, &file, &place.agent)),
            Ok(_) if present && access(&file, Access::WRITE_OK).is_err() => {
                problems.push(Problem {
                    problem: format!("{} cannot be written", file.display()),
                    remedy: Some(state::FIX_PERMISSIONS.to_owned()),
                });
            }
            Ok(_) => {}
        }
        found.push(JournalState {
            file: LossyPath(file),
            protocol: place.agent.marker,
            domain: place.agent.domain,
            present,
            held,
            holder,
        });
    }
    Ok(found)
}
