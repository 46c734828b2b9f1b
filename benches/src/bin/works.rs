//! The floor and trueup as programs that do one piece of work a process: `works NAME WORK SIZE`,
//! `works list`. The README of the benchmarks says what each work is, and what the printed line
//! means.

use std::env;

use anyhow::{Result, bail, ensure};
use trueup_benches::clock::Line;
use trueup_benches::floor::{self, Asking};
use trueup_benches::pass;
use trueup_benches::works::Work;

fn main() -> Result<()> {
    let words: Vec<String> = env::args().skip(1).collect();
    match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["list"] => {
            for work in Work::all() {
                for name in names(work) {
                    println!("{name} {work} {}", work.largest());
                }
            }
            Ok(())
        }
        [name, work, size] => {
            let (work, size) = (work.parse()?, size.parse()?);
            println!("{}", serde_json::to_string(&perform(name, work, size)?)?);
            Ok(())
        }
        _ => bail!("usage: works list | works NAME WORK SIZE, in a namespace made for it"),
    }
}

/// Who does a work.
fn names(work: Work) -> &'static [&'static str] {
    match work {
        Work::FewNoop => &["floor", "floor-by-protocol", "trueup"],
        _ => &["floor", "trueup"],
    }
}

fn perform(name: &str, work: Work, size: usize) -> Result<Line> {
    ensure!(size <= work.largest(), "{work} is for at most {}", work.largest());
    let took = match name {
        "floor" => floor::perform(work, size, Asking::Narrowly)?,
        "floor-by-protocol" => floor::perform(work, size, Asking::ByProtocol)?,
        "trueup" => pass::perform(work, size)?,
        _ => bail!("no such program: {name}"),
    };
    Ok(Line { program: name.to_owned(), work: work.to_string(), size, took })
}
