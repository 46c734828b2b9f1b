//! iproute2: `ip -batch -force` with one line for each object; `ip route show` to read.

use std::env::temp_dir;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::process::{Command, Stdio, id};

use anyhow::{Context as _, Result, ensure};
use trueup_works::clock::{Took, timed_command};
use trueup_works::{Family, PROTOCOL, Work, address, find, link, routes, rules};

/// Returns all works except single changes, with the largest sizes.
pub(crate) fn works() -> Vec<(Work, usize)> {
    let is_single =
        |it: &Work| matches!(it, Work::RouteChange | Work::RouteTurn | Work::GatewayObject);
    Work::all().filter(|work| !is_single(work)).map(|work| (work, work.largest())).collect()
}

/// Does a work, and returns its cost.
pub(crate) fn run(work: Work, size: usize) -> Result<Took> {
    match work {
        Work::InternetNoop | Work::BothNoop => {
            let routes = "ip -4 route show table all; ip -6 route show table all";
            let rules = if work == Work::BothNoop { "; ip -4 rule; ip -6 rule" } else { "" };
            let mut show = Command::new("sh");
            timed_command(show.args(["-c", &format!("{routes}{rules}")]).stdout(Stdio::null()))
        }
        _ if work.is_noop() => {
            let protocol = PROTOCOL.to_string();
            let words = ["route", "show", "table", "main", "protocol", &protocol];
            timed_command(ip(&[option(work)]).args(words).stdout(Stdio::null()))
        }
        Work::AddressCreate => {
            call(&["link", "add", "a0", "type", "veth", "peer", "name", "b0"])?;
            call(&["link", "set", "b0", "up"])?;
            call(&["link", "set", "a0", "up"])?;
            let took = batch(work, size);
            call(&["link", "delete", "a0"])?;
            took
        }
        Work::LinkDelete => {
            let file = temp_dir().join(format!("peers-{}-links", id()));
            fs::write(&file, (0..size).map(|at| format!("link add {} type ifb\n", link(at))).collect::<String>())?;
            timed_command(ip(&["-batch"]).arg(&file))?;
            fs::remove_file(file)?;
            batch(work, size)
        }
        _ => batch(work, size),
    }
}

/// Runs the lines of a work. Rules are made last and deleted first. IPv6 rules beside IPv4 ones are
/// in a separate file for `ip -6 -batch`, as a line of a batch cannot name the family.
fn batch(work: Work, size: usize) -> Result<Took> {
    let [main, rules6, complaints] =
        ["main", "rules6", "stderr"].map(|name| temp_dir().join(format!("peers-{}-{name}", id())));
    let lines = lines(work, size)?;
    fs::write(&main, &lines.main)?;
    fs::write(&rules6, &lines.rules6)?;
    let (v4, v6) = ("ip -force -batch \"$0\"", "ip -6 -force -batch \"$1\"");
    let mut command = match work {
        Work::BothCreate | Work::BothDelete => {
            let (one, two) = if work == Work::BothCreate { (v4, v6) } else { (v6, v4) };
            let mut script = Command::new("sh");
            script.args(["-c", &format!("{one} && {two}")]).arg(&main).arg(&rules6);
            script
        }
        _ => {
            let family: &[&str] = match work {
                Work::InternetCreate | Work::InternetDelete => &[],
                _ => &[option(work)],
            };
            let mut batch = ip(family);
            batch.args(["-force", "-batch"]).arg(&main);
            batch
        }
    };
    // Of a million error messages the first is enough.
    let took = timed_command(command.stderr(File::create(&complaints)?)).with_context(|| {
        let said = fs::read_to_string(&complaints).unwrap_or_default();
        said.lines().next().unwrap_or_default().to_owned()
    });
    [main, rules6, complaints].iter().try_for_each(fs::remove_file)?;
    took
}

#[derive(Default)]
struct Lines {
    main: String,
    rules6: String,
}

fn lines(work: Work, size: usize) -> Result<Lines> {
    let mut lines = Lines::default();
    let is_delete = work.leaves(size) == (0, 0);
    let verb = match work {
        Work::RouteGateway => "replace",
        Work::AddressCreate | Work::LinkDelete => "",
        _ if is_delete => "delete",
        _ => "add",
    };
    let is_both = matches!(work, Work::BothCreate | Work::BothDelete);
    let mut of_rules = String::new();
    for (family, priority, from) in rules(work, size) {
        let to = match family {
            Family::Inet6 if is_both => &mut lines.rules6,
            _ => &mut of_rules,
        };
        let words = format!("rule {verb} priority {priority} from {from} lookup main");
        writeln!(to, "{words} protocol {PROTOCOL}")?;
    }
    if is_delete {
        lines.main.push_str(&of_rules);
    }
    match work {
        Work::RuleCreate(_) | Work::RuleDelete(_) => {}
        Work::AddressCreate => {
            lines.main.extend((0..size).map(|at| format!("address add {}/64 dev a0\n", address(at))));
        }
        Work::LinkDelete => {
            lines.main.extend((0..size).map(|at| format!("link delete {}\n", link(at))));
        }
        _ => {
            for ((address, length), via) in routes(work, size)? {
                write!(lines.main, "route {verb} {address}/{length}")?;
                // A delete needs no gateway, and ignores the maker.
                if !is_delete {
                    write!(lines.main, " via {via} proto {PROTOCOL}")?;
                }
                lines.main.push('\n');
            }
        }
    }
    if !is_delete {
        lines.main.push_str(&of_rules);
    }
    Ok(lines)
}

/// Returns the option for the family.
pub(crate) fn option(work: Work) -> &'static str {
    match work.family() {
        Family::Inet => "-4",
        Family::Inet6 => "-6",
    }
}

/// Runs `ip`, and fails unless it succeeds.
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
