//! `counts list` prints the names of the works, and how many items each has; `counts NAME ROUNDS`
//! does one, to be counted from outside: see `cargo xtask counts`.

use std::process::ExitCode;

use trueup_counts::WORKS;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["list"] => {
            for work in WORKS {
                println!("{} {}", work.items, work.name);
            }
        }
        [name, rounds] => {
            let work = WORKS.iter().find(|work| work.name == name);
            let (Some(work), Ok(rounds)) = (work, rounds.parse()) else {
                eprintln!("counts: no such work, or no number of rounds");
                return ExitCode::FAILURE;
            };
            (work.run)(rounds);
        }
        _ => {
            eprintln!("usage: counts list | counts NAME ROUNDS");
            return ExitCode::from(64); // EX_USAGE
        }
    }
    ExitCode::SUCCESS
}
