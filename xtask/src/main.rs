//! The project's own commands: `cargo xtask check | test | demo | bench`.

mod check;
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
}

fn main() -> ExitCode {
    let result = match Arguments::parse().command {
        Command::Check => check::run(),
        Command::Test(options) => test::run(&options),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("\nerror: {error:#}");
            ExitCode::FAILURE
        }
    }
}
