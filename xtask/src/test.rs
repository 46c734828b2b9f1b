//! `cargo xtask test`: everything that has to hold before a change is taken. The last line of the
//! output is the count of tests.

use std::env;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use crate::steps::Steps;
use crate::tools::{Result, cargo, line, need_component, need_ip, show_and_run};

/// The fuzz targets are a workspace of their own; without libFuzzer they are driven by mutations of
/// valid input.
const FUZZ: [&str; 2] = ["--manifest-path", "fuzz/Cargo.toml"];

/// The cases of properties are the same each time, unless another seed is given: a change is not to
/// fail by what it did not do.
const SEED: (&str, &str) = ("PROPTEST_RNG_SEED", "116");

/// Runs it.
pub(crate) fn run() -> Result<()> {
    need_ip()?;
    need_component("fmt", "rustfmt")?;
    need_component("clippy", "clippy")?;

    let lint = [
        "clippy",
        "--workspace",
        "--all-targets",
        "--all-features",
        "--",
        "-Dwarnings",
    ];
    let mut steps = Steps::default();
    steps.run("format", || {
        show_and_run(&mut cargo(&["fmt", "--all", "--check"]))?;
        show_and_run(&mut cargo(&["fmt", FUZZ[0], FUZZ[1], "--check"]))
    });
    steps.run("clippy", || show_and_run(&mut cargo(&lint)));
    steps.run("documentation", || {
        let mut docs = cargo(&["doc", "--quiet", "--workspace", "--no-deps"]);
        show_and_run(docs.env("RUSTDOCFLAGS", "-Dwarnings"))
    });
    let mut count = Count::default();
    let all = ["test", "--workspace", "--all-features", "--no-fail-fast"];
    steps.run("tests", || tests(cargo(&all), &mut count));
    steps.run("fuzz targets", || {
        tests(cargo(&["test", FUZZ[0], FUZZ[1]]), &mut count)
    });
    // What nothing shows any more is a failure, too.
    steps.run("scenarios", || {
        show_and_run(&mut cargo(&["xtask", "scenarios"]))
    });
    steps.run("demo", || show_and_run(&mut cargo(&["xtask", "demo"])));
    steps.run("counts", || show_and_run(&mut cargo(&["xtask", "counts"])));
    steps.run("count of tests", || match count.passed {
        0 => Err("no test passed".to_owned()),
        _ => Ok(()),
    });
    let ended = steps.end();
    println!(
        "{} passed, {} failed, {} skipped",
        count.passed, count.failed, count.skipped
    );
    ended
}

/// Unit, property, doc and kernel tests; the last are targets with a `main` of their own, as they
/// enter a namespace.
fn tests(mut command: Command, count: &mut Count) -> Result<()> {
    let name = line(&command);
    println!("$ {name}");
    if env::var_os(SEED.0).is_none() {
        command.env(SEED.0, SEED.1);
    }
    let failed = |error: std::io::Error| format!("{name}: {error}");
    let mut child = command.stdout(Stdio::piped()).spawn().map_err(failed)?;
    if let Some(stdout) = child.stdout.take() {
        for text in BufReader::new(stdout).split(b'\n') {
            let text = text.map_err(failed)?;
            let text = String::from_utf8_lossy(&text);
            println!("{text}");
            count.add(&text);
        }
    }
    let status = child.wait().map_err(failed)?;
    status
        .success()
        .then_some(())
        .ok_or_else(|| format!("{name}: {status}"))
}

/// The sum over the summaries of all test programs.
#[derive(Debug, Default, PartialEq, Eq)]
struct Count {
    passed: u64,
    failed: u64,
    skipped: u64,
}

impl Count {
    /// Takes in a line such as `test result: ok. 3 passed; 0 failed; 1 ignored; ...`; others count
    /// nothing.
    fn add(&mut self, line: &str) {
        let Some((_, numbers)) = line
            .strip_prefix("test result: ")
            .and_then(|rest| rest.split_once(". "))
        else {
            return;
        };
        for part in numbers.split("; ") {
            if let Some((number, word)) = part.split_once(' ')
                && let Ok(number) = number.parse::<u64>()
            {
                match word {
                    "passed" => self.passed += number,
                    "failed" => self.failed += number,
                    "ignored" => self.skipped += number,
                    _ => {}
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn summaries_add_up_and_other_lines_do_not_count() {
        let mut count = Count::default();
        for line in [
            "test result: ok. 11 passed; 0 failed; 2 ignored; 0 measured; 0 filtered out; finished in 0.00s",
            "test result: FAILED. 1 passed; 3 failed; 0 ignored; 0 measured; 7 filtered out; finished in 1.2s",
            "test 9 passed; ... ok",
            "test result: nonsense",
        ] {
            count.add(line);
        }
        let (passed, failed, skipped) = (12, 3, 2);
        assert_eq!(
            count,
            Count {
                passed,
                failed,
                skipped
            }
        );
    }
}
