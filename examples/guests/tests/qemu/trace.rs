//! What each QEMU wrote down of the commands that it got, and of its jobs.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde_json::Value;

/// The sum over all processes.
#[derive(Default)]
struct Counts {
    processes: usize,
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
        of("blockdev-backup"),
        completed.len(),
        of("device_add"),
        of("device_del"),
        of("block_resize"),
    )
}

/// Returns the jobs that a process completed.
fn judge_process(path: &Path, text: &str, counts: &mut Counts) -> Vec<String> {
    let mut asked: Option<Value> = None;
    // Jobs that are not dismissed, with whether QEMU said that they are concluded, and how.
    let mut jobs: BTreeMap<String, Option<bool>> = BTreeMap::new();
    let (mut completed, mut begun, mut begun_by_qemu) = (Vec::new(), 0, 0);
    for line in text.lines() {
        let json =
            |word: &str| -> Option<Value> { serde_json::from_str(line.split_once(word)?.1).ok() };
        if line.contains("(created-->running)") {
            begun_by_qemu += 1;
        } else if let Some(request) = json(" req: ") {
            asked = Some(request);
        } else if let Some(response) = json(" resp: ") {
            let Some(result) = response.get("return") else {
                continue;
            };
            let Some(request) = asked.take() else {
                continue;
            };
            let command = request["execute"].as_str().unwrap_or_default();
            let text = |name: &str| {
                request["arguments"][name]
                    .as_str()
                    .unwrap_or_default()
                    .to_owned()
            };
            *counts.commands.entry(command.to_owned()).or_default() += 1;
            match command {
                "blockdev-backup" => {
                    begun += 1;
                    let twice = jobs.insert(text("job-id"), None);
                    assert!(twice.is_none(), "{}: {request} ran twice", path.display());
                }
                "query-jobs" => {
                    for job in result.as_array().into_iter().flatten() {
                        let id = job["id"].as_str().unwrap_or_default();
                        if job["status"] == "concluded" {
                            jobs.insert(id.to_owned(), Some(job.get("error").is_none()));
                        }
                    }
                }
                "job-dismiss" => {
                    let id = text("id");
                    if jobs.remove(&id) == Some(Some(true)) {
                        completed.push(id);
                    }
                }
                _ => {}
            }
        }
    }
    assert_eq!(
        begun_by_qemu,
        begun,
        "{}: jobs that nobody asked for",
        path.display()
    );
    completed
}
