//! What each QEMU wrote down of the commands that it got, and of its jobs.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde_json::Value;

crate::tests![a_backup_that_runs_twice_is_noticed];

fn a_backup_that_runs_twice_is_noticed() {
    const BEGUN: &str = "m req: {\"execute\":\"blockdev-backup\",\"arguments\":{\"job-id\":\"a.b\"}}\n\
                         job_state_transition (created-->running)\nm resp: {\"return\":{}}\n";
    const ENDED: &str = "m req: {\"execute\":\"query-jobs\"}\n\
                         m resp: {\"return\":[{\"id\":\"a.b\",\"status\":\"concluded\"}]}\n\
                         m req: {\"execute\":\"job-dismiss\",\"arguments\":{\"id\":\"a.b\"}}\n\
                         m resp: {\"return\":{}}\n";
    let judge = |text: String| {
        let judge = || judge_process(Path::new("x"), &text, &mut Counts::default());
        std::panic::catch_unwind(judge).ok()
    };
    assert_eq!(judge(BEGUN.to_owned()), Some(vec![]));
    assert_eq!(
        judge(format!("{BEGUN}{ENDED}")),
        Some(vec!["a.b".to_owned()])
    );
    let twice = judge(format!("{BEGUN}{ENDED}{BEGUN}{ENDED}"));
    assert_eq!(twice, Some(vec!["a.b".to_owned(); 2]));
    // While the first one runs, or without a request.
    assert_eq!(judge(format!("{BEGUN}{BEGUN}")), None);
    assert_eq!(
        judge("job_state_transition (created-->running)\n".to_owned()),
        None
    );
}

/// The sum over all processes.
#[derive(Default)]
struct Counts {
    processes: usize,
    /// Jobs that QEMU began.
    backups: usize,
    /// Commands that QEMU carried out, by name.
    commands: BTreeMap<String, usize>,
}

/// Reads all traces, and fails if something ran twice.
pub(crate) fn judge(folder: &Path) -> String {
    let mut counts = Counts::default();
    // The backups that were completed, by guest and job: the names are used once.
    let mut completed: BTreeMap<(String, String), usize> = BTreeMap::new();
    for file in fs::read_dir(folder).unwrap() {
        let path = file.unwrap().path();
        let guest = path.file_stem().unwrap().to_string_lossy().into_owned();
        let text = String::from_utf8_lossy(&fs::read(&path).unwrap()).into_owned();
        counts.processes += usize::from(text.contains("handle_qmp_command"));
        for job in judge_process(&path, &text, &mut counts) {
            *completed.entry((guest.clone(), job)).or_default() += 1;
        }
    }
    for ((guest, job), times) in &completed {
        assert_eq!(
            *times, 1,
            "the backup {job} of {guest} was completed {times} times"
        );
    }
    let of = |command: &str| counts.commands.get(command).copied().unwrap_or(0);
    format!(
        "{} processes of QEMU; {} backups begun, {} completed; {} disks and interfaces plugged in, \
         {} unplugged; {} disks resized",
        counts.processes,
        counts.backups,
        completed.len(),
        of("device_add"),
        of("device_del"),
        of("block_resize"),
    )
}

/// Returns the jobs that a process completed. A job has begun when QEMU says so: the answer may be
/// lacking, as processes and agents are killed.
fn judge_process(path: &Path, text: &str, counts: &mut Counts) -> Vec<String> {
    // The last request of each monitor, and the backup that was asked for.
    let (mut asked, mut backup) = (BTreeMap::<&str, Value>::new(), None);
    // The jobs that are not dismissed, with whether they have succeeded, once they are concluded.
    let mut jobs: BTreeMap<String, Option<bool>> = BTreeMap::new();
    let mut completed = Vec::new();
    for line in text.lines() {
        let json =
            |word: &str| -> Option<Value> { serde_json::from_str(line.split_once(word)?.1).ok() };
        if line.contains("(created-->running)") {
            let id: Option<String> = backup.take();
            let id =
                id.unwrap_or_else(|| panic!("{}: a job that was not asked for", path.display()));
            let twice = jobs.insert(id, None);
            assert!(twice.is_none(), "{}: a job ran twice", path.display());
            counts.backups += 1;
        } else if let Some(request) = json(" req: ") {
            if request["execute"] == "blockdev-backup" {
                backup = request["arguments"]["job-id"].as_str().map(str::to_owned);
            }
            asked.insert(monitor(line, " req: "), request);
        } else if let Some(result) = json(" resp: ").and_then(|it| it.get("return").cloned()) {
            let asked = asked.get(monitor(line, " resp: ")).unwrap_or(&Value::Null);
            let command = asked["execute"].as_str().unwrap_or_default();
            *counts.commands.entry(command.to_owned()).or_default() += 1;
            for job in result.as_array().into_iter().flatten() {
                if command == "query-jobs" && job["status"] == "concluded" {
                    let id = job["id"].as_str().unwrap_or_default().to_owned();
                    jobs.insert(id, Some(job.get("error").is_none()));
                }
            }
            let id = asked["arguments"]["id"].as_str().unwrap_or_default();
            if command == "job-dismiss" && jobs.remove(id) == Some(Some(true)) {
                completed.push(id.to_owned());
            }
        }
    }
    completed
}

/// Returns the name that a line has for a monitor, which each QEMU has two of.
fn monitor<'a>(line: &'a str, word: &str) -> &'a str {
    let before = line.split_once(word).map_or("", |(before, _)| before);
    before.rsplit(' ').next().unwrap_or_default()
}
