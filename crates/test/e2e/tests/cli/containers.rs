//! Several runs of an agent in one namespace: the program shown in `docs/agents.md`, word for word,
//! against the kernel.

use std::env;
use std::process::Command;
use std::thread;

use trueup_testkit::{Kind, Scratch, Snapshot, assert_no_changes, uplinks};

/// A temporary directory for a journal.
struct Desk(Scratch);

impl Desk {
    fn new(name: &str) -> Desk {
        Desk(Scratch::make(name).unwrap())
    }

    /// Returns a command that runs the example for one container.
    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_example-container"));
        command.arg(self.0.join("journal")).args(words);
        command
    }

    fn run(&self, words: &[&str]) {
        let output = self.command(words).output().unwrap();
        assert_eq!(output.stdout, b"converged: true\n", "{words:?}: {output:?}");
    }
}

fn routes(snapshot: &Snapshot) -> usize {
    snapshot.routes_with_protocol(121).len()
}

pub(crate) fn a_second_container_leaves_the_first_and_each_goes_alone() {
    uplinks(2);
    let desk = Desk::new("agents");
    let before = Snapshot::settled();
    desk.run(&["ADD", "a", "up0", "10.88.0.2"]);
    let with_a = Snapshot::settled();
    assert_eq!(routes(&with_a), 1);
    desk.run(&["ADD", "b", "up1", "10.88.0.3"]);
    let with_both = Snapshot::settled();
    assert_eq!(routes(&with_both), 2);
    let without_b = with_both.clone().without_devices(&["up1"]);
    with_a.clone().without_devices(&["up1"]).assert_same(&without_b);
    assert_no_changes(|| desk.run(&["ADD", "a", "up0", "10.88.0.2"]));

    desk.run(&["DEL", "a"]);
    let with_b = Snapshot::settled();
    assert_eq!(routes(&with_b), 1);
    let without_a = with_both.without_devices(&["up0"]);
    without_a.assert_same(&with_b.clone().without_devices(&["up0"]));
    let of_up0 = before.clone().without_devices(&["up1"]);
    of_up0.assert_same(&with_b.without_devices(&["up1"]));
    assert_no_changes(|| desk.run(&["DEL", "a"]));
    desk.run(&["DEL", "b"]);
    before.assert_same(&Snapshot::settled());
}

pub(crate) fn containers_at_the_same_time_each_get_theirs() {
    uplinks(4);
    let desk = Desk::new("agents-at-once");
    let before = Snapshot::settled();
    let runs = |words: [&[&str]; 4]| {
        thread::scope(|scope| {
            for words in &words {
                scope.spawn(|| desk.run(words));
            }
        });
    };
    runs([
        &["ADD", "a", "up0", "10.88.0.2"],
        &["ADD", "b", "up1", "10.88.0.3"],
        &["ADD", "c", "up2", "10.88.0.4"],
        &["ADD", "d", "up3", "10.88.0.5"],
    ]);
    let after = Snapshot::settled();
    assert_eq!(routes(&after), 4);
    assert_eq!(after.of(Kind::Address).count(), before.of(Kind::Address).count() + 4);
    runs([&["DEL", "a"], &["DEL", "b"], &["DEL", "c"], &["DEL", "d"]]);
    before.assert_same(&Snapshot::settled());
}

pub(crate) fn the_page_on_agents_shows_it() {
    let example = include_str!("../../../../agent/trueup/examples/container.rs");
    let program = example.split_once("\n\n").unwrap().1;
    assert!(
        include_str!("../../../../../docs/agents.md").contains(program),
        "docs/agents.md shows another one"
    );
}
