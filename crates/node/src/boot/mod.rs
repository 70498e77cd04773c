//! From the kernel's first process to a machine that an agent can run on.

pub(crate) mod console;
pub(crate) mod drives;
pub(crate) mod init;
pub(crate) mod iso;
pub(crate) mod modules;

#[cfg(test)]
mod tests;
