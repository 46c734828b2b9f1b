//! An agent of several network namespaces from one file. Each namespace gets the file's network.
//! The file's own files and commands come after all namespaces.
//!
//! `namespaces JOURNAL FILE NAMESPACE...`, with names of `ip netns`, until a signal kills it. The
//! next process does the pending work.

use std::env;
use std::path::Path;
use std::time::Duration;

use trueup::graph::{Config, Driver, Exec, File, SourceVertex, Vertex, VertexSpec};
use trueup::journal::{Journal, LedgerScope};
use trueup::rtnl::ledger_scope;
use trueup::sysctl::{self, Sysctl};
use trueup::{Namespace, Options, Rtnl};
use trueup_file::{FileContent, TableNames};

type Error = Box<dyn std::error::Error>;
type Declared = (VertexSpec, Box<dyn Vertex>);

fn main() -> Result<(), Error> {
    let args: Vec<String> = env::args().skip(1).collect();
    let [journal, file, names @ ..] = &args[..] else {
        return Err("namespaces JOURNAL FILE NAMESPACE...".into());
    };
    let journal = Journal::open_within(journal, Duration::from_secs(10))?;
    let declared = trueup_file::File::read(Path::new(file), &TableNames::system()?)?;
    let mut vertices = Vec::new();
    for name in names {
        vertices.extend(namespace(name, &declared, &journal)?);
    }
    vertices.extend(declared.files.iter().flatten().map(file_vertex));
    let execs = declared.execs.iter().flatten();
    vertices.extend(execs.map(|it| exec_vertex(it, names)));

    // Records pending refreshes and created files.
    let ledger = journal.ledger("graph", &LedgerScope::of_all_boots("host"))?;
    let restore = |name: &str, record: &[u8]| {
        let file: Box<dyn Vertex> = Box::new(File::from_record(record)?);
        Ok((VertexSpec::new(name), file))
    };
    let config = Config::new(4.try_into()?).with_quiet(Duration::from_millis(100));
    let driver = Driver::start_with_restore(config, vertices, Box::new(ledger), restore)?;
    loop {
        let is_converged = driver.wait_converged(Duration::from_secs(5)).is_ok();
        println!("{}converged: {is_converged}", driver.snapshot());
        std::thread::sleep(Duration::from_secs(1));
    }
}

/// Returns the vertices of a namespace's sysctls and network, each with a ledger of its own.
fn namespace(
    name: &str,
    declared: &trueup_file::File,
    journal: &Journal,
) -> Result<[Declared; 2], Error> {
    let here = Namespace::named(name)?.open()?;
    let scope = ledger_scope(&here)?;
    let (settings, options) = (declared.sysctl.clone(), sysctl::Options::default());
    let settings = settings.unwrap_or_default();
    let ledger = journal.ledger("sysctl", &scope)?;
    let settings = SourceVertex::new(Sysctl::new(), here.clone(), settings, ledger, options);
    let (network, ledger) = (declared.desired.clone(), journal.ledger("rtnl", &scope)?);
    let network = SourceVertex::new(Rtnl::new(), here, network, ledger, Options::default());
    // The source's own loop decides on retries.
    let spec =
        |kind: &str| VertexSpec::new(&format!("{kind}.{name}")).with_retry(0, Duration::ZERO);
    let after = spec("network").after(&format!("sysctl.{name}"));
    Ok([(spec("sysctl"), Box::new(settings)), (after, Box::new(network))])
}

fn file_vertex(declared: &trueup_file::ManagedFile) -> Declared {
    let file = match &declared.content {
        FileContent::Text(text) => File::new(&declared.path, text.clone()),
        FileContent::Source(source) => File::from_source(&declared.path, source),
    };
    let spec = VertexSpec::new(&format!("file.{}", declared.name));
    let spec = spec.with_retry(u32::MAX, Duration::from_secs(1));
    (spec, Box::new(file.with_mode(declared.mode)))
}

/// Returns a command's vertex, which runs after all namespaces' networks. The references in `on`
/// refresh it.
fn exec_vertex(declared: &trueup_file::Exec, namespaces: &[String]) -> Declared {
    // The file has no empty command.
    let (program, arguments) = (&declared.command[0], &declared.command[1..]);
    let exec = Exec::new(program, arguments).with_timeout(declared.timeout);
    let spec = VertexSpec::new(&format!("exec.{}", declared.name)).unwatched();
    let networks = namespaces.iter().map(|name| format!("network.{name}"));
    let spec = networks.fold(spec, |spec, network| spec.after(&network));
    let on = declared.on.iter().map(ToString::to_string);
    let spec = on.fold(spec, |spec, name| spec.refreshed_by(&name));
    let spec = spec.with_retry(u32::MAX, Duration::from_secs(1));
    (spec, Box::new(exec.only_refreshed()))
}
