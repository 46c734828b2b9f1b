//! A state directory that is removed while `watch` runs, as happens to a user's at logout.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;

use rustix::process::{Pid, Signal, kill_process};
use trueup_testkit::{Snapshot, wait_until};

use crate::agent::Agent;
use crate::watch::{printed, said};

const OURS: &str = "link = [{ name = \"ours\", kind = \"ifb\" }]\n";

fn is_there() -> bool {
    Snapshot::take().index_of("ours").is_some()
}

pub(crate) fn a_removed_state_directory_is_made_anew() {
    let agent = Agent::new();
    agent.write("f.toml", OURS);
    let mut child = agent.spawn(&["watch", "f.toml"]);
    let (said, printed) = (said(&mut child), printed(&mut child));
    wait_until("it converges", || printed.lock().unwrap().contains("converged"));
    assert!(is_there());
    for times in 1..=2 {
        fs::remove_dir_all(agent.state()).unwrap();
        wait_until("it says so", || {
            let said = said.lock().unwrap();
            said.matches("was removed, and was made anew").count() == times
        });
    }
    let second = agent.run(&["apply", "f.toml"]);
    second.assert_refused(&["another trueup writes to this namespace"]);
    agent.write("f.toml", "link = []\n");
    wait_until("what is ours is still known", || !is_there());
    child.terminate(Signal::TERM);
}

pub(crate) fn an_agent_whose_state_another_one_has_taken_ends() {
    for is_running in [true, false] {
        let agent = Agent::new();
        agent.write("f.toml", OURS);
        let mut first = agent.spawn(&["watch", "f.toml"]);
        let (said, first_printed) = (said(&mut first), printed(&mut first));
        wait_until("it converges", || first_printed.lock().unwrap().contains("converged"));
        let pid = Pid::from_child(&first.0);
        kill_process(pid, Signal::STOP).unwrap();
        fs::remove_dir_all(agent.state()).unwrap();
        // The second agent has no record of the first one's link, so it does not own it.
        let other = format!("other-{is_running}");
        agent.write("g.toml", &OURS.replace("ours", &other));
        let mut second = agent.spawn(&["watch", "g.toml"]);
        let second_printed = printed(&mut second);
        wait_until("it converges", || second_printed.lock().unwrap().contains("converged"));
        if !is_running {
            second.terminate(Signal::TERM);
        }
        kill_process(pid, Signal::CONT).unwrap();
        assert_eq!(first.ended(), 1);
        wait_until("it says why", || {
            let said = said.lock().unwrap();
            said.contains("was removed") && said.contains("another trueup writes")
        });
        assert!(is_there(), "nothing is lost");
    }
}

pub(crate) fn an_agent_that_cannot_make_its_state_anew_ends() {
    let agent = Agent::new();
    agent.write("f.toml", OURS);
    let mut child = agent.spawn(&["watch", "f.toml"]);
    let (said, printed) = (said(&mut child), printed(&mut child));
    wait_until("it converges", || printed.lock().unwrap().contains("converged"));
    fs::set_permissions(agent.directory(), Permissions::from_mode(0o777)).unwrap();
    fs::remove_dir_all(agent.state()).unwrap();
    assert_eq!(child.ended(), 1);
    wait_until("it says why", || {
        let said = said.lock().unwrap();
        said.contains("was removed") && said.contains("everybody can write it")
    });
    fs::set_permissions(agent.directory(), Permissions::from_mode(0o755)).unwrap();
}
