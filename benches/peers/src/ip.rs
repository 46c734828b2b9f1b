//! iproute2: `ip -batch -force` with a line an object; `ip route show` to look.

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, ensure};

use crate::shape::{self, Family, PROTOCOL, Route, Work};
use crate::took::{self, Took};

const ROUTES: usize = 1_000_000;
const RULES: usize = 10_000;

pub(crate) const WORKS: [(Work, usize); 14] = [
    (Work::RouteCreate, ROUTES),
    (Work::RouteNoop, ROUTES),
    (Work::RouteGateway, ROUTES),
    (Work::RouteDelete, ROUTES),
    (Work::Route6Create, ROUTES),
    (Work::Route6Noop, ROUTES),
    (Work::Route6Delete, ROUTES),
    (Work::FewNoop, ROUTES),
    (Work::RuleCreate, RULES),
    (Work::RuleDelete, RULES),
    (Work::Rule6Create, RULES),
    (Work::Rule6Delete, RULES),
    (Work::AddressCreate, 1_500),
    (Work::LinkDelete, 1_000),
];

/// Does it.
pub(crate) fn run(work: Work, size: usize) -> Result<Took> {
    match work {
        Work::RouteNoop | Work::Route6Noop | Work::FewNoop => show(work),
        Work::AddressCreate => {
            call(&["link", "add", "a0", "type", "veth", "peer", "name", "b0"])?;
            call(&["link", "set", "b0", "up"])?;
            call(&["link", "set", "a0", "up"])?;
            let took = batch(work, size);
            call(&["link", "delete", "a0"])?;
            took
        }
        Work::LinkDelete => {
            let file = write("links", |to| {
                (0..size).try_for_each(|at| writeln!(to, "link add l{at} type ifb"))
            })?;
            took::command(ip(&[]).arg("-batch").arg(&file))?;
            fs::remove_file(file)?;
            batch(work, size)
        }
        _ => batch(work, size),
    }
}

/// Has the kernel's routes printed, without a reader.
fn show(work: Work) -> Result<Took> {
    let family = option(shape::family(work));
    let protocol = PROTOCOL.to_string();
    let mut show = ip(&[
        family, "route", "show", "table", "main", "protocol", &protocol,
    ]);
    took::command(show.stdout(Stdio::null()))
}

fn batch(work: Work, size: usize) -> Result<Took> {
    let file = write(work.name(), |to| lines(work, size, to))?;
    let mut batch = ip(&[option(shape::family(work)), "-force", "-batch"]);
    // Of a million complaints the first is enough.
    let complaints = file.with_extension("stderr");
    batch.arg(&file).stderr(File::create(&complaints)?);
    let took = took::command(&mut batch).with_context(|| {
        let said = fs::read_to_string(&complaints).unwrap_or_default();
        said.lines().next().unwrap_or_default().to_owned()
    });
    fs::remove_file(file)?;
    fs::remove_file(complaints)?;
    took
}

fn option(family: Family) -> &'static str {
    match family {
        Family::V4 => "-4",
        Family::V6 => "-6",
    }
}

fn lines(work: Work, size: usize, to: &mut dyn Write) -> std::io::Result<()> {
    let family = shape::family(work);
    let mut routes = |verb: &str| {
        let mut all = shape::routes(work, size);
        all.try_for_each(
            |Route {
                 address,
                 length,
                 via,
             }| {
                writeln!(
                    to,
                    "route {verb} {address}/{length} via {via} proto {PROTOCOL}"
                )
            },
        )
    };
    match work {
        Work::RouteCreate | Work::Route6Create => return routes("add"),
        Work::RouteGateway => return routes("replace"),
        _ => {}
    }
    match work {
        Work::RouteDelete | Work::Route6Delete => {
            // By either gateway, and whoever made them.
            let mut all = shape::routes(work, size);
            all.try_for_each(
                |Route {
                     address, length, ..
                 }| { writeln!(to, "route delete {address}/{length}") },
            )
        }
        Work::RuleCreate | Work::Rule6Create | Work::RuleDelete | Work::Rule6Delete => {
            let verb = match work {
                Work::RuleCreate | Work::Rule6Create => "add",
                _ => "delete",
            };
            (0..size).try_for_each(|at| {
                let (from, priority) = shape::rule(family, at);
                writeln!(
                    to,
                    "rule {verb} priority {priority} from {from} lookup main protocol {PROTOCOL}"
                )
            })
        }
        Work::AddressCreate => (0..size)
            .try_for_each(|at| writeln!(to, "address add {}/64 dev a0", shape::address(at))),
        Work::LinkDelete => (0..size).try_for_each(|at| writeln!(to, "link delete l{at}")),
        _ => Ok(()),
    }
}

/// Writes a file for a batch, with a name that no other process of this program uses.
pub(crate) fn write(
    name: &str,
    lines: impl FnOnce(&mut dyn Write) -> std::io::Result<()>,
) -> Result<PathBuf> {
    let path = std::env::temp_dir().join(format!("peers-{}-{name}", std::process::id()));
    let mut to = BufWriter::new(File::create(&path)?);
    lines(&mut to)?;
    to.flush()?;
    Ok(path)
}

/// Runs `ip` to its end.
pub(crate) fn call(args: &[&str]) -> Result<()> {
    let status = ip(args).status()?;
    ensure!(status.success(), "ip {}: {status}", args.join(" "));
    Ok(())
}

fn ip(args: &[&str]) -> Command {
    let mut command = Command::new(find("ip").unwrap_or_else(|| "ip".into()));
    command.args(args);
    command
}

/// Where a program is: in PATH, or where Debian keeps what is root's.
pub(crate) fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain(["/usr/sbin".into(), "/sbin".into()]);
    folders
        .map(|folder| folder.join(program))
        .find(|file| file.is_file())
}
