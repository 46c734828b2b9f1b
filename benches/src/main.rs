//! The benchmarks: `--help` lists them, `benches/README.md` describes them.

fn main() -> anyhow::Result<()> {
    trueup_benches::main()
}
