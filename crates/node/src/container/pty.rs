//! The agent's end of a terminal, and how it is received from the shim.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use rustix::io::Errno;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags};
use tokio::io::{AsyncRead, ReadBuf};
use tokio::net::unix::pipe;
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

/// A terminal as the reader and the writer of a pipe, which wait for it in the same way.
pub(super) fn streams(terminal: &OwnedFd) -> io::Result<(PtyReader, pipe::Sender)> {
    rustix::io::ioctl_fionbio(terminal, true)?;
    let reader = pipe::Receiver::from_owned_fd_unchecked(terminal.try_clone()?)?;
    let writer = pipe::Sender::from_owned_fd_unchecked(terminal.try_clone()?)?;
    Ok((PtyReader(reader), writer))
}

/// Reads what the processes of a terminal write.
pub(super) struct PtyReader(pipe::Receiver);

impl AsyncRead for PtyReader {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match ready!(Pin::new(&mut self.0).poll_read(context, buffer)) {
            // What a terminal says when its last process is gone.
            Err(error) if error.raw_os_error() == Some(Errno::IO.raw_os_error()) => Poll::Ready(Ok(())),
            result => Poll::Ready(result),
        }
    }
}
