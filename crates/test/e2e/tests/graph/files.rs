//! Files and commands whose surroundings change: directories that are missing or replaced, renamed
//! sections, and changes without an announcement.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;
use std::process::Command;

use rustix::process::{Pid, Signal, kill_process};
use trueup_testkit::{ip, named_netns, wait_until};

use crate::agent::{Agent, Ran, Running, TRUEUP};
use crate::watch::{FAST, printed};
use crate::{exec, file, read, vertex, watching};

/// Returns a `[[file]]` with this name and a path in the agent's directory.
fn at(agent: &Agent, name: &str, path: &str, more: &str) -> String {
    let path = agent.directory().join(path);
    format!("[[file]]\nname = {name:?}\npath = {path:?}\n{more}\n")
}

/// Starts an agent that checks everything a few times a second.
fn looking(agent: &Agent) -> Running {
    agent.spawn(&[&["watch", "f.toml"], &FAST[..]].concat())
}

pub(crate) fn a_file_without_a_folder_has_failed_until_the_folder_is_there() {
    let agent = Agent::new();
    let text = at(&agent, "early", "sub/conf", "content = \"a\"")
        + &file(&agent, "conf", "a")
        + &at(&agent, "copy", "copy", "source = \"SUB/source\"")
            .replace("SUB", &agent.directory().join("sub").display().to_string());
    agent.write("f.toml", &text);
    let mut child = watching(&agent);
    let printed = printed(&mut child);
    for path in ["sub/conf", "copy"] {
        let failed = format!("! {}   (failed", vertex(&agent, path));
        wait_until("it has failed", || printed.lock().unwrap().contains(&failed));
    }
    wait_until("that is why it is not converged", || {
        let why = format!("not converged: {}", vertex(&agent, "copy"));
        printed.lock().unwrap().contains(&why)
    });
    let sub = agent.directory().join("sub");
    fs::create_dir(&sub).unwrap();
    fs::write(sub.join("source"), "b").unwrap();
    wait_until("both are written", || {
        read(&agent, "sub/conf") == "a" && read(&agent, "copy") == "b"
    });
    wait_until("it converges", || printed.lock().unwrap().ends_with("\nconverged\n"));
    // The directory is renamed, and replaced by another.
    fs::rename(&sub, agent.directory().join("away")).unwrap();
    fs::create_dir(&sub).unwrap();
    fs::write(sub.join("source"), "c").unwrap();
    wait_until("it is written there", || {
        read(&agent, "sub/conf") == "a" && read(&agent, "copy") == "c"
    });
    child.terminate(Signal::TERM);
}

pub(crate) fn all_files_share_one_inotify_instance() {
    const FILES: usize = 200;
    let agent = Agent::new();
    let names = || (0..FILES).map(|n| format!("conf{n}"));
    let text: String = names().map(|name| file(&agent, &name, "a")).collect();
    agent.write("f.toml", &text);
    let mut child = watching(&agent);
    wait_until("all are written", || names().all(|name| read(&agent, &name) == "a"));
    let descriptors = fs::read_dir(format!("/proc/{}/fd", child.0.id())).unwrap();
    let targets = descriptors.filter_map(|it| fs::read_link(it.unwrap().path()).ok());
    let instances = targets.filter(|to| to == Path::new("anon_inode:inotify"));
    // The other instance is for the declaration.
    assert!(instances.count() <= 2);
    agent.write("conf0", "b");
    agent.write("conf199", "b");
    wait_until("both are restored", || {
        read(&agent, "conf0") == "a" && read(&agent, "conf199") == "a"
    });
    child.terminate(Signal::TERM);
}

pub(crate) fn a_section_that_is_renamed_keeps_its_file() {
    let agent = Agent::new();
    let conf = |name: &str, content: &str| {
        agent.write("f.toml", &at(&agent, name, "conf", &format!("content = {content:?}")));
        let ran = agent.run(&["apply", "f.toml"]);
        assert_eq!(ran.code, 0, "{ran:?}");
        read(&agent, "conf")
    };
    assert_eq!(conf("one", "a"), "a");
    assert_eq!(conf("two", "a"), "a");
    assert_eq!(conf("three", "b"), "b");
    let mut child = watching(&agent);
    let printed = printed(&mut child);
    wait_until("it converges", || printed.lock().unwrap().contains("converged"));
    agent.write("f.toml", &at(&agent, "four", "conf", "content = \"c\""));
    wait_until("it has the new content", || read(&agent, "conf") == "c");
    child.terminate(Signal::TERM);
    agent.write("f.toml", "route = []");
    let ran = agent.run(&["apply", "f.toml"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(!agent.directory().join("conf").exists(), "it was ours");
}

pub(crate) fn what_no_announcement_tells_of_is_found_at_the_interval() {
    let agent = Agent::new();
    let dir = agent.directory().to_owned();
    // As the kubelet does: replaces a link to a directory.
    for (folder, content) in [("vol/v1", "one"), ("vol/v2", "two")] {
        fs::create_dir_all(dir.join(folder)).unwrap();
        fs::write(dir.join(folder).join("key"), content).unwrap();
    }
    for folder in ["etc1", "etc2", "deep/a/b"] {
        fs::create_dir_all(dir.join(folder)).unwrap();
    }
    let exchange = |to: &str, link: &str| {
        symlink(to, dir.join("new")).unwrap();
        fs::rename(dir.join("new"), dir.join(link)).unwrap();
    };
    exchange("v1", "vol/..data");
    symlink("..data/key", dir.join("vol/key")).unwrap();
    exchange("etc1", "etc");
    let source = format!("source = {:?}", dir.join("vol/..data/key"));
    let text = at(&agent, "copy", "copy", &source)
        + &at(&agent, "linked", "etc/conf", "content = \"a\"")
        + &at(&agent, "deep", "deep/a/b/conf", "content = \"a\"")
        + &file(&agent, "hard", "a");
    agent.write("f.toml", &text);
    let mut child = looking(&agent);
    wait_until("all are written", || {
        read(&agent, "copy") == "one"
            && ["etc1/conf", "deep/a/b/conf", "hard"].map(|it| read(&agent, it)) == ["a"; 3]
    });
    exchange("v2", "vol/..data");
    wait_until("the new source is copied", || read(&agent, "copy") == "two");
    exchange("etc2", "etc");
    wait_until("the file is in the other folder", || read(&agent, "etc2/conf") == "a");
    fs::rename(dir.join("deep"), dir.join("former")).unwrap();
    fs::create_dir_all(dir.join("deep/a/b")).unwrap();
    wait_until("the file is in the new folder", || read(&agent, "deep/a/b/conf") == "a");
    fs::create_dir(dir.join("beside")).unwrap();
    fs::hard_link(dir.join("hard"), dir.join("beside/other")).unwrap();
    fs::write(dir.join("beside/other"), "b").unwrap();
    wait_until("the write is undone", || read(&agent, "hard") == "a");
    child.terminate(Signal::TERM);
}

pub(crate) fn what_failed_for_good_is_looked_at_again_after_a_signal() {
    let agent = Agent::new();
    let touch = format!("#!/bin/sh\ntouch {}/done\n", agent.directory().display());
    let script = agent.write("script", &touch);
    let more = "check = [\"/bin/test\", \"-e\", \"/no/such\"]";
    let text = format!("[[exec]]\nname = \"a\"\ncommand = [{script:?}]\n{more}\n");
    agent.write("f.toml", &text);
    let mut child = watching(&agent);
    let printed = printed(&mut child);
    wait_until("it is not executable", || printed.lock().unwrap().contains("make it executable"));
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    kill_process(Pid::from_child(&child.0), Signal::HUP).unwrap();
    wait_until("it runs", || agent.directory().join("done").exists());
    child.terminate(Signal::TERM);
}

pub(crate) fn a_daemon_that_a_command_has_started_can_write_to_its_standard_error() {
    let agent = Agent::new();
    let script =
        "( while ! test -e go; do sleep 0.05; done; echo hello >&2 && touch alive ) & true";
    let text = file(&agent, "conf", "a")
        + &exec(&agent, "daemon", script, "on = [\"file.conf\"]")
        + &exec(&agent, "bad", "echo why >&2; exit 3", "on = [\"file.conf\"]");
    agent.write("f.toml", &text);
    let ran = agent.run(&["apply", "f.toml"]);
    assert!(
        ran.err.contains("exit code 3: why") || ran.out.contains("exit code 3: why"),
        "{ran:?}"
    );
    agent.write("go", "");
    wait_until("it wrote", || agent.directory().join("alive").exists());
}

pub(crate) fn a_file_that_is_a_mount_point_is_written_in_place() {
    let agent = Agent::new();
    agent.write("below", "of the container");
    agent.write("conf", "");
    agent.write("f.toml", &file(&agent, "conf", "declared"));
    let script = format!(
        "mount --bind below conf && {TRUEUP} apply f.toml --state state && cat conf && \
         {TRUEUP} apply f.toml --state state"
    );
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", &script]);
    let ran = Ran::of(command.current_dir(agent.directory()).output().unwrap());
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(ran.out.contains("declared"), "{ran:?}");
    assert_eq!(read(&agent, "below"), "declared");
    assert_eq!(read(&agent, "conf"), "", "the file below the mount");
}

pub(crate) fn a_first_apply_has_what_files_and_commands_need_of_each_other() {
    for _ in 0..10 {
        let agent = Agent::new();
        let dir = agent.directory().display().to_string();
        let text = at(&agent, "conf", "app/a/conf", "content = \"a\"")
            + &at(&agent, "run", "run", "mode = \"0755\"")
            + "content = \"#!/bin/sh\\nmkdir -p $1/a && cp $2 $1/copy\\n\"\n"
            + &at(&agent, "check", "check", "mode = \"0755\"")
            + "content = \"#!/bin/sh\\ntest -e $1/copy\\n\"\n"
            + &file(&agent, "argument", "b")
            + &format!(
                "[[exec]]\nname = \"make\"\ncommand = [\"{dir}/run\", \"{dir}/app\", \"{dir}/argument\"]\n\
                 check = [\"{dir}/check\", \"{dir}/app\"]\n"
            );
        agent.write("f.toml", &text);
        let ran = agent.run(&["apply", "f.toml"]);
        assert_eq!(ran.code, 0, "{ran:?}");
        assert_eq!(["app/a/conf", "app/copy"].map(|it| read(&agent, it)), ["a", "b"]);
        assert_eq!(agent.run(&["apply", "f.toml"]).out, "converged\n");
    }
}

pub(crate) fn a_file_is_kept_without_an_inotify_instance() {
    let agent = Agent::new();
    agent.write("f.toml", &file(&agent, "conf", "a"));
    let script = format!(
        "echo 0 > /proc/sys/user/max_inotify_instances && \
         exec {TRUEUP} watch f.toml --state state --interval 0.2"
    );
    let mut command = Command::new("unshare");
    command.args(["--user", "--map-root-user", "--net", "sh", "-c", &script]);
    let mut child = Running::of(command.current_dir(agent.directory()));
    wait_until("it is written", || read(&agent, "conf") == "a");
    agent.write("conf", "b");
    wait_until("it is restored", || read(&agent, "conf") == "a");
    child.terminate(Signal::TERM);
}

/// This is like a reboot: only the name stays the same.
pub(crate) fn files_and_commands_outlive_a_namespace_with_a_name() {
    let agent = Agent::new();
    let script = "test -e go && echo run >> log";
    let conf = file(&agent, "conf", "a");
    let both = conf.clone() + &exec(&agent, "reload", script, "on = [\"file.conf\"]");
    agent.write("f.toml", &both);
    let name = format!("lasting{}", std::process::id());
    let apply = || agent.run(&["apply", "f.toml", "--netns", &name]);
    let namespace = named_netns(&name);
    let ran = apply();
    assert_eq!((ran.code, read(&agent, "conf").as_str()), (2, "a"), "{ran:?}");
    drop(namespace);
    let namespace = named_netns(&name);
    let graph = agent.run(&["graph", "f.toml", "--netns", &name]);
    assert!(graph.out.contains("exec.reload   would change; 1 refresh"), "{graph:?}");
    agent.write("go", "");
    let ran = apply();
    assert_eq!((ran.code, read(&agent, "log").as_str()), (0, "run\n"), "{ran:?}");
    drop(namespace);
    let _namespace = named_netns(&name);
    agent.write("f.toml", "route = []\n");
    assert_eq!(apply().code, 0);
    assert!(!agent.directory().join("conf").exists(), "it is still known as ours");
}

pub(crate) fn a_file_comes_after_what_it_names() {
    let agent = Agent::new();
    let path = |name: &str| agent.directory().join(name);
    let copy = format!(
        "[[file]]\nname = \"copy\"\npath = {:?}\nsource = {:?}\non = [\"exec.make\"]\n",
        path("copy"),
        path("made"),
    );
    let script = "test ! -e fails && cat conf > made";
    let declared = |content: &str| {
        copy.clone()
            + &file(&agent, "conf", content)
            + &exec(&agent, "make", script, "on = [\"file.conf\"]")
    };
    for content in ["a", "b", "c"] {
        agent.write("f.toml", &declared(content));
        let ran = agent.run(&["apply", "f.toml"]);
        assert_eq!((ran.code, read(&agent, "copy").as_str()), (0, content), "{ran:?}");
    }
    // A failure holds it back.
    agent.write("fails", "");
    agent.write("f.toml", &declared("d"));
    let ran = agent.run(&["apply", "f.toml"]);
    assert_eq!((ran.code, read(&agent, "copy").as_str()), (2, "c"), "{ran:?}");
    assert!(ran.out.contains("skipped because exec.make failed"), "{ran:?}");

    let cycle = declared("a").replace("[\"file.conf\"]", "[\"file\"]");
    agent.write("f.toml", &cycle);
    let cycle = "f.toml:1:1: a cycle: file.copy runs after exec.make runs after file.copy";
    agent.run(&["apply", "f.toml"]).assert_refused(&[cycle]);
}

pub(crate) fn a_command_that_a_killed_agent_has_left_is_waited_for() {
    let agent = Agent::new();
    let script = "echo begin >> log; if test ! -e once; then touch once; sleep 3; fi; \
                  echo end >> log";
    let text = file(&agent, "conf", "a") + &exec(&agent, "slow", script, "on = [\"file.conf\"]");
    agent.write("f.toml", &text);
    let mut first = agent.spawn(&["apply", "f.toml"]);
    wait_until("it runs", || agent.directory().join("once").exists());
    first.0.kill().unwrap();
    let ran = agent.run(&["apply", "f.toml"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert_eq!(read(&agent, "log"), "begin\nend\nbegin\nend\n");
}

pub(crate) fn a_command_runs_in_the_namespace_that_it_names() {
    let agent = Agent::new();
    let script = "readlink /proc/self/ns/net > ";
    let command = |name: &str, more: &str| {
        let more = format!(
            "check = [\"/usr/bin/test\", \"-e\", {:?}]\n{more}",
            agent.directory().join(name)
        );
        exec(&agent, name, &format!("{script}{name}"), &more)
    };
    agent.write("f.toml", &(command("here", "") + &command("there", "netns = true")));
    let name = format!("named{}", std::process::id());
    let namespace = named_netns(&name);
    let there = ip(&["netns", "exec", &name, "readlink", "/proc/self/ns/net"]);
    let ran = agent.run(&["apply", "f.toml", "--netns", &name]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert_eq!(read(&agent, "there"), there);
    assert_ne!(read(&agent, "here"), there);
    drop(namespace);
}

pub(crate) fn as_process_one_it_waits_for_what_ends() {
    let agent = Agent::new();
    // Grandchildren that lose their parent, and end.
    let script = "for i in 1 2; do (sleep 0.2; echo >> orphans) & done; sleep 0.1";
    let text = file(&agent, "conf", "a") + &exec(&agent, "leave", script, "on = [\"file.conf\"]");
    agent.write("f.toml", &text);
    let watch = agent.command(&["watch", "f.toml"]);
    let mut first = Command::new("unshare");
    first
        .args(["--pid", "--fork"])
        .arg(watch.get_program())
        .args(watch.get_args())
        .current_dir(agent.directory());
    let mut first = Running::of(&mut first);
    let unshare = first.0.id();
    let children = |pid: &str| {
        let path = format!("/proc/{pid}/task/{pid}/children");
        let children = fs::read_to_string(path).unwrap_or_default();
        let children = children.split_whitespace().map(str::to_owned);
        children.collect::<Vec<String>>()
    };
    wait_until("the orphans have ended", || read(&agent, "orphans") == "\n\n");
    let init = children(&unshare.to_string()).pop().unwrap();
    wait_until("only the agent is left", || children(&init).len() == 1);
    assert_ne!(read(&agent, "conf"), "");
    let init = Pid::from_raw(init.parse().unwrap()).unwrap();
    kill_process(init, Signal::TERM).unwrap();
    assert_eq!(first.ended(), 0, "{}", first.err());
}
