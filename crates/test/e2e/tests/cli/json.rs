//! The program prints the JSON shown on the pages: each key and each type. Other tests of this
//! program compare all their JSON with it as well ([`crate::agent::SHOWN`]).

use rustix::process::Signal;
use trueup_e2e::shape::Shown;
use trueup_testkit::{Snapshot, ip, uplinks, wait_until};

use crate::agent::{Agent, counts, via};
use crate::doctor::keepalived;
use crate::stored::{neighbour, rename_loopback};
use crate::watch::{RARE, events, printed, said};
use crate::world::declare;

/// Covered by other tests, as these need faults: a value stored differently by the kernel, and read
/// errors.
const ELSEWHERE: [&str; 3] = ["\"desired\": text", "\"stored\": text", "\"errors\": list"];

pub(crate) fn the_json_of_the_commands_is_as_the_page_shows() {
    uplinks(1);
    let agent = Agent::new();
    let shown = Shown::default();
    let run = |args: &[&str]| {
        let args = [args, &["--format", "json"]].concat();
        let ran = agent.run(&args);
        shown.check_output(&args, &ran.out);
        ran.json()
    };
    ip(&["route", "add", "blackhole", "10.95.0.0/16"]);
    ip(&["route", "add", "blackhole", "10.94.0.0/16"]);
    ip(&["route", "add", "blackhole", "10.93.0.0/16", "proto", "116"]);
    ip(&["link", "add", "port0", "type", "ifb"]);
    ip(&["address", "add", "10.92.0.1/24", "dev", "port0"]);
    // The links' own IPv6 addresses come a little later, and a snapshot's hash includes them.
    Snapshot::settled();
    let folder = agent.directory().display();
    let text = format!(
        r#"
        grace = 60
        link = [
            {{ name = "bad", kind = "macvlan", link = "lo" }}, {{ name = "good", kind = "ifb" }},
            {{ name = "bridge", kind = "bridge" }}, {{ name = "port0", master = "bridge" }},
        ]
        address = [{{ dev = "bad", address = "10.96.0.1/24" }}]
        route = [
            {{ dst = "10.95.0.0/16", via = "10.200.0.9" }},
            {{ dst = "10.94.0.0/16", type = "blackhole", adopt = true }},
        ]
        [[file]]
        name = "wanted"
        path = "{folder}/wanted"
        content = "x"
        [[exec]]
        name = "told"
        command = [ "/usr/bin/false" ]
        on = [ "file.wanted", "route" ]
        [[exec]]
        name = "after"
        command = [ "/usr/bin/true" ]
        check = [ "/usr/bin/false" ]
        after = [ "exec.told" ]
    "#
    );
    agent.write("f.toml", &text);
    let plan = run(&["plan", "f.toml"]);
    assert_eq!(run(&["plan", "f.toml"])["snapshot"], plan["snapshot"]);
    run(&["graph", "f.toml"]);
    run(&["why", "route", "--file", "f.toml", "10.95.0.0/16"]);
    run(&["why", "link", "good", "--file", "f.toml"]);
    let report = run(&["apply", "f.toml"]);
    // Every op has one outcome.
    let due = plan["ops"].as_array().unwrap().len();
    assert_eq!(counts(&report)[..3].iter().sum::<usize>(), due, "{report}");
    assert_ne!(run(&["plan", "f.toml"])["snapshot"], plan["snapshot"]);
    run(&["graph", "f.toml"]);
    run(&["why", "exec", "told", "--file", "f.toml"]);
    // The ledger has one link of ours, and one that was replaced.
    run(&["why", "link", "good"]);
    run(&["why", "address", "10.96.0.1", "--file", "f.toml"]);
    let taken = via("10.95.0.0/16", "10.200.0.9");
    agent.write("f.toml", &format!("on_conflict = \"take\"\n{taken}"));
    run(&["apply", "f.toml"]);
    run(&["why", "route", "10.95.0.0/16"]);
    // The link cannot be made, as another has the name of its other end. Objects on it wait.
    let pair = "[[link]]\nname = \"p7\"\nkind = \"veth\"\npeer = \"up0\"\n\
                [[address]]\ndev = \"p7\"\naddress = \"10.78.0.1/24\"\n";
    agent.write("f.toml", pair);
    run(&["why", "address", "10.78.0.1", "--file", "f.toml"]);

    let world = "grace = 0\n[world]\nstore = \"embedded\"\nhost = \"a\"\n\
                 [[collect]]\nkind = \"route\"\nwithin = [\"10.20.0.0/16\"]\n\
                 [[export]]\nname = \"pods\"\nroute = { dst = \"10.20.1.0/24\", via = \"10.200.0.8\" }\n";
    agent.write("f.toml", world);
    let export = |dst: &str, via: &str| format!("{{\"dst\": \"{dst}\", \"via\": \"{via}\"}}");
    let first = export("10.20.1.0/24", "10.200.0.8");
    declare(&agent, "a", &[("pods", &first)]);
    declare(&agent, "b", &[("far", &export("10.20.9.0/24", "172.31.255.1")), ("pods", &first)]);
    declare(&agent, "c", &[("part", &export("10.20.1.128/25", "10.200.0.8")), ("pods", &first)]);
    run(&["apply", "f.toml"]);
    run(&["why", "route", "10.20.1.0/24", "--file", "f.toml"]);

    let mut daemon = keepalived(&agent);
    let held = agent.spawn(&["watch", "f.toml"]);
    let is_held = || {
        let doctor = run(&["doctor", "f.toml"]);
        doctor["journals"][0]["holder"].is_object() && doctor["daemons"][0].is_object()
    };
    wait_until("the journal is held, and the daemon runs", is_held);
    drop((held, daemon.stdin.take()));
    daemon.wait().unwrap();
    let named = format!("[domain]\nname = \"n\"\ntables = [ 254 ]\n{taken}");
    agent.write("f.toml", &named);
    run(&["doctor", "f.toml"]);
    shown.commands.assert_all_seen_of("plan", &ELSEWHERE);
    shown.commands.assert_all_seen_of("doctor", &[]);
}

pub(crate) fn the_events_of_watch_are_as_the_pages_show() {
    uplinks(1);
    rename_loopback();
    let agent = Agent::new();
    let shown = Shown::default();
    ip(&["route", "add", "blackhole", "10.95.0.0/16"]);
    ip(&["link", "add", "port0", "type", "ifb"]);
    ip(&["address", "add", "10.92.0.1/24", "dev", "port0"]);
    let folder = agent.directory().display();
    let with = |more: &str| {
        format!(
            "[world]\nstore = \"embedded\"\nhost = \"a\"\n\
             [[export]]\nname = \"pods\"\nroute = {{ dst = \"10.20.1.0/24\", via = \"10.200.0.8\" }}\n\
             [[link]]\nname = \"bridge\"\nkind = \"bridge\"\n\
             [[link]]\nname = \"port0\"\nmaster = \"bridge\"\n\
             [[file]]\nname = \"wanted\"\npath = \"{folder}/wanted\"\ncontent = \"x\"\n\
             {}{}{}{}{more}",
            via("10.95.0.0/16", "10.200.0.9"),
            via("10.96.0.0/16", "172.31.255.1"),
            neighbour("02:00:00:00:00:09") + "\n",
            "[[address]]\ndev = \"missing0\"\naddress = \"10.97.0.1/24\"\n",
        )
    };
    agent.write("f.toml", &with(""));
    declare(&agent, "m", &[("x", "{\"dst\": \"10.20.1.0/24\", \"via\": \"10.200.0.9\"}")]);
    // The address of its socket cannot be bound.
    let folder_of_it = "unix:no-such-folder/metrics";
    let args = ["watch", "f.toml", "--format", "json", "--metrics", folder_of_it];
    let mut child = agent.spawn(&[&args[..], &RARE[..]].concat());
    let (_said, printed) = (said(&mut child), printed(&mut child));
    let has = |words: &str| printed.lock().unwrap().lines().any(|line| line.contains(words));
    wait_until("all is looked at", || has("\"event\":\"report\"") && has("\"contests\":[{"));
    let stays = via("10.98.0.0/16", "10.200.0.8");
    agent.write("f.toml", &with("[[route]]\ndst = \"10.99.0.0/33\"\n"));
    wait_until("it is refused", || has("\"state\":\"refused\""));
    agent.write("f.toml", &with(&stays));
    wait_until("it is good again", || has("\"state\":\"taken_up\""));
    wait_until("its route is there", || !ip(&["route", "show", "10.98.0.0/16"]).is_empty());
    ip(&["route", "delete", "10.95.0.0/16"]);
    ip(&["route", "delete", "10.98.0.0/16"]);
    wait_until("the problem is over", || has("\"cleared\":[{"));
    child.terminate(Signal::TERM);
    wait_until("its last line is read", || has("\"event\":\"stopping\""));
    for event in events(&printed.lock().unwrap()) {
        shown.check_event(&event);
    }
    // These need time or faults: other tests cover them.
    shown.commands.assert_all_seen_of(
        "report",
        &[
            "\"objects\": object",
            "\"contended\": number",
            "\"overruns\": number",
            "\"subscribed\": bool",
            "\"stored\": text",
            "\"errors\": list",
            "\"ownership\": list",
            "\"message\": text",
        ],
    );
    shown.world.assert_all_seen_of("world", &["\"cut_off_since\": number", "\"message\": text"]);
}
