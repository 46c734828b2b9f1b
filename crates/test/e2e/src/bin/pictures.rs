//! Writes the pictures of the program into a directory: `cargo xtask pictures`.

use std::env;
use std::fs;
use std::path::Path;
use std::process::ExitCode;

use trueup_e2e::picture;

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("pictures: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Fails with a message for the user.
fn run() -> Result<(), String> {
    let folder = env::args_os().nth(1).ok_or("needs the directory of the pictures")?;
    let this = env::current_exe().map_err(|error| format!("the path of the program: {error}"))?;
    // The process must have one thread, and no other exists yet.
    trueup_testkit::enter().map_err(|error| error.to_string())?;
    for (name, draw) in picture::ALL {
        trueup_testkit::quiet_netns();
        let path = Path::new(&folder).join(name);
        let drawn = draw(&this.with_file_name("trueup-under-test"));
        fs::write(&path, drawn).map_err(|error| format!("{}: {error}", path.display()))?;
        println!("{}", path.display());
    }
    Ok(())
}
