//! Reads into several buffers, and writes from several (`readv`, `writev`).

use std::io::{self, IoSlice, IoSliceMut};
use std::task::Poll;

/// Fills `bufs` in order. `recv` receives into one buffer; its second argument is true for buffers
/// behind the first, for which it must not wait. Ends when a buffer is not filled. An error behind
/// the first bytes is left to the next call.
pub(super) fn fill(
    bufs: &mut [IoSliceMut<'_>],
    mut recv: impl FnMut(&mut [u8], bool) -> Poll<io::Result<usize>>,
) -> Poll<io::Result<usize>> {
    let mut received = 0;
    for buf in bufs.iter_mut().filter(|buf| !buf.is_empty()) {
        match recv(buf, received > 0) {
            Poll::Ready(Ok(n)) if n < buf.len() => return Poll::Ready(Ok(received + n)),
            Poll::Ready(Ok(n)) => received += n,
            _ if received > 0 => break,
            refused => return refused,
        }
    }
    Poll::Ready(Ok(received))
}

/// Sends `bufs` in order. `send` sends one buffer; its second argument is true if more buffers
/// follow. Ends when a buffer is not sent completely. An error behind the first bytes is left to
/// the next call.
pub(super) fn drain(
    bufs: &[IoSlice<'_>],
    mut send: impl FnMut(&[u8], bool) -> Poll<io::Result<usize>>,
) -> Poll<io::Result<usize>> {
    let (mut sent, mut left) = (0, bufs.iter().filter(|buf| !buf.is_empty()).peekable());
    while let Some(buf) = left.next() {
        match send(buf, left.peek().is_some()) {
            Poll::Ready(Ok(n)) if n < buf.len() => return Poll::Ready(Ok(sent + n)),
            Poll::Ready(Ok(n)) => sent += n,
            _ if sent > 0 => break,
            refused => return refused,
        }
    }
    Poll::Ready(Ok(sent))
}

/// Returns the result of a function that never returns `Pending`.
pub(super) fn ready(done: Poll<io::Result<usize>>) -> io::Result<usize> {
    match done {
        Poll::Ready(done) => done,
        Poll::Pending => Err(io::ErrorKind::WouldBlock.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::{Alone, TcpListener, TcpStream};
    use std::io::{ErrorKind, Read, Write};

    /// Calls `fill` with buffers of 0, 3 and 2 bytes; `script` has the results of receiving.
    fn filled(script: &[Poll<Result<usize, ErrorKind>>]) -> (Poll<Result<usize, ErrorKind>>, Vec<bool>) {
        let (mut left, mut behind) = (script.iter().copied(), Vec::new());
        let (mut none, mut three, mut two) = ([], [0; 3], [0; 2]);
        let mut bufs = [&mut none[..], &mut three, &mut two].map(IoSliceMut::new);
        let done = fill(&mut bufs, |_, is_behind| {
            behind.push(is_behind);
            left.next().unwrap().map_err(io::Error::from)
        });
        (done.map_err(|error| error.kind()), behind)
    }

    #[test]
    fn only_the_first_buffer_waits_or_fails() {
        let reset = Poll::Ready(Err(ErrorKind::ConnectionReset));
        let got = |n| Poll::Ready(Ok(n));
        assert_eq!(filled(&[got(3), got(2)]), (got(5), vec![false, true]));
        assert_eq!(filled(&[got(1)]), (got(1), vec![false]));
        assert_eq!(filled(&[got(0)]), (got(0), vec![false]), "the end of the stream");
        assert_eq!(filled(&[got(3), got(0)]), (got(3), vec![false, true]));
        assert_eq!(filled(&[got(3), Poll::Pending]), (got(3), vec![false, true]));
        assert_eq!(filled(&[got(3), reset]), (got(3), vec![false, true]));
        assert_eq!(filled(&[Poll::Pending]), (Poll::Pending, vec![false]));
        assert_eq!(filled(&[reset]), (reset, vec![false]));
    }

    #[test]
    fn blocking_streams_read_and_write_several_buffers() {
        let host = &Alone::<lock::Up>::new("vectored").unwrap();
        let listener = TcpListener::bind(&host, "127.0.0.1:80").unwrap();
        let mut client = TcpStream::connect(&host, "127.0.0.1:80").unwrap();
        let (mut server, _) = listener.accept().unwrap();
        let texts: [&[u8]; 3] = [b"one ", b"", b"segment"];
        assert_eq!(server.write_vectored(&texts.map(IoSlice::new)).unwrap(), 11);
        let (mut first, mut rest) = ([0; 2], [0; 20]);
        let mut bufs = [&mut first[..], &mut rest].map(IoSliceMut::new);
        assert_eq!(client.read_vectored(&mut bufs).unwrap(), 11, "does not wait for more");
        assert_eq!((&first, &rest[..9]), (b"on", &b"e segment"[..]));
        drop(server);
        assert_eq!(client.read_vectored(&mut [IoSliceMut::new(&mut rest)]).unwrap(), 0);
    }

    /// A reset that follows the bytes of the first buffer is reported by the next call.
    #[test]
    fn an_error_behind_the_first_bytes_is_not_lost() {
        let host = &Alone::<lock::Up>::new("reset").unwrap();
        let listener = TcpListener::bind(&host, "127.0.0.1:80").unwrap();
        let mut client = TcpStream::connect(&host, "127.0.0.1:80").unwrap();
        let (mut server, _) = listener.accept().unwrap();
        server.write_all(b"abc").unwrap();
        assert_eq!(client.peek(&mut [0; 8]).unwrap(), 3);
        server.set_linger(Some(std::time::Duration::ZERO)).unwrap();
        drop(server); // resets
        let (mut first, mut rest) = ([0; 3], [0; 3]);
        let mut read = || client.read_vectored(&mut [&mut first[..], &mut rest].map(IoSliceMut::new));
        assert_eq!(read().unwrap(), 3, "the reset does not discard what arrived");
        assert_eq!(read().unwrap_err().kind(), ErrorKind::ConnectionReset);
        assert_eq!(read().unwrap(), 0, "an error is reported once");
    }
}
