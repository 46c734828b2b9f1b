//! BIRD 2 at the part of a day that its control socket can ask for: a gateway fails, and comes
//! back. Its prefixes have a second route, of a static protocol with a lower preference; the first
//! one's protocol is disabled, and enabled again.

use std::collections::HashSet;
use std::env;
use std::fmt::Write as _;
use std::fs;
use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use trueup_net::{Family, IfName, NextHops, Prefix};

use super::enter_namespace;
use super::table::{Fate, Table, next};
use crate::listener::Listener;
use crate::prefixes::Prefixes;
use crate::row::Row;
use crate::{floor, processor};

/// Longer than anything takes that ends.
const BOUND: Duration = Duration::from_secs(600);

/// Where the program is, if it is installed.
pub fn find() -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let places = env::split_paths(&path).chain(["/usr/sbin".into(), "/sbin".into()]);
    places.map(|place| place.join("bird")).find(|program| program.is_file())
}

/// Measures it among a day's routes, as many of both families.
///
/// # Errors
///
/// When it is not installed, or does not do what it is asked.
pub fn run((v4, v6): (usize, usize)) -> Result<Row> {
    let program = find().context("bird is not installed (Debian's package bird2)")?;
    enter_namespace()?;
    let table = Table::of_day(&Prefixes::internet_of(v4, v6)?);
    let all = 0..table.len();
    let heavy = |at: &usize| table.is_heavy(*at) && table.fate(*at) == Fate::InPlace;
    let prefixes: HashSet<Prefix> = all.filter(heavy).map(|at| table.prefix(at)).collect();
    let name = format!("trueup-bench-bird-{}", std::process::id());
    let directory = env::temp_dir().join(name);
    trueup_testkit::empty_directory(&directory)?;
    let mut bird = Bird::start(&program, directory, &config(&table)?)?;
    let mut control = Control::connect(&mut bird)?;
    let routes = table.len() - table.exceptions();
    let end = Instant::now() + BOUND;
    while floor::count()?.0 < routes {
        ensure!(Instant::now() < end, "bird has not made all routes");
        thread::sleep(Duration::from_secs(1));
    }
    thread::sleep(Duration::from_secs(2));

    let listener = Listener::start()?;
    let (mut latencies, mut longest) = (Vec::new(), Duration::ZERO);
    let before = processor::of_process(bird.child.id())?;
    for command in ["disable leading", "enable leading"] {
        let start = Instant::now();
        control.ask(command)?;
        let heard = listener.wait_all(prefixes.clone(), Duration::from_secs(60))?;
        let times = heard.iter().map(|at| at.saturating_duration_since(start));
        longest = times.clone().max().unwrap_or_default().max(longest);
        latencies.extend(times);
        thread::sleep(Duration::from_secs(1));
        drop(listener.take());
    }
    let used = processor::of_process(bird.child.id())?.saturating_sub(before);
    let title = "a gateway fails, and comes back: each of its prefixes";
    let unheard = 2 * prefixes.len() - latencies.len();
    let mut row = Row::new("bird", "daemon-day-gateway", title)
        .with_times(latencies, table.len())
        .with_processor(used, 2);
    (row.times, row.objects, row.unheard) = (2, prefixes.len(), unheard);
    row.total_ns = u64::try_from(longest.as_nanos())?;
    Ok(row)
}

/// The routes as static protocols, and the kernel protocols that carry them over.
fn config(table: &Table) -> Result<String> {
    let mut text = "router id 10.200.0.1;\nprotocol device { scan time 600; }\n".to_owned();
    for (name, channel) in [("kernel4", "ipv4"), ("kernel6", "ipv6")] {
        let channel = format!("{channel} {{ export all; }};");
        writeln!(text, "protocol kernel {name} {{ scan time 600; metric 0; {channel} }}")?;
    }
    let mut protocol = |name, channel, is_of: &dyn Fn(usize) -> bool, second| -> Result<()> {
        writeln!(text, "protocol static {name} {{ {channel};")?;
        for at in (0..table.len()).filter(|at| is_of(*at)) {
            let gateway = match second {
                true => next((at % 63) as u8),
                false => table.gateway(at),
            };
            let hops: NextHops<IfName> = table.form(at).nexthops(gateway);
            write!(text, "route {}", table.prefix(at))?;
            for via in hops.as_slice().iter().filter_map(|hop| hop.via) {
                write!(text, " via {via}")?;
            }
            writeln!(text, ";")?;
        }
        writeln!(text, "}}")?;
        Ok(())
    };
    let is_there = |at| table.fate(at) == Fate::InPlace;
    let is_ipv4 = |at| table.prefix(at).family() == Family::Inet;
    let leading = "ipv4 { preference 200; }";
    let of_leading = |at| is_there(at) && table.is_heavy(at);
    let of_ipv4 = |at| is_there(at) && is_ipv4(at) && !table.is_heavy(at);
    protocol("leading", leading, &of_leading, false)?;
    protocol("spare", "ipv4 { preference 100; }", &of_leading, true)?;
    protocol("others", "ipv4", &of_ipv4, false)?;
    protocol("others6", "ipv6", &|at| is_there(at) && !is_ipv4(at), false)?;
    Ok(text)
}

/// A running BIRD, killed when dropped.
struct Bird {
    child: Child,
    directory: PathBuf,
}

impl Bird {
    fn start(program: &Path, directory: PathBuf, config: &str) -> Result<Bird> {
        let file = directory.join("bird.conf");
        fs::write(&file, config)?;
        let child = Command::new(program)
            .arg("-f")
            .arg("-c")
            .arg(&file)
            .arg("-s")
            .arg(directory.join("control"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()?;
        Ok(Bird { child, directory })
    }
}

impl Drop for Bird {
    fn drop(&mut self) {
        // There is nothing to be done about what fails here.
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = fs::remove_dir_all(&self.directory);
    }
}

/// Its control socket: a line is a command, a line that begins with four digits and a space ends
/// the answer.
struct Control(UnixStream);

impl Control {
    /// Waits until it is there, which is once the configuration has been read.
    fn connect(bird: &mut Bird) -> Result<Control> {
        let start = Instant::now();
        loop {
            let ended = bird.child.try_wait()?;
            ensure!(ended.is_none(), "bird has ended at once");
            match UnixStream::connect(bird.directory.join("control")) {
                Ok(stream) => {
                    stream.set_read_timeout(Some(BOUND))?;
                    let mut control = Control(stream);
                    control.answer()?;
                    return Ok(control);
                }
                Err(error) if start.elapsed() > BOUND => return Err(error).context("bird"),
                Err(_) => thread::sleep(Duration::from_millis(10)),
            }
        }
    }

    fn ask(&mut self, command: &str) -> Result<()> {
        writeln!(self.0, "{command}")?;
        self.answer()
    }

    fn answer(&mut self) -> Result<()> {
        let mut text = String::new();
        let mut buffer = [0; 4096];
        loop {
            let count = self.0.read(&mut buffer)?;
            ensure!(count > 0, "bird has ended");
            text.push_str(&String::from_utf8_lossy(&buffer[..count]));
            let last = text.lines().last().unwrap_or_default();
            let code = last.get(..4).filter(|_| text.ends_with('\n'));
            let is_code = |code: &str| code.bytes().all(|byte| byte.is_ascii_digit());
            if code.is_some_and(is_code) && last.get(4..5).is_none_or(|after| after == " ") {
                // 8xxx and 9xxx are refusals.
                ensure!(!last.starts_with(['8', '9']), "bird: {last}");
                return Ok(());
            }
        }
    }
}
