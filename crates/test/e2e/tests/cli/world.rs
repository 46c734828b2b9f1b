//! `[world]` on the embedded store: collects the exports that an ended process left there.

use std::os::unix::net::UnixStream;
use std::time::Duration;

use rustix::process::Signal;
use trueup::world::{Embedded, Export, ResourceKey, Session, World};
use trueup_e2e::page::Page;
use trueup_testkit::{Snapshot, assert_no_changes, uplinks, wait_until};

use crate::agent::{Agent, Ran};
use crate::metrics::{GET, ask, samples};
use crate::watch::said;

const FILE: &str = "grace = 0\n[world]\nstore = \"embedded\"\nhost = \"a\"\n\
    [[collect]]\nkind = \"route\"\nwithin = [\"10.20.0.0/16\"]\n";

const PAGE: &str = include_str!("../../../../../docs/world.md");

/// Opens an agent's store.
fn store(agent: &Agent) -> Embedded {
    std::fs::create_dir_all(agent.state()).unwrap();
    Embedded::open(agent.state().join("world.redb")).unwrap()
}

/// Declares all exports of a host, which stay, and closes the store.
pub(crate) fn declare(agent: &Agent, host: &str, exports: &[(&str, &str)]) {
    let store = store(agent);
    let world = World::new(store.connect(), "/trueup", host).unwrap();
    let session = Session::begin(world.clone(), "machine", Duration::from_secs(60)).unwrap();
    let export = |(name, data): &(&str, &str)| Export::new("route", *name, *data).persist();
    let exports: Vec<Export> = exports.iter().map(export).collect();
    let before: Vec<ResourceKey> = world.exports().unwrap().into_keys().collect();
    session.delete(&before).unwrap().into_result().unwrap();
    session.declare(&exports).unwrap().into_result().unwrap();
    session.end().unwrap();
}

fn data(dst: &str) -> String {
    format!("{{\"dst\": \"{dst}\", \"via\": \"10.200.0.8\"}}")
}

fn ours() -> usize {
    Snapshot::take().routes_with_protocol(116).len()
}

pub(crate) fn what_the_embedded_store_has_is_collected() {
    uplinks(1);
    let agent = Agent::new();
    let ran = agent.plan(FILE);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(!agent.state().exists(), "a plan makes no store");

    declare(&agent, "b", &[("one", &data("10.20.1.0/24")), ("two", &data("10.20.2.0/24"))]);
    declare(&agent, "a", &[("own", &data("10.20.3.0/24"))]);
    assert_eq!(agent.plan(FILE).code, 2);
    agent.settle(FILE);
    assert_eq!(ours(), 2, "what it exports itself is not for it");

    declare(&agent, "b", &[("two", &data("10.20.2.0/24"))]);
    agent.settle(FILE);
    assert_eq!(ours(), 1);
    let mut watch = agent.spawn(&["watch", "f.toml", "--metrics", "unix:metrics"]);
    let socket = agent.directory().join("metrics");
    let is_one = |metric: &str| {
        let stream = UnixStream::connect(&socket);
        stream.is_ok_and(|stream| samples(&ask(stream, GET))[metric] == 1.0)
    };
    let more = format!(
        "{FILE}[[export]]\nname = \"own\"\nroute = {{ dst = \"10.20.4.0/24\", via = \"10.200.0.8\" }}\n\
         [[route]]\ndst = \"10.30.0.0/16\"\nvia = \"10.200.0.8\"\n"
    );
    wait_until("it has the file", || is_one("trueup_world_known"));
    agent.write("f.toml", &more);
    wait_until("the route of the changed file is there", || ours() == 2);
    // Before this, there is nothing to export, so everything counts as exported.
    wait_until("it is to export", || is_one("trueup_world_exports"));
    wait_until("it has exported", || is_one("trueup_world_exported"));
    watch.terminate(Signal::TERM);
    let world = World::new(store(&agent).connect(), "/trueup", "a").unwrap();
    let exports = world.exports().unwrap();
    let own = exports.values().find(|it| it.lease.is_some()).unwrap();
    let text = String::from_utf8_lossy(&own.value);
    assert!(text.contains("10.20.4.0/24"), "{text}");
}

pub(crate) fn a_hostile_export_costs_only_itself() {
    uplinks(1);
    let agent = Agent::new();
    let declared = "[[route]]\ndst = \"10.20.9.0/24\"\nvia = \"10.200.0.9\"\n";
    let file = format!("{FILE}{declared}");
    let deep = "[".repeat(2000);
    declare(
        &agent,
        "b",
        &[
            ("a route", &data("10.20.1.0/24")),
            ("a default route", &data("0.0.0.0/0")),
            ("of this host", &data("10.20.9.0/24")),
            ("no route", "\u{1b}[2J"),
            ("deep", &deep),
            ("\u{1b}[2J", "{\"dst\": \"10.20.2.0/24\", \"dev\": \"up0\"}"),
            (
                "of another family",
                "{\"dst\": \"10.20.3.0/24\", \"via\": \"fd00:200::8\", \"metric\": -1}",
            ),
        ],
    );
    agent.settle(&file);
    assert_eq!(ours(), 2);
    let why = |dst: &str| agent.run(&["why", "route", dst, "--file", "f.toml"]);
    let says = |ran: &Ran, words: &str| assert!(ran.out.contains(words), "{words}: {ran:?}");
    says(&why("10.20.1.0/24"), "exported by host b as `a route`, revision");
    says(&why("10.20.1.0/24"), ": collected");
    says(&why("default"), "refused, as 0.0.0.0/0 is not within what is collected");
    let own = why("10.20.9.0/24");
    says(&own, "refused, as this host declares 10.20.9.0/24 itself");
    says(&own, "via 10.200.0.9");
}

pub(crate) fn a_store_that_another_process_has_changes_nothing() {
    uplinks(1);
    let agent = Agent::new();
    declare(&agent, "b", &[("one", &data("10.20.1.0/24"))]);
    agent.settle(FILE);
    let held = store(&agent);
    assert_no_changes(|| {
        for command in ["plan", "apply", "watch"] {
            agent.run(&[command, "f.toml"]).assert_refused(&["world.redb"]);
        }
    });
    drop(held);
    agent.settle(FILE);
}

pub(crate) fn without_the_feature_endpoints_are_refused() {
    let agent = Agent::new();
    agent.write(
        "f.toml",
        "[world]\nendpoints = [\"http://127.0.0.1:1\"]\nhost = \"a\"\n[[collect]]\n\
         kind = \"route\"\nwithin = [\"10.20.0.0/16\"]\n",
    );
    let words = match cfg!(feature = "etcd") {
        true => "cannot read what other hosts export, so nothing is done",
        false => "built without the feature `etcd`",
    };
    agent.run(&["plan", "f.toml"]).assert_refused(&[words]);
}

pub(crate) fn the_file_of_the_page_is_one() {
    let (_, rest) = PAGE.split_once("```toml\n").unwrap();
    let (text, _) = rest.split_once("```").unwrap();
    let read =
        trueup_file::File::parse("world.md", text.as_bytes(), &trueup_file::TableNames::default())
            .unwrap();
    assert!(read.settings.world.is_some());
    assert_eq!((read.exports.unwrap().len(), read.collects.unwrap().len()), (1, 2));
}

/// Replaces the number of each revision.
fn without_revisions(text: &str) -> String {
    let mut parts = text.split("revision ");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, part| {
        text + "revision N" + part.trim_start_matches(|it: char| it.is_ascii_digit())
    })
}

pub(crate) fn the_blocks_of_output_are_what_is_printed() {
    uplinks(1);
    let page = Page::read("docs/world.md");
    let agent = Agent::new();
    agent.write("f.toml", FILE);
    let same = data("10.20.1.0/24");
    declare(&agent, "b", &[("pods", &same)]);
    declare(&agent, "c", &[("part", &data("10.20.1.128/25")), ("pods", &same)]);
    let why = agent.run(&["why", "route", "10.20.1.0/24", "--file", "f.toml"]).out;
    let of_hosts = why.lines().filter(|line| line.contains(" exported by host "));
    let of_hosts: Vec<&str> = of_hosts.collect();
    page.assert_shows(&of_hosts.join("\n"), without_revisions);

    let agent = Agent::new();
    declare(&agent, "m", &[("x", &same)]);
    let export = "[world]\nstore = \"embedded\"\nhost = \"a\"\n\
                  [[export]]\nname = \"pods\"\nroute = { dst = \"10.20.1.0/24\", via = \"10.200.0.8\" }\n";
    agent.write("f.toml", export);
    let mut child = agent.spawn(&["watch", "f.toml"]);
    let said = said(&mut child);
    let taken = || {
        let said = said.lock().unwrap();
        let taken = said.lines().find(|line| line.contains(" is taken by "));
        taken.map(str::to_owned)
    };
    wait_until("it says so", || taken().is_some());
    // The revision of its own export is unknown until the export is in the store.
    let is_known = |text: &str| without_revisions(text).replace("`pods`, revision N,", "`pods`,");
    page.assert_shows(&taken().unwrap(), is_known);
    child.terminate(Signal::TERM);

    let page = Page::read("docs/graph.md");
    let exec = |name: &str, after: &str| {
        format!("[[exec]]\nname = \"{name}\"\ncommand = [\"/bin/true\"]\non = [\"exec.{after}\"]\n")
    };
    agent.write("f.toml", &("\n\n\n\n".to_owned() + &exec("a", "b") + &exec("b", "a")));
    page.assert_shows(&agent.run(&["plan", "f.toml"]).err, str::to_owned);
}
