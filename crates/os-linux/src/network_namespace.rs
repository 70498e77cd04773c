//! A new network namespace for the calling thread.

use rustix::thread::UnshareFlags;

/// Moves the calling thread, and no other, into a new empty network namespace. Call it on a thread
/// that ends afterwards: sockets that the thread opens from now on belong to the new namespace.
///
/// # Errors
/// When the kernel refuses, as it does without `CAP_SYS_ADMIN`.
#[allow(unsafe_code)]
pub fn enter_new() -> std::io::Result<()> {
    // SAFETY: only the network namespace is unshared. File descriptors stay shared, so none that
    // another thread uses can change its meaning.
    unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWNET) }.map_err(Into::into)
}
