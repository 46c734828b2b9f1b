//! `watch` on a terminal.

use std::io::Read as _;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use trueup_e2e::terminal::{self, Terminal};
use trueup_testkit::{Snapshot, ip, uplinks, wait_until};

use crate::agent::{Agent, Running, via};
use crate::watch::FAST;

const ENTER: &str = "\x1b[?1049h";
const LEAVE: &str = "\x1b[?25h\x1b[?1049l";

/// Starts the program on a terminal of this size.
fn running(agent: &Agent, args: &[&str], rows: u16, columns: u16) -> (Terminal, Running) {
    let (terminal, child) = Terminal::running(agent.command(args), rows, columns);
    (terminal, Running(child))
}

pub(crate) fn on_a_terminal_it_shows_how_things_stand() {
    uplinks(1);
    let agent = Agent::new();
    agent.write("f.toml", &via("10.99.0.0/16", "10.200.0.8"));
    let args = ["watch", "f.toml", "--interval", "3600"];
    let (terminal, mut child) = running(&agent, &args, 24, 100);
    wait_until("it converges", || terminal.shows("converged for "));
    assert!(terminal.written().starts_with(ENTER));
    assert!(terminal.shows("trueup watch f.toml"), "{:?}", terminal.lines());
    assert!(terminal.shows("manages 1 route"), "{:?}", terminal.lines());
    assert!(terminal.shows("+ route 10.99.0.0/16"), "{:?}", terminal.lines());

    agent.write("f.toml", "[[route]]\n");
    wait_until("a broken file is reported", || {
        terminal.shows("the last good file stays in force: f.toml:1:1: ")
    });
    agent.write("f.toml", &via("10.98.0.0/16", "10.200.0.8"));
    wait_until("and a good one", || terminal.shows("the file is good again"));
    wait_until("what changed", || terminal.shows("- route 10.99.0.0/16"));
    agent.write("f.toml", &via("10.97.0.0/16", "172.31.255.1"));
    wait_until("what failed", || {
        terminal.shows("could not be done") && terminal.shows("! route 10.97.0.0/16")
    });
    agent.write("f.toml", &via("10.98.0.0/16", "10.200.0.8"));
    wait_until("and that it is over", || {
        !terminal.shows("could not be done") && terminal.shows("converged for ")
    });
    let refused = |line: &String| line.starts_with("the last good file stays in force");
    assert!(!terminal.lines().iter().any(refused), "{:?}", terminal.lines());

    // It fits any size, and is redrawn no more often than a user could see.
    terminal.resize(6, 30);
    kill_process(Pid::from_child(&child.0), Signal::WINCH).unwrap();
    wait_until("it fits", || {
        let lines = terminal.lines();
        lines.len() <= 6 && lines.iter().all(|line| line.chars().count() <= 30)
    });
    let (before, began) = (terminal.frames(), Instant::now());
    while began.elapsed() < Duration::from_secs(2) {
        kill_process(Pid::from_child(&child.0), Signal::WINCH).unwrap();
        std::thread::sleep(Duration::from_millis(5));
    }
    let drawn = terminal.frames() - before;
    let most = began.elapsed().as_secs_f64() * 4.0 + 2.0;
    assert!(drawn as f64 <= most, "{drawn} frames");

    child.terminate(Signal::TERM);
    let written = || terminal.written();
    let last = format!("{LEAVE}converged\r\n");
    wait_until("the screen is given back, and what is said last stays", || {
        written().ends_with(&last)
    });
}

pub(crate) fn a_line_has_the_colour_of_its_sign_where_colours_are_wanted() {
    uplinks(1);
    let agent = Agent::new();
    agent.write("f.toml", &via("10.99.0.0/16", "10.200.0.8"));
    let printed = |variable: &str, value: &str| {
        let mut command = agent.command(&["plan", "f.toml"]);
        command.env(variable, value);
        let (terminal, mut child) = Terminal::running(command, 24, 200);
        assert_eq!(child.wait().unwrap().code(), Some(2));
        wait_until("the counts are there", || terminal.written().contains(" to delete\r\n"));
        terminal.written()
    };
    for (variable, value) in [("TERM", "xterm"), ("NO_COLOR", "")] {
        let printed = printed(variable, value);
        assert!(printed.starts_with("\x1b[32m+ route 10.99.0.0/16"), "{printed:?}");
        assert!(printed.contains("\x1b[0m\r\n1 to create"), "{printed:?}");
    }
    for (variable, value) in [("TERM", "dumb"), ("NO_COLOR", "1")] {
        let printed = printed(variable, value);
        assert!(printed.starts_with("+ route 10.99.0.0/16"), "{printed:?}");
        assert!(!printed.contains('\x1b'), "{printed:?}");
    }
}

pub(crate) fn names_and_aliases_cannot_reach_the_terminal() {
    uplinks(1);
    let agent = Agent::new();
    agent.write(
        "f.toml",
        "link = [{ name = \"ours\", kind = \"ifb\", alias = \"plain\" }]\n\
         route = [{ dst = \"10.99.0.0/16\", via = \"10.200.0.8\" }]\n",
    );
    // On our key, through a device with a hostile name: a conflict that is shown.
    let hostile = "x\x1b[2J\x07";
    ip(&["link", "add", hostile, "up", "type", "ifb"]);
    ip(&["route", "add", "10.99.0.0/16", "dev", hostile]);
    let args = [&["watch", "f.toml"], &FAST[..]].concat();
    let (terminal, mut child) = running(&agent, &args, 24, 200);
    wait_until("the conflict is shown", || terminal.shows("conflict: foreign"));
    wait_until("the link is there", || Snapshot::take().index_of("ours").is_some());
    ip(&["link", "set", "ours", "alias", "\x1b]0;owned\x07\x1b[2J\u{9b}31m"]);
    wait_until("the alias is as it was", || {
        ip(&["link", "show", "ours"]).contains("alias plain") && terminal.shows("~ link ours")
    });
    child.terminate(Signal::INT);
    wait_until("the screen is given back", || terminal.written().contains(LEAVE));
    for harm in ["\x1b[2J", "\x1b]", "\x07", "\u{9b}"] {
        assert!(!terminal.written().contains(harm), "{harm:?}: {:?}", terminal.lines());
    }
}

pub(crate) fn a_terminal_that_goes_away_ends_it() {
    let agent = Agent::new();
    agent.write("f.toml", "route = []");
    let (mut master, slave) = terminal::pair();
    let args = ["watch", "f.toml", "--interval", "3600"];
    let mut child = Running(terminal::on(agent.command(&args), &slave));
    drop(slave);
    let mut first = [0; 1];
    master.read_exact(&mut first).unwrap();
    drop(master);
    assert_eq!(child.ended(), 0);
}

pub(crate) fn json_is_json_on_a_terminal_too() {
    let agent = Agent::new();
    agent.write("f.toml", "route = []");
    let args = ["watch", "f.toml", "--format", "json"];
    let (terminal, mut child) = running(&agent, &args, 24, 80);
    wait_until("a line is there", || terminal.written().contains("\"event\":\"report\""));
    child.terminate(Signal::TERM);
    assert!(!terminal.written().contains('\x1b'), "{}", terminal.written());
}
