//! The example `nft`: a section from a keyed backend, on the kernel's nftables.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use trueup_testkit::{ip, wait_until};

use crate::agent::Agent;

const SSH: &str = "tcp dport 22 accept";
const WEB: &str = "tcp dport { 80, 443 } accept";
const FOREIGN: [&str; 4] = [
    "tcp dport 22 drop comment \"ssh\"",
    "udp dport 53 accept comment \"dns trueup\"",
    "tcp dport { 22 comment \"trueup ssh\", 80 } accept comment \"mine\"",
    "tcp dport { 22 comment \"trueup ssh\", 80 } iifname \"mine\"",
];

/// The chain with another program's rules, and a desk for the agent.
struct Desk {
    agent: Agent,
}

impl Desk {
    fn new() -> Desk {
        ip(&["link", "set", "lo", "up"]);
        nft("add table inet filter");
        nft("add chain inet filter input { type filter hook input priority 0; }");
        for rule in FOREIGN {
            nft(&format!("add rule inet filter input {rule}"));
        }
        Desk { agent: Agent::new() }
    }

    fn declare(&self, rules: &[(&str, &str)]) {
        let elements = rules
            .iter()
            .map(|(name, rule)| format!("[[nft]]\nname = \"{name}\"\nrule = \"{rule}\"\n"));
        let text: String = elements.collect();
        let text = if rules.is_empty() { "nft = []\n".to_owned() } else { text };
        fs::write(self.agent.directory().join("agent.toml"), text).unwrap();
    }

    fn command(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_example-nft"));
        command.arg(self.agent.directory().join("agent.toml")).arg(self.agent.state());
        command
    }

    fn start(&self) -> Running {
        Running(self.command().stdout(self.output_file()).spawn().unwrap())
    }

    fn output_file(&self) -> fs::File {
        fs::File::create(self.agent.directory().join("output")).unwrap()
    }

    fn output(&self) -> String {
        fs::read_to_string(self.agent.directory().join("output")).unwrap()
    }
}

struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ended = self.0.kill();
        let _ended = self.0.wait();
    }
}

fn nft(command: &str) -> String {
    let output = Command::new("nft").args(["-a", command]).output();
    let output = output.expect("nft cannot run: install the package nftables");
    assert!(output.status.success(), "{command}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// The rules of the chain with their handles.
fn rules() -> Vec<(String, String)> {
    let listed = nft("list chain inet filter input");
    let rules = listed.lines().filter_map(|line| line.trim().split_once(" # handle "));
    let rules = rules.filter(|(rule, _)| rule.contains("dport"));
    rules.map(|(rule, handle)| (rule.to_owned(), handle.to_owned())).collect()
}

/// True if the chain has another program's rules and these of ours, each once, in any order.
fn has(ours: &[(&str, &str)]) -> bool {
    let ours = ours.iter().map(|(name, rule)| format!("{rule} comment \"trueup {name}\""));
    let mut wanted: Vec<String> = FOREIGN.map(str::to_owned).into_iter().chain(ours).collect();
    let mut found: Vec<String> = rules().into_iter().map(|(rule, _)| rule).collect();
    wanted.sort();
    found.sort();
    wanted == found
}

fn handle(name: &str) -> String {
    let comment = format!("comment \"trueup {name}\"");
    rules().into_iter().find(|(rule, _)| rule.ends_with(&comment)).unwrap().1
}

pub(crate) fn the_page_on_sources_shows_the_rules_of_a_section() {
    let example = include_str!("../../../../agent/agent/examples/nft.rs");
    let program = example.split_once("\n\n").unwrap().1;
    let page = include_str!("../../../../../docs/source.md");
    assert!(page.contains(program), "docs/source.md shows another one");
}

pub(crate) fn rules_of_a_section_are_kept_among_foreign_ones() {
    let desk = Desk::new();
    let (both, web) = ([("ssh", SSH), ("web", WEB)], [("web", WEB)]);
    desk.declare(&both);
    let _running = desk.start();
    wait_until("the rules are made", || has(&both));
    nft(&format!("delete rule inet filter input handle {}", handle("ssh")));
    wait_until("a removed rule is restored", || has(&both));
    let web_handle = handle("web");
    nft(&format!(
        "replace rule inet filter input handle {web_handle} tcp dport 8080 accept comment \"trueup web\""
    ));
    wait_until("a changed rule is restored", || has(&both));
    assert_eq!(handle("web"), web_handle, "it was replaced in place");
    desk.declare(&web);
    wait_until("what is no longer declared goes", || has(&web));
    desk.declare(&[]);
    wait_until("all of ours go", || has(&[]));
}

pub(crate) fn rules_with_one_comment_become_one() {
    let desk = Desk::new();
    let both = [("ssh", SSH), ("web", WEB)];
    desk.declare(&both);
    let wrapper = Wrapper::new(&desk);
    let _running = Running(wrapper.command().stdout(desk.output_file()).spawn().unwrap());
    wait_until("the rules are made", || has(&both));
    // A copy that comes between a change and its verification counts as stored otherwise.
    let add_at_rest = |copies: [String; 2]| {
        let looks = wrapper.calls("list chain");
        wait_until("the rules are verified", || wrapper.calls("list chain") > looks + 1);
        nft(&copies.join("; "));
    };
    // Another program's copies of one rule, before and after it, as declared and otherwise.
    for command in ["insert", "add"] {
        add_at_rest(
            [SSH, "tcp dport 22 drop"].map(|copy| {
                format!("{command} rule inet filter input {copy} comment \"trueup ssh\"")
            }),
        );
        wait_until("one rule is left", || has(&both));
    }
    let copy = format!("add rule inet filter input {WEB} comment \"trueup web\"");
    add_at_rest([copy.clone(), copy]);
    desk.declare(&both[..1]);
    wait_until("all copies of a rule go", || has(&both[..1]));
}

pub(crate) fn a_handle_that_is_another_programs_by_now_is_not_used() {
    let desk = Desk::new();
    let wrapper = Wrapper::new(&desk);
    let first = [("new", "udp dport 123 accept"), ("ssh", SSH)];
    // One is changed, and one goes.
    let second = [("ssh", "tcp dport 2222 accept")];
    for name in ["new", "ssh"] {
        desk.declare(&first);
        let running = desk.start();
        wait_until("the rules are made", || has(&first));
        drop(running);
        let taken = handle(name);
        desk.declare(&second);
        // Once the first pass has read the rules, another program makes the table anew, and the
        // kernel counts its handles anew.
        let mut restart = "flush ruleset\nadd table inet filter\n\
            add chain inet filter input { type filter hook input priority 0; }\n"
            .to_owned();
        let begin = 2; // the chain has the first handle
        for number in begin..=taken.parse::<u16>().unwrap() {
            restart += &format!("add rule inet filter input udp dport {number} accept\n");
        }
        let file = desk.agent.directory().join("restart");
        fs::write(&file, restart).unwrap();
        let calls = wrapper.calls("");
        let mut command = wrapper.command();
        command.env("AFTER", calls.to_string()).env("RULES", &file).stdout(Stdio::null());
        let running = Running(command.spawn().unwrap());
        wait_until("the agent has looked again", || wrapper.calls("") > calls + 8);
        drop(running);
        let foreign = rules().into_iter().filter(|(rule, _)| rule.starts_with("udp dport"));
        let handles: Vec<u16> = foreign.map(|(_, handle)| handle.parse().unwrap()).collect();
        assert_eq!(handles, (begin..=taken.parse().unwrap()).collect::<Vec<_>>(), "{name}");
        nft("flush chain inet filter input");
        for rule in FOREIGN {
            nft(&format!("add rule inet filter input {rule}"));
        }
    }
}

pub(crate) fn a_rule_of_a_section_that_is_stored_otherwise_is_written_once() {
    let desk = Desk::new();
    let wrapper = Wrapper::new(&desk);
    desk.declare(&[("ssh", "tcp dport 0x16 accept")]);
    let begun = Instant::now();
    for _restart in 0..2 {
        let looks = wrapper.calls("list chain");
        let mut running = Running(wrapper.command().stdout(desk.output_file()).spawn().unwrap());
        wait_until("ten passes look at it", || wrapper.calls("list chain") > looks + 10);
        assert!(running.0.try_wait().unwrap().is_none(), "it ended");
        assert!(desk.output().contains("\"condition\":\"stored_otherwise\""), "{}", desk.output());
        assert!(has(&[("ssh", SSH)]));
        assert_eq!(wrapper.calls("add rule"), 1);
        // The loop's longest delay is a minute; it varies by a tenth.
        assert!(wrapper.calls("replace rule") as u64 <= begun.elapsed().as_secs() / 50);
    }
    // The stored form is in place as soon as it is declared, and is ours.
    desk.declare(&[("ssh", SSH)]);
    let _running = desk.start();
    wait_until("it converges", || desk.output().contains("\"converged\":true"));
    desk.declare(&[]);
    wait_until("it goes", || has(&[]));
}

pub(crate) fn an_agent_with_rules_is_killed_at_each_call_of_nft() {
    let desk = Desk::new();
    let wrapper = Wrapper::new(&desk);
    let first = [("ssh", SSH), ("web", WEB)];
    // One is changed, one goes, one comes.
    let second = [("new", "udp dport 123 accept"), ("ssh", "tcp dport 2222 accept")];
    let settle = |rules: &[(&str, &str)]| {
        desk.declare(rules);
        let _running = desk.start();
        wait_until("the rules are as declared", || has(rules));
    };
    let mut killed = 0;
    for moment in ["before", "after"] {
        for call in 0.. {
            settle(&first);
            desk.declare(&second);
            let before = wrapper.calls("");
            let mut command = wrapper.command();
            command.env("KILL", format!("{} {moment}", before + call)).stdout(Stdio::null());
            let mut running = Running(command.spawn().unwrap());
            let mut is_killed = false;
            wait_until("the agent is killed, or looks again", || {
                is_killed = running.0.try_wait().unwrap().is_some();
                is_killed || wrapper.calls("") > before + 6
            });
            drop(running);
            settle(&second);
            if !is_killed {
                break;
            }
            killed += 1;
        }
    }
    // The first pass lists the rules, makes three changes, and lists them again.
    assert!(killed >= 10, "{killed} kills");
}

/// A program in place of `nft`, which notes each call. It kills the agent before or after the call
/// whose number is in `KILL`, and carries out the commands in the file `RULES` after the call
/// `AFTER`.
struct Wrapper<'a> {
    desk: &'a Desk,
    folder: PathBuf,
}

impl Wrapper<'_> {
    fn new(desk: &Desk) -> Wrapper<'_> {
        let folder = desk.agent.directory().join("bin");
        fs::create_dir(&folder).unwrap();
        let log = folder.join("calls");
        fs::write(&log, "").unwrap();
        let (script, log) = (folder.join("nft"), log.display());
        let text = format!(
            "#!/bin/sh\nPATH=/usr/sbin:/usr/bin:/sbin:/bin\nn=$(wc -l < {log})\n\
             echo \"$*\" >> {log}\n\
             [ \"$n before\" = \"$KILL\" ] && kill -9 $PPID && exit 1\n\
             nft \"$@\"\nresult=$?\n\
             [ \"$n\" = \"$AFTER\" ] && nft -f \"$RULES\"\n\
             [ \"$n after\" = \"$KILL\" ] && kill -9 $PPID\nexit $result\n",
        );
        fs::write(&script, text).unwrap();
        fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
        Wrapper { desk, folder }
    }

    /// An agent that calls the wrapper.
    fn command(&self) -> Command {
        let mut command = self.desk.command();
        command.env("PATH", format!("{}:/usr/bin:/bin", self.folder.display()));
        command
    }

    /// The number of calls so far that contain a text.
    fn calls(&self, text: &str) -> usize {
        let calls = fs::read_to_string(self.folder.join("calls")).unwrap();
        calls.lines().filter(|call| call.contains(text)).count()
    }
}
