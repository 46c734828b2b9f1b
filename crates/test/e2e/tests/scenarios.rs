//! Every scenario on the running kernel, and tests of the runner. `TRUEUP_SCENARIOS` sets another
//! directory of scenarios.

use std::path::PathBuf;
use std::process::ExitCode;

use trueup_e2e::scenario::{self, failure};

fn a_failure_names_its_place_the_difference_and_what_it_shows() {
    let text = failure(
        "# A rule stays.\nfacts 10\ninvariant 1\nsetup\n  rule add pref 900 from 10.0.0.0/8 table 100\n\
         state rules\n  pref 901 from 10.0.0.0/8 table 100\n",
    );
    for part in [
        "x.scenario:6: ",
        "- pref 901 from 10.0.0.0/8 table 100",
        "+ pref 900 from 10.0.0.0/8 table 100",
        "A rule stays.",
        "invariant 1: Foreign state is never touched",
        "facts 10",
    ] {
        assert!(text.contains(part), "{part} is not in:\n{text}");
    }
}

fn a_line_of_a_writer_that_ends_otherwise_is_reported_at_its_line() {
    let twice = "  rule add pref 900 table 100\n  rule add pref 900 table 100\n";
    for (lines, line, message) in [
        (twice, 4, "File exists"),
        ("  rule add pref 900 table 100 -> EINVAL\n", 3, "ended in success, EINVAL was expected"),
        ("  rule del pref 900 -> EINVAL\n", 3, "No such file or directory, EINVAL was expected"),
    ] {
        let text = failure(&format!("# t\nsetup\n{lines}"));
        let place = format!("x.scenario:{line}: ");
        assert!(text.starts_with(&place) && text.contains(message), "{text}");
    }
    // A raw message that deletes rule 900.
    let delete = "rule del 020000006400000000000000 6=84030000";
    let text = failure(&format!("# t\nsend\n  {delete} -> EINVAL\n"));
    assert!(text.contains("ended in ENOENT, EINVAL was expected"), "{text}");
}

fn a_wrong_file_is_reported_with_the_line_of_the_scenario() {
    let text =
        failure("# t\n\ndesired\n  [[route]]\n  dst = \"10.0.0.1/8\"\n  via = \"10.0.0.2\"\n");
    assert!(text.contains("x.scenario:5:9: "), "{text}");
}

fn a_pass_that_takes_a_writers_rule_breaks_the_first_invariant() {
    // The rule has our marker; `unchanged` runs under another marker, so the rule is foreign.
    let text = failure(
        "# t\nsetup\n  rule add pref 900 table 100 protocol 116\ndesired\n  protocol = 117\n  rule = []\n\
         apply\nwriter\n  rule del pref 900 table 100\nunchanged\n",
    );
    assert!(text.contains("invariant 1: ") && text.contains("- rule"), "{text}");
}

fn main() -> ExitCode {
    let own = concat!(env!("CARGO_MANIFEST_DIR"), "/scenarios");
    let directory = std::env::var_os("TRUEUP_SCENARIOS").map_or_else(|| own.into(), PathBuf::from);
    let results = concat!(env!("CARGO_TARGET_TMPDIR"), "/scenarios.jsonl");
    let runner: &[(&str, fn())] = &[
        (
            "a_failure_names_its_place_the_difference_and_what_it_shows",
            a_failure_names_its_place_the_difference_and_what_it_shows,
        ),
        (
            "a_line_of_a_writer_that_ends_otherwise_is_reported_at_its_line",
            a_line_of_a_writer_that_ends_otherwise_is_reported_at_its_line,
        ),
        (
            "a_wrong_file_is_reported_with_the_line_of_the_scenario",
            a_wrong_file_is_reported_with_the_line_of_the_scenario,
        ),
        (
            "a_pass_that_takes_a_writers_rule_breaks_the_first_invariant",
            a_pass_that_takes_a_writers_rule_breaks_the_first_invariant,
        ),
    ];
    scenario::main(&directory, results.as_ref(), runner)
}
