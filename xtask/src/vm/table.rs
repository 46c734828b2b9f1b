//! The tables of `docs/kernels.md`, from the results of the last runs on each kernel.

use std::fmt::Write as _;
use std::iter;
use std::path::Path;

use super::ran::{Outcome, Ran};
use super::{LOCAL, SERIES};
use crate::tools::{self, Result, between_marks, read};

const BEGIN: &str = "<!-- begin: written by `cargo xtask vm --write` -->\n";
const END: &str = "<!-- end -->\n";

/// Rewrites the tables between their marks.
pub(super) fn write(dir: &Path, page: &Path) -> Result<()> {
    let mut columns = Vec::new();
    for kernel in [LOCAL].into_iter().chain(SERIES) {
        let path = dir.join(format!("{kernel}.json"));
        let ran = read(&path).ok().and_then(|text| serde_json::from_str::<Ran>(&text).ok());
        columns.push(ran.ok_or_else(|| {
            format!("no results of kernel {kernel}: `cargo xtask vm --kernel {kernel}`")
        })?);
    }
    let tables = format!("\n{}\n", tables(&columns));
    tools::write(page, between_marks(&read(page)?, BEGIN, END, &tables)?)
}

fn tables(columns: &[Ran]) -> String {
    let programs =
        |of: &Ran| of.programs.iter().map(|program| program.name.clone()).collect::<Vec<_>>();
    let questions =
        |of: &Ran| of.support.iter().map(|(question, _)| question.clone()).collect::<Vec<_>>();
    let tests = table("tests", columns, programs, |ran, name| {
        ran.programs.iter().find(|program| program.name == name).map(counts)
    });
    let support = table("the kernel", columns, questions, |ran, question| {
        let answer = ran.support.iter().find(|(asked, _)| asked == question);
        answer.map(|(_, answer)| answer.clone())
    });
    format!("{tests}\n{support}")
}

/// Returns a table with a row for each name in any column, in the order of the first column that
/// has it.
fn table(
    title: &str,
    columns: &[Ran],
    names: impl Fn(&Ran) -> Vec<String>,
    cell: impl Fn(&Ran, &str) -> Option<String>,
) -> String {
    let mut rows: Vec<String> = Vec::new();
    for name in columns.iter().flat_map(names) {
        if !rows.contains(&name) {
            rows.push(name);
        }
    }
    let head = columns.iter().map(|ran| version(&ran.release));
    let all = rows.into_iter().map(|name| {
        let cells = columns.iter().map(|ran| cell(ran, &name).unwrap_or_else(|| "-".to_owned()));
        iter::once(name.clone()).chain(cells).collect()
    });
    tools::table(iter::once(title.to_owned()).chain(head).collect(), all)
}

fn counts(program: &Outcome) -> String {
    let mut text = format!("{} passed", program.count.passed);
    for (count, word) in
        [(program.count.failed, "failed"), (program.not_applicable, "not applicable")]
    {
        if count > 0 {
            let _ = write!(text, ", {count} {word}");
        }
    }
    text
}

/// Returns the series of a release: other users' kernels have another patch level.
fn version(release: &str) -> String {
    release.splitn(3, '.').take(2).collect::<Vec<_>>().join(".")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_for_what_any_kernel_has() {
        let columns = [("6.18.3", "a/kernel"), ("6.1.0-9-x", "b/kernel")].map(|(release, program)| {
            let text = format!(
                r#"{{ "release": "{release}", "programs": [{{ "name": "{program}", "passed": 2, "failed": 0,
                "not_applicable": 1 }}], "support": [["vlan", "yes"]] }}"#
            );
            serde_json::from_str::<Ran>(&text).unwrap()
        });
        assert_eq!(
            tables(&columns),
            "\
| tests | 6.18 | 6.1 |
|---|---|---|
| a/kernel | 2 passed, 1 not applicable | - |
| b/kernel | - | 2 passed, 1 not applicable |

| the kernel | 6.18 | 6.1 |
|---|---|---|
| vlan | yes | yes |
"
        );
    }
}
