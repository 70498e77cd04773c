//! Measures what the specification promises, against the real program in a process of its own.

mod density;
mod server;

use anyhow::Result;
use clap::{Parser, Subcommand};
use std::path::PathBuf;

#[derive(Parser)]
#[command(about = "Measures what the specification promises")]
struct Arguments {
    /// The program to measure
    #[arg(long)]
    program: PathBuf,
    #[command(subcommand)]
    benchmark: Benchmark,
}

#[derive(Subcommand)]
enum Benchmark {
    /// Idle clusters: create rate and latency, memory, threads, restart, deletion
    Density {
        /// Numbers of clusters to measure at, ascending
        #[arg(long, value_delimiter = ',', default_values_t = [1_000, 10_000])]
        clusters: Vec<usize>,
        /// Requests under way at a time
        #[arg(long, default_value_t = 32)]
        concurrency: usize,
    },
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    match arguments.benchmark {
        Benchmark::Density { clusters, concurrency } => {
            runtime.block_on(density::run(&arguments.program, &clusters, concurrency))
        }
    }
}
