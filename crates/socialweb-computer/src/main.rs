//! `socialweb-computer`: virtual Kubernetes clusters whose nodes scale to zero.

mod arguments;
mod commands;
mod kubeconfig;
mod output;
mod paths;
mod serve;

use arguments::{Arguments, Command};
use clap::{CommandFactory, Parser};
use std::process::ExitCode;

/// Gives the memory of deleted clusters back to the kernel, which glibc's allocator does not, and
/// serves small requests faster. `.cargo/config.toml` holds its settings.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    match run(arguments) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: Arguments) -> anyhow::Result<ExitCode> {
    let output = arguments.output;
    match arguments.command {
        Command::Completion { shell } => {
            clap_complete::generate(shell, &mut Arguments::command(), "socialweb-computer", &mut std::io::stdout());
            Ok(ExitCode::SUCCESS)
        }
        Command::Version => commands::version(output),
        Command::Serve(options) => block_on(serve::run(&arguments.paths, *options)),
        Command::Cluster(command) => block_on(commands::cluster::run(&arguments.paths, output, command)),
        Command::Status => block_on(commands::status::run(&arguments.paths, output)),
        Command::CheckHost(options) => block_on(commands::check_host::run(&arguments.paths, output, options)),
    }
}

fn block_on<T>(work: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(work)
}
