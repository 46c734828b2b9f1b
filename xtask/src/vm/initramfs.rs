//! The guest's files: busybox, the modules and programs that tests need, the test programs and the
//! files they read, each at its path on this machine, and an init that runs them.

use std::collections::BTreeSet;
use std::env;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::cpio::Archive;
use super::package::Package;
use super::programs::Programs;
use crate::tools::{FOR_TESTS, Result, at, entries, find, output, root};

/// The modules to load before the first test, with their dependencies: to load them on demand, the
/// kernel would need a program.
const MODULES: [&str; 12] = [
    "dummy",
    "8021q",
    "bonding",
    "vrf",
    "wireguard",
    "veth",
    "bridge",
    "vxlan",
    "macvlan",
    "ifb",
    "tun",
    "nf_tables",
];

/// Files that tests read by name, besides sources, pages and scenarios by their paths.
const READ: [&str; 3] = ["/etc/iproute2", "/usr/share/iproute2", "/etc/protocols"];

pub(super) fn write(path: &Path, package: &Package, programs: &Programs) -> Result<()> {
    let modules = modules(package)?;
    let mut archive = Archive::create(path)?;
    for empty in ["dev", "proc", "sys", "tmp", "run", "root"] {
        archive.directory(Path::new(empty))?;
    }
    archive.file(Path::new("init"), init(programs, &modules).as_bytes())?;
    for module in &modules {
        copy(&mut archive, &package.file(module), module)?;
    }
    let tests = programs.tests.iter().map(|program| &program.path);
    let stripped = path.with_extension("stripped");
    for program in tests.chain(&programs.others) {
        // Nine tenths of the programs is debug information, which would fill the guest's memory.
        let mut objcopy = Command::new(find("objcopy")?);
        output(objcopy.arg("--strip-debug").arg(program).arg(&stripped))?;
        copy_program(&mut archive, &stripped, program)?;
    }
    // Busybox's own shell would use its own `ip`.
    for program in FOR_TESTS.iter().map(|tool| tool.program).chain(["busybox", "sh"]) {
        copy_program(&mut archive, &find(program)?, &Path::new("/bin").join(program))?;
    }
    let root = root();
    let own = ["crates", "docs", "README.md"].map(|part| root.join(part));
    for part in READ.iter().map(PathBuf::from).chain(own) {
        if part.exists() {
            copy_all(&mut archive, &part)?;
        }
    }
    for (link, to) in [("/etc/mtab", "/proc/mounts"), ("/usr/bin", "/bin")] {
        archive.link(Path::new(link), to)?;
    }
    archive.finish()
}

/// Returns the script of the first process. It writes to the second serial line, as the kernel has
/// the first; [`super::ran`] reads its output.
fn init(programs: &Programs, modules: &[PathBuf]) -> String {
    let mut script = "\
#!/bin/busybox sh
/bin/busybox --install -s /bin
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
mkdir /dev/pts
mount -t devpts pts /dev/pts
ln -s /proc/self/fd /dev/fd
ln -s /proc/self/fd/0 /dev/stdin
exec < /dev/null > /dev/ttyS1 2>&1
stty raw < /dev/ttyS1
export PATH=/bin HOME=/root CI=true
# All namespaces share a table of neighbours a family. One of few is not swept, and one with room drops none.
for limit in /proc/sys/net/ipv[46]/neigh/default/gc_thresh[123]; do echo 65536 > $limit; done
load() { insmod \"$1\" || echo \"@vm broken insmod $1\"; }
# One for hardware that is absent is an accelerator: a module that cannot do without it fails.
load_for_others() { said=$(insmod \"$1\" 2>&1) && return; case \"$said\" in *'No such device'*) ;; *) echo \"@vm broken $said\";; esac; }
# An emulated processor has no time to spare: no more tests at once than there are processors.
run() { cd \"$2\"; echo \"@vm start $1\"; \"$3\" --color=never --test-threads=$(nproc) \"$4\"; echo \"@vm end $1 $?\"; }
echo \"@vm kernel $(uname -r)\"
"
    .to_owned();
    // Random tests search as far in a guest as on this machine.
    for name in ["TRUEUP_CASES", "TRUEUP_SEED"] {
        if let Ok(value) = env::var(name) {
            script.push_str(&format!("export {name}='{value}'\n"));
        }
    }
    for module in modules {
        let file = module.file_name().unwrap_or_default().to_string_lossy();
        let is_named = MODULES.iter().any(|name| file.split('.').next() == Some(name));
        let load = if is_named { "load" } else { "load_for_others" };
        script.push_str(&format!("{load} '{}'\n", module.display()));
    }
    for program in &programs.tests {
        let (name, filter) = (&program.name, &programs.filter);
        let (dir, path) = (program.dir.display(), program.path.display());
        script.push_str(&format!("run '{name}' '{dir}' '{path}' '{filter}'\n"));
    }
    script.push_str("echo '@vm done'\npoweroff -f\n");
    script
}

/// Returns the paths of the modules in the guest, in an order in which they can be loaded.
pub(super) fn modules(package: &Package) -> Result<Vec<PathBuf>> {
    let base = &package.root;
    output(Command::new(find("depmod")?).arg("--basedir").arg(base).arg(&package.release))?;
    let mut seen = BTreeSet::new();
    let mut modules = Vec::new();
    for name in MODULES {
        let mut modprobe = Command::new(find("modprobe")?);
        modprobe.arg("--dirname").arg(base);
        modprobe.args(["--set-version", &package.release, "--show-depends", name]);
        for line in output(&mut modprobe)?.lines() {
            // Lines are `insmod PATH OPTIONS`, or `builtin NAME`. The options are for this machine.
            let Some(path) = line.strip_prefix("insmod ") else {
                continue;
            };
            let inside = path
                .strip_prefix(&*base.to_string_lossy())
                .and_then(|rest| rest.trim_start_matches('/').split(' ').next())
                .map(PathBuf::from)
                .ok_or_else(|| format!("modprobe: {line}"))?;
            if seen.insert(inside.clone()) {
                modules.push(Path::new("/").join(inside));
            }
        }
    }
    Ok(modules)
}

/// Returns a program's shared libraries and their loader; none for a static program, on which `ldd`
/// fails.
fn libraries(program: &Path) -> Vec<PathBuf> {
    let listed = output(Command::new("ldd").arg(program)).unwrap_or_default();
    let words = listed
        .lines()
        .filter_map(|line| line.split_whitespace().find(|word| word.starts_with('/')));
    words.map(PathBuf::from).collect()
}

/// Copies a program, and the shared libraries that it needs.
pub(super) fn copy_program(
    archive: &mut Archive<impl io::Write>,
    from: &Path,
    to: &Path,
) -> Result<()> {
    for library in libraries(from) {
        copy(archive, &library, &library)?;
    }
    copy(archive, from, to)
}

pub(super) fn copy(archive: &mut Archive<impl io::Write>, from: &Path, to: &Path) -> Result<()> {
    archive.file(to, &at(from, fs::read(from))?)
}

/// Copies a file or a whole directory, to its path on this machine.
fn copy_all(archive: &mut Archive<impl io::Write>, path: &Path) -> Result<()> {
    if !path.is_dir() {
        return copy(archive, path, path);
    }
    entries(path)?.iter().try_for_each(|path| copy_all(archive, path))
}
