//! The project's own commands: `cargo xtask check | test | e2e | demo | bench`.

mod artifacts;
mod bench;
mod check;
mod demo;
mod host;
mod layers;
mod licences;
mod step;
mod test;

use clap::{Parser, Subcommand};
use std::process::ExitCode;

#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", about = "The project's own commands", max_term_width = 100)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Format, lint, documentation, layer and licence checks; warnings are errors
    Check,
    /// Set up what is missing, then run every check and every test
    Test(test::Options),
    /// Set up what is missing, then run the end-to-end tests: our programs and a stock kubectl on real machines
    E2e(test::EndToEndOptions),
    /// Set up what is missing, then run the story: from nothing to a running Pod and back to zero nodes
    Demo(demo::Options),
    /// Measure what the specification promises: `cargo xtask bench density`
    Bench(bench::Options),
    /// Build or fetch what the demo and the end-to-end tests run, and print where it is
    Artifacts,
}

fn main() -> ExitCode {
    let result = match Arguments::parse().command {
        Command::Check => check::run(),
        Command::Test(options) => test::run(&options),
        Command::E2e(options) => test::end_to_end(&options),
        Command::Demo(options) => demo::run(&options),
        Command::Bench(options) => bench::run(&options),
        Command::Artifacts => artifacts::print(),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("\nerror: {error:#}");
            ExitCode::FAILURE
        }
    }
}
