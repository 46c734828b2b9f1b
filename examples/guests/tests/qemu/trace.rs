//! Checks the traces of each QEMU: its commands and jobs.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde_json::Value;

crate::tests![a_backup_that_runs_twice_is_noticed, a_commit_that_runs_twice_is_noticed,];

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
    assert_eq!(judge(format!("{BEGUN}{ENDED}")), Some(vec!["a.b".to_owned()]));
    let twice = judge(format!("{BEGUN}{ENDED}{BEGUN}{ENDED}"));
    assert_eq!(twice, Some(vec!["a.b".to_owned(); 2]));
    // A second job while the first one runs, or without a request.
    assert_eq!(judge(format!("{BEGUN}{BEGUN}")), None);
    assert_eq!(judge("job_state_transition (created-->running)\n".to_owned()), None);
}

fn a_commit_that_runs_twice_is_noticed() {
    const SNAPSHOT: &str = "m req: {\"execute\":\"blockdev-snapshot\",\
                            \"arguments\":{\"overlay\":\"overlay-a\"}}\n\
                            m resp: {\"return\":{}}\n";
    const BEGUN: &str = "m req: {\"execute\":\"block-commit\",\
                         \"arguments\":{\"job-id\":\"a_commit\"}}\n\
                         job_state_transition (created-->running)\nm resp: {\"return\":{}}\n";
    const ENDED: &str = "m req: {\"execute\":\"query-jobs\"}\n\
                         m resp: {\"return\":[{\"id\":\"a_commit\",\"status\":\"concluded\"}]}\n\
                         m req: {\"execute\":\"job-dismiss\",\"arguments\":{\"id\":\"a_commit\"}}\n\
                         m resp: {\"return\":{}}\n";
    const UNPLUGGED: &str =
        "m req: {\"execute\":\"device_del\",\"arguments\":{\"id\":\"disk-a\"}}\n";
    let is_good = |parts: &[&str]| {
        let judge = || judge_process(Path::new("x"), &parts.concat(), &mut Counts::default());
        std::panic::catch_unwind(judge).is_ok()
    };
    // It was started with an overlay, or without one.
    assert!(is_good(&[BEGUN, ENDED, SNAPSHOT, BEGUN, ENDED]));
    assert!(is_good(&[SNAPSHOT, UNPLUGGED, SNAPSHOT, BEGUN, ENDED]));
    // The answer is missing.
    let asked = SNAPSHOT.lines().next().unwrap().to_owned() + "\n";
    assert!(is_good(&[BEGUN, ENDED, &asked, BEGUN, ENDED]));
    assert!(!is_good(&[BEGUN, BEGUN]));
    assert!(!is_good(&[BEGUN, ENDED, BEGUN, ENDED]));
    assert!(!is_good(&[SNAPSHOT, SNAPSHOT]));
}

/// Totals over all processes.
#[derive(Default)]
struct Counts {
    processes: usize,
    /// The number of jobs that QEMU began.
    backups: usize,
    commits: usize,
    /// The number of completed commits.
    committed: usize,
    /// The commands that QEMU executed, by name.
    commands: BTreeMap<String, usize>,
}

/// Reads all traces, and fails if something ran twice.
pub(crate) fn judge(folder: &Path) -> String {
    let mut counts = Counts::default();
    // The completed backups, by guest and job: names are used once.
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
        assert_eq!(*times, 1, "the backup {job} of {guest} was completed {times} times");
    }
    let of = |command: &str| counts.commands.get(command).copied().unwrap_or(0);
    format!(
        "{} processes of QEMU; {} backups begun, {} completed; {} snapshots taken; \
         {} commits begun, {} completed; {} disks and interfaces plugged in, {} unplugged; {} disks resized",
        counts.processes,
        counts.backups,
        completed.len(),
        of("blockdev-snapshot"),
        counts.commits,
        counts.committed,
        of("device_add"),
        of("device_del"),
        of("block_resize"),
    )
}

/// Returns the backups that a process completed. A job has begun when QEMU reports it: the answer
/// may be missing, as processes and agents are killed.
fn judge_process(path: &Path, text: &str, counts: &mut Counts) -> Vec<String> {
    // The last request of each monitor, and the requested job.
    let (mut asked, mut job_asked_for) = (BTreeMap::<&str, Value>::new(), None);
    // The jobs not dismissed yet; once concluded, true if they succeeded.
    let mut jobs: BTreeMap<String, Option<bool>> = BTreeMap::new();
    // True if a disk has an overlay; absent while unknown.
    let mut overlays: BTreeMap<String, bool> = BTreeMap::new();
    let mut completed = Vec::new();
    for line in text.lines() {
        let json =
            |word: &str| -> Option<Value> { serde_json::from_str(line.split_once(word)?.1).ok() };
        if line.contains("(created-->running)") {
            let id: Option<String> = job_asked_for.take();
            let id =
                id.unwrap_or_else(|| panic!("{}: a job that was not asked for", path.display()));
            if let Some(disk) = id.strip_suffix("_commit") {
                let known = overlays.insert(disk.to_owned(), true);
                let is_there = known != Some(false);
                assert!(is_there, "{}: {disk}: committed twice", path.display());
                counts.commits += 1;
            }
            counts.backups += usize::from(id.contains('.'));
            let twice = jobs.insert(id, None);
            assert!(twice.is_none(), "{}: a job ran twice", path.display());
        } else if let Some(request) = json(" req: ") {
            let arguments = &request["arguments"];
            let argument = |name: &str| arguments[name].as_str().unwrap_or_default();
            match request["execute"].as_str().unwrap_or_default() {
                "blockdev-backup" | "block-commit" => {
                    job_asked_for = Some(argument("job-id").to_owned());
                }
                // The answer may be missing.
                "blockdev-snapshot" => overlays.retain(|disk, is_there| {
                    *is_there || argument("overlay").strip_prefix("overlay-") != Some(disk)
                }),
                "device_del" => {
                    let disk = argument("id").strip_prefix("disk-").unwrap_or_default();
                    overlays.remove(disk);
                }
                _ => {}
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
            let argument = |name: &str| asked["arguments"][name].as_str().unwrap_or_default();
            if command == "blockdev-snapshot" {
                let disk = argument("overlay").trim_start_matches("overlay-");
                let twice = overlays.insert(disk.to_owned(), true) == Some(true);
                assert!(!twice, "{}: {disk}: two overlays", path.display());
            }
            let id = argument("id");
            if command == "job-dismiss" && jobs.remove(id) == Some(Some(true)) {
                if let Some(disk) = id.strip_suffix("_commit") {
                    overlays.insert(disk.to_owned(), false);
                    counts.committed += 1;
                } else if id.contains('.') {
                    completed.push(id.to_owned());
                }
            }
        }
    }
    completed
}

/// Returns a line's name for its monitor; each QEMU has two.
fn monitor<'a>(line: &'a str, word: &str) -> &'a str {
    let before = line.split_once(word).map_or("", |(before, _)| before);
    before.rsplit(' ').next().unwrap_or_default()
}
