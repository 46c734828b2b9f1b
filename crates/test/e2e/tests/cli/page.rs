//! Runs the commands of the crate's README and of the main README, in their order.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::symlink;
use std::process::Command;

use rustix::process::Signal;
use trueup_e2e::page::Page;
use trueup_testkit::named_netns;

use crate::agent::{Agent, Ran, Running, TRUEUP};

const PAGE: &str = include_str!("../../../../agent/cli/README.md");
const EXAMPLE: &str = include_str!("../../../../../docs/examples/edge.toml");

/// Returns the lines of the page's `console` blocks that begin with `$`, each with the exit code in
/// its comment, or 0.
fn commands() -> Vec<(&'static str, i32)> {
    let mut inside = false;
    let mut commands = Vec::new();
    for line in PAGE.lines() {
        match line {
            "```console" => inside = true,
            "```" => inside = false,
            _ => {}
        }
        if let Some(command) = line.strip_prefix("$ ").filter(|_| inside) {
            let (command, comment) = command.split_once(" # ").unwrap_or((command, ""));
            let code = comment.strip_prefix("exits with ").map_or(0, |code| code.parse().unwrap());
            commands.push((command.trim(), code));
        }
    }
    commands
}

pub(crate) fn every_command_of_the_page_does_as_it_says() {
    let agent = Agent::new();
    agent.write("edge.toml", EXAMPLE);
    let _blue = named_netns("blue");
    let commands = commands();
    assert!(commands.len() >= 8, "{commands:?}");
    run(&agent, &commands);
}

pub(crate) fn the_commands_of_the_readme_bring_the_example_up() {
    let agent = Agent::new();
    fs::create_dir_all(agent.directory().join("docs/examples")).unwrap();
    agent.write("docs/examples/edge.toml", EXAMPLE);
    let page = Page::read("README.md");
    let blocks = page.blocks();
    let shown = blocks.iter().find(|block| block.text.starts_with("trueup plan ")).unwrap();
    let commands: Vec<&str> = shown
        .text
        .lines()
        .map(|line| line.split_once(" # ").map_or(line, |(command, _)| command).trim())
        .collect();
    let [plan, ..] = commands[..] else {
        panic!("the README shows no commands");
    };
    assert!(commands.len() >= 4, "{commands:?}");
    assert!(plan.starts_with("trueup plan "), "{plan}");
    // The first pass has something to do, and after the last there is nothing.
    let codes = std::iter::once(2).chain(std::iter::repeat(0));
    let mut commands: Vec<_> = commands.iter().copied().zip(codes).collect();
    commands.push((plan, 0));
    run(&agent, &commands);
}

pub(crate) fn the_first_file_is_that_of_the_readme_and_does_as_it_shows() {
    let page = Page::read("README.md");
    let first = include_str!("../../../../../docs/examples/first.toml");
    assert!(page.blocks().iter().any(|block| block.language == "toml" && block.text == first));
    assert_eq!(first.lines().count(), 12);
    let blocks = page.blocks();
    let shown = blocks.iter().find(|block| block.text.starts_with("$ unshare ")).unwrap();
    let agent = Agent::new();
    agent.write("first.toml", first);
    // The namespace is the test's own.
    let (shell, commands) = shown.text.split_once('\n').unwrap();
    let mut printed = format!("{shell}\n");
    for command in commands.lines().filter_map(|line| line.strip_prefix("# trueup ")) {
        let ran = agent.run(&command.split(' ').collect::<Vec<_>>());
        assert_eq!(ran.err, "");
        printed += &format!("# trueup {command}\n{}", ran.out);
    }
    page.assert_shows(&printed, str::to_owned);
}

/// Runs commands in the agent's directory, and checks each exit code.
fn run(agent: &Agent, commands: &[(&str, i32)]) {
    let programs = agent.directory().join("programs");
    fs::create_dir(&programs).unwrap();
    symlink(TRUEUP, programs.join("trueup")).unwrap();
    let path = format!("{}:{}", programs.display(), std::env::var("PATH").unwrap());
    for &(command, code) in commands {
        // Signals must reach the program, not the shell.
        let command =
            if command.contains('|') { command.to_owned() } else { format!("exec {command}") };
        let mut shell = Command::new("sh");
        shell.args(["-c", &command]).env("PATH", &path).current_dir(agent.directory());
        if command.starts_with("exec trueup watch") {
            let mut child = Running::of(&mut shell);
            let mut first = String::new();
            let out = child.0.stdout.as_mut().unwrap();
            BufReader::new(out).read_line(&mut first).unwrap();
            child.terminate(Signal::TERM);
            continue;
        }
        let ran = Ran::of(shell.output().unwrap());
        assert_eq!(ran.code, code, "{command}: {ran:?}");
    }
}
