//! The programs that the commands run, and what to say when one is missing.

use std::env;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// What went wrong, for a person.
pub(crate) type Result<T> = std::result::Result<T, String>;

/// The cargo that runs this, in the workspace's root.
pub(crate) fn cargo(args: &[&str]) -> Command {
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(args).current_dir(root());
    command
}

/// The workspace's root.
pub(crate) fn root() -> PathBuf {
    // At run time first: a target directory outlives a move of the tree.
    let manifest = env::var_os("CARGO_MANIFEST_DIR")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
    manifest.parent().map_or(manifest.clone(), PathBuf::from)
}

/// Runs a command to its end, its output shown; its command line is printed first.
pub(crate) fn show_and_run(command: &mut Command) -> Result<()> {
    let line = line(command);
    println!("$ {line}");
    let status = command.status().map_err(|e| format!("{line}: {e}"))?;
    status
        .success()
        .then_some(())
        .ok_or_else(|| format!("{line}: {status}"))
}

/// A command as one would type it.
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

/// Makes sure that `ip` is there: root on Debian and its kin installs it, anyone else is told what to install.
pub(crate) fn need_ip() -> Result<()> {
    if runs("ip", &["-Version"]) {
        return Ok(());
    }
    let missing = "`ip` is missing: install Debian's package iproute2 (`sudo apt-get install iproute2`), \
                   and see that its folder is in PATH";
    if !is_root() || !runs("apt-get", &["--version"]) {
        return Err(missing.to_owned());
    }
    for args in [
        &["update", "--quiet"][..],
        &[
            "install",
            "--quiet",
            "--yes",
            "--no-install-recommends",
            "iproute2",
        ],
    ] {
        let mut apt = Command::new("apt-get");
        show_and_run(apt.args(args).env("DEBIAN_FRONTEND", "noninteractive"))?;
    }
    runs("ip", &["-Version"])
        .then_some(())
        .ok_or_else(|| missing.to_owned())
}

/// Makes sure that the toolchain has a component, which answers as a cargo command.
pub(crate) fn need_component(command: &str, component: &str) -> Result<()> {
    let found = cargo(&[command, "--version"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    match found {
        Ok(status) if status.success() => Ok(()),
        _ => Err(format!(
            "`cargo {command}` is missing: run `rustup component add {component}`"
        )),
    }
}

fn runs(program: &str, args: &[&str]) -> bool {
    let status = Command::new(program)
        .args(args)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
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
