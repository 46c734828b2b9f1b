//! The floor and trueup as programs that do one piece of work a process. A program of its own, so
//! that the memory of the others is not in theirs.

fn main() -> anyhow::Result<()> {
    trueup_benches::works()
}
