//! `counts list` prints the names of the works, each with its number of items. `counts NAME ROUNDS`
//! runs one, to be counted from outside: see `cargo xtask counts`.

use std::process::ExitCode;

use trueup_counts::Work;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["list"] => {
            for (name, work, size) in Work::counted() {
                println!("{} {name}", work.items(size));
            }
        }
        [name, rounds] => {
            let found = Work::counted().find(|(known, ..)| known == name);
            let (Some((_, work, size)), Ok(rounds)) = (found, rounds.parse::<u32>()) else {
                eprintln!("counts: no such work, or no number of rounds");
                return ExitCode::FAILURE;
            };
            (work.run)(size, &mut |round| (0..rounds).for_each(|_| round()));
        }
        _ => {
            eprintln!("usage: counts list | counts NAME ROUNDS");
            return ExitCode::from(64); // EX_USAGE
        }
    }
    ExitCode::SUCCESS
}
