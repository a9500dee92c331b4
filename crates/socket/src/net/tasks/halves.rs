//! Halves of a TCP connection: one reads, the other writes.

use super::TcpStream;
use crate::net::Net;
use std::io;

/// Read half of a borrowed stream.
pub struct ReadHalf<'s, N: Net>(pub(super) &'s TcpStream<N>);

/// Write half of a borrowed stream.
pub struct WriteHalf<'s, N: Net>(pub(super) &'s TcpStream<N>);

/// Read half of a stream, with its own handle to the connection.
pub struct OwnedReadHalf<N: Net>(pub(super) TcpStream<N>);

/// Write half of a stream, with its own handle to the connection. Dropping it shuts the connection
/// down for writing.
pub struct OwnedWriteHalf<N: Net>(pub(super) TcpStream<N>);

impl<N: Net> Drop for OwnedWriteHalf<N> {
    fn drop(&mut self) {
        let _ = self.0.shutdown_write(); // the descriptor is open
    }
}

macro_rules! readers {
    ($($name:ty),+) => { $(
        impl<N: Net> $name {
            /// Receives up to `buf.len()` bytes, as [`TcpStream::read`] does.
            ///
            /// # Errors
            /// Those of [`TcpStream::read`].
            pub async fn read(&self, buf: &mut [u8]) -> io::Result<usize> {
                self.0.read(buf).await
            }

            /// Returns the stream, for its addresses and options.
            pub fn stream(&self) -> &TcpStream<N> {
                &self.0
            }
        }
    )+ };
}

macro_rules! writers {
    ($($name:ty),+) => { $(
        impl<N: Net> $name {
            /// Writes the first part of `buf`, as [`TcpStream::write`] does.
            ///
            /// # Errors
            /// Those of [`TcpStream::write`].
            pub async fn write(&self, buf: &[u8]) -> io::Result<usize> {
                self.0.write(buf).await
            }

            /// Writes all of `buf`, as [`TcpStream::write_all`] does.
            ///
            /// # Errors
            /// Those of [`TcpStream::write`].
            pub async fn write_all(&self, buf: &[u8]) -> io::Result<()> {
                self.0.write_all(buf).await
            }

            /// Returns the stream, for its addresses and options.
            pub fn stream(&self) -> &TcpStream<N> {
                &self.0
            }
        }
    )+ };
}

readers!(ReadHalf<'_, N>, OwnedReadHalf<N>);
writers!(WriteHalf<'_, N>, OwnedWriteHalf<N>);

impl<N: Net> TcpStream<N> {
    /// Splits the stream into a read half and a write half, for two futures of one task.
    pub fn split(&mut self) -> (ReadHalf<'_, N>, WriteHalf<'_, N>) {
        (ReadHalf(self), WriteHalf(self))
    }

    /// Splits the stream into a read half and a write half, for two tasks. Dropping the write half
    /// shuts the connection down for writing.
    pub fn into_split(self) -> (OwnedReadHalf<N>, OwnedWriteHalf<N>) {
        let reader = TcpStream(self.0.share());
        (OwnedReadHalf(reader), OwnedWriteHalf(self))
    }
}
