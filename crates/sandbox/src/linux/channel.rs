//! Messages with descriptors between the supervisor and the processes it builds: one sequenced-packet
//! socket pair per peer, so that a message is never split and end-of-file means that the peer is gone.

use std::{
    io::{self, IoSlice, IoSliceMut},
    mem::MaybeUninit,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
};

use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recvmsg, sendmsg, socketpair,
};

/// The most descriptors in one message (the kernel's own limit is 253).
pub const MAX_DESCRIPTORS: usize = 200;
/// Large enough for two paths and a header.
pub const MAX_MESSAGE: usize = 16 * 1024;

/// One end.
#[derive(Debug)]
pub struct Channel(OwnedFd);

/// What arrived.
#[derive(Debug, Default)]
pub struct Message {
    pub bytes: Vec<u8>,
    pub descriptors: Vec<OwnedFd>,
}

impl Channel {
    pub fn pair() -> io::Result<(Channel, Channel)> {
        let (a, b) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
        Ok((Channel(a), Channel(b)))
    }

    pub fn from_descriptor(descriptor: OwnedFd) -> Channel {
        Channel(descriptor)
    }

    pub fn send(&self, bytes: &[u8], descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
        self.send_with(bytes, descriptors, SendFlags::NOSIGNAL)
    }

    /// Fails instead of waiting when the peer does not take messages off the line.
    pub fn send_at_once(&self, bytes: &[u8], descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
        self.send_with(bytes, descriptors, SendFlags::NOSIGNAL | SendFlags::DONTWAIT)
    }

    fn send_with(&self, bytes: &[u8], descriptors: &[BorrowedFd<'_>], flags: SendFlags) -> io::Result<()> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_DESCRIPTORS))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        if !descriptors.is_empty() && !ancillary.push(SendAncillaryMessage::ScmRights(descriptors)) {
            return Err(io::Error::from(io::ErrorKind::InvalidInput));
        }
        sendmsg(&self.0, &[IoSlice::new(bytes)], &mut ancillary, flags)?;
        Ok(())
    }

    /// Waits for a message; `None` when the peer is gone.
    pub fn receive(&self) -> io::Result<Option<Message>> {
        let mut bytes = vec![0; MAX_MESSAGE];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_DESCRIPTORS))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let received = loop {
            match recvmsg(
                &self.0,
                &mut [IoSliceMut::new(&mut bytes)],
                &mut ancillary,
                RecvFlags::CMSG_CLOEXEC,
            ) {
                Err(rustix::io::Errno::INTR) => {}
                Err(rustix::io::Errno::CONNRESET) => return Ok(None),
                other => break other?,
            }
        };
        let mut descriptors = Vec::new();
        for message in ancillary.drain() {
            if let RecvAncillaryMessage::ScmRights(rights) = message {
                descriptors.extend(rights);
            }
        }
        if received.bytes == 0 && descriptors.is_empty() {
            return Ok(None);
        }
        bytes.truncate(received.bytes);
        Ok(Some(Message { bytes, descriptors }))
    }
}

impl From<Channel> for OwnedFd {
    fn from(channel: Channel) -> OwnedFd {
        channel.0
    }
}

impl AsFd for Channel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_and_descriptors_arrive_together_and_eof_is_seen() {
        let (a, b) = Channel::pair().unwrap();
        let file = std::fs::File::open("/proc/self/status").unwrap();
        a.send(b"hello", &[file.as_fd(), file.as_fd()]).unwrap();
        let message = b.receive().unwrap().unwrap();
        assert_eq!((message.bytes.as_slice(), message.descriptors.len()), (&b"hello"[..], 2));
        drop(a);
        assert!(b.receive().unwrap().is_none());
    }
}
