//! The programs that the commands run, and the messages when one is missing.

use std::env;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// The error is a message for the user.
pub(crate) type Result<T> = std::result::Result<T, String>;

/// Returns a command that runs the current cargo in the workspace's root.
pub(crate) fn cargo(args: &[&str]) -> Command {
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(args).current_dir(root());
    // Cargo has set these for this program. Build scripts watch them, such as ring's, and would run
    // again after each turn from a plain `cargo` to this one, and back.
    env::vars_os()
        .map(|(name, _)| name)
        .filter(|name| {
            let name = name.to_string_lossy();
            name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_")
        })
        .for_each(|name| _ = command.env_remove(name));
    command
}

/// Returns the path of the workspace's root.
pub(crate) fn root() -> PathBuf {
    // At run time first: a target directory survives a move of the tree.
    let manifest = env::var_os("CARGO_MANIFEST_DIR")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
    manifest.parent().map_or(manifest.clone(), PathBuf::from)
}

/// Returns the directory of each crate: `crates/FLOOR/ROLE`.
pub(crate) fn crate_folders() -> Result<Vec<PathBuf>> {
    let floors = entries(&root().join("crates"))?;
    let folders = floors.iter().map(|floor| entries(floor)).collect::<Result<Vec<_>>>()?;
    Ok(folders.concat().into_iter().filter(|path| path.is_dir()).collect())
}

/// Adds the path to an error.
pub(crate) fn at<T>(path: &Path, result: io::Result<T>) -> Result<T> {
    result.map_err(|error| format!("{}: {error}", path.display()))
}

/// Reads a text file; an error has its path.
pub(crate) fn read(path: &Path) -> Result<String> {
    at(path, fs::read_to_string(path))
}

/// Writes a file; an error has its path.
pub(crate) fn write(path: &Path, content: impl AsRef<[u8]>) -> Result<()> {
    at(path, fs::write(path, content))
}

/// Returns the paths in a directory, sorted.
pub(crate) fn entries(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder).and_then(Iterator::collect::<io::Result<Vec<_>>>);
    let mut paths: Vec<_> = at(folder, entries)?.iter().map(fs::DirEntry::path).collect();
    paths.sort();
    Ok(paths)
}

/// Returns all files below a directory, except build results.
pub(crate) fn files(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut all = Vec::new();
    for path in entries(folder)? {
        if !path.is_dir() || path.is_symlink() {
            all.push(path);
        } else if !["target", ".git", "work"].iter().any(|it| path.ends_with(it)) {
            all.extend(files(&path)?);
        }
    }
    Ok(all)
}

/// Makes a directory, or empties it.
pub(crate) fn emptied(folder: &Path) -> Result<()> {
    if folder.exists() {
        at(folder, fs::remove_dir_all(folder))?;
    }
    at(folder, fs::create_dir_all(folder))
}

/// Returns a Markdown table in the pages' form.
pub(crate) fn table(head: Vec<String>, rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let line = "|---".repeat(head.len());
    let rows: String =
        rows.into_iter().map(|cells| format!("| {} |\n", cells.join(" | "))).collect();
    format!("| {} |\n{line}|\n{rows}", head.join(" | "))
}

/// Replaces a page's text between two marks.
pub(crate) fn between_marks(page: &str, begin: &str, end: &str, text: &str) -> Result<String> {
    let parts =
        page.split_once(begin).and_then(|(before, rest)| Some((before, rest.split_once(end)?.1)));
    let (before, after) = parts.ok_or_else(|| format!("no lines `{begin}` and `{end}`"))?;
    Ok(format!("{before}{begin}{text}{end}{after}"))
}

/// Returns all failures as one error, if there are any.
pub(crate) fn joined(failures: &[String]) -> Result<()> {
    if failures.is_empty() { Ok(()) } else { Err(failures.join("\nxtask: ")) }
}

/// Prints a command line and runs the command, with its output shown; fails unless it succeeds.
pub(crate) fn show_and_run(command: &mut Command) -> Result<()> {
    let line = line(command);
    println!("$ {line}");
    let status = command.status().map_err(|error| format!("{line}: {error}"))?;
    ended(status).map_err(|error| format!("{line}: {error}"))
}

/// Runs a command, and then shows its command line and whole output at once: for commands that run
/// beside others.
pub(crate) fn run_and_show(command: &mut Command) -> (String, Result<()>) {
    let line = line(command);
    let name: String = line.chars().filter(|it| it.is_ascii_alphanumeric()).take(60).collect();
    let (output, ended) = run_within(command, &name, Duration::MAX);
    println!("$ {line}\n{output}");
    (output, ended.map_err(|error| format!("{line}: {error}")))
}

/// Runs a command with a time limit, and shows nothing. Returns its output in order, which is also
/// kept in a file with that name.
pub(crate) fn run_within(
    command: &mut Command,
    name: &str,
    bound: Duration,
) -> (String, Result<()>) {
    // Use a file, not a pipe: a process left behind would keep a pipe open.
    let logs = root().join("target/test-output");
    let log = logs.join(name.replace('/', "-")).with_extension("log");
    let mut run = || -> Result<()> {
        at(&logs, fs::create_dir_all(&logs))?;
        let file = at(&log, File::create(&log))?;
        command.stdin(Stdio::null()).stdout(at(&log, file.try_clone())?).stderr(file);
        let mut child = command.spawn().map_err(|error| error.to_string())?;
        ended(wait(&mut child, bound)?)
    };
    let ended = run();
    let output = fs::read(&log).unwrap_or_default();
    (String::from_utf8_lossy(&output).into_owned(), ended)
}

fn ended(status: ExitStatus) -> Result<()> {
    if status.success() { Ok(()) } else { Err(status.to_string()) }
}

/// Waits for a process; kills it after `bound`.
pub(crate) fn wait(child: &mut Child, bound: Duration) -> Result<ExitStatus> {
    let begun = Instant::now();
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return Ok(status),
            Ok(None) if begun.elapsed() < bound => thread::sleep(Duration::from_millis(20)),
            Ok(None) => {
                // The process may have ended by now.
                let _ = child.kill();
                let _ = child.wait();
                return Err(format!("not done after {} s", bound.as_secs()));
            }
            Err(error) => return Err(error.to_string()),
        }
    }
}

/// Formats a command as a user would type it.
pub(crate) fn line(command: &Command) -> String {
    let program = PathBuf::from(command.get_program());
    let name = program.file_name().unwrap_or(program.as_os_str());
    std::iter::once(name)
        .chain(command.get_args())
        .map(|word| match word.to_string_lossy() {
            plain if plain.contains(' ') => format!("'{plain}'"),
            plain => plain.into_owned(),
        })
        .collect::<Vec<_>>()
        .join(" ")
}

/// A program that a command needs, and its Debian package.
pub(crate) struct Tool {
    pub(crate) program: &'static str,
    pub(crate) package: &'static str,
}

pub(crate) const IP: Tool = Tool { program: "ip", package: "iproute2" };

/// Runs the guests of `cargo xtask vm` and of `examples/guests`.
pub(crate) const QEMU: Tool = Tool { program: "qemu-system-x86_64", package: "qemu-system-x86" };

/// The programs that tests of the kernel start, here and in guests.
pub(crate) const FOR_TESTS: [Tool; 3] = [
    IP,
    Tool { program: "bridge", package: "iproute2" },
    Tool { program: "nft", package: "nftables" },
];

/// Makes sure that the programs that tests start are installed.
pub(crate) fn need_for_tests() -> Result<()> {
    need(&FOR_TESTS)?;
    need_ip()
}

/// Makes sure that `ip` is installed, and in PATH, where the tests look for it.
pub(crate) fn need_ip() -> Result<()> {
    need(&[IP])?;
    succeeds(Command::new(IP.program).arg("-Version"))
        .then_some(())
        .ok_or_else(|| "`ip` is not in PATH: its folder is /usr/sbin or /sbin".to_owned())
}

/// Makes sure that programs are installed. On Debian and its derivatives, root installs missing
/// ones; other users get an error with the packages to install.
pub(crate) fn need(tools: &[Tool]) -> Result<()> {
    need_packages(|| {
        let missing = tools.iter().filter(|tool| find(tool.program).is_err());
        missing.map(|tool| tool.package).collect()
    })
}

/// Does the same as [`need`] for missing Debian packages.
pub(crate) fn need_packages(missing: impl Fn() -> Vec<&'static str>) -> Result<()> {
    let mut packages = missing();
    if !packages.is_empty() && can_install() {
        let install = ["install", "--quiet", "--yes", "--no-install-recommends"];
        show_and_run(&mut apt_get(&["update", "--quiet"]))?;
        show_and_run(apt_get(&install).args(&packages))?;
        packages = missing();
    }
    if packages.is_empty() {
        return Ok(());
    }
    let names = packages.join(" ");
    Err(format!("needs of Debian's packages: {names} (`sudo apt-get install {names}`)"))
}

/// Returns true if this user may install packages with apt.
pub(crate) fn can_install() -> bool {
    is_root() && find("apt-get").is_ok()
}

pub(crate) fn apt_get(args: &[&str]) -> Command {
    let mut apt = Command::new("apt-get");
    apt.args(args).env("DEBIAN_FRONTEND", "noninteractive");
    apt
}

/// Returns the path of a program: in PATH, or in Debian's usual directories for root.
pub(crate) fn find(program: &str) -> Result<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let folders = env::split_paths(&path).chain(["/usr/sbin".into(), "/sbin".into()]);
    folders
        .map(|folder| folder.join(program))
        .find(|file| {
            fs::metadata(file).is_ok_and(|meta| meta.is_file() && meta.mode() & 0o111 != 0)
        })
        .ok_or_else(|| format!("`{program}` is missing"))
}

/// Returns a command's output; fails unless it succeeds.
pub(crate) fn output(command: &mut Command) -> Result<String> {
    let line = line(command);
    let output = command.output().map_err(|e| format!("{line}: {e}"))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(format!("{line}: {}\n{}", output.status, said.trim_end()))
}

/// Makes sure that the toolchain has a component; `command` is a cargo command that needs it.
pub(crate) fn need_component(command: &str, component: &str) -> Result<()> {
    succeeds(&mut cargo(&[command, "--version"])).then_some(()).ok_or_else(|| {
        format!("`cargo {command}` is missing: run `rustup component add {component}`")
    })
}

/// Returns the search path, with the programs from [`install`] first.
pub(crate) fn path_with_tools() -> OsString {
    let path = env::var_os("PATH").unwrap_or_default();
    let tools = root().join("target/tools/bin");
    let folders = std::iter::once(tools).chain(env::split_paths(&path));
    env::join_paths(folders).unwrap_or(path)
}

/// Makes sure that this version of a program from the registry is installed below the target
/// directory. Returns its path.
pub(crate) fn install(name: &str, version: &str) -> Result<PathBuf> {
    let folder = root().join("target/tools");
    let program = folder.join("bin").join(name);
    let found = output(Command::new(&program).arg("--version"));
    if !found.is_ok_and(|text| text.split_whitespace().any(|word| word == version)) {
        let mut install = cargo(&["install", "--locked", "--force", "--root"]);
        // Build it elsewhere, as its dependencies are not ours.
        install
            .args([&folder, &PathBuf::from(format!("{name}@{version}"))])
            .env("CARGO_TARGET_DIR", folder.join("build"));
        show_and_run(&mut install)?;
    }
    Ok(program)
}

/// Returns true if a command succeeds; shows no output.
pub(crate) fn succeeds(command: &mut Command) -> bool {
    let status = command.stdout(Stdio::null()).stderr(Stdio::null()).status();
    status.is_ok_and(|status| status.success())
}

fn is_root() -> bool {
    fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_reads_as_typed() {
        let mut command = Command::new("/somewhere/trueup");
        command.args(["apply", "a file"]);
        assert_eq!(line(&command), "trueup apply 'a file'");
    }
}
