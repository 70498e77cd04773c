//! The agent's end of a terminal, and how it is received from the shim.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use rustix::io::Errno;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags};
use tokio::io::unix::AsyncFd;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{UnixListener, UnixStream};

/// Waits for a connection and for the terminal that is sent over it.
pub(super) async fn receive(listener: &UnixListener) -> io::Result<OwnedFd> {
    let (stream, _) = listener.accept().await?;
    loop {
        stream.readable().await?;
        match stream.try_io(tokio::io::Interest::READABLE, || descriptor(&stream)) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            result => return result,
        }
    }
}

fn descriptor(stream: &UnixStream) -> io::Result<OwnedFd> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let mut name = [0; 4096];
    let mut buffers = [io::IoSliceMut::new(&mut name)];
    rustix::net::recvmsg(stream, &mut buffers, &mut ancillary, RecvFlags::CMSG_CLOEXEC)?;
    for message in ancillary.drain() {
        if let RecvAncillaryMessage::ScmRights(mut descriptors) = message
            && let Some(descriptor) = descriptors.next()
        {
            return Ok(descriptor);
        }
    }
    Err(io::Error::new(io::ErrorKind::InvalidData, "the shim sent no terminal"))
}

/// One direction of the terminal. There is one reader and one writer of each.
pub(super) struct Pty(Arc<AsyncFd<Arc<OwnedFd>>>);

impl Pty {
    /// A reader and a writer of the terminal.
    pub(super) fn pair(terminal: Arc<OwnedFd>) -> io::Result<(Self, Self)> {
        rustix::io::ioctl_fionbio(&terminal, true)?;
        let shared = Arc::new(AsyncFd::register(terminal)?);
        Ok((Self(shared.clone()), Self(shared)))
    }
}

impl AsyncRead for Pty {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        loop {
            let mut guard = ready!(self.0.poll_read_ready(context))?;
            let space = buffer.initialize_unfilled();
            match guard.try_io(|terminal| Ok(rustix::io::read(terminal.get_ref(), &mut *space)?)) {
                Ok(Ok(count)) => {
                    buffer.advance(count);
                    return Poll::Ready(Ok(()));
                }
                // What a terminal says when its last process is gone.
                Ok(Err(error)) if error.raw_os_error() == Some(Errno::IO.raw_os_error()) => return Poll::Ready(Ok(())),
                Ok(Err(error)) => return Poll::Ready(Err(error)),
                Err(_would_block) => {}
            }
        }
    }
}

impl AsyncWrite for Pty {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        loop {
            let mut guard = ready!(self.0.poll_write_ready(context))?;
            if let Ok(result) = guard.try_io(|terminal| Ok(rustix::io::write(terminal.get_ref(), bytes)?)) {
                return Poll::Ready(result);
            }
        }
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}
