//! The blocks on the pages agree with the program: each block that is not Rust has a test here, or
//! a reason why it has none.

use trueup_e2e::page::{Block, Page, report};

use super::{code, pages};

/// Page, beginning of the block, and the test that compares it.
const COMPARED: [(&str, &str, &str); 17] = [
    ("README.md", "git clone ", "pages_name_no_command_that_does_not_exist"),
    ("README.md", "cargo install ", "a_route_of_a_newcomer_comes_back"),
    ("README.md", "$ unshare ", "the_first_file_is_that_of_the_readme_and_does_as_it_shows"),
    ("README.md", "trueup plan docs/", "the_commands_of_the_readme_bring_the_example_up"),
    ("CONTRIBUTING.md", "cargo xtask ", "pages_name_no_command_that_does_not_exist"),
    ("crates/agent/cli/README.md", "$ trueup ", "every_command_of_the_page_does_as_it_says"),
    ("crates/agent/cli/README.md", "route 10.2.0.0/16", "the_text_on_the_page_is_what_is_printed"),
    ("crates/agent/cli/README.md", "plan: ", "the_json_of_the_commands_is_as_the_page_shows"),
    ("crates/agent/cli/README.md", "doctor: ", "the_json_of_the_commands_is_as_the_page_shows"),
    ("crates/agent/cli/README.md", "report: ", "the_events_of_watch_are_as_the_pages_show"),
    ("docs/graph.md", "$ trueup graph ", "the_page_on_the_graph_shows_it"),
    ("docs/graph.md", "digraph", "the_page_on_the_graph_shows_it"),
    ("docs/graph.md", "f.toml:", "the_blocks_of_output_are_what_is_printed"),
    ("docs/kernels.md", "$ cargo xtask vm", "pages_name_no_command_that_does_not_exist"),
    ("docs/world.md", "  10.20.1.0/24", "the_blocks_of_output_are_what_is_printed"),
    ("docs/world.md", "trueup: ", "the_blocks_of_output_are_what_is_printed"),
    ("docs/world.md", "world: ", "the_events_of_watch_are_as_the_pages_show"),
];

/// Page, beginning of the block, and the reason why no test compares it.
const LEFT_OUT: [(&str, &str, &str); 10] = [
    ("docs/architecture.md", " authored by name", "a drawing"),
    ("crates/agent/cli/README.md", "# user=", "takes systemd"),
    ("docs/migration.md", "   (echo", "a host's own: the test of the page does the same"),
    ("docs/world.md", "trueup world init", "takes etcd; its options are those of the help"),
    ("docs/world.md", "trueup world grants", "takes etcd; its options are those of the help"),
    ("docs/world.md", "{ \"serial\"", "an operator's file"),
    ("docs/world.md", "== The agent", "what a run of the demo printed, with its times"),
    ("docs/world.md", "cargo run", "a measurement"),
    ("docs/world.md", "cargo build", "a measurement"),
    ("crates/agent/file/README.md", "{\n  \"protocol\"", "a file: good.rs reads all of the page"),
];

#[test]
fn each_block_of_a_page_is_compared_or_says_why_not() {
    let sources = code(&["crates", "xtask/src", "xtask/tests"]);
    let pages = pages();
    let untested = COMPARED.iter().filter(|(.., test)| !sources.contains(&format!("fn {test}(")));
    let untested =
        untested.map(|(page, begin, test)| format!("{page}: no test {test} for {begin:?}"));
    let unknown = pages.iter().flat_map(unknown);
    let all = COMPARED.iter().chain(&LEFT_OUT);
    let gone = all
        .filter(|(name, begin, _)| {
            let page = pages.iter().find(|page| page.name == *name);
            !page.into_iter().flat_map(Page::blocks).any(|it| it.text.starts_with(begin))
        })
        .map(|(name, begin, _)| format!("{name}: no block begins with {begin:?}"));
    report(untested.chain(unknown).chain(gone));
}

fn unknown(page: &Page) -> Vec<String> {
    const RUST: [&str; 4] = ["rust", "standalone_crate", "no_run", "compile_fail"];
    let mut unknown = Vec::new();
    for Block { language, text, line, .. } in page.blocks() {
        let mut all = COMPARED.iter().chain(&LEFT_OUT);
        let is_known = language == "toml"
            || RUST.iter().any(|word| language.starts_with(word))
            || language.is_empty() && ["use ", "# use ", "#"].iter().any(|it| text.starts_with(it))
            || all.any(|(name, begin, _)| *name == page.name && text.starts_with(begin));
        if !is_known {
            let first = text.lines().next().unwrap_or_default();
            unknown.push(format!("{}: compared by no test: {first:?}", page.at(line)));
        }
    }
    unknown
}
