//! The benchmark itself, short: every work at sizes up to 1,000, once, by the floor and by trueup; and its page. It shows
//! that all works are done and told, and says nothing of how long they take.

use std::fs;
use std::process::Command;

use trueup_benches::bench::record::Record;
use trueup_benches::works::Work;

#[test]
fn every_work_is_done_by_the_floor_and_by_trueup() {
    let scratch = std::env::temp_dir().join(format!("trueup-bench-{}", std::process::id()));
    fs::create_dir_all(&scratch).unwrap();
    let record = scratch.join("record.json");
    let page = "\
Before.
<!-- begin: written by `cargo xtask bench --write` -->
<!-- end -->
After.
";
    fs::write(scratch.join("performance.md"), page).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_bench"))
        .args(["--sizes", "1,100,1000", "--largest", "20000", "--runs", "1"])
        .args(["--alone", "--write", "--command"])
        .arg(env!("CARGO_BIN_EXE_works"))
        .arg("--record")
        .arg(&record)
        .arg("--docs")
        .arg(&scratch)
        .output()
        .unwrap();
    let (told, said) = (
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    assert!(output.status.success(), "{told}{said}");

    let text = fs::read_to_string(&record).unwrap();
    let record: Record = serde_json::from_str(&text).unwrap();
    for work in Work::all() {
        let sizes = record.sizes(&work.to_string());
        assert!(
            sizes.starts_with(&[1, 100]),
            "{work}: {sizes:?}\n{told}{said}"
        );
        for size in sizes {
            let entry = record.entry(&work.to_string(), size).unwrap();
            assert_eq!(entry.failed.len(), 0, "{:?}\n{said}", entry.failed);
            let figures = entry.figures("trueup", "floor").unwrap();
            assert!(figures.median.wall_ns > 0 && figures.median.peak_rss_kb > 0);
        }
    }
    let page = fs::read_to_string(scratch.join("performance.md")).unwrap();
    assert!(page.starts_with("Before.\n") && page.ends_with("After.\n"));
    assert!(page.contains("| IPv4 routes: create | 1,000 |"), "{page}");
    let picture = fs::read_to_string(scratch.join("performance.svg")).unwrap();
    assert!(picture.starts_with("<svg") && picture.ends_with("</svg>\n"));
    fs::remove_dir_all(&scratch).unwrap();
}
