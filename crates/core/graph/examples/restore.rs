//! Removes files that an earlier process created and this one does not declare, and sends a value
//! from one vertex to another.
//!
//! `cargo run -p trueup-graph --example restore -- FOLDER NAME...` keeps a file of each name in the
//! folder. If you run it again with other names, it removes the files whose names are gone.

use std::error::Error;
use std::path::Path;
use std::time::Duration;

use trueup_graph::{Config, Driver, File, RunContext, Verdict, Vertex, VertexSpec};
use trueup_journal::{Journal, LedgerScope};

const BOUND: Duration = Duration::from_secs(60);

/// Declares a file for each name, a vertex that sends their number, and one to print it.
fn declare(folder: &Path, names: &[String]) -> Vec<(VertexSpec, Box<dyn Vertex>)> {
    let mut vertices: Vec<(VertexSpec, Box<dyn Vertex>)> = Vec::new();
    let (folder, count) = (folder.to_owned(), names.len());
    let mut counting = VertexSpec::new("count").sends::<usize>("files");
    for name in names {
        let vertex = format!("file.{name}");
        counting = counting.after(&vertex);
        let file = File::new(folder.join(name), format!("{name}\n"));
        vertices.push((VertexSpec::new(&vertex), Box::new(file)));
    }
    let send = move |context: &RunContext, _: bool| {
        context.send("files", count)?;
        Ok(Verdict::InPlace)
    };
    let print = |context: &RunContext, _: bool| {
        println!("{} files", context.received::<usize>("number")?.0);
        Ok(Verdict::InPlace)
    };
    let printing = VertexSpec::new("print").receives::<usize>("number", "count", "files");
    vertices.push((counting, Box::new(send)));
    vertices.push((printing, Box::new(print)));
    vertices
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let folder = arguments.next().ok_or("usage: restore FOLDER NAME...")?;
    let folder = Path::new(&folder);
    std::fs::create_dir_all(folder)?;
    let names: Vec<String> = arguments.collect();

    let journal = Journal::open(folder.join(".journal"))?;
    let ledger = journal.ledger("graph", &LedgerScope::new("host", ""))?;
    let config = Config::new(2.try_into()?).with_quiet(Duration::ZERO);
    // All records of this graph belong to files.
    let restore = |name: &str, record: &[u8]| {
        println!("{name} is gone");
        let file: Box<dyn Vertex> = Box::new(File::from_record(record)?);
        Ok((VertexSpec::new(name), file))
    };
    let vertices = declare(folder, &names);
    let driver = Driver::start_with_restore(config, vertices, Box::new(ledger), restore)?;
    driver.wait_converged(BOUND)?;
    print!("{}", driver.snapshot());
    driver.stop(BOUND)?;
    Ok(())
}
