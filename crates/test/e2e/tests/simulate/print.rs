//! Prints a script as a scenario file; the runner's `scenarios/README.md` describes the format.

use std::fmt::Write as _;

use trueup_file::Settings;
use trueup_rtnl::Ownership;
use trueup_testkit::faults::{At, Fault};

use crate::disk::DiskFault;
use crate::script::{Act, Event, Injection, Script, Turn};
use crate::writers::{Change, OURS};

pub(crate) fn scenario(script: &Script, wrong: &str) -> String {
    let mut text = String::new();
    for line in wrong.lines() {
        text += &format!("# {line}\n");
    }
    text += "\nsetup\n    link add ext0 type veth peer name ext1\n    link set ext0 up\n";
    text += "    link set ext1 up\n    addr add 10.0.3.200/24 dev ext0\n";
    text += "    addr add fd00:3::200/64 dev ext0 nodad\n    addr add 10.9.9.1/24 dev ext1\n";
    if script.setup.is_masked {
        text += "mask address neighbour rule\n";
    }
    text += "listen\n";
    for turn in &script.turns {
        write_turn(&mut text, script, turn);
    }
    text += "converge\nagain\n";
    text
}

fn write_turn(text: &mut String, script: &Script, turn: &Turn) {
    match turn.event {
        Some(Event::Restart) => *text += "restart\nlisten\n",
        Some(Event::Recreate { is_noticed: true }) => *text += "recreate\nlisten\n",
        Some(Event::Recreate { is_noticed: false }) => *text += "recreate unnoticed\n",
        Some(Event::Later(time)) => _ = writeln!(text, "later {}s", time.as_secs()),
        Some(Event::ClockStands) | None => {}
    }
    if let Some(desired) = &turn.desired {
        let mut settings = Settings::default()
            .with_protocol(OURS)
            .with_grace(script.setup.grace)
            .with_domain(script.setup.domain());
        if script.setup.by_ledger {
            for kind in trueup_net::Kind::ALL.into_iter().filter(|kind| kind.is_declared()) {
                settings.ownership.insert(kind, Ownership::Ledger);
            }
        }
        *text += "desired\n";
        for line in trueup_file::to_toml(&settings, desired).lines() {
            let line = if line.is_empty() { String::new() } else { format!("    {line}") };
            _ = writeln!(text, "{line}");
        }
    }
    let acts = turn.acts.iter().flat_map(changes);
    let lines: Vec<_> = acts.map(|change| format!("    {}\n", line(change))).collect();
    if !lines.is_empty() {
        *text += "writer\n";
        *text += &lines.concat();
    }
    for (_, fault) in &turn.disk {
        match fault {
            DiskFault::SyncFails | DiskFault::Full => *text += "journal fails\n",
            DiskFault::KillBefore | DiskFault::KillAfter => {
                *text += "# the agent is killed at a write of its journal\n";
            }
        }
    }
    *text += "apply\n";
    for (at, injection) in &turn.faults {
        for what in faults(injection) {
            _ = writeln!(text, "    fault {}: {what}", when(*at));
        }
    }
    *text += "    not converged\n";
}

fn changes(act: &Act) -> &[Change] {
    match act {
        Act::Known(changes) => changes,
        Act::Drawn(..) => &[],
    }
}

/// Returns the change as a line for `ip`.
fn line(change: &Change) -> String {
    change.line()
}

fn when(at: At) -> String {
    match at {
        At::Change(n) => format!("change {n}"),
        At::EveryChange => "every change".to_owned(),
        At::Dump(kind, n) => format!("dump {n} of {}", plural(kind)),
        At::EveryDump(kind) => format!("every dump of {}", plural(kind)),
        At::Announcements => "announcements".to_owned(),
    }
}

fn plural(kind: trueup_testkit::Kind) -> String {
    match kind {
        trueup_testkit::Kind::Address => "addresses".to_owned(),
        kind => format!("{}s", kind.word()),
    }
}

fn faults(injection: &Injection) -> Vec<String> {
    let fault = match injection {
        Injection::Act(act) => {
            let lines = changes(act).iter().map(|change| format!("writer {}", line(change)));
            return lines.collect();
        }
        Injection::Fault(fault) => fault,
    };
    vec![match fault {
        Fault::Refuse(errno) => format!("refuse {}", errno_name(*errno)),
        Fault::LoseAnswer => "lose answer".to_owned(),
        Fault::DieBefore => "die before".to_owned(),
        Fault::DieAfter => "die after".to_owned(),
        Fault::Interrupt => "interrupt".to_owned(),
        Fault::LoseRow(row) => format!("lose row {row}"),
        Fault::RepeatRow(row) => format!("repeat row {row}"),
        Fault::SpoilRow(row) => format!("spoil row {row}"),
        Fault::UnknownAttribute => "unknown attribute".to_owned(),
        Fault::Overrun => "overrun".to_owned(),
        Fault::BreakOff(errno) => format!("break off {}", errno_name(*errno)),
        fault => format!("{fault:?}"),
    }]
}

fn errno_name(errno: i32) -> &'static str {
    match errno {
        1 => "EPERM",
        12 => "ENOMEM",
        16 => "EBUSY",
        105 => "ENOBUFS",
        _ => "EINVAL",
    }
}
