//! `/metrics`: what this process uses, in the Prometheus text format. Only the root workspace answers: the
//! figures are of the whole process, not of one logical cluster.

use std::fmt::Write;
use std::fs;

/// Media type of the text format, version 0.0.4.
pub(crate) const MEDIA_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// The current figures. One that the kernel does not tell is left out.
pub(crate) fn text() -> String {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let status = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        line.split_whitespace().next()?.parse::<usize>().ok()
    };
    let files = fs::read_dir("/proc/self/fd").ok().map(Iterator::count);
    let tasks = tokio::runtime::Handle::try_current().ok().map(|runtime| runtime.metrics().num_alive_tasks());
    let figures = [
        ("process_resident_memory_bytes", "Resident memory size in bytes.", status("VmRSS:").map(|kib| kib * 1024)),
        ("process_open_fds", "Number of open file descriptors.", files),
        ("process_threads", "Number of threads.", status("Threads:")),
        ("tokio_alive_tasks", "Number of asynchronous tasks that have not ended.", tasks),
    ];
    let mut text = String::new();
    for (name, help, figure) in figures {
        if let Some(figure) = figure {
            writeln!(text, "# HELP {name} {help}\n# TYPE {name} gauge\n{name} {figure}")
                .expect("writing to a string does not fail");
        }
    }
    text
}
