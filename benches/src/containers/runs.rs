//! Runs processes at once, or one after the other, and times each from its start to its end.

use std::io::Write as _;
use std::process::{Command, Stdio};
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow, bail, ensure};
use trueup_works::clock::processor_of_children;

/// The time limit of a single process.
const BOUND: Duration = Duration::from_secs(60);

/// A process to start, and its input.
pub(super) struct Run {
    pub(super) command: Command,
    pub(super) input: String,
    /// The expected output; `None` if it is not checked.
    pub(super) prints: Option<&'static str>,
}

/// The costs of several processes.
#[derive(Default)]
pub(super) struct Took {
    pub(super) each: Vec<Duration>,
    pub(super) total: Duration,
    pub(super) processor: Duration,
}

impl Run {
    /// Runs it to its end, and fails unless it succeeds. Returns its time.
    fn finish(&mut self) -> Result<Duration> {
        let start = Instant::now();
        let mut child = self
            .command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .with_context(|| format!("{:?}", self.command.get_program()))?;
        if let Some(mut input) = child.stdin.take() {
            // The process may end without reading.
            let _ = input.write_all(self.input.as_bytes());
        }
        let output = child.wait_with_output()?;
        let took = start.elapsed();
        let text = String::from_utf8_lossy(&output.stdout);
        let is_good = output.status.success() && self.prints.is_none_or(|due| due == text);
        ensure!(
            is_good,
            "{:?}: {}: {text}{}",
            self.command,
            output.status,
            String::from_utf8_lossy(&output.stderr)
        );
        ensure!(took < BOUND, "{:?} took {took:?}", self.command);
        Ok(took)
    }

    /// Runs it, and kills it after `delay` unless it has ended.
    pub(super) fn kill_after(&mut self, delay: Duration) -> Result<()> {
        let command = self.command.stdin(Stdio::null()).stdout(Stdio::null());
        let mut child = command.stderr(Stdio::null()).spawn()?;
        thread::sleep(delay);
        child.kill()?;
        child.wait()?;
        Ok(())
    }
}

impl Took {
    pub(super) fn add(&mut self, other: Took) {
        self.each.extend(other.each);
        self.total += other.total;
        self.processor += other.processor;
    }
}

/// Runs all processes at once.
pub(super) fn at_once(runs: Vec<Run>) -> Result<Took> {
    at_once_and_killed(runs.into_iter().map(|run| (run, None)).collect())
}

/// Runs all at once, and kills those with a delay when it has passed. Returns the costs of the
/// others.
pub(super) fn at_once_and_killed(runs: Vec<(Run, Option<Duration>)>) -> Result<Took> {
    let used = processor_of_children()?;
    let ready = Barrier::new(runs.len() + 1);
    let (ended, total) = thread::scope(|scope| {
        let threads = runs.into_iter().map(|(mut run, lives)| {
            let ready = &ready;
            scope.spawn(move || {
                ready.wait();
                match lives {
                    Some(lives) => run.kill_after(lives).map(|()| None),
                    None => run.finish().map(Some),
                }
            })
        });
        let threads: Vec<_> = threads.collect();
        let start = Instant::now();
        ready.wait();
        let ended = threads
            .into_iter()
            .map(|thread| thread.join().map_err(|_| anyhow!("a thread panicked"))?)
            .collect::<Vec<_>>();
        (ended, start.elapsed())
    });
    let failures: Vec<_> = ended.iter().filter_map(|it| it.as_ref().err()).collect();
    if let Some(first) = failures.first() {
        bail!("{} failed; the first: {first:#}", failures.len());
    }
    let each = ended.into_iter().flatten().flatten().collect();
    Ok(Took { each, total, processor: processor_of_children()?.saturating_sub(used) })
}

/// Runs one process after the other.
pub(super) fn alone(runs: Vec<Run>) -> Result<Took> {
    let (used, start) = (processor_of_children()?, Instant::now());
    let each = runs.into_iter().map(|mut run| run.finish()).collect::<Result<_>>()?;
    let (total, now) = (start.elapsed(), processor_of_children()?);
    Ok(Took { each, total, processor: now.saturating_sub(used) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(script: &str) -> Run {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        Run { command, input: "word\n".to_owned(), prints: Some("word\n") }
    }

    #[test]
    fn each_process_is_timed_and_one_that_fails_is_named() {
        let took = at_once(vec![run("cat"), run("sleep 0.05; cat")]).unwrap();
        assert_eq!(took.each.len(), 2);
        assert!(took.total >= Duration::from_millis(50));
        assert_eq!(alone(vec![run("cat"), run("cat")]).unwrap().each.len(), 2);
        let error = at_once(vec![run("cat"), run("echo why >&2; exit 3")]).err();
        assert!(error.unwrap().to_string().contains("why"));
        assert!(alone(vec![run("echo another")]).is_err());
    }

    #[test]
    fn a_process_that_is_killed_counts_as_none() {
        let runs = vec![(run("cat"), None), (run("sleep 60"), Some(Duration::from_millis(10)))];
        let took = at_once_and_killed(runs).unwrap();
        assert_eq!(took.each.len(), 1);
        assert!(took.total < Duration::from_secs(30));
        run("sleep 60").kill_after(Duration::ZERO).unwrap();
    }
}
