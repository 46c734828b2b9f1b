//! The most used public items of each crate have an example.

use std::path::Path;

use trueup_e2e::page::report;

use crate::tools::{files, read, root};

/// The items of each crate that examples, tests and pages use most, by the crate's folder.
const MOST_USED: [(&str, &[&str]); 21] = [
    (
        "agent/agent",
        &[
            "Address", "Agent", "Applied", "Authored", "Config", "Declared", "Error", "Findings",
            "Handle", "Plan", "Watch", "count",
        ],
    ),
    (
        "agent/file",
        &[
            "Diagnostic",
            "Error",
            "File",
            "Locations",
            "Settings",
            "TableNames",
            "nearest",
            "parse",
            "read_from",
            "to_json",
            "to_toml",
        ],
    ),
    (
        "core/control",
        &[
            "Action",
            "Config",
            "Error",
            "Fixed",
            "Gate",
            "Normalisers",
            "Object",
            "Observed",
            "Value",
            "plan",
            "round_up",
        ],
    ),
    (
        "core/diff",
        &[
            "ChangeLog",
            "Diff",
            "Duplicate",
            "Found",
            "Verdict",
            "decide",
            "is_empty",
            "now",
            "since",
            "three_way",
            "two_way",
            "walk",
        ],
    ),
    (
        "core/graph",
        &[
            "Config",
            "Driver",
            "Exec",
            "File",
            "Snapshot",
            "SourceVertex",
            "Vertex",
            "VertexSpec",
            "check",
            "explain",
            "validate",
        ],
    ),
    (
        "core/journal",
        &[
            "Backoff",
            "Execution",
            "Journal",
            "Keep",
            "Start",
            "check",
            "ledger",
            "lock_file",
            "open_read_only",
            "repair",
            "spend_nonce",
        ],
    ),
    (
        "core/loop",
        &[
            "Config",
            "Error",
            "Handle",
            "Loop",
            "Runner",
            "Running",
            "State",
            "ask",
            "change",
            "detach",
            "events",
            "force",
            "pause",
            "set_desired",
            "wait_tried",
        ],
    ),
    (
        "core/path",
        &[
            "Control",
            "Error",
            "Folder",
            "Place",
            "Readers",
            "Replacement",
            "TrustedUsers",
            "make_folder",
            "open",
            "read_ours",
        ],
    ),
    (
        "core/queue",
        &[
            "Config",
            "Outcome",
            "Queue",
            "Rejected",
            "Ticket",
            "close_within",
            "stats",
            "submit",
            "submit_after",
            "submit_once",
        ],
    ),
    (
        "core/reconcile",
        &[
            "ErrorClass",
            "Failure",
            "Hints",
            "Ledger",
            "LedgerScope",
            "MemoryLedger",
            "Ops",
            "Outcome",
            "PassLimits",
            "Status",
            "utc",
        ],
    ),
    (
        "core/sync",
        &[
            "Poller",
            "after",
            "hasher",
            "into_inner",
            "lock",
            "now",
            "seed",
            "try_lock",
            "wait_until",
            "wait_while",
        ],
    ),
    ("fleet/etcd", &["Administrator", "Config", "EtcdStore", "Exposure", "User", "read_password"]),
    (
        "fleet/world",
        &[
            "Access", "Collect", "Embedded", "Error", "Export", "Filter", "Hash", "Limits",
            "Session", "Watch", "World",
        ],
    ),
    ("kernel/apply", &["Outcomes", "apply", "draw_indexes", "is_drawn_index", "stored_otherwise"]),
    (
        "kernel/net",
        &[
            "Address",
            "Desired",
            "Domain",
            "IfName",
            "Link",
            "LinkKind",
            "Neighbour",
            "NextHop",
            "Prefix",
            "Route",
            "RouteKey",
            "Routes",
            "Rule",
            "plan",
        ],
    ),
    (
        "kernel/netlink",
        &[
            "Attrs",
            "Batch",
            "Error",
            "Header",
            "KernelError",
            "MessageWriter",
            "Messages",
            "Multicast",
            "Namespace",
            "ReadScope",
            "Socket",
            "align",
            "create",
            "dump",
        ],
    ),
    (
        "kernel/observe",
        &[
            "DirtySet",
            "EventSummary",
            "Incomplete",
            "Monitor",
            "Observer",
            "Snapshot",
            "WatchScope",
            "link_index",
            "open_lazily",
            "take_dirty",
        ],
    ),
    (
        "kernel/rtnl",
        &[
            "Error",
            "Options",
            "Report",
            "Rtnl",
            "ledger_scope_of",
            "link",
            "plan",
            "route",
            "with_max_deletes",
            "with_protocol",
        ],
    ),
    (
        "kernel/sysctl",
        &[
            "Desired", "Error", "Key", "Options", "Report", "Sysctl", "Value", "get", "parse",
            "plan",
        ],
    ),
    ("test/contracts", &["ClusterOptions", "Gate", "world_contract"]),
    (
        "test/testkit",
        &[
            "Faults",
            "InterceptedLedger",
            "Kernel",
            "Kind",
            "Points",
            "RawMessage",
            "Scratch",
            "Snapshot",
            "assert_no_changes",
            "nth_of",
            "running_version",
        ],
    ),
];

#[test]
fn the_most_used_items_have_an_example() {
    let mut missing = Vec::new();
    for (folder, items) in MOST_USED {
        let with_example = items_with_example(&root().join("crates").join(folder).join("src"));
        let without = items.iter().filter(|item| !with_example.iter().any(|it| it == *item));
        missing.extend(without.map(|item| format!("crates/{folder}: {item} has no example")));
    }
    report(missing.into_iter());
}

#[test]
fn each_published_crate_has_a_list() {
    let manifests = files(&root().join("crates")).unwrap();
    let manifests = manifests.iter().filter(|path| path.ends_with("Cargo.toml"));
    let unlisted = manifests.filter_map(|path| {
        let manifest: toml::Table = read(path).unwrap().parse().unwrap();
        let is_published = manifest["package"].get("publish").is_none();
        let folder = path.parent()?.strip_prefix(root().join("crates")).ok()?.to_str()?;
        // The facade and the program have no items of their own.
        let is_empty = ["agent/cli", "agent/trueup"].contains(&folder);
        let is_listed = MOST_USED.iter().any(|(listed, _)| *listed == folder);
        (is_published && !is_empty && !is_listed).then(|| format!("crates/{folder} has no list"))
    });
    report(unlisted);
}

/// Returns the names of the public items whose doc comment has a block of code.
fn items_with_example(folder: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for path in
        files(folder).unwrap().iter().filter(|path| path.extension().is_some_and(|it| it == "rs"))
    {
        let text = read(path).unwrap();
        let mut has_example = false;
        for line in text.lines().map(str::trim) {
            match line.strip_prefix("///") {
                Some(doc) => has_example |= doc.trim().starts_with("```"),
                // An attribute may be between the comment and the item.
                None if line.starts_with("#[") || line.ends_with(")]") => {}
                None => {
                    if has_example {
                        found.extend(public_name(line));
                    }
                    has_example = false;
                }
            }
        }
    }
    found
}

/// Returns the name in the first line of a public item; `None` for any other line.
fn public_name(line: &str) -> Option<String> {
    let rest = line.strip_prefix("pub ")?;
    let rest = rest.strip_prefix("const ").unwrap_or(rest);
    let words = ["fn ", "struct ", "enum ", "trait ", "type "];
    let name = words.iter().find_map(|word| rest.strip_prefix(word))?;
    name.split(|it: char| !it.is_alphanumeric() && it != '_').next().map(str::to_owned)
}
