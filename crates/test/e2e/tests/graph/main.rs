//! `[[file]]` and `[[exec]]`: files and commands around the network. They refresh each other, even
//! if the agent ends in between. Groups of vertices that change the running kernel.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "tests; clippy knows only those of the usual harness"
)]

mod addresses;
#[allow(dead_code, reason = "shared with the tests of the network alone")]
#[path = "../cli/agent.rs"]
mod agent;
mod grouping;
#[allow(dead_code, reason = "shared with the tests of the network alone")]
#[path = "../cli/metrics.rs"]
mod metrics;
#[allow(dead_code, reason = "shared with the tests of the network alone")]
#[path = "../cli/watch.rs"]
mod watch;

mod checks;
mod files;
mod namespaces;
mod reloads;
mod settings;

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use trueup_testkit::{ip, uplinks, wait_until};

use crate::agent::{Agent, FAMILIES, Ran, Running, TRUEUP, route, via};
use crate::metrics::{GET, ask, samples};
use crate::watch::{RARE, printed, said};

trueup_testkit::kernel_tests![
    files_and_commands_come_after_the_network_and_a_second_apply_does_nothing,
    the_graph_of_a_file_is_printed_with_states_in_each_form,
    a_command_that_fails_is_exit_code_two_and_its_refresh_stays_pending,
    a_refresh_survives_a_kill_while_its_command_runs,
    what_cannot_be_refuses_the_file_before_anything_is_written,
    commands_of_one_semaphore_take_turns_and_one_that_lasts_too_long_is_killed,
    watch_keeps_files_and_reloads_what_depends_on_them,
    a_command_is_refreshed_by_the_section_that_it_names_alone,
    a_file_that_leaves_the_declaration_is_removed,
    a_file_that_left_while_no_agent_ran_is_removed_unless_another_writer_changed_it,
    a_restored_route_refreshes_a_command_once,
    a_new_command_waits_for_the_network_of_the_new_file,
    killed_at_random_it_loses_no_refresh_and_nothing_foreign,
    a_signal_waits_for_the_command_that_runs,
    watch_shows_how_files_and_commands_stand,
    the_page_on_the_graph_shows_it,
    grouping::addresses_of_a_group_are_one_plan_and_fail_one_by_one,
    grouping::grouped_equals_ungrouped_and_shuffled_equals_ordered,
    grouping::replaced_step_by_step_equals_started_anew,
    settings::a_default_is_set_before_the_link_that_copies_it_is_made,
    settings::a_setting_of_a_link_comes_before_its_addresses,
    settings::a_refused_setting_holds_back_what_runs_after_settings_alone,
    settings::a_command_is_refreshed_by_settings_of_links_and_of_others,
    settings::a_device_that_comes_has_its_settings_by_its_event,
    settings::a_reload_adds_and_removes_parts_and_reverts_no_setting_that_moves,
    settings::a_setting_that_is_not_managed_any_more_has_no_status,
    settings::a_reload_keeps_the_order_of_the_parts,
    settings::killed_between_two_parts_it_ends_as_declared,
    settings::a_limit_to_changes_holds_for_all_parts_together,
    settings::nothing_is_said_to_be_converged_before_each_part_was_looked_at,
    reloads::nothing_is_said_to_be_converged_before_each_part_was_looked_at_by_the_new_file,
    reloads::a_setting_that_changes_those_of_links_has_them_looked_at,
    reloads::a_link_that_leaves_stays_while_another_writer_has_something_on_it,
    reloads::a_link_that_is_restored_is_made_by_one_part_at_a_time,
    reloads::a_file_that_lacks_descriptors_for_a_new_part_is_tried_again,
    reloads::a_setting_beside_a_refused_one_refreshes_once_all_are_right,
    checks::a_check_that_fails_later_runs_its_command_at_the_interval,
    checks::nothing_is_said_to_be_converged_before_each_command_has_run,
    checks::a_check_runs_as_often_as_it_says_and_after_a_signal,
    files::a_file_without_a_folder_has_failed_until_the_folder_is_there,
    files::all_files_share_one_inotify_instance,
    files::a_section_that_is_renamed_keeps_its_file,
    files::what_no_announcement_tells_of_is_found_at_the_interval,
    files::what_failed_for_good_is_looked_at_again_after_a_signal,
    files::a_daemon_that_a_command_has_started_can_write_to_its_standard_error,
    files::a_file_that_is_a_mount_point_is_written_in_place,
    files::a_file_is_kept_without_an_inotify_instance,
    files::a_first_apply_has_what_files_and_commands_need_of_each_other,
    files::a_file_comes_after_what_it_names,
    files::a_command_that_a_killed_agent_has_left_is_waited_for,
    files::a_command_runs_in_the_namespace_that_it_names,
    files::as_process_one_it_waits_for_what_ends,
    files::files_and_commands_outlive_a_namespace_with_a_name,
    another_writer_of_a_file_is_answered_a_few_times_a_second_at_most,
    namespaces::an_agent_of_three_namespaces_is_killed_among_other_writers_and_converges,
];

/// Returns a `[[file]]` in the agent's directory.
fn file(agent: &Agent, name: &str, content: &str) -> String {
    let path = agent.directory().join(name);
    format!("[[file]]\nname = \"{name}\"\npath = {path:?}\ncontent = {content:?}\n")
}

/// Returns the vertex's name for a file in the agent's directory.
fn vertex(agent: &Agent, path: &str) -> String {
    format!("file:{}", agent.directory().join(path).display())
}

/// Returns an `[[exec]]` with a script, run in the agent's directory.
fn exec(agent: &Agent, name: &str, script: &str, more: &str) -> String {
    let script = format!("cd {:?} && {{ {script}; }}", agent.directory());
    format!("[[exec]]\nname = {name:?}\ncommand = [\"/bin/sh\", \"-c\", {script:?}]\n{more}\n")
}

fn read(agent: &Agent, name: &str) -> String {
    fs::read_to_string(agent.directory().join(name)).unwrap_or_default()
}

fn lines(agent: &Agent, name: &str) -> usize {
    read(agent, name).lines().count()
}

fn watching(agent: &Agent) -> Running {
    agent.spawn(&[&["watch", "f.toml"], &RARE[..]].concat())
}

fn files_and_commands_come_after_the_network_and_a_second_apply_does_nothing() {
    let agent = Agent::new();
    let seen = "cat /proc/sys/net/ipv4/ip_forward conf > seen && \
                ip -o link show ours >> seen && ip route show 10.99.0.0/16 >> seen && \
                echo run >> log";
    let text = "sysctl = { \"net.ipv4.ip_forward\" = 1 }\n\
                link = [{ name = \"ours\", kind = \"ifb\", up = true }]\n"
        .to_owned()
        + &route("10.99.0.0/16", "dev = \"ours\"")
        + &file(&agent, "conf", "declared\n")
        + "mode = \"0640\"\nowner = \"0:0\"\n"
        + &exec(&agent, "look", seen, "after = [\"route\", \"sysctl\"]\non = [\"file.conf\"]");
    let planned = agent.plan(&text);
    assert_eq!(planned.code, 2, "{planned:?}");
    let vertices = planned.json()["vertices"].clone();
    let state = |name: &str| {
        let vertices = vertices.as_array().unwrap();
        let vertex = vertices.iter().find(|it| it["vertex"] == name);
        vertex.unwrap()["state"].as_str().unwrap().to_owned()
    };
    for name in ["network", &vertex(&agent, "conf"), "exec.look"] {
        assert_eq!(state(name), "would_change", "{vertices}");
    }
    assert!(!agent.directory().join("conf").exists());

    let applied = agent.apply(&text);
    assert_eq!(applied.code, 0, "{applied:?}");
    assert_eq!(applied.json()["converged"], true);
    let seen = read(&agent, "seen");
    for words in ["1\ndeclared\n", "ours: <", "10.99.0.0/16 dev ours"] {
        assert!(seen.contains(words), "{words}: {seen}");
    }
    let conf = fs::metadata(agent.directory().join("conf")).unwrap();
    let found = (conf.uid(), conf.gid(), conf.permissions().mode() & 0o7777);
    assert_eq!(found, (0, 0, 0o640));

    agent.assert_nothing_to_do(&text);
    assert_eq!(agent.run(&["apply", "f.toml"]).out, "converged\n");
    assert_eq!(lines(&agent, "log"), 1);
    let graph = agent.run(&["graph", "f.toml"]);
    assert_eq!(graph.code, 0, "{graph:?}");
    assert!(graph.out.contains("exec.look   in place\n"), "{graph:?}");
}

fn the_graph_of_a_file_is_printed_with_states_in_each_form() {
    let agent = Agent::new();
    let text = route("10.99.0.0/16", "type = \"blackhole\"")
        + &file(&agent, "conf", "a")
        + &exec(&agent, "reload", "echo run >> log", "on = [\"file.conf\", \"route\"]")
        + &exec(&agent, "fix", "true", "check = [\"/no/such\"]\nafter = [\"exec.reload\"]")
        + &exec(&agent, "last", "true", "on = [\"exec.fix\"]");
    agent.write("f.toml", &text);
    let run = |format: &str| {
        let ran = agent.run(&["graph", "f.toml", "--format", format]);
        assert_eq!(ran.code, 2, "{ran:?}");
        ran
    };
    let out = run("text").out;
    let conf = vertex(&agent, "conf");
    for line in [
        "network   would change\n",
        &format!("{conf}   would change\n"),
        "exec.reload   would change; 2 refreshes pending\n",
        &format!("  refreshed by {conf}\n"),
        "  refreshed by route of network\n",
        "exec.fix   failed: /no/such: cannot be started",
        "  after exec.reload\n",
        "exec.last   waiting; skipped because exec.fix failed\n",
    ] {
        assert!(out.contains(line), "{line}: {out}");
    }
    let why = agent.run(&["why", "exec", "last", "--file", "f.toml"]);
    let waits =
        "exec.last   waiting; skipped because exec.fix failed\n  refreshed by exec.fix   failed: ";
    assert!(why.code == 0 && why.out.starts_with(waits), "{why:?}");
    // A file, given by its name and by its path.
    for name in ["conf", &*agent.directory().join("conf").to_string_lossy()] {
        let why = agent.run(&["why", "file", name, "--file", "f.toml"]);
        let stands = format!("{conf}   would change\n");
        assert!(why.code == 0 && why.out.starts_with(&stands), "{why:?}");
    }
    agent.run(&["why", "file", "none", "--file", "f.toml"]).assert_refused(&["none of that name"]);
    let json = run("json").json();
    assert_eq!(json["vertices"].as_array().unwrap().len(), 5);
    assert_eq!(json["edges"].as_array().unwrap().len(), 4);
    let kinds = json["edges"].as_array().unwrap().iter().map(|it| it["kinds"].to_string());
    assert_eq!(kinds.filter(|it| it == "[\"route\"]").count(), 1);
    let dot = run("dot").out;
    assert!(dot.starts_with("digraph {") && dot.contains("label=\"exec.reload\""));
    assert!(dot.contains("fillcolor=salmon") && dot.contains("fillcolor=lightblue"));
    let svg = run("svg").out;
    assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>\n"), "{svg}");
    assert_eq!(svg.matches("<rect ").count(), 5);
    let refused = agent.run(&["plan", "f.toml", "--format", "svg"]);
    refused.assert_refused(&["only `graph` is printed so"]);
    assert_eq!((lines(&agent, "log"), read(&agent, "conf")), (0, String::new()));
}

fn a_command_that_fails_is_exit_code_two_and_its_refresh_stays_pending() {
    let agent = Agent::new();
    let text = file(&agent, "conf", "a")
        + &exec(&agent, "reload", "test -e go && echo run >> log", "on = [\"file.conf\"]")
        + &exec(&agent, "after", "echo run >> later", "on = [\"exec.reload\"]");
    for _ in 0..2 {
        let ran = agent.apply(&text);
        assert_eq!(ran.code, 2, "{ran:?}");
        let report = ran.json();
        assert_eq!(report["converged"], false);
        let reload = report["vertices"].as_array().unwrap().iter();
        let mut reload = reload.filter(|it| it["vertex"] == "exec.reload");
        let reload = reload.next().unwrap();
        assert_eq!((&reload["state"], &reload["refreshes"]), (&"failed".into(), &1.into()));
    }
    let text_ran = agent.run(&["apply", "f.toml"]);
    for words in [
        "! exec.reload   failed; 1 refresh pending: /bin/sh: exit code 1\n",
        "! exec.after   waiting; waits for exec.reload; skipped because exec.reload failed; 2 \
         refreshes pending\n",
        "not converged: exec.reload failed, exec.after waiting\n",
    ] {
        assert!(text_ran.out.contains(words), "{words}: {text_ran:?}");
    }
    agent.write("go", "");
    let ran = agent.run(&["apply", "f.toml"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(ran.out.contains("~ exec.reload   (/bin/sh -c "), "{ran:?}");
    assert_eq!(agent.run(&["apply", "f.toml"]).code, 0);
    assert_eq!((lines(&agent, "log"), lines(&agent, "later")), (1, 1));
}

fn a_refresh_survives_a_kill_while_its_command_runs() {
    let agent = Agent::new();
    let script = "if test ! -e killed; then touch killed; kill -9 $PPID; exit 1; fi; \
                  echo run >> log";
    let text = file(&agent, "conf", "a") + &exec(&agent, "reload", script, "on = [\"file.conf\"]");
    agent.write("f.toml", &text);
    let mut command = agent.command(&["apply", "f.toml"]);
    let killed = command.stdout(Stdio::null()).stderr(Stdio::null()).status();
    assert_eq!(killed.unwrap().signal(), Some(9));
    assert_eq!((read(&agent, "conf"), lines(&agent, "log")), ("a".to_owned(), 0));
    let graph = agent.run(&["graph", "f.toml"]);
    assert!(graph.out.contains("exec.reload   would change; 1 refresh pending\n"), "{graph:?}");
    for _ in 0..2 {
        let ran = agent.run(&["apply", "f.toml"]);
        assert_eq!(ran.code, 0, "{ran:?}");
        assert_eq!(lines(&agent, "log"), 1);
    }
}

fn what_cannot_be_refuses_the_file_before_anything_is_written() {
    let agent = Agent::new();
    let conf = file(&agent, "conf", "a");
    let circle = exec(&agent, "a", "true", "on = [\"exec.b\"]")
        + &exec(&agent, "b", "true", "on = [\"exec.a\"]");
    let cycle = agent.apply(&(conf.clone() + &circle));
    cycle.assert_refused(&["f.toml:5:1: a cycle: exec.a runs after exec.b runs after exec.a"]);
    let unknown = conf.clone() + &exec(&agent, "a", "true", "on = [\"file.cnf\"]");
    agent.apply(&unknown).assert_refused(&["f.toml:5:1: ", "`conf`"]);
    let owner = conf.clone() + "owner = \"no-such-user\"\n";
    agent.apply(&owner).assert_refused(&["f.toml:5:9: owner: there is no user `no-such-user`"]);
    let no_device = conf + "[[route]]\ndst = \"10.9.0.0/16\"\ndev = \"none\"\n";
    agent.write("f.toml", &no_device);
    let strict = agent.run(&["apply", "f.toml", "--strict"]);
    strict.assert_refused(&["no interface `none`"]);
    assert_eq!(read(&agent, "conf"), "");
}

fn commands_of_one_semaphore_take_turns_and_one_that_lasts_too_long_is_killed() {
    let agent = Agent::new();
    // Commands must run one at a time: the directory exists during each, or one of them fails.
    let turn = "mkdir room && sleep 0.2 && rmdir room && echo run >> log";
    let more = "on = [\"file.conf\"]\nsemaphores = [\"room:1\"]";
    let turns: String = ["a", "b", "c"].map(|name| exec(&agent, name, turn, more)).concat();
    let text = file(&agent, "conf", "a") + &turns;
    let ran = agent.apply(&text);
    assert_eq!((ran.code, lines(&agent, "log")), (0, 3), "{ran:?}");
    let slow = exec(&agent, "slow", "sleep 600", "on = [\"file.other\"]\ntimeout = 0.2");
    let ran = agent.apply(&(file(&agent, "other", "a") + &slow));
    assert_eq!(ran.code, 2, "{ran:?}");
    assert!(ran.out.contains("killed, as it did not end in time"), "{ran:?}");
}

fn watch_keeps_files_and_reloads_what_depends_on_them() {
    let agent = Agent::new();
    let text = |content: &str| {
        file(&agent, "conf", content)
            + &exec(&agent, "reload", "cat conf >> log", "on = [\"file.conf\"]")
    };
    agent.write("f.toml", &text("a\n"));
    let mut child = watching(&agent);
    let said = said(&mut child);
    let has = |log: &str| wait_until(log, || read(&agent, "log") == log);
    has("a\n");
    // Another writer's change is undone, which is a change itself.
    fs::write(agent.directory().join("conf"), "another writer").unwrap();
    has("a\na\n");
    agent.write("f.toml", &text("b\n"));
    has("a\na\nb\n");
    agent.write("f.toml", &(text("c\n") + &exec(&agent, "x", "true", "on = [\"exec.x\"]")));
    wait_until("it is refused", || {
        said.lock().unwrap().contains("the last good file stays in force: f.toml:9:1: a cycle")
    });
    assert_eq!(read(&agent, "conf"), "b\n");
    assert_eq!(read(&agent, "log"), "a\na\nb\n");
    child.terminate(Signal::TERM);
}

fn a_command_is_refreshed_by_the_section_that_it_names_alone() {
    let agent = Agent::new();
    let text = |forward: u32, dst: &str| {
        format!("rule = []\nsysctl = {{ \"net.ipv4.ip_forward\" = {forward} }}\n")
            + &route(dst, "type = \"blackhole\"")
            + &exec(&agent, "routes", "echo run >> routes", "on = [\"route\"]")
            + &exec(&agent, "sysctls", "echo run >> sysctls", "on = [\"sysctl\"]")
            + &exec(&agent, "rules", "echo run >> rules", "on = [\"rule\"]")
    };
    let applied = |text: &str| {
        let ran = agent.apply(text);
        assert_eq!(ran.code, 0, "{ran:?}");
        [lines(&agent, "routes"), lines(&agent, "sysctls")]
    };
    assert_eq!(applied(&text(1, "10.99.0.0/16")), [1, 1]);
    assert_eq!(applied(&text(1, "10.98.0.0/16")), [2, 1]);
    assert_eq!(applied(&text(0, "10.98.0.0/16")), [2, 2]);
    assert_eq!(applied(&text(0, "10.98.0.0/16")), [2, 2]);
    agent.write("f.toml", &text(0, "10.98.0.0/16"));
    let mut child = watching(&agent);
    wait_until("it runs", || ip_has("10.98.0.0/16"));
    for round in 3..5 {
        ip(&["route", "delete", "blackhole", "10.98.0.0/16"]);
        wait_until("it is refreshed", || lines(&agent, "routes") == round);
    }
    agent.write("f.toml", &text(1, "10.98.0.0/16"));
    wait_until("the other one is", || lines(&agent, "sysctls") == 3);
    child.terminate(Signal::TERM);
    assert_eq!([lines(&agent, "routes"), lines(&agent, "sysctls")], [4, 3]);
    assert_eq!(lines(&agent, "rules"), 0, "no rule has changed");
}

fn a_file_that_leaves_the_declaration_is_removed() {
    let agent = Agent::new();
    let route = route("10.99.0.0/16", "type = \"blackhole\"");
    let both = file(&agent, "ours", "a") + &file(&agent, "taken", "b");
    agent.write("f.toml", &(route.clone() + &both));
    fs::write(agent.directory().join("taken"), "b").unwrap();
    let mut child = watching(&agent);
    wait_until("it is written", || read(&agent, "ours") == "a");
    agent.write("f.toml", &route);
    wait_until("it is removed", || !agent.directory().join("ours").exists());
    child.terminate(Signal::TERM);
    assert_eq!(read(&agent, "taken"), "b", "it was there before");
}

fn a_file_that_left_while_no_agent_ran_is_removed_unless_another_writer_changed_it() {
    let agent = Agent::new();
    let blackhole = route("10.99.0.0/16", "type = \"blackhole\"");
    let has = |name: &str| agent.directory().join(name).exists();
    let files = file(&agent, "one", "a") + &file(&agent, "two", "a") + &file(&agent, "theirs", "a");
    fs::write(agent.directory().join("theirs"), "before").unwrap();
    assert_eq!(agent.apply(&(blackhole.clone() + &files)).code, 0);
    // With new content, another process still treats the file as created by trueup.
    let files = files.replace("content = \"a\"", "content = \"b\"");
    assert_eq!(agent.apply(&(blackhole.clone() + &files)).code, 0);
    fs::write(agent.directory().join("two"), "another writer").unwrap();

    let planned = agent.plan(&blackhole);
    assert_eq!(planned.code, 2, "{planned:?}");
    let planned = agent.run(&["plan", "f.toml"]);
    assert!(
        planned.out.contains(&format!("~ {}   would be removed\n", vertex(&agent, "one"))),
        "{planned:?}"
    );
    let applied = agent.run(&["apply", "f.toml"]);
    assert_eq!(applied.code, 0, "{applied:?}");
    assert!(applied.out.contains(&format!("- {}\n", vertex(&agent, "one"))), "{applied:?}");
    assert_eq!((has("one"), has("two"), has("theirs")), (false, true, true));
    assert_eq!(read(&agent, "two"), "another writer");
    agent.assert_nothing_to_do(&blackhole);
}

fn a_restored_route_refreshes_a_command_once() {
    uplinks(1);
    let agent = Agent::new();
    let [four, _] = FAMILIES;
    let text = via(four.dst, four.gateways[0])
        + &exec(
            &agent,
            "reload",
            &format!("ip route show {} >> log", four.dst),
            "on = [\"route\"]",
        );
    agent.write("f.toml", &text);
    let mut child = watching(&agent);
    wait_until("it is refreshed", || lines(&agent, "log") == 1);
    for round in 2..5 {
        ip(&["route", "delete", four.dst]);
        wait_until("it is refreshed again", || lines(&agent, "log") == round);
    }
    child.terminate(Signal::TERM);
    assert_eq!(lines(&agent, "log"), 4, "each time with the route in place");
}

fn a_new_command_waits_for_the_network_of_the_new_file() {
    let agent = Agent::new();
    agent.write("f.toml", &route("10.98.0.0/16", "type = \"blackhole\""));
    let mut child = watching(&agent);
    wait_until("the first file is in force", || ip_has("10.98.0.0/16"));
    let script = "ip route show type blackhole 10.99.0.0/16 > log";
    let more = "after = [\"route\"]\ncheck = [\"/usr/bin/test\", \"-e\", \"LOG\"]";
    let more = more.replace("LOG", agent.directory().join("log").to_str().unwrap());
    let text = route("10.99.0.0/16", "type = \"blackhole\"") + &exec(&agent, "look", script, &more);
    agent.write("f.toml", &text);
    wait_until("it has run", || agent.directory().join("log").exists());
    wait_until("it has ended", || lines(&agent, "log") == 1);
    child.terminate(Signal::TERM);
}

/// Files change, routes are deleted, and the agent is killed, at random moments.
fn killed_at_random_it_loses_no_refresh_and_nothing_foreign() {
    const KILLS: usize = 25;
    let agent = Agent::new();
    let text = |round: usize| {
        route("10.99.0.0/16", "type = \"blackhole\"")
            + &file(&agent, "conf", &format!("{round}\n"))
            + &exec(&agent, "reload", "cat conf >> log", "on = [\"file.conf\"]")
            + &exec(&agent, "route", "echo run >> routes", "on = [\"route\"]")
    };
    ip(&["route", "add", "blackhole", "10.50.0.0/16"]);
    let mut random = fastrand::Rng::with_seed(7);
    for round in 0..KILLS {
        // Replaced by a rename: the agent never reads part of a file.
        agent.write("new.toml", &text(round));
        let path = |name: &str| agent.directory().join(name);
        let mut child = match round % 2 {
            0 => {
                fs::rename(path("new.toml"), path("f.toml")).unwrap();
                watching(&agent)
            }
            _ => {
                let child = watching(&agent);
                fs::rename(path("new.toml"), path("f.toml")).unwrap();
                child
            }
        };
        thread::sleep(Duration::from_millis(random.u64(0..400)));
        if round % 3 == 0 && ip_has("10.99.0.0/16") {
            ip(&["route", "delete", "blackhole", "10.99.0.0/16"]);
            thread::sleep(Duration::from_millis(random.u64(0..200)));
        }
        child.0.kill().unwrap();
        child.0.wait().unwrap();
    }
    agent.write("f.toml", &text(KILLS));
    let mut child = watching(&agent);
    let last = format!("{KILLS}\n");
    wait_until("the last refresh is delivered", || {
        read(&agent, "log").ends_with(&last) && ip_has("10.99.0.0/16")
    });
    let graph = || agent.run(&["graph", "f.toml"]);
    wait_until("all is in place", || graph().code == 0);
    child.terminate(Signal::TERM);
    assert_eq!(read(&agent, "conf"), last);
    assert!(ip_has("10.50.0.0/16"), "another writer's");
    // A command interrupted by a kill runs once more.
    let log = read(&agent, "log");
    for round in 0..=KILLS {
        let runs = log.lines().filter(|line| *line == round.to_string());
        assert!(runs.count() <= 3, "{round}: {log}");
    }
    assert!(lines(&agent, "routes") > 0);
}

fn another_writer_of_a_file_is_answered_a_few_times_a_second_at_most() {
    let agent = Agent::new();
    agent.write("f.toml", &file(&agent, "conf", "ours"));
    let mut child = watching(&agent);
    let is_ours = || read(&agent, "conf") == "ours";
    wait_until("it is written", is_ours);
    let mut count = 0;
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(3) {
        if is_ours() {
            count += 1;
            fs::write(agent.directory().join("conf"), "theirs").unwrap();
        }
    }
    // A burst of 20 looks, and then 2 a second.
    let most = 21 + (began.elapsed().as_secs_f64() * 2.0) as u32;
    assert!((2..=most).contains(&count), "{count} of {most}");
    wait_until("it is ours in the end", is_ours);
    child.terminate(Signal::TERM);
}

fn ip_has(dst: &str) -> bool {
    !ip(&["route", "show", "type", "blackhole", dst]).is_empty()
}

fn a_signal_waits_for_the_command_that_runs() {
    let agent = Agent::new();
    let script = "touch begun; while test ! -e go; do sleep 0.05; done; echo run >> log";
    let text = file(&agent, "conf", "a") + &exec(&agent, "reload", script, "on = [\"file.conf\"]");
    agent.write("f.toml", &text);
    let mut child = watching(&agent);
    wait_until("it runs", || agent.directory().join("begun").exists());
    kill_process(Pid::from_child(&child.0), Signal::TERM).unwrap();
    agent.write("go", "");
    assert_eq!(child.ended(), 0);
    assert_eq!(lines(&agent, "log"), 1);
    let graph = agent.run(&["graph", "f.toml"]);
    assert_eq!(graph.code, 0, "its refresh is consumed: {graph:?}");
}

fn watch_shows_how_files_and_commands_stand() {
    ip(&["link", "set", "lo", "up"]);
    let agent = Agent::new();
    let text = file(&agent, "conf", "a")
        + &exec(&agent, "reload", "test -e go", "on = [\"file.conf\"]")
        + &exec(&agent, "later", "true", "on = [\"exec.reload\"]");
    agent.write("f.toml", &text);
    let socket = agent.directory().join("metrics");
    let address = format!("unix:{}", socket.display());
    let args = ["watch", "f.toml", "--metrics", &address, "--format", "json"];
    let mut child = agent.spawn(&[&args[..], &RARE].concat());
    let printed = printed(&mut child);
    let page = || {
        let stream = connect(&socket)?;
        Some(samples(&ask(stream, GET)))
    };
    let state = |name: &str, state: &str| {
        let sample = format!("trueup_vertex_state{{state=\"{state}\",vertex=\"{name}\"}}");
        page().is_some_and(|page| page.contains_key(&sample))
    };
    wait_until("it fails", || state("exec.reload", "failed"));
    wait_until("the other one waits", || state("exec.later", "waiting"));
    wait_until("the file is in place", || state(&vertex(&agent, "conf"), "in_place"));
    assert_eq!(page().unwrap()["trueup_converged"], 0.0);
    let has_line = |words: &[&str]| {
        let printed = printed.lock().unwrap();
        let mut lines = printed.lines();
        lines.any(|line| words.iter().all(|word| line.contains(word)))
    };
    let failed = ["\"event\":\"vertex\"", "exec.reload", "\"state\":\"failed\"", "exit code 1"];
    wait_until("its failure is a line", || has_line(&failed));
    agent.write("go", "");
    wait_until("all are in place", || {
        ["exec.reload", "exec.later"].iter().all(|name| state(name, "in_place"))
    });
    assert_eq!(page().unwrap()["trueup_converged"], 1.0);
    child.terminate(Signal::TERM);
}

fn connect(socket: &Path) -> Option<std::os::unix::net::UnixStream> {
    std::os::unix::net::UnixStream::connect(socket).ok()
}

const PAGE: &str = include_str!("../../../../../docs/graph.md");
const EXAMPLE: &str = include_str!("../../../../../docs/examples/site.toml");
const DRAWING: &str = include_str!("../../../../../docs/examples/site.svg");

/// Returns the first block with that language.
fn block(language: &str) -> &'static str {
    let (_, block) = PAGE.split_once(&format!("```{language}\n")).unwrap();
    block.split_once("```").unwrap().0
}

fn the_page_on_the_graph_shows_it() {
    let agent = Agent::new();
    fs::create_dir(agent.directory().join("site")).unwrap();
    assert_eq!(block("toml"), EXAMPLE);
    agent.write("site.toml", EXAMPLE);
    // With a separate /run, which contains the page's directory.
    let run = |args: &str| {
        let script = format!(
            "mount -t tmpfs none /run && mkdir /run/site && mount --bind site /run/site && \
             {TRUEUP} {args} --state state"
        );
        let mut command = Command::new("unshare");
        command.args(["--mount", "sh", "-c", &script]);
        Ran::of(command.current_dir(agent.directory()).output().unwrap())
    };
    for (format, shown) in [("svg", DRAWING), ("dot", block("dot"))] {
        let drawn = run(&format!("graph site.toml --format {format}"));
        assert_eq!(drawn.out, shown);
    }
    let commands = block("console").split("$ trueup ").skip(1);
    for command in commands {
        let (line, shown) = command.split_once('\n').unwrap();
        let (line, code) = line.split_once(" # exits with ").unwrap_or((line, "0"));
        let ran = run(line);
        assert_eq!(ran.code.to_string(), code, "{ran:?}");
        // Independent files and commands run in any order.
        let sorted = |text: &str| {
            let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
            lines.sort();
            lines
        };
        assert_eq!(sorted(&ran.out), sorted(shown), "{line}");
    }
}
