//! The node agent's program.

fn main() -> std::process::ExitCode {
    node::main()
}
