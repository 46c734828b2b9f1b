//! An agent from a user's crate, with its own section beside routes.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};

use trueup_testkit::{ip, wait_until};

use crate::agent::Agent;

pub(crate) fn an_agent_with_a_section_of_its_own_keeps_files_and_routes() {
    ip(&["link", "set", "lo", "up"]);
    let desk = Agent::new();
    let made = desk.directory().join("made");
    let file = desk.directory().join("agent.toml");
    let declare = |content: &str| {
        let path = made.display();
        fs::write(
            &file,
            format!(
                "[[route]]\ndst = \"10.2.0.0/16\"\ndev = \"lo\"\n\
                 [[directory]]\npath = \"{path}\"\ncontent = \"{content}\"\n"
            ),
        )
        .unwrap();
    };
    declare("one");
    let mut agent = Command::new(env!("CARGO_BIN_EXE_example-directory"))
        .arg(&file)
        .arg(desk.state())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let has = |content: &str| fs::read_to_string(&made).is_ok_and(|found| found == content);
    wait_until("the file and the route are made", || {
        has("one") && !ip(&["route", "show", "10.2.0.0/16"]).is_empty()
    });
    fs::write(&made, "two").unwrap();
    ip(&["route", "del", "10.2.0.0/16"]);
    wait_until("both are repaired", || {
        has("one") && !ip(&["route", "show", "10.2.0.0/16"]).is_empty()
    });
    declare("three");
    wait_until("the new file is in force", || has("three"));
    // An empty list is managed, so the objects are deleted.
    let text = fs::read_to_string(&file).unwrap();
    let (routes, _) = text.split_once("[[directory]]").unwrap();
    fs::write(&file, format!("directory = []\n{routes}")).unwrap();
    wait_until("what is no longer declared is removed", || !made.exists());
    agent.kill().unwrap();
    agent.wait().unwrap();
    let lines = BufReader::new(agent.stdout.take().unwrap()).lines();
    let lines: Vec<String> = lines.map(Result::unwrap).collect();
    let has_event = |words: [&str; 2]| {
        let mut lines = lines.iter();
        lines.any(|line| words.iter().all(|word| line.contains(word)))
    };
    assert!(has_event(["report ", "\"command\":\"create directory "]), "{lines:#?}");
    assert!(has_event(["drift ", "\"directory\":1"]), "{lines:#?}");
}
